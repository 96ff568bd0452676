"""Reading Delta tables by the files that their log names: Spark then needs no jobs of its own to read the log.

A version of a table is the rows of its files, as tables here have neither deletion vectors nor renamed columns. One
that somebody gave such features is read through Delta, and so is one of very many files.
"""

import json
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

from spark_jobs.core.changes import CHANGE_TYPE, Changes, located

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable
    from pyspark.sql import DataFrame, SparkSession

MOST_FILES = 5_000


def read_table(
    spark: "SparkSession", path: str, delta: "DeltaTable", column: str = "", values: Sequence[Any] = ()
) -> "DataFrame":
    """The rows of the table at ``path``, at exactly the version that was opened.

    column, values: leave out files that have none of these values, which are sorted, as far as their statistics tell.
    """
    import pyarrow as pa

    actions = pa.table(delta.get_add_actions(flatten=True))
    if delta.protocol().min_reader_version > 1 or actions.num_rows > MOST_FILES:
        return spark.read.format("delta").option("versionAsOf", delta.version()).load(path)
    files = actions.to_pydict()
    low, high = (files.get(f"{end}.{column}", [None] * actions.num_rows) for end in ("min", "max"))
    paths = [
        file
        for file, least, most in zip(files["path"], low, high, strict=True)
        if not values or least is None or most is None or _between(values, least, most)
    ]
    return _parquet(spark, path, paths, schema_of(delta))


def read_changes(spark: "SparkSession", path: str, delta: "DeltaTable", found: Changes) -> "DataFrame":
    """The rows that ``found`` took away and brought, an updated one twice: the table's columns and ``_change_type``."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StringType, StructField, StructType

    columns = schema_of(delta)
    told = StructType([*columns, StructField(CHANGE_TYPE, StringType())])
    parts = [_parquet(spark, path, files, told)] if (files := found.files_of("cdc")) else []
    for kind, change in (("add", "insert"), ("remove", "delete")):
        if files := found.files_of(kind):
            parts.append(_parquet(spark, path, files, columns).withColumn(CHANGE_TYPE, F.lit(change)))
    return reduce(lambda a, b: a.unionAll(b), parts)


def changed_values(path: str, column: str, found: Changes) -> "pa.Array":
    """The values that ``column`` has in the rows that ``found`` took away and brought, each once. Without Spark."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    files = found.files_of("cdc", "add", "remove")
    parts = [pq.read_table(located(path, file), columns=[column])[column] for file in files]
    return pc.unique(pa.chunked_array([chunk for part in parts for chunk in part.chunks]))


def schema_of(delta: "DeltaTable") -> Any:
    """A table's columns as Spark has them."""
    from pyspark.sql.types import StructType

    return StructType.fromJson(json.loads(delta.schema().to_json()))


def _parquet(spark: "SparkSession", path: str, files: Iterable[str], schema: Any) -> "DataFrame":
    paths = [str(located(path, file)) for file in files]
    if not paths:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).parquet(*paths)


def _between(values: Sequence[Any], least: Any, most: Any) -> bool:
    place = bisect_left(values, least)
    return place < len(values) and values[place] <= most
