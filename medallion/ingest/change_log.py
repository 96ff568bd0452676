"""Change logs: Bronze tables of every change as it came, each begun with the rows that its table had."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from medallion.errors import MedallionError
from medallion.hours import hour_number, parse_hour
from medallion.ingest.apply import Applied, applied_before
from medallion.ingest.decode import DELETED, LINE, Decoded, arrow_type
from medallion.ingest.landing import decode_hour, decoded_file, forget_decoded
from medallion.ingest.ledger import known_manifest, landed_hours
from medallion.ingest.schema_evolution import arrow_schema, evolve
from medallion.model.table import ORIGIN, Log
from medallion.spark.session import TABLE_PROPERTIES
from medallion.storage import delta_writes, files
from medallion.storage.change_feed import located
from medallion.storage.lake import LEDGER, Lake, hour_in, state_of

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable
    from pyspark.sql import SparkSession

_BATCH_ROWS = 50_000


def begin_log(lake: Lake, log: Log, source_file: str | None = None) -> None:
    """Write a log anew from the rows that are there, in one commit, as of the hour that their table is at.

    source_file: where they came from; the table itself if not given. Without Spark, batch by batch.
    """
    import pyarrow as pa
    import pyarrow.dataset as ds
    from deltalake import write_deltalake

    table = lake.path(log.of)
    delta = lake.opened(table)
    schema, hour, path = arrow_schema(log.columns), hour_in(delta), lake.path(log.name)
    came_from = source_file or f"{table}, version {delta.version()}"
    told = [files.in_arrow(located(table, name)) for name in state_of(delta).told["path"]]

    def batches() -> "Iterator[pa.RecordBatch]":  # asked for by delta-rs, which cannot be asked for anything meanwhile
        line = 1
        found = ds.dataset([str(name) for name, _ in told], arrow_schema(log.fed_by.columns), filesystem=told[0][1])
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
        evolve(spark, lake, log, delta)
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
    commit = delta_writes.properties(
        json.dumps({"hour": hour, "inserted": decoded.changes if decoded else 0}), (LEDGER, hour_number(hour))
    )
    if decoded is None or not decoded.changes:
        delta_writes.append_rows(delta, None, commit)
        return
    import pyarrow as pa
    import pyarrow.parquet as pq

    name, at = files.in_arrow(decoded_file(lake, log.fed_by, hour))
    source_file = f"{known_manifest(lake, hour).source}/cdc/{log.fed_by.topic}/{hour}.json"
    schema = pa.schema(delta.schema().to_arrow())  # which may have columns that are not declared any more
    with pq.ParquetFile(name, filesystem=at) as file:
        batches = (
            batch
            for changes in file.iter_batches(_BATCH_ROWS)
            for batch in delta_writes.fitted(
                _told_of(log, pa.Table.from_batches([changes]), hour, source_file), schema
            ).to_batches()
        )
        delta_writes.append_rows(delta, pa.RecordBatchReader.from_batches(schema, batches), commit)


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
    schema = arrow_schema(log.columns)
    return changes.select(schema.names).cast(schema)
