"""Reading by the files that a log names gives what Delta's own reader gives."""

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from medallion.spark.configuration import TABLE_PROPERTIES
from medallion.spark.delta_reads import read_changes, read_table, schema_of
from medallion.storage.change_feed import changes
from medallion.storage.changed_values import changed_values
from medallion.storage.duckdb_views import TableAt, open_views
from medallion.storage.file_filter import files_with
from medallion.storage.lake import state_of


@pytest.fixture(scope="module")
def path(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table with a history: appended to, merged into, overwritten in part, given a column; by Spark and delta-rs."""
    made = str(tmp_path_factory.mktemp("a lake, with more") / "table")
    rows = spark.range(0, 100, 1, 4).selectExpr(
        "id", "CAST(id % 7 AS STRING) AS word", "CAST(id AS DECIMAL(10,2)) AS n"
    )
    rows.write.format("delta").options(**TABLE_PROPERTIES).save(made)
    spark.range(100, 120, 1, 1).selectExpr("id", "'new' AS word", "NULL AS n").createOrReplaceTempView("more")
    spark.sql(f"INSERT INTO delta.`{made}` SELECT id, word, CAST(n AS DECIMAL(10,2)) FROM more")
    spark.sql(
        f"MERGE INTO delta.`{made}` t USING (SELECT id FROM RANGE(90, 130)) s ON t.id = s.id"
        " WHEN MATCHED AND t.id < 95 THEN DELETE WHEN MATCHED THEN UPDATE SET word = 'merged'"
        " WHEN NOT MATCHED THEN INSERT (id, word, n) VALUES (s.id, 'merged', 1)"
    )
    spark.sql(f"DELETE FROM delta.`{made}` WHERE id BETWEEN 10 AND 12")
    spark.sql(f"DELETE FROM delta.`{made}` WHERE id < 5")
    schema = pa.schema(DeltaTable(made).schema().to_arrow())
    fresh = pa.table({"id": [20, 21], "word": ["by delta-rs", None], "n": [None, None]}, schema=schema)
    write_deltalake(made, fresh, mode="overwrite", predicate="id IN (20, 21, 22)")
    spark.sql(f"OPTIMIZE delta.`{made}`")
    return made


def counted(rows: Any) -> Counter[str]:
    return Counter(map(repr, rows.collect()))


def test_every_version_has_the_rows_that_delta_reads(spark: Any, path: str) -> None:
    newest = DeltaTable(path).version()
    assert newest >= 6
    for version in range(newest + 1):
        wanted = spark.read.format("delta").option("versionAsOf", version).load(path)
        assert counted(read_table(spark, path, state_of(DeltaTable(path, version=version)))) == counted(wanted), version


def test_every_commit_has_the_changes_that_delta_tells(spark: Any, path: str) -> None:
    newest = DeltaTable(path).version()
    for version in range(1, newest + 1):
        found = changes(Path(path), version - 1, version)
        reader = spark.read.format("delta").option("readchangefeed", "true")
        feed = reader.option("startingversion", version).option("endingversion", version).load(path)
        side = "CASE WHEN _change_type IN ('insert', 'update_postimage') THEN 1 ELSE -1 END AS _medallion_side"
        wanted = counted(feed.selectExpr("* EXCEPT (_change_type, _commit_version, _commit_timestamp)", side))
        if not found:  # rows were moved: Delta tells no changes either
            assert not wanted
            continue
        assert counted(read_changes(spark, path, DeltaTable(path), found)) == wanted, version
        ids = {row["id"] for row in feed.select("id").collect()}
        assert set(changed_values(Path(path), "id", found, 1_000_000).to_pylist()) == ids


def test_the_changes_of_several_commits_are_told_apart(spark: Any, path: str) -> None:
    newest = DeltaTable(path).version()
    found = changes(Path(path), 0, newest)
    assert len(found.versions) > 3
    sides = Counter(row["_medallion_side"] for row in read_changes(spark, path, DeltaTable(path), found).collect())
    for place, version in enumerate(found.versions, 1):
        alone = read_changes(spark, path, DeltaTable(path), changes(Path(path), version - 1, version)).collect()
        count = Counter(row["_medallion_side"] for row in alone)
        assert (sides[place], sides[-place]) == (count[1], count[-1]), version


def test_files_without_the_values_asked_for_are_left_alone(spark: Any, path: str) -> None:
    delta = DeltaTable(path, version=0)
    few = read_table(spark, path, state_of(delta), files_with("id", [30, 99]))
    assert len(few.inputFiles()) == 2
    assert {30, 99} <= {row["id"] for row in few.collect()}
    assert read_table(spark, path, state_of(delta), files_with("id", [1000])).isEmpty()


def test_later_column_is_null_in_older_files(spark: Any, tmp_path: Path) -> None:
    made = str(tmp_path / "table")
    write_deltalake(made, pa.table({"id": [1]}))
    write_deltalake(made, pa.table({"id": [2], "colour": ["red"]}), mode="append", schema_mode="merge")
    rows = read_table(spark, made, state_of(DeltaTable(made))).collect()
    assert sorted((row["id"], row["colour"]) for row in rows) == [(1, None), (2, "red")]


def test_a_table_with_deletion_vectors_is_read_through_delta(spark: Any, tmp_path: Path) -> None:
    made = str(tmp_path / "table")
    options = {"delta.enableDeletionVectors": "true"}
    spark.range(0, 10, 1, 1).write.format("delta").options(**options).save(made)
    spark.sql(f"DELETE FROM delta.`{made}` WHERE id = 3")
    rows = read_table(spark, made, state_of(DeltaTable(made))).collect()
    assert sorted(row["id"] for row in rows) == [0, 1, 2, 4, 5, 6, 7, 8, 9]


def test_a_table_without_rows_has_its_columns_and_starts_no_python_on_executors(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nothing = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC")), ("price", pa.decimal128(10, 2))])
    write_deltalake(tmp_path, nothing.empty_table())
    delta = DeltaTable(tmp_path)
    frame = read_table(spark, str(tmp_path), state_of(delta))
    assert [(f.name, f.dataType) for f in frame.schema] == [(f.name, f.dataType) for f in schema_of(delta)]
    assert frame.count() == 0
    frame.explain(extended=True)
    plan = capsys.readouterr().out
    assert "Physical Plan" in plan
    assert "ExistingRDD" not in plan, "rows that a Python hands over"


def test_timestamps_are_written_in_microseconds_with_bounds_to_skip_rows_by(spark: Any, tmp_path: Path) -> None:
    place = str(tmp_path / "table")
    moments = "SELECT TIMESTAMP'2025-11-30 12:00:00.000001' AS moment UNION ALL SELECT TIMESTAMP'1900-01-01 00:00:00'"
    spark.sql(moments).coalesce(1).write.format("delta").options(**TABLE_PROPERTIES).save(place)

    (file,) = tmp_path.glob("table/*.parquet")
    column = pq.ParquetFile(file).metadata.row_group(0).column(0)
    assert (column.physical_type, column.statistics.has_min_max) == ("INT64", True)


def test_files_of_both_kinds_of_timestamps_are_read_as_one_table(spark: Any, tmp_path: Path) -> None:
    place, kind = tmp_path / "table", "spark.sql.parquet.outputTimestampType"
    moments, former = "SELECT TIMESTAMP'2025-11-30 12:00:00.000001' AS moment", spark.conf.get(kind)
    try:
        for value in ("INT96", former):
            spark.conf.set(kind, value)
            spark.sql(moments).write.format("delta").options(**TABLE_PROPERTIES).mode("append").save(str(place))
    finally:
        spark.conf.set(kind, former)

    with open_views({"moments": TableAt(place)}) as views:
        assert views.connection.sql("SELECT DISTINCT moment FROM moments").fetchall() == [
            (datetime(2025, 11, 30, 12, 0, 0, 1, UTC),)
        ]
    assert counted(read_table(spark, str(place), state_of(DeltaTable(str(place))))) == counted(
        spark.sql(f"{moments} UNION ALL {moments}")
    )
