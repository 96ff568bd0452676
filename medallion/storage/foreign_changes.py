"""What a commit of somebody else changed, when and by whom, as far as the log says."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from medallion.errors import MedallionError
from medallion.storage.change_feed import columns_at
from medallion.storage.files import Place
from medallion.storage.log_entries import LogEntry

# The metrics of rows that a commit inserted, updated and deleted, as Spark and delta-rs name them.
_COUNTS = {
    "UPDATE": ((), ("numUpdatedRows", "num_updated_rows"), ()),
    "DELETE": ((), (), ("numDeletedRows", "num_deleted_rows")),
    "MERGE": (
        ("numTargetRowsInserted", "num_target_rows_inserted"),
        ("numTargetRowsUpdated", "num_target_rows_updated"),
        ("numTargetRowsDeleted", "num_target_rows_deleted"),
    ),
}


@dataclass(frozen=True)
class ForeignCommit:
    """One commit of somebody else.

    moment, who: as stated in the log. added, removed: numbers of rows, where an updated row counts as both; None if the
    log does not state them. changes: what it changed: rows, columns, or nothing, as in upkeep.
    """

    version: int
    operation: str
    moment: datetime | None
    who: str
    added: int | None = 0
    removed: int | None = 0
    changes: tuple[str, ...] = ()

    def describe(self) -> str:
        """Return a description of the commit for a message."""
        at = f" at {self.moment:%Y-%m-%d %H:%M:%S} UTC" if self.moment else ""
        counts = ", ".join(
            f"{'an unknown number of' if count is None else format(count, ',')} rows {done}"
            for count, done in ((self.added, "added"), (self.removed, "removed"))
        )
        columns = ", other columns" if "columns" in self.changes else ""
        return f"version {self.version} ({self.operation}{at} by {self.who}: {counts}{columns})"

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> "ForeignCommit":
        """Return the commit from what ``as_record`` returned."""
        moment = datetime.fromisoformat(record["moment"]) if record["moment"] else None
        return cls(**{**record, "moment": moment, "changes": tuple(record["changes"])})

    def as_record(self) -> dict[str, Any]:
        """Return the commit in JSON types, for events and commit metadata."""
        return vars(self) | {"moment": self.moment.isoformat() if self.moment else None, "changes": [*self.changes]}


def foreign_commit(folder: Place, entry: LogEntry) -> ForeignCommit:
    """Return what the commit of log ``entry`` changed in the table in ``folder``."""
    changes = []
    if any(action.get("dataChange", True) for action in (*entry.actions("add"), *entry.actions("remove"))):
        changes.append("rows")
    if (schema := entry.columns) is not None and schema != columns_at(folder, entry.version - 1):
        changes.append("columns")
    moment = entry.info.get("timestamp")
    commit = ForeignCommit(
        entry.version,
        _plain(entry.operation) or "an operation without a name",
        datetime.fromtimestamp(moment / 1000, UTC) if isinstance(moment, int) else None,
        _who(entry.info),
        changes=tuple(changes),
    )
    if "rows" not in changes:
        return commit
    added, removed = _row_counts(folder, entry)
    return ForeignCommit(**vars(commit) | {"added": added, "removed": removed})


def _who(info: Mapping[str, Any]) -> str:
    """Return who made a commit according to the log: the engine, and the user if known."""
    engine = _plain(info.get("engineInfo") or info.get("clientVersion"))
    name = _plain(info.get("userName") or info.get("userId"))
    return f"{name} with {engine}" if name and engine else name or engine or "nobody that the log names"


def _plain(text: Any) -> str:
    """Return a text from somebody else's commit without unprintable characters, cut to 80."""
    return "".join(character for character in str(text or "") if character.isprintable())[:80]


def _row_counts(folder: Place, entry: LogEntry) -> tuple[int | None, int | None]:
    """Return the numbers of rows that a commit added and removed; None for an unknown one."""
    metrics = entry.info.get("operationMetrics") or {}
    if names := _COUNTS.get(entry.operation):
        counts = [next((_number(metrics[name]) for name in kind if name in metrics), None) for kind in names]
        if counts != [None, None, None]:
            inserted, updated, deleted = (count or 0 for count in counts)
            return inserted + updated, deleted + updated
    added = _sum(_records(action) for action in entry.actions("add"))
    before, now = (_rows_at(folder, version) for version in (entry.version - 1, entry.version))
    removed = None if None in (added, before, now) else (before or 0) + (added or 0) - (now or 0)
    return added, removed


def _records(action: Mapping[str, Any]) -> int | None:
    deleted = (action.get("deletionVector") or {}).get("cardinality", 0)
    try:
        held = _number(json.loads(action.get("stats") or "{}").get("numRecords"))
        return None if held is None else held - deleted
    except (AttributeError, ValueError):  # statistics of another writer that cannot be parsed
        return None


def _number(value: Any) -> int | None:
    """Return a count from somebody else's commit; None if it is not a number."""
    try:
        return int(value)
    except (TypeError, ValueError):
        return None


def _rows_at(folder: Place, version: int) -> int | None:
    from medallion.storage.lake import open_table, state_of

    try:
        delta = open_table(folder, version) if version >= 0 else None
    except MedallionError:
        return None
    return state_of(delta).rows if delta is not None else 0


def _sum(counts: Iterator[int | None]) -> int | None:
    known = [*counts]
    return None if None in known else sum(count or 0 for count in known)
