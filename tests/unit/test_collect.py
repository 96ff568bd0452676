"""What is collected from Spark is bounded: a table that was small and became large is written by Spark."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.sql.types import LongType, StructField, StructType

from medallion.model.table import Table
from medallion.refresh import commits
from medallion.refresh.by_key import max_local_rows
from medallion.spark.collect import collect
from medallion.storage.lake import Lake, TableState, state_of

TABLE = Table(keys=("k",), query="SELECT k FROM {bronze_a}", name="gold_x", layer="gold")


class Frame:
    """Stands for a Spark frame of so many rows, which notes how many are fetched; its writes go to ``path``."""

    def __init__(self, count: int, path: str = "") -> None:
        self.count, self.path, self.fetched, self.written = count, path, 0, False
        self.schema = StructType([StructField("k", LongType())])

    def limit(self, most: int) -> "Frame":
        part = Frame(min(most, self.count))
        part.toArrow = lambda: self._fetch(part.count)  # type: ignore[method-assign]
        return part

    def toArrow(self) -> pa.Table:
        raise AssertionError("all rows were fetched")

    def _fetch(self, count: int) -> pa.Table:
        self.fetched = count
        return pa.table({"k": pa.array(range(count), pa.int64())})

    @property
    def write(self) -> "Frame":
        return self

    def __getattr__(self, _: str) -> Any:
        return lambda *_, **__: self

    def save(self, path: str) -> None:
        self.written = True
        write_deltalake(path, pa.table({"k": pa.array(range(self.count), pa.int64())}), mode="overwrite")


def test_rows_are_collected_up_to_a_bound_and_one_row_more_is_fetched_to_know() -> None:
    few, many = Frame(10), Frame(1000)
    assert collect(few, 10).num_rows == 10  # type: ignore[arg-type, union-attr]
    assert collect(many, 10) is None  # type: ignore[arg-type]
    assert many.fetched == 11


@pytest.mark.parametrize(("count", "by_spark"), [(10, False), (11, True)])
def test_a_small_table_is_written_by_spark_in_the_hour_in_which_it_becomes_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, by_spark: bool
) -> None:
    monkeypatch.setattr(commits, "SMALL_ROWS", 10)
    lake = Lake(str(tmp_path))
    write_deltalake(lake.path("gold_x"), pa.table({"k": pa.array([1], pa.int64())}))
    former, rows = state_of(lake.opened(lake.path("gold_x"))), Frame(count)
    replaced: list[commits.Columns] = []

    def commit(columns: commits.Columns) -> str:
        replaced.append(columns)
        return "{}"

    state = commits.overwrite(lake, TABLE, rows, former, commit)  # type: ignore[arg-type]
    assert (state.rows, rows.written, rows.fetched) == (count, by_spark, min(count, 11))
    assert replaced == [None if by_spark else ("k",)], "Spark replaces all rows, this process those of the keys"


def test_a_table_of_few_but_wide_rows_is_written_by_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commits, "SMALL_BYTES", 10)
    lake = Lake(str(tmp_path))
    write_deltalake(lake.path("gold_x"), pa.table({"k": pa.array([1], pa.int64())}))
    rows = Frame(1)
    former = state_of(lake.opened(lake.path("gold_x")))
    commits.overwrite(lake, TABLE, rows, former, lambda _: "{}")  # type: ignore[arg-type]
    assert (rows.written, rows.fetched) == (True, 0)


@pytest.mark.parametrize(
    ("rows", "row_bytes", "most"),
    [(0, 0, 1_000_000), (1_000_000, 60, 1_000_000), (1_000, 1 << 20, 256), (10, 1 << 30, 0)],
)
def test_rows_of_few_keys_are_collected_up_to_a_number_and_to_a_size(rows: int, row_bytes: int, most: int) -> None:
    former = TableState(1, rows, 1, rows * row_bytes, None, {})  # type: ignore[arg-type]
    assert max_local_rows(former) == most
