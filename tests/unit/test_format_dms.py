"""Change files of AWS DMS with S3 as target, as its documentation shows them."""

import gzip
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from medallion.errors import MedallionError
from medallion.ingest.decode import Decoded, decode_file
from medallion.ingest.hour_files import landed_file
from medallion.ingest.parts import Part, Parts
from medallion.ingest.put_together import land_files
from medallion.ingest.quarantine import read_rejected
from medallion.ingest.snapshot_source import describe_snapshot, open_snapshot
from medallion.ingest.source import FolderSource
from medallion.inspect.source_check import check_source
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

CODES = Feed(name="bronze_codes", keys=("code",), schema="code STRING NOT NULL, name STRING", delivery=DMS)


def decoded(tmp_path: Path, feed: Feed, name: str, content: bytes) -> tuple[Decoded, list[dict[str, Any]]]:
    """Land a file of an hour as it is delivered, and decode it."""
    path = tmp_path / "source" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    landed = tmp_path / f"{H0}.json"
    parts: tuple[Part, ...] = land_files(FolderSource(str(tmp_path / "source")), [name], landed).parts
    result = decode_file(landed, feed, H0, tmp_path / "decoded.parquet", None, Parts(parts))
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


@pytest.mark.parametrize("cells", [b"U,9", b"U,9,b,Rome,7", b"I,9,a,b,2014-06-04,c"])
def test_row_of_another_width_than_its_names_is_rejected(tmp_path: Path, cells: bytes) -> None:
    result, changes = decoded(tmp_path, EMPLOYEE, "a.csv", b"Op,ID,LAST,OFFICE\nI,1,a,Rome\n" + cells + b"\n")
    assert [change["id"] for change in changes] == [1]
    assert [why for _, why, _ in result.rejected] == [
        f"has {cells.count(b',') + 1} values, and its file names 4 columns"
    ]


def test_column_that_was_added_is_not_taken_for_the_time_of_the_commit(tmp_path: Path) -> None:
    result, changes = decoded(tmp_path, CODES, "a.csv", b"U,DE,Germany,Berlin\n")
    assert changes == []
    assert [why.partition(":")[0] for _, why, _ in result.rejected] == ["'DE' after Op is not the time of a commit"]


def test_row_that_lost_a_column_is_not_taken_for_one_without_operation(tmp_path: Path) -> None:
    result, changes = decoded(tmp_path, CODES, "a.csv", b"D,DE\nDE,Germany\n")
    assert [change["code"] for change in changes] == ["DE"]
    assert [why.partition(":")[0] for _, why, _ in result.rejected] == ["D may be Op, or the value of code"]


@pytest.mark.parametrize("operation", ["Op", "op", "OP"])
def test_operation_is_found_whatever_letters_name_it(tmp_path: Path, operation: str) -> None:
    rows = pa.table({operation: ["I", "D"], "code": ["DE", "DE"]})
    pq.write_table(rows, tmp_path / "x.parquet")
    parquet = decoded(tmp_path, CODES, "a.parquet", (tmp_path / "x.parquet").read_bytes())[1]
    csv = decoded(tmp_path, CODES, "a.csv", f"{operation},code\nI,DE\nD,DE\n".encode())[1]
    assert [change["_deleted"] for change in csv] == [change["_deleted"] for change in parquet] == [False, True]


def test_column_that_may_be_the_operation_rejects_the_row(tmp_path: Path) -> None:
    feed = replace(CODES, schema="code STRING NOT NULL, op STRING")
    result, changes = decoded(tmp_path, feed, "a.csv", b"op,code\nD,DE\n")
    assert (changes, len(result.rejected)) == ([], 1)
    assert decoded(tmp_path, feed, "a.csv", b"Op,code,op\nI,DE,x\n")[1][0]["op"] == "x"


def test_text_null_of_parquet_is_that_text(tmp_path: Path) -> None:
    pq.write_table(pa.table({"Op": ["I", "I"], "code": ["a", "b"], "name": ["NULL", None]}), tmp_path / "x.parquet")
    _, changes = decoded(tmp_path, CODES, "a.parquet", (tmp_path / "x.parquet").read_bytes())
    assert [change["name"] for change in changes] == ["NULL", None]


def test_values_that_python_does_not_have_reject_their_rows_alone(tmp_path: Path) -> None:
    rows = {"Op": pa.array([["I"]] * 2), "id": [1, 2]}
    far = {"Op": ["I", "U"], "id": [1, 2], "at": pa.array([0, 253402300800], pa.timestamp("s"))}
    for name, columns in (("a", rows), ("b", far)):
        pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet")
    result, changes = decoded(tmp_path, TYPES, "a.parquet", (tmp_path / "a.parquet").read_bytes())
    assert (len(changes), len(result.rejected)) == (0, 2)
    result, changes = decoded(tmp_path, TYPES, "b.parquet", (tmp_path / "b.parquet").read_bytes())
    assert [change["at"] for change in changes] == [datetime(1970, 1, 1, tzinfo=UTC)]
    assert [why for _, why, _ in result.rejected] == ["at: '10000-01-01 00:00:00.000' is not a TIMESTAMP"]


def test_columns_of_one_name_refuse_a_parquet_file(tmp_path: Path) -> None:
    twice = pa.table([["I"], ["DE"], ["a"], ["b"]], names=["Op", "code", "name", "name"])
    pq.write_table(twice, tmp_path / "x.parquet")
    with pytest.raises(MedallionError, match="two of its columns have the same name"):
        decoded(tmp_path, CODES, "a.parquet", (tmp_path / "x.parquet").read_bytes())


