"""Every setting of a Spark session, and the reason for each. Does not import pyspark."""

import logging
import os
from collections.abc import Iterable
from pathlib import Path
from tempfile import gettempdir
from urllib.parse import urlsplit

from medallion.settings import Settings, bytes_of
from medallion.spark.class_archive import archive_options
from medallion.spark.jars import LOCK, S3_LOCK, require_jars, spark_home
from medallion.spark.java import java_home
from medallion.storage.files import in_bucket
from medallion.storage.log_cleanup import LOG_CLEANUP
from medallion.storage.log_writer import CHECKPOINTS
from medallion.storage.s3 import S3Access

LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")

_WITHOUT_BOUNDS = frozenset(("boolean", "binary"))  # types of which Delta keeps no bounds in statistics

# Properties that each table gets when it is created.
TABLE_PROPERTIES = {
    # Off, so that every reader can open small tables. The first row that this engine marks as deleted in a larger one
    # (MEDALLION_MERGE_ON_READ) switches them on. Spark would mark rows without a change file.
    "delta.enableDeletionVectors": "false",
    # Incremental consumers read the changes; for overwrites they are derived at no cost.
    "delta.enableChangeDataFeed": "true",
    **CHECKPOINTS,
    # Maintenance removes old log entries, because Delta's own clean-up does not know which versions releases refer to.
    LOG_CLEANUP: "false",
}

BOUNDED = "delta.dataSkippingStatsColumns"  # the property that names the columns with bounds in each file


