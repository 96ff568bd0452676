"""The Spark session of a process: its own, one of the warm Spark, or spark-submit's. Imports pyspark only on use."""

import atexit
import logging
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from medallion.errors import MedallionError
from medallion.settings import Settings
from medallion.spark.configuration import cluster_conf, is_local, submit_conf
from medallion.spark.listener import require_own_server
from medallion.spark.own_jvm import JvmDidNotStart, end_of_jvm, start_jvm, with_words
from medallion.spark.surroundings import REMOTES, ignored, require_open_files, spark_environment

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_LOGGER = logging.getLogger(__name__)
T = TypeVar("T")

TOKEN_VARIABLE = "SPARK_CONNECT_AUTHENTICATE_TOKEN"  # noqa: S105 (where the secret of a warm Spark is)
CONNECT_TIMEOUT_SECONDS = 30.0  # for a warm Spark or a master that is still starting

_ENDING_SECONDS = 2.0  # for a JVM that no longer answers to exit

EXECUTOR_TIMEOUT_SECONDS = 60.0  # for the first executor of a cluster
EXECUTOR_SETTLE_SECONDS = 1.0  # without a new executor, after which the present ones count as the whole cluster


def spark_session(settings: Settings, name: str = "medallion", conf: Mapping[str, str] | None = None) -> "SparkSession":
    """Return the session of this process.

    It is a session of the warm Spark at ``spark_connect`` if the settings name one; else the session that spark-submit
    configured, or a new one on ``spark_master``.

    conf: the settings of a new session instead of ``submit_conf``.

    Raises MedallionError if there is no Java, or Spark cannot start or does not answer.
    """
    if settings.spark_connect:
        _silence_query_errors()
        return _attach(settings.spark_connect)
    _require_own_spark(settings.spark_master)
    _silence_query_errors()
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(name)
    try:
        if "PYSPARK_GATEWAY_PORT" not in os.environ:  # spark-submit sets it for the driver it configured
            require_master(settings.spark_master)
            builder = builder.master(settings.spark_master)
            conf = {"spark.master": settings.spark_master, **(conf or submit_conf(settings, settings.spark_master))}
            for key, value in conf.items():
                builder = builder.config(key, value)
            with lent_to_children(_jvm_variables(settings.spark_master)):
                start_jvm(conf)
        session = builder.getOrCreate()
    except JvmDidNotStart as error:
        failure = MedallionError(f"Spark did not start on {settings.spark_master}: {error}")
        raise with_words(failure, error.words) from error
    except socket.gaierror as error:
        raise MedallionError(
            f"this machine does not know the name localhost, which Spark needs ({error.strerror}): add the line"
            " '127.0.0.1 localhost' to /etc/hosts"
        ) from error
    except (PySparkRuntimeError, Py4JError) as error:
        raise MedallionError(f"Spark did not start on {settings.spark_master}: {_in_short(error)}") from error
    _suit(session)
    return session


def _require_own_spark(master: str) -> None:
    """Ignore variables that the shell has set for a Spark other than the one installed with this package.

    Raises MedallionError if a process may not open as many files as Spark needs.
    """
    require_open_files()
    if others := ignored(os.environ, spark_environment(master, os.environ)):
        _say_once(others)
    for variable in REMOTES:  # pyspark may read these at any time
        os.environ.pop(variable, None)


@cache
def _say_once(message: str) -> None:
    _LOGGER.warning("%s", message)


def _silence_query_errors() -> None:
    """Keep pyspark from printing each query error with the JVM's stack trace; callers report it in one line."""
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True


def _jvm_variables(master: str) -> dict[str, str | None]:
    """Return the variables for a JVM on ``master`` and its Python processes; None for a variable to remove."""
    needed = spark_environment(master, os.environ)
    return {**dict.fromkeys(os.environ.keys() - needed.keys()), **needed}


@contextmanager
def lent_to_children(variables: Mapping[str, str | None]) -> Iterator[None]:
    """Set ``variables`` in os.environ during the block, for processes that start in it; None removes a variable.

    pyspark starts its JVM with a copy of os.environ: launch_gateway overwrites an ``env`` that it gets, and none of
    these variables has a setting in SparkConf.
    """
    former = dict(os.environ)
    for name, value in variables.items():
        if value is not None:
            os.environ[name] = value
        else:
            os.environ.pop(name, None)
    try:
        yield
    finally:
        for name in variables.keys() - former.keys():
            os.environ.pop(name, None)
        os.environ.update(former)


def _suit(spark: "SparkSession") -> None:
    """Apply the settings that depend on the size of the cluster.

    Raises MedallionError if the cluster provides no executor.
    """
    master = spark.conf.get("spark.master") or ""
    if is_local(master):
        return
    memory = [spark.conf.get(f"spark.{process}.memory", "1g") or "" for process in ("driver", "executor")]
    for name, value in cluster_conf(cluster_cores(spark), memory).items():
        spark.conf.set(name, value)


