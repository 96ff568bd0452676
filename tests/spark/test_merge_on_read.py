"""Tables that are merged on read are the same to Spark, DuckDB, delta-rs and this engine's own readers, at any time."""

import json
import random
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake

from medallion.spark.delta_reads import read_changes, read_table
from medallion.storage.change_feed import changes
from medallion.storage.clustering import cluster
from medallion.storage.data_files import statistics
from medallion.storage.delta_writes import properties, replace_keys, replace_rows, rows_with_keys
from medallion.storage.duckdb_views import TableAt, open_views
from medallion.storage.file_filter import files_with
from medallion.storage.lake import state_of
from medallion.storage.merge_on_read import FileLayout
from medallion.storage.purge import purge

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("word", pa.string()),
        ("amount", pa.decimal128(12, 2)),
        ("moment", pa.timestamp("us", "UTC")),
        ("day", pa.date32()),
        ("ratio", pa.float64()),
        ("yes", pa.bool_()),
        ("words", pa.list_(pa.string())),
    ]
)
CONFIGURATION = {
    "delta.enableChangeDataFeed": "true",
    "delta.enableDeletionVectors": "false",
    "delta.checkpointInterval": "4",
}


def drawn(chance: random.Random, key: int) -> dict[str, Any]:
    moment = datetime(2025, 11, 1, tzinfo=UTC) + timedelta(microseconds=chance.randrange(10**12))
    row = {
        "word": chance.choice(["a", "it's", "ü" * 40, "z" * 70]),
        "amount": Decimal(chance.randrange(-(10**9), 10**9)) / 100,
        "moment": moment,
        "day": date(2025, 1, 1) + timedelta(days=chance.randrange(300)),
        "ratio": chance.choice([0.1, -5.0, float("inf")]),
        "yes": chance.random() < 0.5,
        "words": chance.choice([[], ["x"], ["x", "y"]]),
    }
    return {"id": key, **{name: value if chance.random() < 0.8 else None for name, value in row.items()}}


def arrow(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, SCHEMA)


def texts(rows: pa.Table) -> Counter[str]:
    return Counter(repr(tuple(row[name] for name in SCHEMA.names)) for row in rows.cast(SCHEMA).to_pylist())


def by_spark(spark: Any, path: str, version: int) -> pa.Table:
    return spark.read.format("delta").option("versionAsOf", version).load(path).toArrow()


def by_views(path: str, version: int) -> pa.Table:
    with open_views({"t": TableAt(Path(path), version)}) as views:
        assert not views.errors, views.errors
        rows = views.connection.execute("SELECT * FROM t").to_arrow_table()
        assert views.rows["t"] == len(rows)
    return rows


def by_delta_rs(path: str, version: int) -> pa.Table:
    delta = DeltaTable(path, version=version)
    return pa.table(QueryBuilder().register("t", delta).execute("SELECT * FROM t").read_all())


