"""Change logs: Bronze tables of every change to a feed's table, which begin with the rows of that table."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import chain
from typing import TYPE_CHECKING

from medallion.errors import MedallionError
from medallion.hours import ONE_HOUR, format_hour, hour_number, parse_hour
from medallion.ingest.apply import Applied, applied_before
from medallion.ingest.arrow_types import arrow_type
from medallion.ingest.decode import DELETED, LINE, Decoded, change_schema
from medallion.ingest.hour_files import decoded_file, source_path
from medallion.ingest.landing import NotAsLanded, decode_hour, forget_decoded, require_as_landed
from medallion.ingest.ledger import known_manifest, landed_hours
from medallion.ingest.schema_evolution import arrow_schema, evolve
from medallion.model.columns import ORIGIN
from medallion.model.table import ChangeLog
from medallion.ops import releases
from medallion.spark.configuration import table_properties
from medallion.storage import delta_writes, files
from medallion.storage.foreign_commits import require_ours
from medallion.storage.lake import LEDGER, Lake, hour_in
from medallion.storage.live_rows import live_batches, read_live_rows, snapshot_of
from medallion.storage.replaced_rows import bronze_metadata
from medallion.storage.rewind import require_version_before

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable

    from medallion.spark.sessions import Sessions

_BATCH_ROWS = 50_000
_VERSION = ", version "  # between path and version of a table, in _source_file of a row from it


def begin_log(lake: Lake, log: ChangeLog, source_file: str | None = None) -> None:
    """Begin a log with the rows of its table, in one commit, as of the hour that the table is at.

    An existing log is overwritten, so call this only if no history would be lost. Rows are written without Spark,
    batch by batch. source_file: where they came from; None for the table itself.
    """
    import pyarrow as pa
    from deltalake import write_deltalake

    table = lake.opened(lake.path(log.of))
    schema, hour, path = arrow_schema(log.columns), hour_in(table), lake.path(log.name)
    batches = _table_rows(lake, log, table, None, source_file or _version_of(lake, log, table))
    former = lake.open(path)
    write_deltalake(
        path,
        pa.RecordBatchReader.from_batches(schema, batches),
        mode="overwrite",
        schema_mode="overwrite" if former is not None else None,
        description=log.doc,
        configuration=table_properties((c.name, c.type) for c in log.columns if c.name in log.fed_by.keys),
        storage_options=lake.storage_options,
        commit_properties=delta_writes.properties(
            bronze_metadata(None, "load"), (LEDGER, hour_number(hour) if hour else 0), upon=former
        ),
    )


def catch_up(sessions: "Callable[[], Sessions]", lake: Lake, log: ChangeLog, hour: str) -> list[str]:
    """Bring a log to the hour before ``hour`` and to the declared columns, and return warnings.

    Missed hours are appended as they landed. If the landed file of such an hour is gone or was changed, the current
    rows of the table are appended instead: the log keeps its history, and a warning names the hours. A missing log
    begins with the current rows of its table, with a warning if a release had the log. sessions: as for apply_feed.
    Raises what decoding raises, because a file that cannot be read is not the same as a missing one.
    """
    delta = lake.open(lake.path(log.name))
    if delta is None:
        release = releases.latest(lake)
        begin_log(lake, log)
        if release is None or log.name not in release.versions:
            return []
        return [f"{log.name} did not exist: rebuilt from {log.of}; earlier history is lost"]
    since = hour_in(delta) or ""
    if since < hour:
        evolve(sessions, lake, log, delta)
    missed = sorted(landed for landed in landed_hours(lake) if since < landed < hour)
    gone = [late for late in missed if not is_as_landed(lake, log, late)]
    for late in missed:
        if gone and late >= gone[0]:
            break
        _append(lake, log, late, _decode(lake, log, late), delta)
        forget_decoded(lake, late)
    if not gone:
        return []
    _append_table(lake, log, missed, gone, delta)
    return [
        f"{log.name} lacks the changes of {', '.join(gone[:5])}{' and more' if gone[5:] else ''}: the landed files are"
        f" gone or damaged; what {log.of} has now is recorded in their place"
    ]


def _decode(lake: Lake, log: ChangeLog, hour: str) -> Decoded | None:
    """Decode the lines of an applied hour, without a limit of rejected lines: it was enforced when it was applied."""
    return decode_hour(lake, (log.fed_by,), hour, max_bad_lines=1.0).get(log.of)


def require_own_log(lake: Lake, log: ChangeLog) -> None:
    """Raise ChangedByOthers if somebody else has changed the rows of ``log``."""
    if (delta := lake.open(lake.path(log.name))) is not None:
        require_ours(lake, log.name, delta.version(), has_hours=False)


def rewind_log(lake: Lake, log: ChangeLog, hour: str) -> str | None:
    """Rewind a log to before ``hour``, as its table already is, by deleting the changes since; return a warning.

    A log that began with its table at ``hour`` or later has no earlier rows, so it begins again.
    """
    path = lake.path(log.name)
    delta = lake.open(path)
    if delta is None or (hour_in(delta) or "") < hour:
        return None
    if not _reaches_before(lake, log, delta, hour):
        begin_log(lake, log)
        return f"{log.name} began after {hour}: it begins again with the rows that {log.of} had before that hour"
    before = lake.applied_hour(log.of)
    commit = delta_writes.properties(
        bronze_metadata(log.keys, "rewind"), (LEDGER, hour_number(before) if before else 0), upon=delta
    )
    delta.delete(f"_hour >= {delta_writes.timestamp_literal(parse_hour(hour))}", commit_properties=commit)
    delta = lake.opened(path)
    if (hour_in(delta) or "") >= hour:  # no line arrived since, so nothing was committed
        delta_writes.append_rows(delta, None, commit)
    return None


def _reaches_before(lake: Lake, log: ChangeLog, delta: "DeltaTable", hour: str) -> bool:
    """Check whether a log has rows from before ``hour``: changes, or the rows that it began with."""
    import pyarrow as pa
    import pyarrow.compute as pc

    rows, at = delta.to_pyarrow_dataset(), pc.field("_hour")
    if rows.count_rows(filter=at < pa.scalar(parse_hour(hour), pa.timestamp("us", "UTC"))):
        return True
    if not (first := rows.head(1, columns=["_source_file"], filter=at.is_null()).to_pylist()):
        return True  # its table was empty when it began
    table, _, version = str(first[0]["_source_file"]).rpartition(_VERSION)
    if table != lake.path(log.of):
        return True  # it began with the snapshot
    try:
        began = lake.opened(table, int(version))
    except (MedallionError, ValueError):
        return False
    return (hour_in(began) or "") < hour


def is_as_landed(lake: Lake, log: ChangeLog, hour: str) -> bool:
    """Check that the file of a log's feed for ``hour`` is as it landed, or that none landed.

    Raises what reading the file raises.
    """
    topic = log.fed_by.topic
    file = known_manifest(lake, hour).files.get(topic)
    try:
        if file is not None:
            require_as_landed(lake, topic, hour, file)
    except NotAsLanded:
        return False
    return True


def _append_table(lake: Lake, log: ChangeLog, missed: list[str], gone: list[str], delta: "DeltaTable") -> None:
    """Append, in one commit, what is known of the hours from the first missing file to the last missed hour.

    These are the lines of hours whose files are as they landed, the rows of the table after the last hour, and a
    deletion of each key that the log has and the table does not.
    """
    import pyarrow as pa

    hour, table = missed[-1], lake.opened(lake.path(log.of))
    if (hour_in(table) or "") > hour:  # an earlier attempt has applied more hours to the table
        following = format_hour(parse_hour(hour) + ONE_HOUR)
        table = lake.opened(lake.path(log.of), require_version_before(lake, log.of, following))
    available = [late for late in missed if late > gone[0] and late not in gone]
    lines = [
        _hour_rows(lake, log, late) for late in available if (content := _decode(lake, log, late)) and content.changes
    ]
    keys, source_file = list(log.fed_by.keys), f"{_version_of(lake, log, table)}, in place of {gone[0]} to {hour}"
    known = read_live_rows(delta, lake.at(lake.path(log.name)), keys).group_by(keys).aggregate([])
    now = read_live_rows(table, lake.folder(log.of), keys)
    deleted = known.join(now, keys, join_type="left anti")
    numbers = range(len(now) + 1, len(now) + len(deleted) + 1)
    deleted = deleted.append_column(LINE, pa.array(numbers, pa.int64()))
    deleted = deleted.append_column(DELETED, pa.repeat(True, len(deleted)))
    deletions = log_rows(log, delta_writes.cast_to_schema(deleted, change_schema(log.fed_by)), hour, source_file)
    schema = pa.schema(delta.schema().to_arrow())
    batches = chain(*lines, _table_rows(lake, log, table, hour, source_file), deletions.to_batches())
    rows = (part for batch in batches for part in delta_writes.cast_to_schema(pa.table(batch), schema).to_batches())
    metadata = bronze_metadata(log.keys, "append", {"hour": hour})
    commit = delta_writes.properties(metadata, (LEDGER, hour_number(hour)), upon=delta)
    delta_writes.append_rows(delta, pa.RecordBatchReader.from_batches(schema, rows), commit)
    for late in available:
        forget_decoded(lake, late)


def _table_rows(
    lake: Lake, log: ChangeLog, table: "DeltaTable", hour: str | None, source_file: str
) -> "Iterator[pa.RecordBatch]":
    """Yield the rows of a table in the form of a log, in batches."""
    import pyarrow as pa

    # Listed now, because delta-rs is busy while it consumes the batches.
    snapshot, declared = snapshot_of(table, lake.folder(log.of)), arrow_schema(log.fed_by.columns)
    known = [name for name in declared.names if name in snapshot.schema.names]

    def batches() -> "Iterator[pa.RecordBatch]":
        line = 1
        for batch in live_batches(snapshot, known):
            rows = delta_writes.cast_to_schema(pa.table(batch), declared)
            lines, none = pa.array(range(line, line + len(rows))), pa.repeat(False, len(rows))
            changes = rows.append_column(LINE, lines).append_column(DELETED, none)
            yield from log_rows(log, changes, hour, source_file).to_batches()
            line += len(rows)

    return batches()


def _version_of(lake: Lake, log: ChangeLog, table: "DeltaTable") -> str:
    return f"{lake.path(log.of)}{_VERSION}{table.version()}"


def append_lines(lake: Lake, log: ChangeLog, hour: str, decoded: Decoded | None) -> Applied | None:
    """Append one hour's lines unchanged to a log that has caught up, and record the hour, in one commit.

    decoded: as for apply_feed. If the log has the hour already, nothing is written and None is returned.
    """
    delta = lake.opened(lake.path(log.name))
    applied = hour_in(delta)
    if applied is not None and applied >= hour:
        return None
    require_ours(lake, log.name, delta.version(), has_hours=False)
    _append(lake, log, hour, decoded, delta)
    return applied_before(lake, log, decoded)


def _append(lake: Lake, log: ChangeLog, hour: str, decoded: Decoded | None, delta: "DeltaTable") -> None:
    commit = delta_writes.properties(
        bronze_metadata(log.keys, "append", {"hour": hour, "inserted": decoded.changes if decoded else 0}),
        (LEDGER, hour_number(hour)),
        upon=delta,
    )
    if decoded is None or not decoded.changes:
        delta_writes.append_rows(delta, None, commit)
        return
    import pyarrow as pa

    schema = pa.schema(delta.schema().to_arrow())  # the log may have columns that are no longer declared
    batches = _hour_rows(lake, log, hour)
    rows = (part for batch in batches for part in delta_writes.cast_to_schema(pa.table(batch), schema).to_batches())
    delta_writes.append_rows(delta, pa.RecordBatchReader.from_batches(schema, rows), commit)


def _hour_rows(lake: Lake, log: ChangeLog, hour: str) -> "Iterator[pa.RecordBatch]":
    """Yield the decoded lines of an hour in the form of a log, in batches."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    name, at = files.in_arrow(decoded_file(lake, log.fed_by, hour))
    source_file = f"{known_manifest(lake, hour).source}/{source_path(log.fed_by, hour)}"
    with pq.ParquetFile(name, filesystem=at) as file:
        for changes in file.iter_batches(_BATCH_ROWS):
            yield from log_rows(log, pa.Table.from_batches([changes]), hour, source_file).to_batches()


def log_rows(log: ChangeLog, changes: "pa.Table", hour: str | None, source_file: str) -> "pa.Table":
    """Add the columns of origin to changes: file, hour, source system, load time."""
    import pyarrow as pa

    origin = {
        "_hour": parse_hour(hour) if hour else None,
        "_source_file": source_file,
        "_source_system": log.source_system,
        "_loaded_at": datetime.now(UTC),
    }
    for column in ORIGIN:
        if column.name in origin:
            value = pa.scalar(origin[column.name], arrow_type(column))
            changes = changes.append_column(column.name, pa.repeat(value, len(changes)))
    schema = arrow_schema(log.columns)
    return changes.select(schema.names).cast(schema)
