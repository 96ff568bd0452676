"""A session for small jobs: what adapts a plan while it runs costs more than it saves."""

from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING

from medallion.spark.session import new_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MAX_TASKS = 32  # of a stage, on a cluster however large: a change is small, and each task costs more than it carries


def small_job_session(spark: "SparkSession", *, filewise: bool = False) -> "SparkSession":
    """The session for small jobs, one for all threads of a process.

    filewise: one task per file, so that replacing rows leaves each file in its place and does not merge those it
    touches.
    """
    with _STARTING:  # a cache lets several threads that ask at once each start one
        return _small_job_session(spark, filewise)


@lru_cache(maxsize=2)
def _small_job_session(spark: "SparkSession", filewise: bool) -> "SparkSession":
    session = new_session(spark)
    session.conf.set("spark.sql.adaptive.enabled", "false")
    # Keys stay out of the code that is generated for a query: each hour's would be compiled anew.
    session.conf.set("spark.sql.optimizer.inSetConversionThreshold", "0")
    session.conf.set("spark.sql.optimizer.inSetSwitchThreshold", "0")
    partitions = int(session.conf.get("spark.sql.shuffle.partitions") or MAX_TASKS)
    session.conf.set("spark.sql.shuffle.partitions", str(min(partitions, MAX_TASKS)))
    if filewise:
        session.conf.set("spark.sql.files.openCostInBytes", str(128 << 20))
    return session


_STARTING = Lock()