@pytest.mark.parametrize("content", [CHANGES.encode()[:-3], b'I,1,"a', b"I,1,\xff\xfe,b,c,d\n"])
def test_csv_that_was_cut_off_or_is_none_refuses_the_hour(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(MedallionError, match=r"a\.csv is (cut off|no CSV that can be read)"):
        decoded(tmp_path, EMPLOYEE, "a.csv", content)


def test_parquet_that_cannot_be_read_refuses_the_hour(tmp_path: Path) -> None:
    with pytest.raises(MedallionError, match=r"a\.parquet is no Parquet file that can be read"):
        decoded(tmp_path, EMPLOYEE, "a.parquet", b"PAR1")


HEADERS = ["ID,LAST,FIRST,HIRED,OFFICE", "last,office,extra"]


@pytest.mark.parametrize("names", HEADERS)
def test_names_without_the_operation_refuse_an_hour_at_once(tmp_path: Path, names: str) -> None:
    feed = replace(EMPLOYEE, delivery=replace(DMS, layout=Layout("hr/{feed}/{hour}/*")))
    file = f"hr/employee/{H0}/a.csv"
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).write_text(f"{names}\n1,Smith,Bob\n")
    (found,) = check_source(FolderSource(str(tmp_path)), [feed], H0, 0.01).feeds
    shown = names.replace(",", ", ")
    assert found.problems[-1] == (
        f"{tmp_path}/{file} has the columns {shown} and no Op, which tells deletions from other rows:"
        " expected Op, id, last, first, hired, office; nothing of its hour was landed: have it delivered with Op, or"
        " elsewhere if it is a full load, then run the hour again"
    )


def test_parquet_without_the_operation_refuses_an_hour(shop: Shop) -> None:
    file = shop.root / "source" / "hr" / "orders" / "20251130-001134010000.parquet"
    file.parent.mkdir(parents=True)
    pq.write_table(pa.table({"id": [1], "name": ["a"]}), file)
    with pytest.raises(
        MedallionError, match=r"0000\.parquet has the columns id, name and no Op, .* expected Op, id, name"
    ):
        shop.refresh(H0)
    assert shop.rows() == {}


def test_names_without_the_operation_refuse_an_hour_when_it_is_landed(shop: Shop) -> None:
    put(shop, "20251130-001134010000.csv", "id,name\n1,a\n")
    with pytest.raises(MedallionError, match=r"0000\.csv has the columns id, name and no Op"):
        shop.refresh(H0)
    assert not landed_file(shop.lake, "orders", H0).exists()


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


def test_columns_that_change_within_an_hour_are_followed_file_by_file(shop: Shop) -> None:
    put(shop, "20251130-001134010000.csv", "Op,id,name\nI,1,a\n")
    put(shop, "20251130-001134010001.csv", "Op,colour,name,id\nI,red,b,2\n")
    put(shop, "20251130-001134010002.csv", "Op,id\nI,3\n")
    said: list[str] = []
    shop.refresh(H0, said)
    assert shop.published() == {1: "a", 2: "b", 3: None}
    assert any("orders has a column colour (in lines: 1), which is not loaded" in line for line in said)


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


def loaded(tmp_path: Path, feed: Feed, **contents: str) -> tuple[tuple[str, ...], list[dict[str, Any]]]:
    """The notes and the rows of a full load of these files."""
    folder = tmp_path / "source" / "hr" / feed.topic
    folder.mkdir(parents=True)
    for name, content in contents.items():
        (folder / name.replace("_", ".")).write_text(content)
    lake = Lake(str(tmp_path / "lake"))
    snapshot = open_snapshot(FolderSource(str(tmp_path / "source")), feed, lake)
    rows: list[dict[str, Any]] = lake.opened(str(snapshot.folder)).to_pyarrow_table().to_pylist()
    return snapshot.notes, rows


def test_full_load_with_names_and_without_operation_is_read_by_its_names(tmp_path: Path) -> None:
    _, rows = loaded(tmp_path, CODES, LOAD1_csv="NAME,CODE,EXTRA\nGermany,DE,1\n")
    assert rows == [{"code": "DE", "name": "Germany"}]


def test_full_load_of_two_kinds_is_refused_and_one_of_each_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        MedallionError, match=r"two kinds, CSV, such as .*LOAD1\.csv and Parquet, such as .*LOAD2\.parquet: "
    ):
        loaded(tmp_path, CODES, LOAD1_csv="I,DE,a\n", LOAD2_parquet="PAR1")
    with pytest.raises(MedallionError, match="two kinds, CSV"):
        describe_snapshot(FolderSource(str(tmp_path / "source")), CODES)


def test_full_load_that_lacks_a_column_is_warned_of(tmp_path: Path) -> None:
    notes, rows = loaded(tmp_path, CODES, LOAD1_csv="Op,code\nI,DE\n")
    assert rows == [{"code": "DE", "name": None}]
    assert "lacks the column name in 1 of 1 files" in notes[0]


def test_full_load_is_not_read_while_a_file_of_it_is_being_written(tmp_path: Path) -> None:
    with pytest.raises(MedallionError, match=r"LOAD2\.csv\.tmp of .* is still being written"):
        loaded(tmp_path, CODES, LOAD1_csv="I,DE,a\n", LOAD2_csv_tmp="I,FR,b\n")


def test_file_about_a_file_of_a_full_load_is_no_part_of_it(tmp_path: Path) -> None:
    assert len(loaded(tmp_path, CODES, LOAD1_csv="I,DE,a\n", LOAD1_csv_md5="d41d8cd9  LOAD1.csv\n")[1]) == 1