class History:
    """A table, and what it should have at each version."""

    def __init__(self, spark: Any, path: str, seed: int) -> None:
        self.spark, self.path, self.chance = spark, path, random.Random(seed)
        self.rows = {key: drawn(self.chance, key) for key in range(400)}
        for start in range(0, 400, 100):
            part = arrow([self.rows[key] for key in range(start, start + 100)])
            write_deltalake(path, part, mode="append", configuration=CONFIGURATION)
        self.at = {self.delta.version(): dict(self.rows)}

    @property
    def delta(self) -> DeltaTable:
        return DeltaTable(self.path)

    def some(self) -> tuple[list[int], list[dict[str, Any]]]:
        """Keys to go, present or not, and rows that come: of some of them, and of new ones."""
        gone = self.chance.sample(range(450), self.chance.choice([1, 3, 12]))
        new = self.chance.sample(range(400, 500), self.chance.choice([0, 2]))
        keys = [*{*self.chance.sample(gone, len(gone) // 2), *new}]
        return sorted({*gone, *new}), [drawn(self.chance, key) for key in keys]

    def marks(self) -> FileLayout:
        return FileLayout(Path(self.path), 1 << 20, 1)

    def replaced(self, layout: FileLayout) -> None:
        delta, (keys, rows) = self.delta, self.some()
        replace_rows(delta, arrow(rows), "id", keys, properties("{}", upon=delta), layout)
        self.forget(keys, rows)

    def forget(self, keys: list[int], rows: list[dict[str, Any]]) -> None:
        self.rows = {key: row for key, row in self.rows.items() if key not in keys} | {row["id"]: row for row in rows}

    def mark(self) -> None:
        self.replaced(self.marks())

    def rewrite(self) -> None:
        self.replaced(FileLayout(Path(self.path), 1 << 20))

    def merge(self) -> None:
        delta, (keys, rows) = self.delta, self.some()
        known = pa.table({"id": pa.array([key for key in keys if key in self.rows], pa.int64())})
        before = rows_with_keys(delta, Path(self.path), known, SCHEMA.names)
        assert texts(before) == texts(arrow([self.rows[key] for key in known["id"].to_pylist()]))
        replace_keys(delta, arrow(rows), known, properties("{}", upon=delta), self.marks())
        self.forget(keys, rows)

    def delete_by_spark(self) -> None:
        """Somebody else's, which marks rows and leaves no change file."""
        self.spark.conf.set("spark.databricks.delta.delete.deletionVectors.persistent", self.chance.random() < 0.7)
        keys = self.chance.sample(range(400), 5)
        self.spark.sql(f"DELETE FROM delta.`{self.path}` WHERE id IN ({', '.join(map(str, keys))})")
        self.forget(keys, [])

    def update_by_spark(self) -> None:
        self.spark.sql(f"UPDATE delta.`{self.path}` SET word = 'by hand' WHERE id % 50 = 7")
        self.rows = {k: {**row, "word": "by hand"} if k % 50 == 7 else row for k, row in self.rows.items()}

    def optimize_by_spark(self) -> None:
        self.spark.sql(f"OPTIMIZE delta.`{self.path}`")

    def cluster(self) -> None:
        cluster(self.delta, "id", 5_000, 1, {})

    def purge(self) -> None:
        purge(self.delta, Path(self.path), "{}", least_share=0.02)

    def restore(self) -> None:
        delta = self.delta
        version = self.chance.choice([version for version in self.at if version < delta.version()])
        delta.restore(version, commit_properties=properties("{}", upon=delta))
        self.rows = dict(self.at[version])


STEPS = [*["mark"] * 6, *["merge"] * 3, *["purge"] * 2, *("rewrite", "restore", "cluster")]
BY_SPARK = ["delete_by_spark", "update_by_spark", "optimize_by_spark"]


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", [0, 1])
def test_every_reader_has_the_same_rows_and_changes_for_random_histories(spark: Any, tmp_path: Path, seed: int) -> None:
    history = History(spark, str(tmp_path / "a table, with more"), seed)
    path, done = history.path, []
    for step in range(8):
        name = "mark" if step == 0 else history.chance.choice(STEPS if step % 4 else BY_SPARK)
        before, rows = history.delta.version(), dict(history.rows)
        getattr(history, name)()
        done.append(name)
        version = history.delta.version()
        history.at[version] = dict(history.rows)
        wanted = texts(arrow([*history.rows.values()]))
        state = state_of(history.delta)
        assert state.rows == wanted.total(), done
        readers = {
            "Spark": by_spark(spark, path, version),
            "files": read_table(spark, path, state).toArrow(),
            "views": by_views(path, version),
            "delta-rs": by_delta_rs(path, version),
        }
        assert {reader: texts(found) == wanted for reader, found in readers.items()} == dict.fromkeys(readers, True), (
            done
        )
        few = sorted(history.chance.sample(range(450), 20))
        read = read_table(spark, path, state, files_with("id", few)).where(f"id IN ({', '.join(map(str, few))})")
        assert texts(read.toArrow()) == texts(arrow([row for key, row in history.rows.items() if key in few])), done
        assert_changes(history, before, texts(arrow([*rows.values()])), wanted, done)
    for version, rows in history.chance.sample([*history.at.items()], 3):
        assert texts(by_spark(spark, path, version)) == texts(by_views(path, version)) == texts(arrow([*rows.values()]))


def assert_changes(history: History, before: int, former: Counter[str], wanted: Counter[str], done: list[str]) -> None:
    """The changes of the last step, by Spark and by our own reader, lead from the rows before to those after."""
    spark, path, version = history.spark, history.path, history.delta.version()
    if version == before:
        assert former == wanted
        return
    feed = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", before + 1).load(path)
    kinds = {"insert": 1, "update_postimage": 1, "delete": -1, "update_preimage": -1}
    assert after(former, feed.toArrow(), lambda row: kinds[row["_change_type"]]) == wanted, done
    found = changes(Path(path), before, version)
    if found and not found.unknown:
        rows = read_changes(spark, path, history.delta, found).toArrow()
        assert after(former, rows, lambda row: 1 if row["_medallion_side"] > 0 else -1) == wanted, done
    elif not found:
        assert former == wanted, done


def after(former: Counter[str], rows: pa.Table, sign: Any) -> Counter[str]:
    result = Counter(former)
    for row, text in zip(rows.to_pylist(), rows.select(SCHEMA.names).cast(SCHEMA).to_pylist(), strict=True):
        result[repr(tuple(text[name] for name in SCHEMA.names))] += sign(row)
    assert min(result.values(), default=0) >= 0
    return +result


@pytest.mark.long
@pytest.mark.timeout(600)
def test_spark_prunes_no_row_by_the_statistics_of_a_file_written_here(spark: Any, tmp_path: Path) -> None:
    from pyspark.sql import DataFrame
    from pyspark.sql.functions import col, lit

    history = History(spark, str(tmp_path / "t"), 11)
    for _ in range(3):
        history.mark()
    rows = [*history.rows.values()]
    asked = [
        (name, row)
        for name in ("id", "word", "amount", "moment", "day")
        for row in [*history.chance.sample(rows, 1), *[r for r in rows if r["id"] >= 400][:2]]
        if row[name] is not None
    ]
    table = spark.read.format("delta").load(history.path)
    found = [
        table.where((col("id") == row["id"]) & (col(name) == lit(row[name]))).select(lit(number).alias("number"))
        for number, (name, row) in enumerate(asked)
    ]
    numbers = reduce(DataFrame.union, found).toArrow()["number"].to_pylist()  # each filter prunes by itself
    assert sorted(numbers) == [*range(len(asked))], asked
    spark.sql(f"VACUUM delta.`{history.path}`")
    assert texts(by_spark(spark, history.path, history.delta.version())) == texts(arrow(rows))


def test_statistics_hold_for_every_value_when_texts_are_long_and_moments_fine() -> None:
    chance = random.Random(3)
    rows = arrow([drawn(chance, key) for key in range(200)])
    known = json.loads(json.dumps(statistics(rows, SCHEMA.names)))
    assert known["numRecords"] == 200
    for name, text in known["maxValues"].items():
        values = [value for value in rows[name].to_pylist() if value is not None]
        if name == "moment":
            assert datetime.fromisoformat(known["minValues"][name]) <= min(values) <= max(values)
            assert max(values) <= datetime.fromisoformat(text)
    assert "word" not in known["maxValues"]
    assert known["nullCount"]["word"] == rows["word"].null_count
