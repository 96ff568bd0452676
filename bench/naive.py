"""The baseline: every table from temp views over Bronze, as one would write it first."""

import time
from typing import TYPE_CHECKING

from spark_jobs.core.lake import Lake
from spark_jobs.core.registry import Registry
from spark_jobs.core.table import LAYERS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Four partitions for shuffles and for Delta's state; everything else as Spark has it by default.
SETTINGS = {
    "spark.sql.shuffle.partitions": "4",
    "spark.databricks.delta.snapshotPartitions": "4",
}


def refresh_naive(spark: "SparkSession", bronze: Lake, target: Lake, tables: Registry) -> dict[str, float]:
    """Overwrite every Silver and Gold table under ``target`` from the Bronze of ``bronze``.

    Each table is a view over other views, so what two tables share is computed twice. Returns seconds by table.
    """
    for feed in tables.feeds:
        spark.read.format("delta").load(bronze.path(feed.name)).createOrReplaceTempView(feed.name)
    seconds = {}
    for layer in LAYERS[1:]:
        for table in tables.queries(layer):
            start = time.perf_counter()
            rows = spark.sql(table.query.format(**{name: name for name in table.inputs}))
            rows.createOrReplaceTempView(table.name)
            rows.write.format("delta").mode("overwrite").save(target.path(table.name))
            seconds[table.name] = time.perf_counter() - start
    return seconds
