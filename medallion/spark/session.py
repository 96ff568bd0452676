"""The Spark session: one place for every setting, and what each is for. Imports pyspark only when asked."""

import atexit
import os
import socket
import sys
import sysconfig
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from medallion.errors import MedallionError
from medallion.settings import PROJECT, Settings, bytes_of
from medallion.spark.class_archive import archive_options, class_path
from medallion.spark.java import java_home
from medallion.spark.listener import PROCESS_SETTING, require_own_server
from medallion.storage.files import in_bucket
from medallion.storage.log_cleanup import LOG_CLEANUP
from medallion.storage.s3 import S3Access

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

TOKEN_VARIABLE = "SPARK_CONNECT_AUTHENTICATE_TOKEN"  # noqa: S105 (where the secret of a warm Spark is)
CONNECT_TIMEOUT_SECONDS = 30.0  # for a warm Spark, or a master, that is being started

LOG_SETTINGS = PROJECT / "medallion" / "spark" / "log4j2.properties"

# Each table's own properties, given when it is created.
TABLE_PROPERTIES = {
    # Every reader can open the files: DuckDB, pandas and delta-rs do not apply deletion vectors.
    "delta.enableDeletionVectors": "false",
    # Incremental consumers read what changed; overwrites derive it at no cost.
    "delta.enableChangeDataFeed": "true",
    # A checkpoint of a small log costs more than replaying the log.
    "delta.checkpointInterval": "50",
    # Upkeep removes old log entries: Delta's own clean-up knows nothing of the versions that releases name.
    LOG_CLEANUP: "false",
}

# What makes a small lake fast; docs/explanation/performance.md has the measurements.
TUNING = {
    # One task per core: an hour's work is small, and each task costs more than it carries.
    "spark.sql.shuffle.partitions": str(max(2, os.cpu_count() or 2)),
    "spark.databricks.delta.snapshotPartitions": "1",
    # A driver that lives for hours keeps the log of each table in memory between two of them, and the code that was
    # generated for each query: an hour needs some 300 classes, and one that was evicted is compiled from its source
    # again, and by the JIT again.
    "spark.databricks.delta.delta.log.cacheRetentionMinutes": "180",
    "spark.sql.codegen.cache.maxEntries": "5000",
    # Products, customers and suppliers fit in memory at this size: join without a shuffle.
    "spark.sql.autoBroadcastJoinThreshold": "64m",
    "spark.sql.join.preferSortMergeJoin": "false",
    # Tables are read by the files that their log names: looking these up here beats a job to do so.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "5000",
    # Each broadcast table and each task's map begins with a page of this size. The default, 64 MB here, fills the heap
    # with room that a small table never needs, and every hour pays for a full collection.
    "spark.buffer.pageSize": "2m",
    # A column of ids gives up its dictionary after 16,000 of them instead of 131,000; names and categories keep theirs.
    "spark.hadoop.parquet.dictionary.page.size": str(128 * 1024),
}
JAVA_TUNING = "-XX:+UseParallelGC"

EXECUTOR_TIMEOUT_SECONDS = 60.0  # for the first executor of a cluster
EXECUTOR_SETTLE_SECONDS = 1.0  # without a further executor: then the present ones count as the cluster


def submit_conf(settings: Settings, master: str) -> dict[str, str]:
    """The Spark settings of a driver on ``master``, for spark-submit's ``--conf`` as for a session of our own.

    Raises MedallionError when Delta's JARs have not been fetched.
    """
    needed = needed_conf(settings, master)
    options = "spark.driver.extraJavaOptions"
    java = " ".join(filter(None, (needed[options], JAVA_TUNING, archive_options(settings.jars))))
    return {**needed, **TUNING, options: java}


