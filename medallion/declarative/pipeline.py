"""Our tables as a Spark Declarative Pipeline: what spark-pipelines reads, for the lake in MEDALLION_LAKE.

Bronze is as the release MEDALLION_RELEASE has it; as it is now where there is none.
Bronze is read as the Parquet files that its Delta log names, and views are written as Parquet: the pipelines of Spark
4.2 do not read the Delta tables that they write.
"""

import os
from urllib.parse import unquote

from pyspark import pipelines
from pyspark.sql import DataFrame, SparkSession

from medallion.model.table import ChangeLog, Feed, Table
from medallion.ops import releases
from medallion.ops.lake_tables import tables_of
from medallion.project import find_project
from medallion.spark.delta_reads import read_table
from medallion.storage.deletion_vectors import deleted_positions
from medallion.storage.lake import Lake, state_of
from medallion.storage.named_versions import open_named

LAKE = Lake.of(find_project().settings())
RELEASE = os.environ.get("MEDALLION_RELEASE")
PUBLISHED = releases.require_release(LAKE, int(RELEASE)) if RELEASE else None


def _declare_source(source: Feed | ChangeLog) -> None:
    @pipelines.temporary_view(name=source.name)
    def rows() -> DataFrame:
        version = PUBLISHED.version_of(source.name) if PUBLISHED else None
        delta = open_named(LAKE, version) if version else LAKE.open(LAKE.path(source.name))
        if delta is not None and deleted_positions(delta):
            stored = read_table(SparkSession.active(), unquote(delta.table_uri), state_of(delta))
            return stored.select(*(column.name for column in source.columns))
        files = [unquote(uri) for uri in delta.file_uris()] if delta is not None else []
        schema = ", ".join(f"{column.name} {column.type}" for column in source.columns)
        return SparkSession.active().read.schema(schema).parquet(*files)


def _declare_view(table: Table) -> None:
    query = table.query.format_map({name: name for name in table.inputs})

    @pipelines.materialized_view(name=table.name, comment=table.doc, format="parquet")
    def rows() -> DataFrame:
        return SparkSession.active().sql(query)


for node in tables_of(LAKE):
    if isinstance(node, Table):
        _declare_view(node)
    else:
        _declare_source(node)
