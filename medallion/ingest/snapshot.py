"""The snapshot: the state before the first change hour, loaded into Bronze once."""

from pathlib import Path
from typing import TYPE_CHECKING

from medallion.errors import MedallionError
from medallion.hours import ONE_HOUR, parse_hour
from medallion.ingest.decode import Decoded, arrow_type, why_unfit
from medallion.ingest.quarantine import MAX_LINES
from medallion.ingest.schema_evolution import arrow_schema, description, same_type
from medallion.ingest.source import Advance, FolderSource, Source, copy_snapshot, silent
from medallion.model.table import EARLIEST, Feed
from medallion.spark.configuration import TABLE_PROPERTIES
from medallion.storage import files
from medallion.storage.delta_writes import properties
from medallion.storage.files import Place
from medallion.storage.lake import Lake, state_of
from medallion.storage.replaced_rows import bronze_metadata

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TIMESTAMPS = "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"  # loses no microsecond, as Spark's own format does
_MISDATED = "an event time is out of bounds"
_ROWS_PER_FILE = 250_000  # a merge rewrites the files it touches: small enough to leave old ones alone


def snapshot_folder(source: Source, feed: Feed, lake: Lake, advance: Advance = silent) -> Place:
    """The snapshot of one table as a local Delta table, copied from the source where it is not a folder.

    Raises MedallionError when the table is missing or lacks a declared column or type.
    """
    if isinstance(source, FolderSource):
        folder: Place = Path(source.root, "snapshot", feed.name)
    else:
        folder = lake.landing / "_snapshot" / feed.name
        copy_snapshot(source, feed.topic, folder, advance)
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
    """Return the rows of a snapshot that cannot have happened by the end of ``hour``, as lines that insert them.

    Raises MedallionError for a larger share of them than ``max_bad_lines``, or more than quarantine shows at once.
    """
    from pyspark.sql import functions as F

    result = Decoded(lines=state_of(lake.opened(str(snapshot))).rows)
    if not feed.event_time:
        return result
    limit = min(MAX_LINES, int(max_bad_lines * result.lines))
    columns = [column.name for column in feed.columns]
    misdated = spark.read.format("delta").load(str(snapshot)).where(f"NOT ({_is_dated_by(feed, hour)})")
    line = F.to_json(F.struct(F.struct(*columns).alias("insert")), {"timestampFormat": _TIMESTAMPS})
    rows = misdated.orderBy(*feed.keys).select(line).limit(limit + 1).collect()
    lines = [(number, why_unfit(feed, hour, raw) or _MISDATED, raw) for number, (raw,) in enumerate(rows, start=1)]
    if len(lines) > limit:
        raise MedallionError(
            f"{snapshot}: more than {limit:,} of {result.lines:,} rows are bad, the limit of MEDALLION_MAX_BAD_LINES"
            f" ({max_bad_lines:.1%}): nothing of the snapshot is published; the first: {lines[0][1]}"
        )
    result.rejected = lines
    return result


def _is_dated_by(feed: Feed, hour: str) -> str:
    """Build the condition of a row whose event times decoding accepts in a file of ``hour``, as SQL."""
    earliest, latest = EARLIEST.isoformat(), (parse_hour(hour) + ONE_HOUR + feed.max_skew).isoformat()
    fits = (f"({n} IS NULL OR {n} BETWEEN TIMESTAMP '{earliest}' AND TIMESTAMP '{latest}')" for n in feed.event_time)
    return " AND ".join(fits) or "TRUE"


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
    rows = spark.read.format("delta").load(str(snapshot)).where(_is_dated_by(feed, hour))
    rows = rows.select(*(c.name for c in feed.columns))
    delta = lake.open(str(snapshot))
    parts = 1 + (state_of(delta).rows if delta else 0) // _ROWS_PER_FILE
    ordered = rows.repartitionByRange(parts, *feed.keys).sortWithinPartitions(*feed.keys)
    ordered.write.format("delta").mode("append").option("userMetadata", bronze_metadata(None, "load")).save(path)
