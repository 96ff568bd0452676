"""Every type that a feed may declare: decoded, merged by this process and by Spark, widened, and read back by both."""

import json
import math
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from medallion.errors import MedallionError
from medallion.ingest import apply, landing, ledger, snapshot
from medallion.ingest.schema_evolution import _rewrite, arrow_schema, plan_evolution
from medallion.ingest.small_snapshot import fit_rows
from medallion.ingest.snapshot_source import open_snapshot
from medallion.ingest.source import FolderSource, digest
from medallion.model.table import Feed
from medallion.storage.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOUR, NEXT = "2025-11-30T00", "2025-11-30T01"
FEED = Feed(
    keys=("id",),
    schema="""
        id SMALLINT NOT NULL, tiny TINYINT, single FLOAT, ratio DOUBLE, content BINARY, tags ARRAY<STRING>,
        place STRUCT<lat: DOUBLE, seen: ARRAY<TIMESTAMP>>, notes MAP<STRING, STRUCT<n: INT>>
    """,
    name="bronze_things",
    doc="One row per id.",
)
FULL = """{"id": %d, "tiny": -128, "single": 0.5, "ratio": 0.1, "content": "AAH/", "tags": ["a", null],
    "place": {"lat": 1.5, "seen": ["2025-11-30T00:00:00.000001Z"]}, "notes": {"b": {"n": 1}, "a": null}}"""
MOMENT = datetime(2025, 11, 30, 0, 0, 0, 1, tzinfo=UTC)


def inserted(number: int) -> str:
    """A line that inserts a row with a value in each column."""
    return f'{{"insert": {FULL % number}}}'


def land(lake: Lake, hour: str, *lines: str) -> Any:
    """Decode an hour of these lines."""
    file = lake.landing / "things" / f"{hour}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(" ".join(line.split()) + "\n" for line in lines))
    ledger.write_manifest(lake, ledger.Manifest(hour, "/source", {"things": digest(file.open("rb"))}))
    return landing.decode_hour(lake, (FEED,), hour, 0.0)[FEED.name]


@pytest.fixture(params=["this process", "Spark"])
def merged(request: pytest.FixtureRequest, tmp_path: Path, spark: "SparkSession") -> DeltaTable:
    """A table of rows 1 to 3, in which an hour leaves 1 as it is, changes 2, deletes 3 and inserts 4."""
    lake = Lake(str(tmp_path / "lake"))
    path = lake.path(FEED.name)
    DeltaTable.create(path, arrow_schema(FEED.columns), configuration={"delta.enableChangeDataFeed": "true"})
    first = land(lake, HOUR, *(inserted(n) for n in (1, 2, 3)))
    apply.apply_feed(lambda: pytest.fail("needs no Spark"), lake, FEED, HOUR, first)
    changed = '{"insert": {"id": 2, "notes": {"b": {"n": 2}}}}'
    second = land(lake, NEXT, inserted(1), changed, '{"delete": {"id": 3}}', inserted(4))
    if request.param == "Spark":
        changes = spark.read.parquet(str(landing.decoded_file(lake, FEED, NEXT)))
        apply.merge_changes(spark, path, FEED, apply.last_per_key(changes, FEED))
    else:
        apply.apply_feed(lambda: pytest.fail("needs no Spark"), lake, FEED, NEXT, second)
    return lake.opened(path)


def test_value_of_each_type_is_merged_and_read_back(merged: DeltaTable, spark: "SparkSession") -> None:
    rows = {row["id"]: row for row in merged.to_pyarrow_table().to_pylist()}
    full = {
        "tiny": -128,
        "single": 0.5,
        "ratio": 0.1,
        "content": b"\x00\x01\xff",
        "tags": ["a", None],
        "place": {"lat": 1.5, "seen": [MOMENT]},
        "notes": [("a", None), ("b", {"n": 1})],
    }
    none = dict.fromkeys(full)
    assert rows == {1: full | {"id": 1}, 2: none | {"id": 2, "notes": [("b", {"n": 2})]}, 4: full | {"id": 4}}
    read = spark.read.format("delta").load(merged.table_uri).orderBy("id")
    first, second, _ = read.selectExpr("*", "place.seen[0] = TIMESTAMP '2025-11-30 00:00:00.000001Z' AS same").collect()
    assert (first.tiny, first.single, first.ratio, bytes(first.content)) == (-128, 0.5, 0.1, b"\x00\x01\xff")
    assert (first.tags, first.place.lat, first.same) == (["a", None], 1.5, True)
    assert {key: value and value.n for key, value in first.notes.items()} == {"a": None, "b": 1}
    assert (second.place, second.notes["b"].n) == (None, 2)
    written = merged.history(1)[0]
    counts = written.get("operationMetrics", {})
    if "numTargetRowsUpdated" in counts:
        assert int(counts["numTargetRowsUpdated"]) == 1, "a row that is the same is not written again"


