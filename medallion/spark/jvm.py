"""The JVM behind a session: when it started, and how much CPU it has used."""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import psutil

from medallion.spark.listener import PROCESS_SETTING
from medallion.spark.session import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def session_began() -> float:
    """Return when the start of this session began, in epoch seconds: under spark-submit, when its JVM was created."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return time.time()
    jvm = psutil.Process().parent()
    return time.time() if jvm is None else float(jvm.create_time())


class CpuClock:
    """CPU seconds that this process and its JVM have used; before the session starts, only those of this process."""

    def __init__(self) -> None:
        self._jvm: int | None = None
        self._before = self._used = 0.0

    def watch(self, spark: "SparkSession", tell: Callable[[int], None] | None = None) -> None:
        """Include the JVM behind ``spark`` from now on, and pass its process id to ``tell``."""
        jvm = jvm_of(spark)
        if jvm != self._jvm:
            # A warm Spark counts from now on; a JVM of our own counts including its start.
            self._jvm, self._before = jvm, _cpu_seconds(jvm) if is_connect(spark) else 0.0
        if tell is not None:
            tell(jvm)

    @property
    def process(self) -> int | None:
        """The process id of the JVM; None before the session starts."""
        return self._jvm

    def __call__(self) -> float:
        if self._jvm is not None:
            with suppress(psutil.NoSuchProcess):  # the JVM has exited: its usage at the last reading counts
                self._used = _cpu_seconds(self._jvm) - self._before
        return time.process_time() + self._used


def jvm_of(spark: "SparkSession") -> int:
    """Return the process id of the JVM behind ``spark``, which runs on this machine."""
    if not is_connect(spark):
        return int(spark._jvm.java.lang.ProcessHandle.current().pid())  # type: ignore[union-attr]
    return int(spark.conf.get(PROCESS_SETTING, "0") or 0)


def _cpu_seconds(process: int) -> float:
    used = psutil.Process(process).cpu_times()
    return float(used.user + used.system)
