"""Detect a JVM that is short of a resource, and replace the JVM of a warm Spark."""

import time
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import psutil

from medallion.errors import MedallionError
from medallion.settings import Settings
from medallion.spark.jvm import jvm_of
from medallion.spark.jvm_usage import Unasked, jvm_usage, shortage
from medallion.spark.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ENDING_SECONDS = 30.0  # for a warm Spark to exit after SIGTERM
_RESTART_SECONDS = 180.0  # until its successor listens


def shortage_of(process: int | None) -> str:
    """Say what the JVM with this process id is short of; empty if nothing, or if it returns no figures."""
    try:
        return shortage(jvm_usage(process)) if process else ""
    except Unasked:
        return ""


def attached(settings: Settings) -> "tuple[SparkSession, str]":
    """Return a session, and what the warm Spark was short of if it had to be restarted; empty if it was not.

    A warm Spark that is short of something is stopped, and ``medallion spark-server`` starts its successor, unless
    other processes are connected to it. Call this at the beginning of a step that holds the writer lock of its lake.
    """
    spark = spark_session(settings)
    if not settings.spark_connect:
        return spark, ""
    process = jvm_of(spark)
    short = shortage_of(process)
    try:
        if not short or not _is_kept(process) or _has_others(process, urlsplit(settings.spark_connect).port or 0):
            return spark, ""
    except psutil.Error:  # it has exited meanwhile, or belongs to another user
        return spark, ""
    spark.stop()
    _end(process)
    deadline = time.monotonic() + _RESTART_SECONDS
    while True:
        try:
            return spark_session(settings), short
        except MedallionError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def _end(process: int) -> None:
    """Stop a warm Spark: give it _ENDING_SECONDS to exit cleanly, then kill it."""
    with suppress(psutil.NoSuchProcess):
        jvm = psutil.Process(process)
        jvm.terminate()
        _, alive = psutil.wait_procs([jvm], timeout=_ENDING_SECONDS)
        for left in alive:
            left.kill()
            left.wait()


def _is_kept(process: int) -> bool:
    """Return whether the parent process is ``medallion spark-server``, which restarts a warm Spark that exits."""
    keeper = psutil.Process(process).parent()
    return keeper is not None and "spark-server" in keeper.cmdline()


def _has_others(process: int, port: int) -> bool:
    """Return whether any process other than this one is connected to the warm Spark."""
    connected = {
        entry.raddr.port
        for entry in psutil.Process(process).net_connections("tcp")
        if entry.status == psutil.CONN_ESTABLISHED and entry.laddr.port == port
    }
    own = {entry.laddr.port for entry in psutil.Process().net_connections("tcp")}
    return bool(connected - own)