def test_type_is_widened_in_a_table_that_has_rows(tmp_path: Path, spark: "SparkSession") -> None:
    path = str(tmp_path / "table")
    narrow = replace(FEED, schema="id SMALLINT NOT NULL, v STRUCT<a: INT>, w FLOAT, x ARRAY<TINYINT>")
    rows = [{"id": 1, "v": {"a": 1}, "w": 0.5, "x": [1, None]}, {"id": 2, "v": None, "w": None, "x": None}]
    write_deltalake(path, pa.Table.from_pylist(rows, arrow_schema(narrow.columns)))
    wide = replace(FEED, schema="id BIGINT NOT NULL, v STRUCT<a: BIGINT, b: STRING>, w DOUBLE, x ARRAY<INT>")
    assert [c.name for c in plan_evolution(wide, DeltaTable(path)).widened] == ["id", "v", "w", "x"]
    _rewrite(spark, path, wide.columns, DeltaTable(path))
    table = DeltaTable(path)
    assert not plan_evolution(wide, table).widened
    rows[0]["v"] = {"a": 1, "b": None}
    assert sorted(table.to_pyarrow_table().to_pylist(), key=lambda row: row["id"]) == rows


def write_snapshot(root: Path, schema: str, rows: "pa.Table") -> tuple[Feed, Lake, Any]:
    feed, lake = replace(FEED, schema=schema, event_time=("at",)), Lake(str(root / "lake"))
    write_deltalake(str(root / "source" / "snapshot" / feed.name), rows)
    return feed, lake, open_snapshot(FolderSource(str(root / "source")), feed, lake)


def test_snapshot_with_moments_without_a_time_zone_is_taken_as_utc(tmp_path: Path, spark: "SparkSession") -> None:
    naive, late = datetime(2025, 11, 30, 0, 30), datetime(2026, 11, 30)
    moments = pa.timestamp("us")
    nested = pa.array([[naive], [naive]], pa.list_(moments))
    rows = pa.table({"id": pa.array([1, 2], pa.int64()), "at": pa.array([naive, late], moments), "seen": nested})
    feed, lake, folder = write_snapshot(tmp_path, "id BIGINT NOT NULL, at TIMESTAMP, seen ARRAY<TIMESTAMP>", rows)
    rejected = snapshot.reject_rows(spark, feed, folder, HOUR, 0.5).rejected
    assert [reason for _, reason, _ in rejected] == [
        f"at: 2026-11-30T00:00:00+00:00 is later than the end of hour {HOUR} by more than 1 day, 0:00:00"
    ]
    snapshot.load_feed(spark, lake, feed, folder, HOUR)
    (row,) = lake.opened(lake.path(feed.name)).to_pyarrow_table().to_pylist()
    assert row == {"id": 1, "at": naive.replace(tzinfo=UTC), "seen": [naive.replace(tzinfo=UTC)]}


def test_row_of_a_snapshot_that_is_not_a_number_goes_to_quarantine(tmp_path: Path, spark: "SparkSession") -> None:
    values = [0.5, math.nan, math.inf, -math.inf, None]
    moments = pa.array([MOMENT] * 5, pa.timestamp("us", tz="UTC"))
    rows = pa.table({"id": pa.array(range(5), pa.int64()), "v": pa.array(values, pa.float64()), "at": moments})
    feed, lake, folder = write_snapshot(tmp_path, "id BIGINT NOT NULL, v DOUBLE, at TIMESTAMP", rows)
    rejected = snapshot.reject_rows(spark, feed, folder, HOUR, 0.9).rejected
    assert [reason for _, reason, _ in rejected] == [
        f"v: '{value}' is not a DOUBLE" for value in ("NaN", "Infinity", "-Infinity")
    ]
    snapshot.load_feed(spark, lake, feed, folder, HOUR)
    assert sorted(lake.opened(lake.path(feed.name)).to_pyarrow_table()["id"].to_pylist()) == [0, 4]


