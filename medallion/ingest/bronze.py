"""Bronze: the snapshot loaded once, then each hour's change files landed and merged, in order, or kept as they came."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from medallion.errors import MedallionError
from medallion.hours import hour_number, parse_hour
from medallion.ingest import quarantine
from medallion.ingest.decode import DELETED, LINE, Decoded, arrow_type, decode_file
from medallion.ingest.ledger import Manifest, known_manifest, landed_hours, write_manifest
from medallion.ingest.source import Advance, FolderSource, Source, copy_file, copy_snapshot, fingerprint, silent
from medallion.model.table import ORIGIN, Column, Feed, Log
from medallion.spark.session import TABLE_PROPERTIES, another, explained
from medallion.storage import delta_writes, files
from medallion.storage.change_feed import located
from medallion.storage.files import Place
from medallion.storage.lake import LEDGER, Lake, TableState, hour_in, state_of

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable
    from pyspark.sql import DataFrame, SparkSession

_ROWS_PER_FILE = 250_000  # a merge rewrites the files it touches: small enough to leave old ones alone


@dataclass(frozen=True)
class Applied:
    """What one hour did to one Bronze table, in rows; bytes are those of new data files."""

    lines: int
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    rejected: int = 0
    bytes: int = 0

    @property
    def changed(self) -> int:
        """Rows that are not as they were before."""
        return self.inserted + self.updated + self.deleted


def snapshot_folder(source: Source, feed: Feed, lake: Lake, advance: Advance = silent) -> Place:
    """The snapshot of one table as a local Delta table, copied from the source where it is not a folder.

    Raises MedallionError when the table is missing or lacks a declared column or type.
    """
    if isinstance(source, FolderSource):
        folder = files.at(source.root, "snapshot", feed.name)
    else:
        folder = lake.landing / "_snapshot" / feed.name
        copy_snapshot(source, feed.topic, folder, advance)
    delta = lake.open(str(folder))
    if delta is None:
        raise MedallionError(
            f"source {source.root} has no snapshot/{feed.name}, or it is no Delta table: the snapshot needs all tables"
        )
    import pyarrow as pa

    found = {f.name: f.type for f in pa.schema(delta.schema().to_arrow())}
    for column in feed.columns:
        wanted = arrow_type(column)
        if column.name not in found:
            raise MedallionError(f"snapshot/{feed.name} of {source.root} lacks the column {column.name} {column.type}")
        if not _same_type(found[column.name], wanted):
            raise MedallionError(
                f"snapshot/{feed.name} of {source.root} has {column.name} as {found[column.name]}, not {column.type}"
            )
    return folder


def load_feed(spark: "SparkSession", lake: Lake, feed: Feed, snapshot: Place) -> None:
    """Write one Bronze table from its snapshot, replacing what an interrupted load may have left."""
    from deltalake import DeltaTable

    path = lake.path(feed.name)
    files.remove_tree(files.at(path))
    DeltaTable.create(
        path,
        _schema(feed.columns),
        description=feed.doc,
        configuration=TABLE_PROPERTIES | {"delta.dataSkippingStatsColumns": ",".join((*feed.keys, *feed.pruned_by))},
        storage_options=files.storage_options(path),
    )
    rows = spark.read.format("delta").load(str(snapshot)).select(*(c.name for c in feed.columns))
    delta = lake.open(str(snapshot))
    parts = 1 + (state_of(delta).rows if delta else 0) // _ROWS_PER_FILE
    ordered = rows.repartitionByRange(parts, *feed.keys).sortWithinPartitions(*feed.keys)
    ordered.write.format("delta").mode("append").save(path)


def begin_log(lake: Lake, log: Log, source_file: str | None = None) -> None:
    """Write a log anew from the rows that are there, in one commit, as of the hour that their table is at.

    source_file: where they came from; the table itself if not given. Without Spark, batch by batch.
    """
    import pyarrow as pa
    import pyarrow.dataset as ds
    from deltalake import write_deltalake

    table = lake.path(log.of)
    delta = lake.opened(table)
    schema, hour, path = _schema(log.columns), hour_in(delta), lake.path(log.name)
    came_from = source_file or f"{table}, version {delta.version()}"
    told = [files.in_arrow(located(table, name)) for name in state_of(delta).told["path"]]

    def batches() -> "Iterator[pa.RecordBatch]":  # asked for by delta-rs, which cannot be asked for anything meanwhile
        line = 1
        found = ds.dataset([str(name) for name, _ in told], _schema(log.fed_by.columns), filesystem=told[0][1])
        for batch in found.to_batches():
            lines, none = pa.array(range(line, line + len(batch))), pa.repeat(False, len(batch))
            rows = pa.table(batch.append_column(LINE, lines).append_column(DELETED, none))
            yield from _told_of(log, rows, None, came_from).to_batches()
            line += len(batch)

    there = lake.open(path) is not None
    write_deltalake(
        path,
        pa.RecordBatchReader.from_batches(schema, batches() if told else ()),
        mode="overwrite",
        schema_mode="overwrite" if there else None,
        description=log.doc,
        configuration=TABLE_PROPERTIES | {"delta.dataSkippingStatsColumns": ",".join(log.fed_by.keys)},
        storage_options=files.storage_options(path),
        commit_properties=delta_writes.properties(None, (LEDGER, hour_number(hour) if hour else 0)),
    )


def catch_up(spark: "Callable[[], SparkSession]", lake: Lake, log: Log, hour: str, max_bad_lines: float) -> None:
    """Bring a log to the hour before ``hour`` and to the declared columns: hours that it missed while it was not kept
    are appended as they landed.

    It begins anew, with its table as it is, when it is not there or files of such an hour are gone. spark: as for
    apply_feed.
    """
    delta = lake.open(lake.path(log.name))
    if delta is None:
        begin_log(lake, log)
        return
    since = hour_in(delta) or ""
    if since < hour:
        _evolve(spark, lake, log, delta)
    for missed in sorted(one for one in landed_hours(lake) if since < one < hour):
        try:
            decoded = decode_hour(lake, (log.fed_by,), missed, max_bad_lines)
        except MedallionError:
            begin_log(lake, log)
            return
        _append(lake, log, missed, decoded.get(log.of), delta)
        forget_decoded(lake, missed)


def append_lines(lake: Lake, log: Log, hour: str, decoded: Decoded | None) -> Applied | None:
    """Append one hour's lines to a log that has caught up, as they came, and record the hour in it, in one commit.

    decoded: as for apply_feed. None is returned, and nothing written, when the log has the hour already.
    """
    delta = lake.opened(lake.path(log.name))
    applied = hour_in(delta)
    if applied is not None and applied >= hour:
        return None
    _append(lake, log, hour, decoded, delta)
    return applied_before(lake, log, decoded)


def _append(lake: Lake, log: Log, hour: str, decoded: Decoded | None, delta: "DeltaTable") -> None:
    if decoded is None or not decoded.changes:
        advance(state_of(delta), hour, told=json.dumps({"hour": hour}))
        return
    import pyarrow.parquet as pq

    name, at = files.in_arrow(_decoded(lake, log.fed_by, hour))
    came_from = f"{known_manifest(lake, hour).source}/cdc/{log.fed_by.topic}/{hour}.json"
    rows = _told_of(log, pq.read_table(name, filesystem=at), hour, came_from)
    advance(state_of(delta), hour, rows, told=json.dumps({"hour": hour, "inserted": len(rows)}))


def _told_of(log: Log, changes: "pa.Table", hour: str | None, source_file: str) -> "pa.Table":
    """Rows, with their line and whether they were taken away, and what else the log tells of each."""
    import pyarrow as pa

    told = {
        "_hour": parse_hour(hour) if hour else None,
        "_source_file": source_file,
        "_source_system": log.source_system,
        "_loaded_at": datetime.now(UTC),
    }
    for column in ORIGIN:
        if column.name in told:
            value = pa.scalar(told[column.name], arrow_type(column))
            changes = changes.append_column(column.name, pa.repeat(value, len(changes)))
    schema = _schema(log.columns)
    return changes.select(schema.names).cast(schema)


def _schema(columns: Iterable[Column]) -> "pa.Schema":
    import pyarrow as pa

    return pa.schema([pa.field(c.name, arrow_type(c), nullable=not c.required) for c in columns])


def land_hour(source: Source, lake: Lake, hour: str, names: Mapping[str, str]) -> Manifest:
    """Copy an hour's change files (topic -> name at the source) to the landing place, each whole or not at all."""
    landed = {topic: copy_file(source, name, _landed(lake, topic, hour)) for topic, name in names.items()}
    manifest = Manifest(hour, source.root, landed)
    write_manifest(lake, manifest)
    return manifest


