"""The snapshot: the state before the first hour of changes, loaded into Bronze once."""

from dataclasses import replace
from typing import TYPE_CHECKING

from medallion.errors import MedallionError
from medallion.ingest.decode import Decoded, why_unfit
from medallion.ingest.quarantine import MAX_LINES
from medallion.ingest.schema_evolution import arrow_schema, description
from medallion.ingest.small_snapshot import MAX_ROWS
from medallion.ingest.snapshot_source import Snapshot
from medallion.ingest.value_decoders import MICROSECONDS
from medallion.model.delivery import USUAL
from medallion.model.table import EARLIEST, Feed
from medallion.spark.configuration import table_properties
from medallion.storage import files
from medallion.storage.delta_writes import append_rows, properties
from medallion.storage.foreign_commits import stamped
from medallion.storage.lake import Lake
from medallion.storage.replaced_rows import bronze_metadata

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable
    from pyspark.sql import DataFrame, SparkSession

_MISFIT = "an event time or a number is out of bounds"


def reject_rows(spark: "SparkSession", feed: Feed, snapshot: Snapshot, hour: str, max_bad_lines: float) -> Decoded:
    """Return the rows of a snapshot that a change file of ``hour`` could not hold, as lines that insert them.

    Raises MedallionError if their share is larger than ``max_bad_lines``, or they are more than quarantine shows at
    once.
    """
    from pyspark.sql import functions as F

    result = Decoded(lines=snapshot.rows)
    condition = _fits(feed, hour)
    if condition is None:
        return result
    as_lines = replace(feed, delivery=USUAL)  # the lines have the default format, whatever that of the feed is
    limit = min(MAX_LINES, int(max_bad_lines * result.lines))
    columns = [column.name for column in feed.columns]
    unfit = _declared_rows(spark, feed, snapshot).where(f"NOT ({condition})")
    line = F.to_json(F.struct(F.struct(*columns).alias("insert")), {"timestampFormat": MICROSECONDS})
    rows = unfit.orderBy(*feed.keys).select(line).limit(limit + 1).collect()
    lines = [(number, why_unfit(as_lines, hour, raw) or _MISFIT, raw) for number, (raw,) in enumerate(rows, start=1)]
    if len(lines) > limit:
        raise MedallionError.quoting(
            f"{snapshot.shown}: more than {limit:,} of {result.lines:,} rows are bad, the limit of"
            f" MEDALLION_MAX_BAD_LINES ({max_bad_lines:.1%}): nothing of the snapshot is published",
            f"; the first: {lines[0][1]}",
        )
    result.rejected = lines
    return result


def _fits(feed: Feed, hour: str) -> str | None:
    """Return the SQL condition for rows that decoding accepts in a file of ``hour``; None if it accepts every row.

    Event times are within bounds, and no number is NaN or infinite.
    """
    earliest, latest = EARLIEST.isoformat(), feed.latest_event(hour).isoformat()
    fits = [f"({n} IS NULL OR {n} BETWEEN TIMESTAMP '{earliest}' AND TIMESTAMP '{latest}')" for n in feed.event_time]
    floating = [column.name for column in feed.columns if column.type in {"FLOAT", "DOUBLE"}]
    fits += [f"({n} IS NULL OR ABS({n}) < DOUBLE('Infinity'))" for n in floating]  # NaN is the largest of all
    return " AND ".join(fits) or None


def _declared_rows(spark: "SparkSession", feed: Feed, snapshot: Snapshot) -> "DataFrame":
    """Read a snapshot with the declared columns and types; a timestamp without a time zone counts as UTC.

    A missing column is null.
    """
    from pyspark.sql import functions as F

    rows = spark.read.format("delta").load(str(snapshot.folder))
    given = ((column, snapshot.given[column.name]) for column in feed.columns)
    return rows.select(
        *((F.lit(None) if own is None else F.col(f"`{own}`")).cast(c.type).alias(c.name) for c, own in given)
    )


def load_feed(spark: "SparkSession", lake: Lake, feed: Feed, snapshot: Snapshot, hour: str) -> None:
    """Write one Bronze table from its snapshot, and replace what an interrupted load may have left.

    hour: the last hour before the snapshot was taken; rows that reject_rows returns are left out.
    """
    rows = _declared_rows(spark, feed, snapshot)
    if condition := _fits(feed, hour):
        rows = rows.where(condition)
    # A merge rewrites the files that it touches: with small files, it leaves most old ones alone.
    ordered = rows.repartitionByRange(1 + snapshot.rows // MAX_ROWS, *feed.keys).sortWithinPartitions(*feed.keys)
    commit = stamped(bronze_metadata(None, "load"), _emptied(lake, feed))
    ordered.write.format("delta").mode("append").option("userMetadata", commit).save(lake.path(feed.name))


def load_rows(lake: Lake, feed: Feed, rows: "pa.Table") -> None:
    """Write one Bronze table from ``rows``, which are sorted by key, as ``load_feed`` does."""
    delta = _emptied(lake, feed)
    append_rows(delta, rows.cast(arrow_schema(feed.columns)), properties(bronze_metadata(None, "load"), upon=delta))


def feed_properties(feed: Feed) -> dict[str, str]:
    """Return the properties of the new Bronze table of a feed."""
    types = {column.name: column.type for column in feed.columns}
    return table_properties((name, types[name]) for name in (*feed.keys, *feed.pruned_by))


def _emptied(lake: Lake, feed: Feed) -> "DeltaTable":
    """Recreate the table of a feed without rows, and return it."""
    from deltalake import DeltaTable

    path = lake.path(feed.name)
    files.remove_tree(lake.at(path))
    return DeltaTable.create(
        path,
        arrow_schema(feed.columns),
        description=description(feed),
        configuration=feed_properties(feed),
        storage_options=lake.storage_options,
        commit_properties=properties(),
    )
