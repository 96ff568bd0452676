"""Apply one hour's decoded changes to a Bronze table, in one commit that records the hour."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from medallion.hours import hour_number
from medallion.ingest.decode import DELETED, LINE, Decoded
from medallion.ingest.hour_files import decoded_file
from medallion.ingest.schema_evolution import evolve
from medallion.ingest.value_decoders import MICROSECONDS
from medallion.model.column_types import holds_map
from medallion.model.columns import Column
from medallion.model.table import ChangeLog, Feed
from medallion.spark import delta_commits
from medallion.spark.session import explained
from medallion.storage import delta_writes
from medallion.storage.delta_writes import identifier
from medallion.storage.foreign_commits import require_ours, stamped
from medallion.storage.lake import LEDGER, Lake, TableState, hour_in, state_of
from medallion.storage.merge_on_read import find_rows
from medallion.storage.replaced_rows import bronze_metadata
from medallion.storage.table_features import features_for_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from medallion.spark.sessions import Sessions

MAX_CHANGE_BYTES = 256 << 20  # most bytes of an hour's changes that this process merges; Spark merges more


@dataclass(frozen=True)
class Applied:
    """The effect of one hour on one Bronze table, in rows; bytes are those of new data files."""

    lines: int
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    rejected: int = 0
    bytes: int = 0

    @property
    def changed(self) -> int:
        """Count the rows inserted, updated or deleted."""
        return self.inserted + self.updated + self.deleted


def apply_feed(
    sessions: "Callable[[], Sessions]", lake: Lake, feed: Feed, hour: str, decoded: Decoded | None
) -> Applied | None:
    """Merge one hour's changes into one Bronze table and record the hour in its log, in one commit.

    The last change of a key wins, in the order of lines. Nothing is written if the table has the hour already.

    Args:
        sessions: Returns Spark sessions, for a table or an hour that is too large for this process, for table features
            that only Spark can write, and for changes of existing columns.
        lake: The lake.
        feed: The feed of the table.
        hour: The hour.
        decoded: The decoded changes; None if the hour has no file for this feed.

    Returns:
        The effect in rows; None if the table has the hour already.
    """
    delta = lake.opened(lake.path(feed.name))
    applied = hour_in(delta)
    if applied is not None and applied >= hour:
        return None
    require_ours(lake, feed.name, delta.version())
    undeclared = evolve(sessions, lake, feed, delta).undeclared
    state, by_spark = state_of(delta), features_for_spark(delta)
    if decoded is None or not decoded.changes:
        if by_spark:
            commit = stamped(json.dumps({"hour": hour}), delta)
            delta_commits.append(sessions().small, lake.path(feed.name), delta, commit, (LEDGER, hour_number(hour)))
        else:
            record_idle_hour(state, hour)
        return Applied(lines=decoded.lines if decoded else 0, rejected=len(decoded.rejected) if decoded else 0)
    is_local = delta_writes.writes_here(state, lake.marks_from) and decoded.bytes <= MAX_CHANGE_BYTES
    if is_local and _apply_in_process(lake, feed, hour, state):
        return applied_before(lake, feed, decoded)
    # The ledger entry of a merge is a setting of its session, so each table has a session of its own.
    metadata = stamped(bronze_metadata(feed.keys, known={"hour": hour}), delta)
    ledger_entry = {
        "spark.databricks.delta.write.txnAppId": LEDGER,
        "spark.databricks.delta.write.txnVersion": str(hour_number(hour)),
        "spark.databricks.delta.commitInfo.userMetadata": metadata,
    }
    session = sessions().for_table(feed.name, ledger_entry)
    with explained(f"hour {hour} could not be applied to {feed.name}"):
        lines = session.read.parquet(str(decoded_file(lake, feed, hour)))
        merge_changes(session, lake.path(feed.name), feed, last_per_key(lines, feed), undeclared)
    return applied_before(lake, feed, decoded)


def applied_before(lake: Lake, table: Feed | ChangeLog, decoded: Decoded | None) -> Applied:
    """Return the effect of a table's newest commit, as its metadata and metrics state it."""
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
        bytes=delta_writes.bytes_written(lake.folder(table.name), int(commit["version"])),
    )