def changed_files(source: Source, files: Mapping[str, str], landed: Manifest | None) -> list[str]:
    """The topics whose file at the source (topic -> name) is not what landed."""
    known = landed.files if landed else {}
    return [topic for topic, name in files.items() if topic in known and fingerprint(source, name) != known[topic]]


def decode_hour(lake: Lake, feeds: tuple[Feed, ...], hour: str, max_bad_lines: float) -> dict[str, Decoded]:
    """Decode the landed files of ``hour`` into typed changes; by table, those that have a file.

    Raises MedallionError when a file is missing, cut off, or has more bad lines than the limit allows: before
    anything is written to the lake's tables.
    """
    manifest = known_manifest(lake, hour)
    decoded: dict[str, Decoded] = {}
    for feed in feeds:
        if feed.topic not in manifest.files:
            continue
        path = _landed(lake, feed.topic, hour)
        if not path.exists() or path.stat().st_size != manifest.files[feed.topic].bytes:
            raise MedallionError(f"{path} is not as it landed: run medallion step land --hour {hour} again")
        lines = quarantine.mended(lake, feed, hour, manifest.files[feed.topic].sha256)
        result = decode_file(path, feed, _decoded(lake, feed, hour), lines)
        if len(result.rejected) > max_bad_lines * result.lines:
            line, reason, _ = result.rejected[0]
            raise MedallionError(
                f"{path}: {len(result.rejected)} of {result.lines} lines are bad, more than the {max_bad_lines:.1%}"
                f" of MEDALLION_MAX_BAD_LINES; nothing of hour {hour} was applied; the first is line {line}: {reason}"
            )
        decoded[feed.name] = result
    return decoded


