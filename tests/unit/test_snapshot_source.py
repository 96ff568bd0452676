"""Snapshots: Delta tables and Parquet files whose columns fit the declared ones, and those that are refused."""

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from medallion.errors import MedallionError
from medallion.ingest.snapshot_source import Snapshot, open_snapshot
from medallion.ingest.source import FolderSource
from medallion.model.delivery import Delivery, Layout
from medallion.model.table import Feed
from medallion.storage.lake import Lake

FEED = Feed(
    name="bronze_things",
    keys=("id",),
    schema="id BIGINT NOT NULL, price DECIMAL(12,2), amount DOUBLE, seen_at TIMESTAMP, name STRING",
)
MOMENT = datetime(2025, 11, 30, 1, 2, 3, 456789)


def rows(**columns: Any) -> pa.Table:
    usual: dict[str, Any] = {
        "id": pa.array([1, 2], pa.int64()),
        "price": pa.array([Decimal("1.50"), None], pa.decimal128(12, 2)),
        "amount": [0.5, None],
        "seen_at": pa.array([MOMENT, None], pa.timestamp("us", "UTC")),
        "name": ["x", None],
    }
    return pa.table({name: value for name, value in (usual | columns).items() if value is not None})


def put(root: Path, table: pa.Table, *, delta: bool, path: str = "snapshot/bronze_things") -> FolderSource:
    folder = root / "source" / path
    folder.mkdir(parents=True)
    if delta:
        write_deltalake(str(folder), table)
    else:
        pq.write_table(table.slice(0, 1), folder / "part-0.parquet")
        pq.write_table(table.slice(1), folder / "part-1.parquet")
        (folder / "_SUCCESS").touch()
    return FolderSource(str(root / "source"))


def opened(tmp_path: Path, source: FolderSource, feed: Feed = FEED) -> Snapshot:
    return open_snapshot(source, feed, Lake(str(tmp_path / "lake")))


def values(tmp_path: Path, snapshot: Snapshot) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (
        Lake(str(tmp_path / "lake")).opened(str(snapshot.folder)).to_pyarrow_table().to_pylist()
    )
    return sorted(found, key=lambda row: row["id"])


WIDENED: list[dict[str, Any]] = [
    {"id": pa.array([1, 2], pa.int32())},
    {"id": pa.array([1, 2], pa.int8())},
    {"price": pa.array([Decimal("1.50"), None], pa.decimal128(10, 2))},
    {"amount": pa.array([0.5, None], pa.float32())},
    {"seen_at": pa.array([MOMENT, None], pa.timestamp("us"))},
]


@pytest.mark.parametrize("delta", [True, False])
@pytest.mark.parametrize("columns", WIDENED)
def test_narrower_types_are_taken(tmp_path: Path, columns: dict[str, Any], delta: bool) -> None:
    snapshot = opened(tmp_path, put(tmp_path, rows(**columns), delta=delta))
    assert (snapshot.rows, snapshot.notes) == (2, ())
    assert dict(snapshot.given) == {column.name: column.name for column in FEED.columns}


@pytest.mark.parametrize(
    "columns",
    [
        {"id": pa.array([1, 2], pa.uint32())},
        {"price": pa.array([150, None], pa.int16())},
        {"name": pa.array(["x", None]).dictionary_encode()},
        {"name": pa.array(["x", None], pa.large_string())},
        {"seen_at": pa.array([MOMENT, None], pa.timestamp("ns"))},
        {"seen_at": pa.array([MOMENT.replace(microsecond=0), None], pa.timestamp("ms", "Europe/Berlin"))},
    ],
)
def test_types_that_only_parquet_has_are_taken_where_nothing_is_lost(tmp_path: Path, columns: dict[str, Any]) -> None:
    snapshot = opened(tmp_path, put(tmp_path, rows(**columns), delta=False))
    assert snapshot.rows == 2