def _apply_in_process(lake: Lake, feed: Feed, hour: str, table: TableState) -> bool:
    """Apply an hour's last change of each key to the table, in one commit by this process.

    Returns whether it was done: not if files of a large table would have to be rewritten.
    """
    from medallion.ingest.arrow_merge import last_images, merge_into

    last = last_images(decoded_file(lake, feed, hour), feed.keys)
    folder, names = lake.folder(feed.name), [c.name for c in feed.columns]
    layout = delta_writes.layout_for(table, folder, _file_size(table), lake.marks_from)
    keys = last.select(list(feed.keys))
    if found := find_rows(table.delta, layout, keys):
        known = delta_writes.with_plain_texts(found.rows.select(names))
    elif not layout.may_rewrite:
        return False
    else:
        known = delta_writes.rows_with_keys(table.delta, folder, keys, names)
    merge = merge_into(known, last, feed.keys)
    counts = {"hour": hour, "inserted": merge.inserted, "updated": merge.updated, "deleted": merge.deleted}
    commit = delta_writes.properties(
        bronze_metadata(feed.keys, known=counts), (LEDGER, hour_number(hour)), upon=table.delta
    )
    return delta_writes.replace_keys(table.delta, merge.rows, merge.deleted_keys, commit, layout, found)


def record_idle_hour(table: TableState, hour: str) -> None:
    """Record an ``hour`` without changes as applied to a Bronze table."""
    commit = delta_writes.properties(json.dumps({"hour": hour}), (LEDGER, hour_number(hour)), upon=table.delta)
    delta_writes.append_rows(table.delta, None, commit)


def _file_size(table: TableState) -> int:
    return max(1 << 20, table.bytes // max(1, table.files))  # keeps files about as large as they are


def last_per_key(changes: "DataFrame", feed: Feed) -> "DataFrame":
    """Select the last change of each key of an hour."""
    from pyspark.sql import functions as F

    columns = [c.name for c in feed.columns]
    newest = F.max_by(F.struct(DELETED, *columns), F.col(LINE)).alias("newest")
    return changes.groupBy(*feed.keys).agg(newest).select("newest.*")


def merge_changes(
    spark: "SparkSession", path: str, feed: Feed, changes: "DataFrame", undeclared: Sequence[str] = ()
) -> None:
    """Merge ``changes``, the last of each key, into the Bronze table at ``path``.

    undeclared: columns of the table that are no longer declared; they become null in updated rows.
    """
    target = identifier(path).replace("{", "{{").replace("}", "}}")
    names = [c.name for c in feed.columns]
    on = " AND ".join(f"t.{key} = s.{key}" for key in feed.keys)
    differs = " OR ".join(f"NOT {_comparable('t', c)} <=> {_comparable('s', c)}" for c in feed.columns)
    updates = [*(f"t.{name} = s.{name}" for name in names), *(f"t.{name} = NULL" for name in undeclared)]
    merge = f"""
        MERGE INTO {target} AS t USING {{changes}} AS s ON {on}
        WHEN MATCHED AND s.{DELETED} THEN DELETE
        WHEN MATCHED AND ({differs}) THEN UPDATE SET {", ".join(updates)}
        WHEN NOT MATCHED AND NOT s.{DELETED}
            THEN INSERT ({", ".join(names)}) VALUES ({", ".join(f"s.{name}" for name in names)})
    """  # noqa: S608 (of declared column names)
    spark.sql(merge, changes=changes)


def _comparable(side: str, column: Column) -> str:
    """Return SQL for a value that Spark can compare: a map becomes JSON with full microseconds."""
    name = f"{side}.{column.name}"
    if not holds_map(column.sql_type):
        return name
    moments = MICROSECONDS.replace("'", "\\'")
    return f"to_json(named_struct('v', {name}), map('timestampFormat', '{moments}'))"


def _count(metrics: Mapping[str, Any] | str, name: str) -> int:
    values = json.loads(metrics) if isinstance(metrics, str) else metrics
    return int(values.get(name, 0))