def drift(feeds: Iterable[Feed], decoded: Mapping[str, Decoded]) -> list[str]:
    """What the files of an hour have in other columns than declared, a line per column."""
    told = []
    for feed in feeds:
        found = decoded.get(feed.name, Decoded())
        told += [
            f"{feed.topic} has a column {name} (in lines: {count:,}), which is kept out: declare it in"
            f" spark_jobs/bronze/{feed.topic}.py and restate the hour to take it in"
            for name, count in sorted(found.unknown.items())
        ]
        told += [f"{feed.topic} has no column {name} any more: it is null in these rows" for name in found.absent]
    return told


def apply_feed(
    spark: "Callable[[], SparkSession]", lake: Lake, feed: Feed, hour: str, decoded: Decoded | None
) -> Applied | None:
    """Merge one hour's changes into one Bronze table and record the hour in its log, in one commit.

    The last change of a key wins, in the order of lines. spark: asked for a session where this process is not enough:
    for a table beyond its means, or one to be written anew. decoded: None when the hour has no file for this feed.
    None is returned, and nothing written, when the table has the hour already.
    """
    delta = lake.opened(lake.path(feed.name))
    applied = hour_in(delta)
    if applied is not None and applied >= hour:
        return None
    _evolve(spark, lake, feed, delta)
    state = state_of(delta)
    if decoded is None or not decoded.changes:
        advance(state, hour)
        return Applied(lines=decoded.lines if decoded else 0, rejected=len(decoded.rejected) if decoded else 0)
    if state.bytes <= delta_writes.MOST_BYTES:
        _apply_here(lake, feed, hour, state)
        return applied_before(lake, feed, decoded)
    # The ledger entry of a merge is a setting of its session, so each merge has one of its own.
    session = another(spark())
    session.conf.set("spark.databricks.delta.write.txnAppId", LEDGER)
    session.conf.set("spark.databricks.delta.write.txnVersion", str(hour_number(hour)))
    lines = session.read.parquet(str(_decoded(lake, feed, hour)))
    with explained(f"hour {hour} could not be applied to {feed.name}"):
        _merge(session, lake.path(feed.name), feed, _last_per_key(lines, feed))
    return applied_before(lake, feed, decoded)