def test_parquet_of_pandas_is_loaded_value_by_value(tmp_path: Path) -> None:
    import pandas as pd

    frame = pd.DataFrame({"ID": [1, 2], "price": ["a", "b"], "seen_at": [MOMENT, None], "Name": ["x", None]})
    frame["price"] = [Decimal("1.5"), Decimal("2.25")]
    (tmp_path / "source").mkdir()
    frame.to_parquet(tmp_path / "source" / "things.parquet")
    feed = replace(FEED, delivery=Delivery(snapshot=Layout("{feed}.parquet")))
    snapshot = opened(tmp_path, FolderSource(str(tmp_path / "source")), feed)
    assert values(tmp_path, snapshot) == [
        {"id": 1, "price": Decimal("1.50"), "amount": None, "seen_at": MOMENT.replace(tzinfo=UTC), "name": "x"},
        {"id": 2, "price": Decimal("2.25"), "amount": None, "seen_at": None, "name": None},
    ]
    (note,) = snapshot.notes
    assert "lacks the column amount in 1 of 1 files: it is null in their rows" in note


@pytest.mark.parametrize("delta", [True, False])
def test_columns_are_found_in_other_letters_and_nullable_ones_may_be_missing(tmp_path: Path, delta: bool) -> None:
    table = rows(amount=None).rename_columns(["ID", "Price", "seen_at", "name"])
    snapshot = opened(tmp_path, put(tmp_path, table, delta=delta))
    (note,) = snapshot.notes
    assert "snapshot/bronze_things" in note
    assert "lacks the column amount" in note
    if delta:
        assert dict(snapshot.given) == {
            "id": "ID",
            "price": "Price",
            "amount": None,
            "seen_at": "seen_at",
            "name": "name",
        }


@pytest.mark.parametrize("delta", [True, False])
@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"id": ["1", "2"]}, "has id as string, not BIGINT"),
        ({"id": [1.0, 2.0]}, "has id as double, not BIGINT"),
        ({"price": [1.5, None]}, r"has price as double, not DECIMAL\(12,2\)"),
        ({"price": pa.array([Decimal("1.500"), None], pa.decimal128(12, 3))}, r"has price as decimal128\(12, 3\)"),
        ({"amount": pa.array([1, None], pa.int64())}, "has amount as int64, not DOUBLE"),
        ({"id": None}, "lacks the column id BIGINT, which is NOT NULL"),
    ],
)
def test_what_would_lose_something_is_refused_naming_column_types_and_remedy(
    tmp_path: Path, columns: dict[str, Any], said: str, delta: bool
) -> None:
    with pytest.raises(MedallionError, match=said) as refused:
        opened(tmp_path, put(tmp_path, rows(**columns), delta=delta))
    assert "snapshot/bronze_things" in str(refused.value)
    assert "have it written" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_nanoseconds_that_would_be_lost_are_refused(tmp_path: Path) -> None:
    moments = pa.array([1_764_460_923_456_789_001, None], pa.timestamp("ns"))
    with pytest.raises(MedallionError, match=r"has a value in seen_at \(timestamp\[ns\]\) that TIMESTAMP cannot hold"):
        opened(tmp_path, put(tmp_path, rows(seen_at=moments), delta=False))


def test_files_of_a_pattern_are_the_snapshot(tmp_path: Path) -> None:
    source = put(tmp_path, rows(), delta=False, path="public/things")
    pq.write_table(rows(), tmp_path / "source" / "public" / "things" / "other.parquet")
    feed = replace(FEED, delivery=Delivery(snapshot=Layout("public/{feed}/part-*.parquet")))
    assert opened(tmp_path, source, feed).rows == 2


def test_snapshot_that_is_missing_or_damaged_is_named(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    source = FolderSource(str(tmp_path / "source"))
    with pytest.raises(
        MedallionError, match="has no snapshot/bronze_things, or it is neither a Delta table nor Parquet or CSV"
    ):
        opened(tmp_path, source)
    (tmp_path / "source" / "snapshot" / "bronze_things").mkdir(parents=True)
    (tmp_path / "source" / "snapshot" / "bronze_things" / "x.parquet").write_bytes(b"PAR1 broken")
    with pytest.raises(MedallionError, match="x.parquet of .* is no Parquet file that can be read"):
        opened(tmp_path, source)