def cluster_cores(spark: "SparkSession") -> int:
    """Return the number of tasks that the cluster behind a session runs at a time."""
    if not is_connect(spark):
        return _cores_of(spark.sparkContext)
    from pyspark.sql import functions as F

    return spark.range(1_000_000).select(F.spark_partition_id()).distinct().count()


@cache
def _cores_of(context: "SparkContext") -> int:
    """Return this number for a driver in this process, once its executors have registered."""
    tracker: Any = context._jsc.sc().statusTracker()
    began = since = time.monotonic()
    executors = 0
    while executors == 0 or time.monotonic() < since + EXECUTOR_SETTLE_SECONDS:
        running = len(tracker.getExecutorInfos()) - 1  # the driver is among them
        if running != executors:
            executors, since = running, time.monotonic()
        if executors == 0 and time.monotonic() > began + EXECUTOR_TIMEOUT_SECONDS:
            memory = context.getConf().get("spark.executor.memory")
            raise MedallionError(
                f"{context.master} has given no executor within {EXECUTOR_TIMEOUT_SECONDS:.0f} s: check that its"
                f" workers run and have {memory} of memory (MEDALLION_EXECUTOR_MEMORY) and a core free"
            )
        time.sleep(0.05)
    return context.defaultParallelism


def _attach(url: str) -> "SparkSession":
    _require_listening(
        urlsplit(url).netloc,
        f"no Spark answers at {url}",
        "medallion spark-server starts one; without MEDALLION_SPARK_CONNECT each process starts its own",
    )
    require_own_server(urlsplit(url).port or 0)
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession
    from pyspark.sql.connect.client.retries import DefaultPolicy

    try:
        spark = SparkSession.builder.remote(url).getOrCreate()
        spark.client.set_retry_policies([DefaultPolicy(max_retries=5, max_backoff=2000)])
        spark.version  # noqa: B018 (calls the server, which verifies the token)
    except PySparkException as error:
        raise MedallionError(
            f"the Spark at {url} refuses: {_in_short(error)}; is {TOKEN_VARIABLE} the one that it was started with?"
        ) from error
    _close_in_time(spark)
    _suit(spark)
    return spark


def _close_in_time(spark: "SparkSession") -> None:
    """Close the connection when this process exits; any later, gRPC waits for threads that no longer exist."""
    atexit.register(spark.client.close)


def require_master(master: str) -> None:
    """Raise MedallionError if ``master`` is a standalone cluster that does not answer.

    Spark itself would report it later, and as a stopped context.
    """
    if master.startswith("spark://"):
        what = f"no Spark master answers at {master}"
        _require_listening(master.removeprefix("spark://"), what, "see spark_default, or MEDALLION_SPARK_MASTER")


def _require_listening(places: str, what: str, hint: str) -> None:
    """Wait until one of ``places``, which are separated by commas, accepts connections; it may still be starting."""
    addresses = [urlsplit(f"//{place}") for place in places.split(",")]
    deadline = time.monotonic() + CONNECT_TIMEOUT_SECONDS
    while True:
        for address in addresses:
            try:
                socket.create_connection((address.hostname or "", address.port or 0), timeout=5).close()
                return
            except OSError as error:
                if time.monotonic() > deadline:
                    raise MedallionError(f"{what} ({error}): {hint}") from None
        time.sleep(0.2)


def is_connect(spark: "SparkSession") -> bool:
    """Return whether a session belongs to a warm Spark, whose JVM is another process."""
    return not hasattr(spark, "_jvm")


def new_session(spark: "SparkSession") -> "SparkSession":
    """Start another session of the same Spark, with its own settings."""
    if not is_connect(spark):
        new = spark.newSession()
        _suit(new)
        return new
    session: SparkSession = spark.cloneSession()  # type: ignore[attr-defined]
    _close_in_time(session)
    return session


@contextmanager
def explained(what: str) -> Iterator[None]:
    """Turn Spark errors in the block into one line that begins with ``what``; the original error is the cause."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError, ConnectionError) as error:
        lost = not isinstance(error, PySparkException)  # a PySparkException is the answer of a JVM that still runs
        if lost and (end := end_of_jvm(_ENDING_SECONDS)) is not None:
            raise MedallionError(f"{what}: {end}") from error
        if isinstance(error, ConnectionError):
            raise
        raise MedallionError.quoting(what, f": {_in_short(error)}") from error


def _in_short(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[:3])[:600]


class _Pool(ThreadPoolExecutor):
    """Threads that inherit the context variables of the thread that submits the work, such as the active project."""

    def submit(self, work: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        return super().submit(copy_context().run, work, *args, **kwargs)


def in_parallel() -> ThreadPoolExecutor:
    """Return a thread pool for independent tables, large enough to keep this machine's cores busy between stages."""
    return _Pool(max_workers=min(4, max(2, os.cpu_count() or 2)))
