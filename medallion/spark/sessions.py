"""The sessions of one Spark: the one of the process, and those with settings that small jobs or one job need."""

from collections.abc import Mapping
from threading import Lock
from typing import TYPE_CHECKING, Any

from medallion.spark.session import is_connect, new_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MAX_TASKS = 32  # of a stage, on a cluster however large: a change is small, and each task costs more than it carries


class Sessions:
    """The sessions that a process works with, each started when it is first used, once for all threads.

    full: the session of the process.
    """

    def __init__(self, full: "SparkSession") -> None:
        self.full = full
        self._small: dict[bool, SparkSession] = {}
        self._starting = Lock()

    @property
    def small(self) -> "SparkSession":
        """For small jobs: what adapts a plan while it runs costs them more than it saves."""
        return self._small_job_session(filewise=False)

    @property
    def filewise(self) -> "SparkSession":
        """The same with one task per file, so that replacing rows leaves each file in its place and merges none."""
        return self._small_job_session(filewise=True)

    def forget_logs(self) -> None:
        """Let Spark read every Delta log anew: it remembers those that are no longer there."""
        if not is_connect(self.full):
            jvm: Any = self.full._jvm
            jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()

    def _small_job_session(self, *, filewise: bool) -> "SparkSession":
        with self._starting:
            if filewise not in self._small:
                self._small[filewise] = new_session(self.full)
                _suit_small_jobs(self._small[filewise], filewise=filewise)
            return self._small[filewise]


def _suit_small_jobs(session: "SparkSession", *, filewise: bool) -> None:
    session.conf.set("spark.sql.adaptive.enabled", "false")
    # Keys stay out of the code that is generated for a query: each hour's would be compiled anew.
    session.conf.set("spark.sql.optimizer.inSetConversionThreshold", "0")
    session.conf.set("spark.sql.optimizer.inSetSwitchThreshold", "0")
    partitions = int(session.conf.get("spark.sql.shuffle.partitions") or MAX_TASKS)
    session.conf.set("spark.sql.shuffle.partitions", str(min(partitions, MAX_TASKS)))
    if filewise:
        session.conf.set("spark.sql.files.openCostInBytes", str(128 << 20))


def session_with(spark: "SparkSession", settings: Mapping[str, str]) -> "SparkSession":
    """Start a session of the same Spark for one job that needs ``settings`` of its own."""
    session = new_session(spark)
    for name, value in settings.items():
        session.conf.set(name, value)
    return session
