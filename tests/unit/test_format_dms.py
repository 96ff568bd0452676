"""Change files of AWS DMS with S3 as target, as its documentation shows them."""

import gzip
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from medallion.errors import MedallionError
from medallion.ingest.decode import Decoded, decode_file
from medallion.ingest.parts import Part
from medallion.ingest.put_together import land_files
from medallion.ingest.quarantine import read_rejected
from medallion.ingest.snapshot_source import open_snapshot
from medallion.ingest.source import FolderSource
from medallion.model.delivery import Delivery, Layout
from medallion.model.table import Feed
from medallion.storage.lake import Lake
from tests.unit.small_lake import H0, H1, ORDERS, TABLES, Shop, load, without_spark
from tests.unit.test_layouts import delivered

LAYOUT, LOAD = Layout("hr/{feed}/{YYYY}{MM}{DD}-{HH}*"), Layout("hr/{feed}/LOAD*")
DMS = Delivery(format="dms", layout=LAYOUT, snapshot=LOAD)
# The table employee of "Using Amazon S3 as a target", with types that every column could have.
EMPLOYEE = Feed(
    name="bronze_employee",
    keys=("id",),
    schema="id BIGINT NOT NULL, last STRING, first STRING, hired DATE, office STRING",
    delivery=DMS,
)
CHANGES = """\
I,101,Smith,Bob,2014-06-04,New York
U,101,Smith,Bob,2015-10-08,Los Angeles
U,101,Smith,Bob,2017-03-13,Dallas
D,101,Smith,Bob,2017-03-13,Dallas
"""
TYPES = Feed(
    name="bronze_employee",
    keys=("id",),
    schema="id BIGINT NOT NULL, pay DECIMAL(8,2), rate DOUBLE, ok BOOLEAN, at TIMESTAMP, raw BINARY, note STRING",
    delivery=DMS,
)


def decoded(tmp_path: Path, feed: Feed, name: str, content: bytes) -> tuple[Decoded, list[dict[str, Any]]]:
    """Land a file of an hour as it is delivered, and decode it."""
    path = tmp_path / "source" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    landed = tmp_path / f"{H0}.json"
    parts: tuple[Part, ...] = land_files(FolderSource(str(tmp_path / "source")), [name], landed).parts
    result = decode_file(landed, feed, H0, tmp_path / "decoded.parquet", None, parts)
    return result, pq.read_table(tmp_path / "decoded.parquet").to_pylist()


@pytest.mark.parametrize("packed", [False, True])
def test_rows_of_a_csv_are_changes_by_their_operation(tmp_path: Path, packed: bool) -> None:
    content = gzip.compress(CHANGES.encode()) if packed else CHANGES.encode()
    result, changes = decoded(tmp_path, EMPLOYEE, "20251130-0004010000.csv" + ".gz" * packed, content)
    assert [(c["_line"], c["_deleted"], c["office"]) for c in changes] == [
        (1, False, "New York"),
        (2, False, "Los Angeles"),
        (3, False, "Dallas"),
        (4, True, "Dallas"),
    ]
    assert changes[0]["hired"] == date(2014, 6, 4)
    assert (result.rejected, result.records) == ([], 4)


def test_columns_of_a_csv_with_names_are_found_by_them(tmp_path: Path) -> None:
    content = b'Op,TIMESTAMP,OFFICE,ID,LAST\nI,2021-01-01 00:00:00.000000,"Paris, ""1er""",7,\n'
    result, changes = decoded(tmp_path, EMPLOYEE, "a.csv", content)
    assert (changes[0]["id"], changes[0]["office"], changes[0]["last"]) == (7, 'Paris, "1er"', "")
    assert result.unknown == {"TIMESTAMP": 1}


def test_time_of_the_commit_stands_between_operation_and_columns(tmp_path: Path) -> None:
    content = b"U,2021-01-01 00:00:00.000000,7,Smith,Bob,2014-06-04,Rome\n"
    assert decoded(tmp_path, EMPLOYEE, "a.csv", content)[1][0]["office"] == "Rome"


def test_texts_of_a_csv_are_values_of_the_declared_types(tmp_path: Path) -> None:
    content = b"I,1,12.50,0.5,true,2014-10-29 11:34:01.000001,DEADBEEF,NULL\nI,2,,NULL,0,,,\n"
    _, changes = decoded(tmp_path, TYPES, "a.csv", content)
    assert [{k: v for k, v in c.items() if not k.startswith("_")} for c in changes] == [
        {
            "id": 1,
            "pay": Decimal("12.50"),
            "rate": 0.5,
            "ok": True,
            "at": datetime(2014, 10, 29, 11, 34, 1, 1, tzinfo=UTC),
            "raw": b"\xde\xad\xbe\xef",
            "note": None,
        },
        {"id": 2, "pay": None, "rate": None, "ok": False, "at": None, "raw": None, "note": ""},
    ]


