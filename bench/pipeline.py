"""Our tables as a Spark Declarative Pipeline: read by spark-pipelines, of the lake in MEDALLION_LAKE.

Bronze is read as the Parquet files that its Delta log names, and views are written as Parquet: the pipelines of Spark
4.2 do not read the Delta tables that they write.
"""

from pyspark import pipelines
from pyspark.sql import DataFrame, SparkSession

from spark_jobs.core.lake import Lake
from spark_jobs.core.registry import registry
from spark_jobs.core.settings import Settings
from spark_jobs.core.table import Feed, Table

LAKE = Lake(Settings.from_environment().lake)


def _declare_feed(feed: Feed) -> None:
    @pipelines.temporary_view(name=feed.name)
    def rows() -> DataFrame:
        delta = LAKE.open(LAKE.path(feed.name))
        files = delta.file_uris() if delta is not None else []
        schema = ", ".join(f"{column.name} {column.type}" for column in feed.columns)
        return SparkSession.active().read.schema(schema).parquet(*files)


def _declare_table(table: Table) -> None:
    query = table.query.format_map({name: name for name in table.inputs})

    @pipelines.materialized_view(name=table.name, format="parquet")
    def rows() -> DataFrame:
        return SparkSession.active().sql(query)


for node in registry():
    if isinstance(node, Feed):
        _declare_feed(node)
    else:
        _declare_table(node)
