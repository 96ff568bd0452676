"""Every setting of a Spark session, and what each is for. Imports no pyspark."""

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
from medallion.storage.s3 import S3Access

LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")

# Each table's own properties, given when it is created.
TABLE_PROPERTIES = {
    # Every reader can open the files; where a lake merges on read, a large table's first marked row switches them on.
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
    # Of rows that Spark marks as deleted there is no change file, and whoever follows the table would recompute.
    "spark.databricks.delta.delete.deletionVectors.persistent": "false",
    "spark.databricks.delta.update.deletionVectors.persistent": "false",
    "spark.databricks.delta.merge.deletionVectors.persistent": "false",
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
    # What Delta's protocol asks for. Spark's default, INT96, takes longer to read, and has no bounds to skip rows by.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # A column of ids gives up its dictionary after 16,000 of them instead of 131,000; names and categories keep theirs.
    "spark.hadoop.parquet.dictionary.page.size": str(128 * 1024),
}
JAVA_TUNING = "-XX:+UseParallelGC"

# Room for the code that the JIT compiles: reserved, not used. The default is 240 MB, and 48 MB without the second
# compiler, which the queries of many tables fill: then nothing is compiled, and the JVM ends when it needs more.
CODE_CACHE = "-XX:ReservedCodeCacheSize=512m"


def submit_conf(settings: Settings, master: str, java_options: str = "") -> dict[str, str]:
    """The Spark settings of a driver on ``master``, for spark-submit's ``--conf`` as for a session of our own.

    java_options: of its JVM, besides those that every driver has.

    Raises MedallionError when Delta's JARs have not been fetched.
    """
    needed = needed_conf(settings, master)
    options = "spark.driver.extraJavaOptions"
    java = " ".join(filter(None, (needed[options], JAVA_TUNING, archive_options(settings.jars), java_options)))
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


def is_on_loopback(master: str) -> bool:
    """Whether the driver and the master are on this machine alone."""
    host = urlsplit(master).hostname or ""
    return is_local(master) or (master.startswith("spark://") and (host == "localhost" or host.startswith("127.")))


def _jars(folder: str, lock: Path) -> list[Path]:
    return require_jars(Path(folder), lock, spark_home(), java_home, logging.getLogger(__name__).warning)


def needed_conf(settings: Settings, master: str) -> dict[str, str]:
    """Return the settings that any session on this lake needs to work at all.

    Raises MedallionError when Delta's JARs are not there and cannot be fetched.
    """
    delta = _jars(settings.jars, LOCK)
    jars = [] if is_local(master) else list(delta)
    host = "127.0.0.1" if is_on_loopback(master) else settings.driver_host
    bucket = _bucket_conf(settings) if in_bucket(settings.lake) else {}
    if bucket:
        jars += _jars(f"{settings.jars}/s3", S3_LOCK)
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
            f"-Duser.timezone=UTC {CODE_CACHE}"
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
