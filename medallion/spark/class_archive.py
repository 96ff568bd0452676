"""A class-data archive (AppCDS) of the classes of a Spark driver, so that no JVM parses and verifies them again.

An archive is valid for one Java, one pyspark and one list of JARs. Its name contains a hash of them, so an outdated
archive is never found. ``make setup`` writes it; a driver also starts without it, but needs about 50 % more CPU.
"""

import sys
import sysconfig
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from subprocess import PIPE, STDOUT, run
from tempfile import TemporaryDirectory

from medallion.errors import MedallionError
from medallion.spark.java import java_home

_SIGNED_JARS = "-Xlog:cds=off"  # classes of signed JARs cannot be archived; the JVM warns about each


def class_path(jars: str) -> list[Path]:
    """Return the JARs in folder ``jars`` that precede Spark's own on a driver's class path, in a fixed order."""
    return sorted(Path(jars).glob("*.jar"))


def archive_path(jars: str, java: Path | None = None) -> Path:
    """Return the path of the archive that fits this Java, this pyspark, and the JARs in folder ``jars``."""
    release = (java or java_home()) / "release"
    pyspark = sorted(path.name for path in Path(sysconfig.get_path("purelib")).glob("pyspark-*.dist-info"))
    fits = (release.read_text() if release.exists() else "", pyspark, [str(jar.absolute()) for jar in class_path(jars)])
    return Path(jars) / f"classes-{sha256(repr(fits).encode()).hexdigest()[:16]}.jsa"


def archive_options(jars: str) -> str:
    """Return the JVM options that use the archive; empty if none exists."""
    path = archive_path(jars)
    return f"-XX:SharedArchiveFile={path} -Xshare:auto {_SIGNED_JARS}" if path.exists() else ""


def write_archive(jars: str) -> Path:
    """Write the archive from a session that does the work of an hourly refresh, and remove all earlier archives.

    Raises MedallionError with the session's output if no archive was written.
    """
    path = archive_path(str(Path(jars).absolute()))
    jars = str(path.parent)
    with TemporaryDirectory(dir=jars) as folder:
        fresh = Path(folder, path.name)
        command = [sys.executable, "-m", "medallion.spark.class_archive", jars, str(fresh), folder]
        done = run(command, stdout=PIPE, stderr=STDOUT, text=True)
        if done.returncode or not fresh.exists():
            raise MedallionError(f"the class archive {path} was not written: {' '.join(done.stdout.split())[-500:]}")
        for former in Path(jars).glob("classes-*.jsa"):
            former.unlink()
        fresh.replace(path)
    return path


def _record(jars: str, archive: Path, folder: str) -> None:
    """Do the kinds of work of an hourly refresh in one session, whose JVM writes ``archive`` when it exits."""
    from pyspark import SparkContext

    from medallion.settings import Settings
    from medallion.spark.configuration import TABLE_PROPERTIES, submit_conf
    from medallion.spark.session import spark_session

    settings = Settings(lake=folder, jars=jars)
    options = "spark.driver.extraJavaOptions"
    conf = submit_conf(settings, "local[2]")
    conf[options] += f" -XX:ArchiveClassesAtExit={archive} {_SIGNED_JARS}"
    spark = spark_session(settings, conf=conf)
    orders, totals = f"{folder}/orders", f"{folder}/totals"
    rows = spark.range(2000).selectExpr(
        "id AS order_id", "id % 7 AS user_id", "CAST(id AS DECIMAL(12,2)) AS total", "TIMESTAMP '2025-11-30' AS at"
    )
    rows.write.format("delta").options(**TABLE_PROPERTIES).save(orders)
    read = spark.read.parquet(*spark.read.format("delta").load(orders).inputFiles())
    query = """
        WITH users AS (
            SELECT user_id, DATE_TRUNC('WEEK', at) AS week, SUM(total) AS total, COUNT(DISTINCT order_id) AS orders
            FROM {orders} WHERE total >= 0 GROUP BY user_id, DATE_TRUNC('WEEK', at)
        )
        SELECT u.*, o.order_id, SUM(u.total) OVER (PARTITION BY u.user_id ORDER BY u.week) AS running
        FROM users AS u INNER JOIN {orders} AS o ON o.user_id = u.user_id
    """
    spending = spark.sql(query, orders=read)
    spending.toArrow()
    spending.write.format("delta").mode("overwrite").option("userMetadata", "{}").save(totals)
    spending.where("user_id = 1").write.format("delta").mode("overwrite").option("replaceWhere", "user_id = 1").save(
        totals
    )
    changes = spark.createDataFrame(read.limit(10).toArrow())
    spark.sql(
        f"MERGE INTO delta.`{orders}` AS t USING {{changes}} AS s ON t.order_id = s.order_id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        changes=changes,
    )
    gateway = SparkContext._gateway
    spark.stop()
    if gateway is not None:  # the JVM exits and writes its archive when its standard input is closed
        process = gateway.proc
        process.stdin.close()
        process.wait(timeout=600)  # a loaded machine takes minutes to write it


def main(arguments: Sequence[str]) -> None:
    """Write the archive for the given folder of JARs; with two more arguments, run as the recording session."""
    jars, *recording = arguments
    if recording:
        _record(jars, Path(recording[0]), recording[1])
    else:
        print(write_archive(jars))


if __name__ == "__main__":
    main(sys.argv[1:])
