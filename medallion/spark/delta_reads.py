"""Read Delta tables by the files that their log lists, so that Spark needs no jobs of its own to read the log.

A version of a table consists of the rows of its files except those that deletion vectors mark. Tables for which this
is not enough are read through Delta: those with features such as column mapping, and those with very many files.
"""

import json
from collections.abc import Iterable, Sequence
from functools import reduce
from itertools import compress
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from medallion.errors import MedallionError
from medallion.model.plan import Column
from medallion.model.refresh_method import SIDE
from medallion.sql_text import backquoted
from medallion.storage.change_feed import Changes
from medallion.storage.deletion_vectors import Positions, deleted_positions, file_name
from medallion.storage.file_filter import FileFilter
from medallion.storage.table_features import unreadable_here

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import DataFrame, SparkSession

    from medallion.storage.lake import TableState

MAX_LISTED_FILES = 5_000
MAX_SINGLE_TASK_BYTES = 16 << 20  # rows that a single task reads can be grouped and joined without an exchange


def read_table(
    spark: "SparkSession",
    path: str,
    state: "TableState",
    only: FileFilter | None = None,
    columns: tuple[Column, ...] | None = None,
) -> "DataFrame":
    """Return the rows of the table at ``path``, at exactly the version of ``state``.

    Args:
        spark: The session.
        path: The path of the table.
        state: The state of the table.
        only: The files to read; all by default.
        columns: The columns to return, in order; all columns of the table by default.
    """
    if unreadable_here(state.delta) or state.files > MAX_LISTED_FILES:
        rows = spark.read.format("delta").option("versionAsOf", state.version).load(path)
        return rows if columns is None else rows.selectExpr(*_selected(columns, rows.columns))
    files = [*zip(state.actions["path"], state.actions["size_bytes"], strict=True)]
    if only is not None:
        files = [*compress(files, only.selects(state))]
    stored = schema_of(state.delta)
    rows = _live_rows(spark, path, [file for file, _ in files], stored, deleted_positions(state.delta))
    if columns is not None and stored.names != [name for name, _, _ in columns]:
        rows = rows.selectExpr(*_selected(columns, stored.names))
    return _in_one_task_if_small(rows, sum(size for _, size in files))


def read_changes(
    spark: "SparkSession", path: str, delta: "DeltaTable", changes: Changes, columns: tuple[Column, ...] | None = None
) -> "DataFrame":
    """Return the rows that ``changes`` deleted and inserted, with SIDE after the table's columns; updated rows twice.

    columns: the columns to return, as for read_table.
    """
    from pyspark.sql.types import StringType, StructField, StructType

    stored = schema_of(delta)
    names = [backquoted(name) for name in stored.names] if columns is None else _selected(columns, stored.names)
    feed_columns = StructType([*stored, StructField("_change_type", StringType())])
    parts = []
    for version, kind, files in changes.by_kind():
        # Its position instead of the version: a literal that differs every hour would have the query compiled again.
        place = changes.versions.index(version) + 1
        if kind == "cdc":
            side = f"IF(_change_type IN ('insert', 'update_postimage'), {place}, -{place})"
            rows = _parquet(spark, path, files, feed_columns)
        else:
            side = f"{place if kind == 'add' else -place}"
            rows = _parquet(spark, path, files, stored)
        parts.append(rows.selectExpr(*names, f"{side} AS {SIDE}"))
    return _in_one_task_if_small(reduce(lambda a, b: a.unionAll(b), parts), changes.bytes)


def _selected(columns: tuple[Column, ...], stored: Sequence[str]) -> list[str]:
    """Return SQL that selects ``columns`` from the ``stored`` ones. Raises MedallionError if one is missing."""
    if missing := [name for name, _, _ in columns if name not in stored]:
        raise MedallionError(f"its files have no column {missing[0]} yet: apply the next hour, or refresh it, first")
    return [backquoted(name) for name, _, _ in columns]


def schema_of(delta: "DeltaTable") -> Any:
    """Return the schema of a table as a Spark StructType."""
    from pyspark.sql.types import StructType

    return StructType.fromJson(json.loads(delta.schema().to_json()))


def _in_one_task_if_small(rows: "DataFrame", size: int) -> "DataFrame":
    """Read ``rows`` in one task if their ``size`` in bytes is small."""
    return rows.coalesce(1) if size <= MAX_SINGLE_TASK_BYTES else rows


def _live_rows(spark: "SparkSession", path: str, files: Sequence[str], schema: Any, deleted: Positions) -> "DataFrame":
    """Return the rows of data files except those at the ``deleted`` positions, which are keyed by file name."""
    marked = [file for file in files if file_name(file) in deleted]
    plain = [file for file in files if file_name(file) not in deleted]
    rows = _parquet(spark, path, plain, schema)
    if not marked:
        return rows
    import numpy as np
    import pyarrow as pa
    from pyspark.sql import functions as F

    names = [file_name(file) for file in marked]
    lengths = [len(deleted[name]) for name in names]
    positions = pa.table(
        {
            "_dead_file": pa.array(np.repeat(np.array(names, object), lengths), pa.string()),
            "_dead_row": pa.array(np.concatenate([deleted[name] for name in names]), pa.int64()),
        }
    )
    dead = F.broadcast(spark.createDataFrame(positions))
    marked_rows = _parquet(spark, path, marked, schema)
    place = [F.col("_metadata.file_name") == dead["_dead_file"], F.col("_metadata.row_index") == dead["_dead_row"]]
    live = marked_rows.join(dead, place, "left_anti")
    return rows.unionAll(live) if plain else live


def _parquet(spark: "SparkSession", path: str, files: Iterable[str], schema: Any) -> "DataFrame":
    paths = [f"{path}/{unquote(file)}" for file in files]
    if not paths:
        return no_rows(spark, schema)
    return spark.read.schema(schema).parquet(*paths)


def no_rows(spark: "SparkSession", schema: Any) -> "DataFrame":
    """Return an empty frame with the columns of ``schema``."""
    from pyspark.sql import functions as F

    # createDataFrame from a list, even an empty one, would start a Python worker on every executor. Types are given by
    # name, because with type objects Spark Connect adds a collation to strings, which only Spark can read in a table.
    columns = (F.lit(None).cast(column.dataType.simpleString()).alias(column.name) for column in schema)
    return spark.range(0).select(*columns)