def applied_before(lake: Lake, table: Feed | Log, decoded: Decoded | None) -> Applied:
    """What the newest commit of a table did, by its own metrics."""
    commit = lake.last_commit(table.name)
    metrics = commit.get("operationMetrics", {})
    counts = json.loads(commit.get("userMetadata") or "{}")
    decoded = decoded or Decoded()
    return Applied(
        lines=decoded.lines,
        inserted=counts.get("inserted", _count(metrics, "numTargetRowsInserted")),
        updated=counts.get("updated", _count(metrics, "numTargetRowsUpdated")),
        deleted=counts.get("deleted", _count(metrics, "numTargetRowsDeleted")),
        rejected=len(decoded.rejected),
        bytes=delta_writes.bytes_written(lake.path(table.name), int(commit["version"])),
    )


def _apply_here(lake: Lake, feed: Feed, hour: str, table: TableState) -> None:
    """Bring the table to what an hour's last changes of each key say, in one commit by this process."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    (key,) = feed.keys
    name, at = files.in_arrow(_decoded(lake, feed, hour))
    lines = pq.read_table(name, filesystem=at).sort_by(LINE)
    newest = {line[key]: line for line in lines.drop_columns([LINE]).to_pylist()}
    known = {row[key]: row for row in delta_writes.rows_having(table.delta, key, sorted(newest)).to_pylist()}
    gone = {value for value, row in newest.items() if row.pop(DELETED)}
    deleted = [value for value in gone if value in known]
    updated = [value for value, row in newest.items() if value not in gone and value in known and row != known[value]]
    inserted = [value for value in newest if value not in gone and value not in known]
    counts = {"hour": hour, "inserted": len(inserted), "updated": len(updated), "deleted": len(deleted)}
    columns = lines.drop_columns([LINE, DELETED]).schema
    rows = pa.Table.from_pylist([newest[value] for value in (*inserted, *updated)], schema=columns)
    touched = [*updated, *deleted]
    named = [*touched, *inserted] if touched else []  # what comes must be among what may go
    advance(table, hour, rows, key, named, json.dumps(counts))


def advance(
    table: TableState,
    hour: str,
    rows: "pa.Table | None" = None,
    column: str = "",
    values: Sequence[Any] = (),
    told: str | None = None,
) -> None:
    """Record ``hour`` as applied to a Bronze table, in one commit with what it brings and takes away, if it does.

    rows: those that come; column, values: those that go are the ones with such a value. told: what the commit tells of
    itself.
    """
    size = max(1 << 20, table.bytes // max(1, table.files))  # files stay about as large as they are
    commit = delta_writes.properties(told, (LEDGER, hour_number(hour)))
    delta_writes.replace_rows(table.delta, rows, column, sorted(values), commit, size)


def _evolve(spark: "Callable[[], SparkSession]", lake: Lake, table: Feed | Log, delta: "DeltaTable") -> None:
    """Bring a table that has these columns to the declared ones: add the new, rewrite it where a type was widened.

    delta: the table as it was opened; it follows. Raises MedallionError for any other change of a type, and for a new
    column that must have a value.
    """
    import pyarrow as pa
    from deltalake import Schema

    found = {f.name: f.type for f in pa.schema(delta.schema().to_arrow())}
    new = [column for column in table.columns if column.name not in found]
    if new:
        if required := [column.name for column in new if column.required]:
            raise MedallionError(
                f"{table.name} cannot take in {required[0]} as NOT NULL: rows of before have no value in it"
            )
        delta.alter.add_columns(Schema.from_arrow(_schema(new)).fields)
    other = [c for c in table.columns if c.name in found and not _same_type(found[c.name], arrow_type(c))]
    if narrowed := [c for c in other if not _is_wider(found[c.name], arrow_type(c))]:
        column = narrowed[0]
        raise MedallionError(
            f"{table.name} has {column.name} as {found[column.name]}, which does not fit into {column.type}:"
            " declare a wider type, or load the lake anew"
        )
    if other:
        _rewrite(spark(), lake.path(table.name), table.columns)
        delta.update_incremental()


def _rewrite(spark: "SparkSession", path: str, columns: Iterable[Column]) -> None:
    """Write the whole table with the declared types, in one commit; its ledger stays."""
    from pyspark.sql.types import StructType

    declared = StructType.fromDDL(", ".join(f"{c.name} {c.type}{' NOT NULL' * c.required}" for c in columns))
    assert isinstance(declared, StructType)
    rows = spark.read.format("delta").load(path).to(declared)
    rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(path)


def _is_wider(found: Any, wanted: Any) -> bool:
    import pyarrow as pa

    if pa.types.is_decimal(found) and pa.types.is_decimal(wanted):
        whole = found.precision - found.scale
        return bool(wanted.scale >= found.scale and wanted.precision - wanted.scale >= whole)
    return bool((found, wanted) == (pa.int32(), pa.int64()))


def forget_decoded(lake: Lake, hour: str) -> None:
    """Remove the decoded files of an hour; the landed ones stay."""
    files.remove_tree(lake.landing / "_decoded" / hour)


def _last_per_key(changes: "DataFrame", feed: Feed) -> "DataFrame":
    from pyspark.sql import functions as F

    columns = [c.name for c in feed.columns]
    newest = F.max_by(F.struct(DELETED, *columns), F.col(LINE)).alias("newest")
    return changes.groupBy(*feed.keys).agg(newest).select("newest.*")


def _merge(spark: "SparkSession", path: str, feed: Feed, changes: "DataFrame") -> None:
    names = [c.name for c in feed.columns]
    on = " AND ".join(f"t.{key} = s.{key}" for key in feed.keys)
    differs = " OR ".join(f"NOT t.{name} <=> s.{name}" for name in names)
    merge = f"""
        MERGE INTO {_identifier(path)} AS t USING {{changes}} AS s ON {on}
        WHEN MATCHED AND s.{DELETED} THEN DELETE
        WHEN MATCHED AND ({differs}) THEN UPDATE SET {", ".join(f"t.{name} = s.{name}" for name in names)}
        WHEN NOT MATCHED AND NOT s.{DELETED}
            THEN INSERT ({", ".join(names)}) VALUES ({", ".join(f"s.{name}" for name in names)})
    """  # noqa: S608 (of declared column names)
    spark.sql(merge, changes=changes)


def _identifier(path: str) -> str:
    """The table at ``path`` in SQL whose other names are in braces."""
    escaped = path.replace("`", "``").replace("{", "{{").replace("}", "}}")
    return f"delta.`{escaped}`"


def _landed(lake: Lake, topic: str, hour: str) -> Place:
    return lake.landing / topic / f"{hour}.json"


def _decoded(lake: Lake, feed: Feed, hour: str) -> Place:
    return lake.landing / "_decoded" / hour / f"{feed.topic}.parquet"


def _count(metrics: Mapping[str, Any] | str, name: str) -> int:
    values = json.loads(metrics) if isinstance(metrics, str) else metrics
    return int(values.get(name, 0))


def _same_type(found: Any, wanted: Any) -> bool:
    import pyarrow as pa

    if pa.types.is_timestamp(wanted):
        return bool(pa.types.is_timestamp(found))
    if pa.types.is_string(wanted):
        return bool(pa.types.is_string(found) or pa.types.is_large_string(found) or pa.types.is_string_view(found))
    return bool(found == wanted)