def cluster_conf(cores: int, memory: Iterable[str]) -> dict[str, str]:
    """Return the settings of a session on a cluster, which replace those for a laptop.

    cores: tasks that run at a time. memory: the heap of the driver, and of an executor.
    """
    return {
        "spark.sql.shuffle.partitions": str(cores),
        # A full refresh shuffles in smaller pieces, so that none spills, and puts neighbours together until they are
        # worth a task and a file; by default it would rather keep every core busy, and leave a small file for each.
        "spark.sql.adaptive.coalescePartitions.initialPartitionNum": str(4 * cores),
        "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
        # The driver makes what is broadcast and every executor keeps it, several at a time, and ten times as large as
        # its files: 64 MB for 4 GB.
        "spark.sql.autoBroadcastJoinThreshold": str(min(bytes_of(heap) for heap in memory) // 64),
    }


def is_local(master: str) -> bool:
    """Whether driver and executors are one process."""
    return master.startswith("local")


def _on_loopback(master: str) -> bool:
    host = urlsplit(master).hostname or ""
    return is_local(master) or (master.startswith("spark://") and (host == "localhost" or host.startswith("127.")))


def needed_conf(settings: Settings, master: str) -> dict[str, str]:
    """Return the settings that any session on this lake needs to work at all.

    Raises MedallionError when Delta's JARs have not been fetched.
    """
    delta = class_path(settings.jars)
    jars = [] if is_local(master) else list(delta)
    if not delta:
        raise MedallionError(f"no JARs in {settings.jars}: fetch them with make setup, or set MEDALLION_JARS")
    host = "127.0.0.1" if _on_loopback(master) else settings.driver_host
    bucket = _bucket_conf(settings) if in_bucket(settings.lake) else {}
    if bucket:
        more = sorted(Path(settings.jars, "s3").glob("*.jar"))
        if not more:
            raise MedallionError(f"no JARs for s3a:// in {settings.jars}/s3: fetch them with make setup-s3")
        jars += more
    return {
        **({"spark.driver.bindAddress": host, "spark.driver.host": host} if host else {}),
        # Other users of this machine must not reach the driver: on a local master Spark draws a secret itself and
        # keeps it in memory. A cluster has one of its own, in its spark-defaults.conf.
        **({"spark.authenticate": "true"} if is_local(master) else _executors(settings)),
        # On the class path, and not fetched by the driver from itself: only what is there can be in the class archive.
        "spark.driver.extraClassPath": ":".join(str(jar.absolute()) for jar in delta),
        **({"spark.jars": ",".join(str(jar) for jar in jars)} if jars else {}),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.driver.memory": settings.driver_memory,
        # In UTC alone does Delta keep its state between commits; any other zone rebuilds it each time.
        "spark.driver.extraJavaOptions": (
            "-Duser.timezone=UTC"
            f" -Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()} -Dmedallion.log={settings.spark_log}"
        ),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        # No table of ours is in it; by default Spark makes a folder wherever it is started.
        "spark.sql.warehouse.dir": Path(gettempdir(), "medallion-spark-warehouse").as_uri(),
        **bucket,
    }


def _executors(settings: Settings) -> dict[str, str]:
    """What the executors of a cluster are given; the JARs, and no Python: what runs there is Spark's own."""
    cores = {"spark.executor.cores": settings.executor_cores, "spark.cores.max": settings.max_cores}
    return {
        "spark.executor.memory": settings.executor_memory,
        "spark.executor.extraJavaOptions": "-Duser.timezone=UTC",
        **{name: str(number) for name, number in cores.items() if number is not None},
    }


def _bucket_conf(settings: Settings) -> dict[str, str]:
    """How Spark reaches a lake in a bucket: as delta-rs and we do."""
    endpoint = settings.s3_endpoint
    own = {
        "fs.s3a.endpoint": endpoint or "",
        "fs.s3a.path.style.access": "true",
        "fs.s3a.connection.ssl.enabled": str(not (endpoint or "").startswith("http://")).lower(),
    }
    wanted = {
        **(own if endpoint else {}),
        "fs.s3a.endpoint.region": S3Access.of(settings).region_name,
        # The chain that AWS's other tools have; Hadoop's own leaves out ~/.aws.
        "fs.s3a.aws.credentials.provider": "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider",
        "fs.s3a.connection.timeout": f"{max(1, round(settings.s3_timeout))}s",
        # Reads of Parquet jump about; the other streams prefetch what is not wanted, by a client of their own.
        "fs.s3a.input.stream.type": "classic",
        "fs.s3a.experimental.input.fadvise": "random",
    }
    # It looks whether a version is there and then writes it, which is safe for one writer: see docs/adr/0014.
    store = {"spark.delta.logStore.s3a.impl": "io.delta.storage.S3SingleDriverLogStore"}
    return {f"spark.hadoop.{name}": value for name, value in wanted.items()} | store


def spark_session(settings: Settings, name: str = "medallion", conf: Mapping[str, str] | None = None) -> "SparkSession":
    """The session of this process: one of the warm Spark at ``spark_connect``, where the settings name one; else the
    one that spark-submit configured, or a new one on ``spark_master``.

    conf: what a new one is given, where that is not ``submit_conf``.

    Raises MedallionError when there is no Java, or Spark cannot start or does not answer.
    """
    if settings.spark_connect:
        return _attached(settings.spark_connect)
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(name)
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # spark-submit sets it for the driver it configured
        require_master(settings.spark_master)
        builder = builder.master(settings.spark_master)
        for key, value in (conf or submit_conf(settings, settings.spark_master)).items():
            builder = builder.config(key, value)
    try:
        with lent_to_children(_jvm_variables(settings.spark_master)):
            session = builder.getOrCreate()
    except socket.gaierror as error:
        raise MedallionError(
            f"this machine does not know the name localhost, which Spark needs ({error.strerror}): add the line"
            " '127.0.0.1 localhost' to /etc/hosts"
        ) from error
    except (PySparkRuntimeError, Py4JError) as error:
        raise MedallionError(f"Spark did not start on {settings.spark_master}: {_in_short(error)}") from error
    _suit(session)
    return session


def _jvm_variables(master: str) -> dict[str, str]:
    """Return the variables that a JVM on ``master`` and the Python processes that it starts need."""
    local = {"SPARK_LOCAL_IP": "127.0.0.1"} if _on_loopback(master) else {}
    return {"PYSPARK_PYTHON": sys.executable, **local, **os.environ, "JAVA_HOME": str(java_home())}


@contextmanager
def lent_to_children(variables: Mapping[str, str]) -> Iterator[None]:
    """Have processes that start in the block see ``variables``, and nobody after it.

    pyspark starts its JVM with a copy of os.environ: launch_gateway overwrites an ``env`` that it is given, and none of
    these variables has a setting in SparkConf.
    """
    former = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables.keys() - former.keys():
            del os.environ[name]
        os.environ.update(former)


def _suit(spark: "SparkSession") -> None:
    """Apply the settings that follow from a cluster's size.

    Raises MedallionError when the cluster has no room for an executor.
    """
    master = spark.conf.get("spark.master") or ""
    if is_local(master):
        return
    memory = [spark.conf.get(f"spark.{process}.memory", "1g") or "" for process in ("driver", "executor")]
    for name, value in cluster_conf(cluster_cores(spark), memory).items():
        spark.conf.set(name, value)


def cluster_cores(spark: "SparkSession") -> int:
    """Count the tasks that the cluster behind a session runs at a time."""
    if hasattr(spark, "_jvm"):
        return _cores_of(spark.sparkContext)
    from pyspark.sql import functions as F

    return spark.range(1_000_000).select(F.spark_partition_id()).distinct().count()


@cache
def _cores_of(context: "SparkContext") -> int:
    """Count the same for a driver in this process, once its executors have registered."""
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


def _attached(url: str) -> "SparkSession":
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
        spark.version  # noqa: B018 (asks the server: whether the token is right)
    except PySparkException as error:
        raise MedallionError(
            f"the Spark at {url} refuses: {_in_short(error)}; is {TOKEN_VARIABLE} the one that it was started with?"
        ) from error
    _close_in_time(spark)
    _suit(spark)
    return spark


def _close_in_time(spark: "SparkSession") -> None:
    """Have the connection closed when this process ends: any later, and gRPC waits for threads that are gone."""
    atexit.register(spark.client.close)


def require_master(master: str) -> None:
    """Raises MedallionError when ``master`` is of a standalone cluster and does not answer: Spark would say it later,
    and as a stopped context."""
    if master.startswith("spark://"):
        what = f"no Spark master answers at {master}"
        _require_listening(master.removeprefix("spark://"), what, "see spark_default, or MEDALLION_SPARK_MASTER")


def _require_listening(places: str, what: str, hint: str) -> None:
    """Wait until one of ``places``, with commas between them, takes connections; it may be being started."""
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


def spark_home() -> Path:
    """Return where Spark is installed; its scripts' own search splits a path at spaces."""
    return Path(sysconfig.get_path("purelib"), "pyspark")


def new_session(spark: "SparkSession") -> "SparkSession":
    """Start a session of the same Spark with its own settings."""
    if hasattr(spark, "newSession"):
        new = spark.newSession()
        _suit(new)
        return new
    session: SparkSession = spark.cloneSession()  # type: ignore[attr-defined]
    _close_in_time(session)
    return session


@contextmanager
def explained(what: str) -> Iterator[None]:
    """Errors of Spark in the block become one line that begins with ``what``; the whole is their cause."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise MedallionError(f"{what}: {_in_short(error)}") from error


def _in_short(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[:3])[:600]


def session_began() -> float:
    """When this session began to start, in seconds since the epoch: with its JVM where spark-submit started that."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return time.time()
    import psutil

    jvm = psutil.Process().parent()
    return time.time() if jvm is None else float(jvm.create_time())


class CpuClock:
    """CPU seconds that this process and its JVM have used. Before the session starts: this process alone."""

    def __init__(self) -> None:
        self._jvm: int | None = None
        self._before = self._used = 0.0

    def watch(self, spark: "SparkSession", tell: Callable[[int], None] | None = None) -> None:
        """Count the JVM behind ``spark`` from now on, and ``tell`` its process id."""
        jvm = _jvm_of(spark)
        if jvm != self._jvm:
            # One that was there before counts from now on; one of our own, for all that it took to start it.
            self._jvm, self._before = jvm, 0.0 if hasattr(spark, "_jvm") else _cpu_seconds(jvm)
        if tell is not None:
            tell(jvm)

    def __call__(self) -> float:
        import psutil

        if self._jvm is not None:
            with suppress(psutil.NoSuchProcess):  # a warm Spark that has died: what it had used at the last look counts
                self._used = _cpu_seconds(self._jvm) - self._before
        return time.process_time() + self._used


def _jvm_of(spark: "SparkSession") -> int:
    """The process id of the JVM behind ``spark``, which runs on this machine."""
    if hasattr(spark, "_jvm"):
        return int(spark._jvm.java.lang.ProcessHandle.current().pid())  # type: ignore[union-attr]
    return int(spark.conf.get(PROCESS_SETTING, "0") or 0)


def _cpu_seconds(process: int) -> float:
    import psutil

    used = psutil.Process(process).cpu_times()
    return float(used.user + used.system)


def in_parallel() -> ThreadPoolExecutor:
    """Threads for independent tables side by side: as many as keep the cores of this machine busy between stages."""
    return ThreadPoolExecutor(max_workers=min(4, max(2, os.cpu_count() or 2)))
