"""The snapshot: the state before the first change hour, loaded into Bronze once."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from medallion.errors import MedallionError
from medallion.hours import ONE_HOUR, parse_hour
from medallion.ingest.arrow_types import arrow_type, same_type
from medallion.ingest.decode import Decoded, why_unfit
from medallion.ingest.quarantine import MAX_LINES
from medallion.ingest.schema_evolution import arrow_schema, description
from medallion.ingest.snapshot_copy import copy_snapshot
from medallion.ingest.source import Advance, FolderSource, Source, silent
from medallion.ingest.value_decoders import MICROSECONDS
from medallion.model.delivery import USUAL
from medallion.model.table import EARLIEST, Feed
from medallion.spark.configuration import TABLE_PROPERTIES
from medallion.storage import files
from medallion.storage.delta_writes import properties
from medallion.storage.files import Place
from medallion.storage.foreign_commits import stamped
from medallion.storage.lake import Lake, state_of
from medallion.storage.replaced_rows import bronze_metadata

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MISFIT = "an event time or a number is out of bounds"
_ROWS_PER_FILE = 250_000  # a merge rewrites the files it touches: small enough to leave old ones alone


def snapshot_folder(source: Source, feed: Feed, lake: Lake, advance: Advance = silent) -> Place:
    """The snapshot of one table as a local Delta table, copied from the source where it is not a folder.

    Raises MedallionError when the table is missing or lacks a declared column or type.
    """
    if isinstance(source, FolderSource):
        folder: Place = Path(source.root, "snapshot", feed.name)
    else:
        folder = lake.landing / "_snapshot" / feed.name
        copy_snapshot(source, feed.name, folder, advance)
    delta = lake.open(str(folder))
    if delta is None:
        raise MedallionError(
            f"source {source.root} has no snapshot/{feed.name}, or it is no Delta table: the snapshot needs all tables"
        )
    import pyarrow as pa

    types = {f.name: f.type for f in pa.schema(delta.schema().to_arrow())}
    for column in feed.columns:
        wanted = arrow_type(column)
        if column.name not in types:
            raise MedallionError(f"snapshot/{feed.name} of {source.root} lacks the column {column.name} {column.type}")
        if not same_type(types[column.name], wanted):
            raise MedallionError(
                f"snapshot/{feed.name} of {source.root} has {column.name} as {types[column.name]}, not {column.type}"
            )
    return folder


def reject_rows(
    spark: "SparkSession", lake: Lake, feed: Feed, snapshot: Place, hour: str, max_bad_lines: float
) -> Decoded:
    """Return the rows of a snapshot that a change file of ``hour`` could not hold, as lines that insert them.

    Raises MedallionError for a larger share of them than ``max_bad_lines``, or more than quarantine shows at once.
    """
    from pyspark.sql import functions as F

    result = Decoded(lines=state_of(lake.opened(str(snapshot))).rows)
    condition = _fits(feed, hour)
    if condition is None:
        return result
    as_lines = replace(feed, delivery=USUAL)  # in the format of their lines, whatever that of the feed is
    limit = min(MAX_LINES, int(max_bad_lines * result.lines))
    columns = [column.name for column in feed.columns]
    unfit = _declared_rows(spark, feed, snapshot).where(f"NOT ({condition})")
    line = F.to_json(F.struct(F.struct(*columns).alias("insert")), {"timestampFormat": MICROSECONDS})
    rows = unfit.orderBy(*feed.keys).select(line).limit(limit + 1).collect()
    lines = [(number, why_unfit(as_lines, hour, raw) or _MISFIT, raw) for number, (raw,) in enumerate(rows, start=1)]
    if len(lines) > limit:
        raise MedallionError.quoting(
            f"{snapshot}: more than {limit:,} of {result.lines:,} rows are bad, the limit of MEDALLION_MAX_BAD_LINES"
            f" ({max_bad_lines:.1%}): nothing of the snapshot is published",
            f"; the first: {lines[0][1]}",
        )
    result.rejected = lines
    return result


def _fits(feed: Feed, hour: str) -> str | None:
    """Build the condition of a row that decoding accepts in a file of ``hour``, as SQL; None where every row is.

    No event time lies ahead, and no number is NaN or infinite.
    """
    earliest, latest = EARLIEST.isoformat(), (parse_hour(hour) + ONE_HOUR + feed.max_skew).isoformat()
    fits = [f"({n} IS NULL OR {n} BETWEEN TIMESTAMP '{earliest}' AND TIMESTAMP '{latest}')" for n in feed.event_time]
    floating = [column.name for column in feed.columns if column.type in {"FLOAT", "DOUBLE"}]
    fits += [f"({n} IS NULL OR ABS({n}) < DOUBLE('Infinity'))" for n in floating]  # NaN is the largest of all
    return " AND ".join(fits) or None


def _declared_rows(spark: "SparkSession", feed: Feed, snapshot: Place) -> "DataFrame":
    """Read a snapshot with the declared columns and types: a moment without a time zone is one in UTC."""
    from pyspark.sql import functions as F

    rows = spark.read.format("delta").load(str(snapshot))
    return rows.select(*(F.col(c.name).cast(c.type).alias(c.name) for c in feed.columns))


def load_feed(spark: "SparkSession", lake: Lake, feed: Feed, snapshot: Place, hour: str) -> None:
    """Write one Bronze table from its snapshot, replacing what an interrupted load may have left.

    hour: the last one before the snapshot was taken; rows that reject_rows finds are left out.
    """
    from deltalake import DeltaTable

    path = lake.path(feed.name)
    files.remove_tree(lake.at(path))
    DeltaTable.create(
        path,
        arrow_schema(feed.columns),
        description=description(feed),
        configuration=TABLE_PROPERTIES | {"delta.dataSkippingStatsColumns": ",".join((*feed.keys, *feed.pruned_by))},
        storage_options=lake.storage_options,
        commit_properties=properties(),
    )
    rows = _declared_rows(spark, feed, snapshot)
    if condition := _fits(feed, hour):
        rows = rows.where(condition)
    delta = lake.open(str(snapshot))
    parts = 1 + (state_of(delta).rows if delta else 0) // _ROWS_PER_FILE
    ordered = rows.repartitionByRange(parts, *feed.keys).sortWithinPartitions(*feed.keys)
    commit = stamped(bronze_metadata(None, "load"), lake.open(path))
    ordered.write.format("delta").mode("append").option("userMetadata", commit).save(path)
