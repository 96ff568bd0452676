"""The sessions of one Spark: that of the process, and further ones with settings for small jobs or for one table."""

import atexit
from collections.abc import Mapping
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING, Any

from medallion.spark.session import is_connect, new_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MAX_TASKS = 32  # per stage on a cluster of any size: a change is small, and a task's overhead exceeds the work in it


class Sessions:
    """The sessions that a process works with, each started on first use and shared by all threads.

    A warm Spark keeps a session until the session is stopped, so there is one per purpose and table, however many hours
    a process refreshes. full: the session of the process.
    """

    def __init__(self, full: "SparkSession") -> None:
        self.full = full
        self._small: dict[str, SparkSession] = {}
        self._of_tables: dict[str, SparkSession] = {}
        self._table_settings: dict[str, Mapping[str, str]] = {}
        self._starting = Lock()

    @property
    def small(self) -> "SparkSession":
        """The session for small jobs, for which adaptive query execution costs more than it saves."""
        return self._small_job_session("small", {})

    @property
    def single(self) -> "SparkSession":
        """Like ``small`` for rows that one task reads: joins and groups need no exchange."""
        return self._small_job_session("single", {"spark.sql.shuffle.partitions": "1"})

    @property
    def filewise(self) -> "SparkSession":
        """Like ``small`` with one task per file, so that replacing rows rewrites each file separately, merging none."""
        return self._small_job_session("filewise", {"spark.sql.files.openCostInBytes": str(128 << 20)})

    def for_table(self, table: str, settings: Mapping[str, str]) -> "SparkSession":
        """Return the session of ``table``, with ``settings`` instead of those of its last job.

        Only one job per table may run at a time.
        """
        with self._starting:
            if table not in self._of_tables:
                self._of_tables[table] = new_session(self.full)
            session, former = self._of_tables[table], self._table_settings.get(table, {})
            self._table_settings[table] = settings
        for name in former.keys() - settings.keys():
            session.conf.unset(name)
        for name, value in settings.items():
            session.conf.set(name, value)
        return session

    def stop(self) -> None:
        """Stop all sessions. Those of a JVM of this process stop together with ``full``."""
        for session in (*self._small.values(), *self._of_tables.values()):
            if is_connect(session):
                _release(session)
        self.full.stop()

    def forget_logs(self) -> None:
        """Clear Spark's cache of Delta logs, which may contain logs that no longer exist."""
        if not is_connect(self.full):
            jvm: Any = self.full._jvm
            jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()

    def _small_job_session(self, purpose: str, settings: Mapping[str, str]) -> "SparkSession":
        with self._starting:
            if purpose not in self._small:
                self._small[purpose] = new_session(self.full)
                _suit_small_jobs(self._small[purpose], settings)
            return self._small[purpose]


def _release(session: "SparkSession") -> None:
    """Release a cloned session if its warm Spark still runs; in pyspark 4.2 the stop() of a cloned session fails."""
    from pyspark.errors import PySparkException
    from pyspark.sql.connect.client.retries import DefaultPolicy

    atexit.unregister(session.client.close)
    session.client.set_retry_policies([DefaultPolicy(max_retries=1)])
    with suppress(PySparkException):
        session.client.release_session()
    session.client.close()


def _suit_small_jobs(session: "SparkSession", settings: Mapping[str, str]) -> None:
    session.conf.set("spark.sql.adaptive.enabled", "false")
    # Keep key values out of the generated code; otherwise the query would be compiled again every hour.
    session.conf.set("spark.sql.optimizer.inSetConversionThreshold", "0")
    session.conf.set("spark.sql.optimizer.inSetSwitchThreshold", "0")
    partitions = int(session.conf.get("spark.sql.shuffle.partitions") or MAX_TASKS)
    session.conf.set("spark.sql.shuffle.partitions", str(min(partitions, MAX_TASKS)))
    # Rows that this process passes to Spark become an RDD: Spark's optimizer would compare rows in a plan one by one.
    session.conf.set("spark.sql.execution.arrow.localRelationThreshold", "0")
    for name, value in settings.items():
        session.conf.set(name, value)