def test_rows_of_parquet_lose_nothing(tmp_path: Path) -> None:
    rows = pa.table(
        {
            "Op": ["I", "D"],
            "id": pa.array([1, 2], pa.int64()),
            "pay": pa.array([Decimal("12.50"), None], pa.decimal128(8, 2)),
            "rate": [0.5, None],
            "ok": [True, None],
            "at": pa.array([datetime(2014, 10, 29, 11, 34, 1, 1), None], pa.timestamp("us")),
            "raw": pa.array([b"\xde\xad", None], pa.binary()),
            "note": ["NUL", None],
        }
    )
    pq.write_table(rows, tmp_path / "x.parquet")
    _, changes = decoded(tmp_path, TYPES, "20251130-0004010000.parquet", (tmp_path / "x.parquet").read_bytes())
    assert (changes[0]["pay"], changes[0]["raw"], changes[0]["at"]) == (
        Decimal("12.50"),
        b"\xde\xad",
        datetime(2014, 10, 29, 11, 34, 1, 1, tzinfo=UTC),
    )
    assert (changes[1]["_deleted"], changes[1]["id"]) == (True, 2)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"X,1,a,b,2014-06-04,c\n", "Op 'X' is none of I, U and D"),
        (b"I,1,a,b\n", "has 4 values, and 5 columns are declared: set AddColumnName=true"),
        (b"I,one,a,b,2014-06-04,c\n", "id: 'one' is not a BIGINT"),
        (b"I,,a,b,2014-06-04,c\n", "id is null but must have a value"),
    ],
)
def test_row_that_does_not_fit_is_rejected_with_its_reason(tmp_path: Path, line: bytes, reason: str) -> None:
    result, changes = decoded(tmp_path, EMPLOYEE, "a.csv", CHANGES.encode() + line)
    assert len(changes) == 4
    ((number, why, _),) = result.rejected
    assert number == 5
    assert why.startswith(reason)


@pytest.mark.parametrize("content", [CHANGES.encode()[:-3], b'I,1,"a', b"I,1,\xff\xfe,b,c,d\n"])
def test_csv_that_was_cut_off_or_is_none_refuses_the_hour(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(MedallionError, match=r"a\.csv is (cut off|no CSV that can be read)"):
        decoded(tmp_path, EMPLOYEE, "a.csv", content)


def test_parquet_that_cannot_be_read_refuses_the_hour(tmp_path: Path) -> None:
    with pytest.raises(MedallionError, match=r"a\.parquet is no Parquet file that can be read"):
        decoded(tmp_path, EMPLOYEE, "a.parquet", b"PAR1")


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    without_spark(monkeypatch)
    return load(tmp_path, delivered(TABLES, format="dms", layout=LAYOUT, snapshot=LOAD))


def put(shop: Shop, name: str, content: str) -> None:
    file = shop.root / "source" / "hr" / "orders" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content)


def test_files_of_an_hour_are_applied_in_order_of_their_names_and_load_files_are_no_hour(shop: Shop) -> None:
    put(shop, "LOAD00000001.csv", "1,a\n")
    put(shop, "20251130-001134010001.csv", "U,1,later\nbroken\n")
    put(shop, "20251130-001134010000.csv", "I,1,earlier\nI,2,b\n")
    put(shop, "20251130-010000000000.csv", "D,2,b\n")
    shop.refresh(H0)
    assert shop.published() == {1: "later", 2: "b"}
    (rejected,) = read_rejected(shop.lake, ORDERS, H0)
    assert rejected.file == "hr/orders/20251130-001134010001.csv:2"
    shop.refresh(H1)
    assert shop.published() == {1: "later"}
    put(shop, "20251130-001134010001.csv", "U,1,corrected\n")
    shop.restate(H0)
    assert shop.published() == {1: "corrected"}


@pytest.mark.parametrize("with_operation", [False, True])
def test_load_files_are_the_snapshot(tmp_path: Path, with_operation: bool) -> None:
    folder = tmp_path / "source" / "hr" / "employee"
    folder.mkdir(parents=True)
    first = "I," * with_operation
    (folder / "LOAD00000001.csv").write_text(f"{first}101,Smith,Bob,2014-06-04,New York\n")
    (folder / "LOAD0000000A.csv").write_text(f"{first}102,NULL,,2015-10-08,Rome\n")
    (folder / "20251130-0004010000.csv").write_text("D,101,,,,\n")
    source, lake = FolderSource(str(tmp_path / "source")), Lake(str(tmp_path / "lake"))
    snapshot = open_snapshot(source, EMPLOYEE, lake)
    rows = sorted(lake.opened(str(snapshot.folder)).to_pyarrow_table().to_pylist(), key=lambda row: row["id"])
    assert [(row["id"], row["last"], row["first"]) for row in rows] == [(101, "Smith", "Bob"), (102, None, "")]
    (folder / "LOAD0000000B.csv").write_text(f"{first}x,a,b,2015-10-08,c\n")
    with pytest.raises(MedallionError, match="LOAD0000000B.csv:1 of .* does not fit: id: 'x' is not a BIGINT"):
        open_snapshot(source, EMPLOYEE, lake)
