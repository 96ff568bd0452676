"""The benchmark's count of Spark jobs."""

import time
from typing import TYPE_CHECKING

from bench.drivers import jobs_begun, jobs_submitted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_each_job_since_then_is_listed_with_its_time(spark: "SparkSession") -> None:
    spark.range(1).collect()
    begun, start = jobs_begun(spark), time.time()
    for rows in (10, 20):
        spark.range(rows, numPartitions=2).toDF("n").groupBy("n").count().collect()
    moments = jobs_submitted(spark, begun)
    assert len(moments) >= 2
    assert all(start - 0.01 <= moment <= time.time() for moment in moments)
    assert jobs_submitted(spark, jobs_begun(spark)) == []