def test_a_small_snapshot_is_loaded_as_spark_loads_a_large_one(tmp_path: Path, spark: "SparkSession") -> None:
    schema = (
        "id BIGINT NOT NULL, at TIMESTAMP, day DATE, price DECIMAL(12,2), n INT, v DOUBLE, f FLOAT, yes BOOLEAN,"
        " word STRING, bytes BINARY, words ARRAY<STRING>, of MAP<STRING, INT>, all STRUCT<a: INT, b: STRING>,"
        " seen ARRAY<TIMESTAMP>, missing STRING"
    )
    row = {
        **{"ID": 3, "at": MOMENT, "day": MOMENT.date(), "price": Decimal("-0.50"), "n": 7, "v": -0.0, "f": 1.5},
        **{"yes": True, "word": "ü\0'", "bytes": b"\0\xff", "words": ["a", None], "of": [("k", 1)]},
        **{"all": {"a": 1, "b": None}, "seen": [datetime(2025, 11, 30, 0, 30)]},
    }
    narrow = pa.schema(
        [
            *(("ID", pa.int32()), ("at", pa.timestamp("us", "UTC")), ("day", pa.date32())),
            *(("price", pa.decimal128(9, 2)), ("n", pa.int16()), ("v", pa.float32()), ("f", pa.float32())),
            *(("yes", pa.bool_()), ("word", pa.string()), ("bytes", pa.binary()), ("words", pa.list_(pa.string()))),
            *(("of", pa.map_(pa.string(), pa.int32())), ("all", pa.struct([("a", pa.int32()), ("b", pa.string())]))),
            ("seen", pa.list_(pa.timestamp("us"))),
        ]
    )
    rows = pa.Table.from_pylist([row, {"ID": 1}, row | {"ID": 2, "at": None}], narrow)
    feed, lake, opened = write_snapshot(tmp_path, schema, rows)
    tables = {}
    for way in ("by Spark", "here"):
        if way == "by Spark":
            snapshot.load_feed(spark, lake, feed, opened, HOUR)
        else:
            declared = fit_rows(lake, feed, opened, HOUR)
            assert declared is not None
            snapshot.load_rows(lake, feed, declared)
        delta = lake.opened(lake.path(feed.name))
        (file,) = pa.table(delta.get_add_actions(flatten=True)).to_pylist()
        statistics = {name: file[name] for name in ("num_records", "min.id", "max.id", "null_count.id")}
        read = spark.read.format("delta").load(lake.path(feed.name))
        tables[way] = {
            "rows in the order of the file": read.toArrow().to_pylist(),
            "types": read.schema.json(),
            "statistics": statistics,
            "without": [name for name in file if "price" in name],
            "commit": [{**json.loads(entry["userMetadata"]), "id": 0} for entry in delta.history(1)],
        }
    assert tables["here"] == tables["by Spark"]
    assert [row["id"] for row in tables["here"]["rows in the order of the file"]] == [1, 2, 3]


@pytest.mark.parametrize(
    ("unfit", "why"),
    [
        ({"at": datetime(2026, 11, 30, tzinfo=UTC)}, "it has not happened"),
        ({"at": datetime(1899, 12, 31, tzinfo=UTC)}, "it is before 1900"),
        ({"v": math.nan}, "it is no number"),
        ({"v": -math.inf}, "it is none either"),
        ({"id": None}, "its key is null"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_small_snapshot_is_left_to_spark_where_a_row_of_it_does_not_fit(
    tmp_path: Path, unfit: dict[str, Any], why: str
) -> None:
    kinds = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC")), ("v", pa.float64())])
    fit = {"id": 1, "at": MOMENT, "v": 0.5}
    for rows, loaded in (([fit, {"id": 2}], True), ([fit, fit | {"id": 2} | unfit], False)):
        feed, lake, opened = write_snapshot(
            tmp_path / str(loaded), "id BIGINT NOT NULL, at TIMESTAMP, v DOUBLE", pa.Table.from_pylist(rows, kinds)
        )
        assert (fit_rows(lake, feed, opened, HOUR) is not None) == loaded, why


@pytest.mark.parametrize("limit", ["MAX_ROWS", "MAX_BYTES"])
def test_a_large_snapshot_is_left_to_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    rows = pa.table({"id": pa.array([1, 2], pa.int64()), "at": pa.array([MOMENT, MOMENT])})
    feed, lake, opened = write_snapshot(tmp_path, "id BIGINT NOT NULL, at TIMESTAMP", rows)
    monkeypatch.setattr(f"medallion.ingest.small_snapshot.{limit}", 1)
    assert fit_rows(lake, feed, opened, HOUR) is None


def test_snapshot_of_another_nested_type_is_refused(tmp_path: Path) -> None:
    rows = pa.table({"id": pa.array([1], pa.int64()), "v": pa.array([{"a": "x"}])})
    with pytest.raises(MedallionError, match=r"has v as struct<a: string>, not STRUCT<a: INT>"):
        write_snapshot(tmp_path, "id BIGINT NOT NULL, v STRUCT<a: INT>", rows)
