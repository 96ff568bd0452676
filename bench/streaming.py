"""One hop as a stream: clicks from their change files to Silver by Spark Structured Streaming, exactly once.

Run it as ``medallion bench streaming --hours 6 --every 10``: a demo source is made, its hours of clicks are put in
place one by one, and for each the seconds from its arrival to the commit in Silver are printed; then the rows are
compared with those that the batch makes. A template for who needs seconds, and what batch and follow are measured
against: the query is that of silver_enriched_clickstream, and what a stream adds stands here.

Exactly once: the checkpoint remembers which files a batch is made of, so a batch that is tried again is the same; and
its number goes into the table's log with its rows, so that Delta leaves out one that is there already.
"""

import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from demo.generate import generate
from medallion.model.table import Feed, Table
from medallion.project import find_project
from medallion.settings import Settings
from medallion.spark.configuration import TABLE_PROPERTIES
from medallion.spark.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

APPLICATION = "clicks"  # under this name the table's log knows the batches
LINE, DELETED = "_line", "_deleted"


def clicks() -> tuple[Feed, Table]:
    """The feed and the table that a stream leads to."""
    tables = find_project().registry(extras=False)
    feed, table = tables["bronze_clickstream_events"], tables["silver_enriched_clickstream"]
    assert isinstance(feed, Feed)
    assert isinstance(table, Table)
    return feed, table


def stream(
    spark: "SparkSession", files: Path, target: Path, checkpoint: Path, then: Callable[[int], None] = lambda _: None
) -> "StreamingQuery":
    """Follow the change files in ``files`` and keep Silver at ``target`` up to date, a file at a time, oldest first.

    then: told the number of each batch once its rows are there, and before the stream notes that it is done.
    """
    feed, table = clicks()
    inputs: dict[str, Any] = {feed.name: spark.createDataFrame([], feed.schema)}
    nothing = spark.sql(table.query, **inputs)
    nothing.write.format("delta").mode("ignore").options(**TABLE_PROPERTIES).save(str(target))

    def write(batch: "DataFrame", number: int) -> None:
        _merge(batch, number, target)
        then(number)

    lines = spark.readStream.option("maxFilesPerTrigger", 1).option("latestFirst", False).text(str(files))
    return lines.writeStream.foreachBatch(write).option("checkpointLocation", str(checkpoint)).start()


def _merge(batch: "DataFrame", number: int, target: Path) -> None:
    """Bring Silver to what the lines of a batch say; the last line of an event counts."""
    from pyspark.sql import functions as F

    feed, table = clicks()
    spark = batch.sparkSession  # the stream's own: the batch's number is a setting of it
    spark.conf.set("spark.databricks.delta.write.txnAppId", APPLICATION)
    spark.conf.set("spark.databricks.delta.write.txnVersion", str(number))
    lines = batch.withColumn(LINE, F.monotonically_increasing_id())  # a file is one partition, read in order
    change = F.from_json("value", f"insert STRUCT<{_columns(feed)}>, delete STRUCT<{_columns(feed)}>")
    rows = lines.select(LINE, change.alias("c")).select(
        LINE, F.col("c.insert").isNull().alias(DELETED), F.coalesce("c.insert", "c.delete").alias("row")
    )
    (key,) = table.keys
    last = rows.groupBy(f"row.{key}").agg(F.max_by(F.struct(DELETED, "row"), LINE).alias("last")).select("last.*")
    inputs: dict[str, Any] = {feed.name: last.where(f"NOT {DELETED}").select("row.*")}
    current = spark.sql(table.query, **inputs)
    seen = last.select(F.col(f"row.{key}").alias(key)).join(current.withColumn("_kept", F.lit(True)), key, "left")
    names = current.columns
    spark.sql(
        f"""
        MERGE INTO delta.`{target}` AS t USING {{seen}} AS s ON t.{key} = s.{key}
        WHEN MATCHED AND s._kept IS NULL THEN DELETE
        WHEN MATCHED THEN UPDATE SET {", ".join(f"t.{name} = s.{name}" for name in names)}
        WHEN NOT MATCHED AND s._kept THEN INSERT ({", ".join(names)}) VALUES ({", ".join(f"s.{n}" for n in names)})
        """,  # noqa: S608 (of declared column names)
        seen=seen,
    )


def _columns(feed: Feed) -> str:
    return ", ".join(f"{column.name}: {column.type}" for column in feed.columns)


def time_stream(settings: Settings, hours_of_clicks: int, every: float) -> None:
    """Stream ``hours_of_clicks`` files of clicks, ``every`` seconds apart, and print the latency of each."""
    with tempfile.TemporaryDirectory(prefix="streaming-") as folder:
        root = Path(folder)
        generate(root / "source", days=1, hours=hours_of_clicks, scale=1, seed=0)
        hours = sorted((root / "source" / "cdc" / "clickstream_events").glob("*.json"))
        (root / "arrived").mkdir()
        spark = spark_session(settings)
        done = threading.Event()
        query = stream(spark, root / "arrived", root / "silver", root / "checkpoint", lambda _: done.set())
        latency = []
        for hour in hours:
            done.clear()
            shutil.copy(hour, root / f"{hour.name}.part")
            began = time.monotonic()
            (root / f"{hour.name}.part").rename(root / "arrived" / hour.name)
            while not done.wait(1):
                if query.exception():
                    raise SystemExit(f"the stream has ended: {query.exception()}")
            latency.append(time.monotonic() - began)
            print(f"{hour.stem}  {latency[-1]:.2f} s from arrival to Silver", flush=True)
            time.sleep(every)
        query.stop()
        wrong = differing(spark, hours, root / "silver")
        middle = statistics.median(latency[1:])
        print(f"first {latency[0]:.2f} s, then {middle:.2f} s in the middle; rows that differ: {wrong}")


def differing(spark: "SparkSession", hours: list[Path], silver: Path) -> int:
    """Rows that only one of the two has: Silver as streamed, and by the batch's decoder and query over all hours."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from medallion.ingest.decode import decode_file

    feed, table = clicks()
    (key,) = feed.keys
    newest: dict[Any, dict[str, Any]] = {}
    for hour in hours:
        decoded = silver.with_name("decoded.parquet")
        decode_file(hour, feed, hour.stem, decoded)
        newest |= {line[key]: line for line in pq.read_table(decoded).to_pylist()}
    schema = pq.read_schema(silver.with_name("decoded.parquet"))
    decoded_rows = pa.Table.from_pylist([row for row in newest.values() if not row[DELETED]], schema)
    inputs: dict[str, Any] = {feed.name: spark.createDataFrame(decoded_rows)}
    wanted = spark.sql(table.query, **inputs)
    streamed = spark.read.format("delta").load(str(silver)).select(wanted.columns)
    return streamed.exceptAll(wanted).count() + wanted.exceptAll(streamed).count()