def table_properties(pruned_by: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the properties of a new table by whose columns ``pruned_by``, with their types, files can be skipped.

    Delta keeps no bounds of booleans, and refuses the property for one; without the property it keeps those of the
    first columns.
    """
    names = [name for name, kind in dict(pruned_by).items() if kind.lower() not in _WITHOUT_BOUNDS]
    return TABLE_PROPERTIES | ({BOUNDED: ",".join(names)} if names else {})


# Settings that make a small lake fast; docs/explanation/performance.md has the measurements.
TUNING = {
    # Spark writes no change data file for rows that it marks as deleted, so downstream tables would be recomputed.
    "spark.databricks.delta.delete.deletionVectors.persistent": "false",
    "spark.databricks.delta.update.deletionVectors.persistent": "false",
    "spark.databricks.delta.merge.deletionVectors.persistent": "false",
    # One task per core: the work of an hour is small, and the overhead of a task exceeds the work in it.
    "spark.sql.shuffle.partitions": str(max(2, os.cpu_count() or 2)),
    "spark.databricks.delta.snapshotPartitions": "1",
    # A long-lived driver keeps two things between hourly refreshes: the log of each table, and the code generated for
    # each query. A refresh needs some 300 generated classes; an evicted one has to be compiled from source again, and
    # then again by the JIT.
    "spark.databricks.delta.delta.log.cacheRetentionMinutes": "180",
    "spark.sql.codegen.cache.maxEntries": "5000",
    # At this size products, customers and suppliers are broadcast, so that joins need no shuffle.
    "spark.sql.autoBroadcastJoinThreshold": "64m",
    "spark.sql.join.preferSortMergeJoin": "false",
    # Tables are read by the files that their log lists: looking these up in the driver is faster than a Spark job.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "5000",
    # Somebody's VACUUM lists the files of a table in so many tasks; the default is 10,000, which take two minutes here.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": str(4 * (os.cpu_count() or 2)),
    # Each broadcast table and each task's hash map starts with a page of this size. The default, 64 MB here, fills the
    # heap with space that a small table never needs, and causes a full garbage collection every hour.
    "spark.buffer.pageSize": "2m",
    # The type that Delta's protocol asks for. Spark's default, INT96, is slower to read and has no min/max statistics.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # A column of ids falls back from its dictionary after 16,000 values instead of 131,000; names and categories keep
    # theirs.
    "spark.hadoop.parquet.dictionary.page.size": str(128 * 1024),
}
# Calls, or rounds of a loop, after which the C2 compiler compiles a method: 20 times the JVM's defaults. Planning calls
# thousands of methods a few thousand times, which gains less than C2 costs; loops over rows get there at once.
_C2_THRESHOLDS = {"Invocation": 100_000, "MinInvocation": 12_000, "Compile": 300_000, "BackEdge": 800_000}
JAVA_TUNING = " ".join(
    ("-XX:+UseParallelGC", *(f"-XX:Tier4{name}Threshold={count}" for name, count in _C2_THRESHOLDS.items()))
)

# Address space for JIT-compiled code: reserved, not committed. The default is 240 MB, or 48 MB without the C2 compiler.
# The queries of many tables fill that; then the JVM compiles nothing more, and exits when it needs more.
CODE_CACHE = "-XX:ReservedCodeCacheSize=512m"


def submit_conf(settings: Settings, master: str, java_options: str = "") -> dict[str, str]:
    """Return the Spark settings of a driver on ``master``, for spark-submit's ``--conf`` or for a session of our own.

    java_options: options of its JVM, in addition to those that every driver has.

    Raises MedallionError if Delta's JARs are missing and cannot be fetched.
    """
    needed = needed_conf(settings, master)
    options = "spark.driver.extraJavaOptions"
    java = " ".join(filter(None, (needed[options], JAVA_TUNING, archive_options(settings.jars), java_options)))
    return {**needed, **TUNING, options: java}


def cluster_conf(cores: int, memory: Iterable[str]) -> dict[str, str]:
    """Return the settings of a session on a cluster, which replace those for a single machine.

    cores: the number of tasks that run at a time. memory: the heap sizes of the driver and of an executor.
    """
    return {
        "spark.sql.shuffle.partitions": str(cores),
        # A full refresh shuffles in smaller partitions, so that none spills, and coalesces neighbours until they are
        # worth a task and a file. By default Spark would rather keep every core busy and write a small file for each.
        "spark.sql.adaptive.coalescePartitions.initialPartitionNum": str(4 * cores),
        "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
        # The driver builds each broadcast table and every executor holds it. Several are in memory at a time, each
        # about ten times as large as its files: hence 64 MB for a heap of 4 GB.
        "spark.sql.autoBroadcastJoinThreshold": str(min(bytes_of(heap) for heap in memory) // 64),
    }


def is_local(master: str) -> bool:
    """Return whether driver and executors are one process."""
    return master.startswith("local")


def is_on_loopback(master: str) -> bool:
    """Return whether the driver and the master can be reached only from this machine."""
    host = urlsplit(master).hostname or ""
    return is_local(master) or (master.startswith("spark://") and (host == "localhost" or host.startswith("127.")))


def _jars(folder: str, lock: Path) -> list[Path]:
    return require_jars(Path(folder), lock, spark_home(), java_home, logging.getLogger(__name__).warning)


def needed_conf(settings: Settings, master: str) -> dict[str, str]:
    """Return the settings that any session on this lake needs to work at all.

    Raises MedallionError if Delta's JARs are missing and cannot be fetched.
    """
    delta = _jars(settings.jars, LOCK)
    jars = [] if is_local(master) else list(delta)
    host = "127.0.0.1" if is_on_loopback(master) else settings.driver_host
    bucket = _bucket_conf(settings) if in_bucket(settings.lake) else {}
    if bucket:
        jars += _jars(f"{settings.jars}/s3", S3_LOCK)
    return {
        **({"spark.driver.bindAddress": host, "spark.driver.host": host} if host else {}),
        # Other users of this machine must not reach the driver: on a local master Spark generates a secret and keeps it
        # in memory. A cluster has its own secret, in its spark-defaults.conf.
        **({"spark.authenticate": "true"} if is_local(master) else _executors(settings)),
        # On the class path instead of in spark.jars: only classes on the class path can be in the class archive.
        "spark.driver.extraClassPath": ":".join(str(jar.absolute()) for jar in delta),
        **({"spark.jars": ",".join(str(jar) for jar in jars)} if jars else {}),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.driver.memory": settings.driver_memory,
        # Delta keeps its state between commits only in UTC; in any other time zone it rebuilds the state each time.
        "spark.driver.extraJavaOptions": (
            f"-Duser.timezone=UTC {CODE_CACHE}"
            f" -Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()} -Dmedallion.log={settings.spark_log}"
        ),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        # It holds no table of ours; by default Spark creates a folder in the current directory.
        "spark.sql.warehouse.dir": Path(gettempdir(), "medallion-spark-warehouse").as_uri(),
        **bucket,
    }


def _executors(settings: Settings) -> dict[str, str]:
    """Return the settings of the executors of a cluster; they need no Python, as only Spark's own code runs there."""
    cores = {"spark.executor.cores": settings.executor_cores, "spark.cores.max": settings.max_cores}
    return {
        "spark.executor.memory": settings.executor_memory,
        "spark.executor.extraJavaOptions": "-Duser.timezone=UTC",
        **{name: str(number) for name, number in cores.items() if number is not None},
    }


def _bucket_conf(settings: Settings) -> dict[str, str]:
    """Return the settings with which Spark reaches a lake in a bucket, the same way as delta-rs and this package do."""
    endpoint = settings.s3_endpoint
    own = {
        "fs.s3a.endpoint": endpoint or "",
        "fs.s3a.path.style.access": "true",
        "fs.s3a.connection.ssl.enabled": str(not (endpoint or "").startswith("http://")).lower(),
    }
    wanted = {
        **(own if endpoint else {}),
        "fs.s3a.endpoint.region": S3Access.of(settings).region_name,
        # The credential chain of the other AWS tools; Hadoop's own chain leaves out ~/.aws.
        "fs.s3a.aws.credentials.provider": "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider",
        "fs.s3a.connection.timeout": f"{max(1, round(settings.s3_timeout))}s",
        # Parquet is read at random positions; the other streams prefetch data that nobody needs, with their own client.
        "fs.s3a.input.stream.type": "classic",
        "fs.s3a.experimental.input.fadvise": "random",
    }
    # This store checks whether a version exists and then writes it, which is safe for one writer: see docs/adr/0014.
    store = {"spark.delta.logStore.s3a.impl": "io.delta.storage.S3SingleDriverLogStore"}
    return {f"spark.hadoop.{name}": value for name, value in wanted.items()} | store
