"""The history of one table: rows, bytes, seconds, method and reason of each refresh, from the event log."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from medallion.model.refresh_method import RefreshMethod, read_method
from medallion.ops import event_log
from medallion.ops.event_schema import DID_WORK, EventRow
from medallion.storage.lake import Lake

COLUMNS = (
    *("run_id", "hour", "event_type", "table_name", "strategy", "status", "seconds"),
    *("rows_in", "rows_out", "bytes_out", "details"),
)


@dataclass(frozen=True)
class TableRefresh:
    """One refresh of a table. rows: row count of the table afterwards, from its check. changed: number of rows written.

    method, reason: the refresh method and the reason for it, in words.
    """

    hour: str
    run_id: str
    status: str
    strategy: str
    seconds: float
    rows: int | None
    changed: int | None
    bytes_written: int | None
    method: str
    reason: str


def table_history(lake: Lake, table: str) -> list[TableRefresh]:
    """Return every refresh of ``table`` in the 7 days before the newest event, oldest first."""
    events = event_log.read(lake, event_log.RECENT, COLUMNS, table_name=table)
    counted = {(row.run_id, row.hour): row.rows_in for row in events if row.event_type == "check"}
    history = []
    for row in events:
        if row.event_type not in ("apply", "refresh"):
            continue
        details = row.details
        history.append(
            TableRefresh(
                row.hour or "snapshot",
                row.run_id,
                row.status,
                row.strategy,
                row.seconds,
                counted.get((row.run_id, row.hour)),
                row.rows_out,
                row.bytes_out,
                _method(row),
                str(details.get("error") or details.get("note") or _unwritten_reason(row)),
            )
        )
    return history


def describe_recent(history: Sequence[TableRefresh]) -> str | None:
    """Describe the method and reason of the newest refresh that wrote the table; None if there is none.

    If several refreshes in a row had the same method and reason, their number is included.
    """
    written = [refresh for refresh in history if refresh.status in DID_WORK and refresh.method]
    if not written:
        return None
    last = written[-1]
    same = (last.method, last.reason)
    alike = len([*takewhile(lambda refresh: (refresh.method, refresh.reason) == same, reversed(written))])
    times = f"{last.method}, the last {alike} times" if alike > 1 else last.method
    reason = last.reason.removeprefix(f"{last.method}: ")
    return f"{times}: {reason}" if reason else times


def _unwritten_reason(row: EventRow) -> str:
    """Return the reason for a recompute whose event has none, because the run left the refresh no choice."""
    is_recomputed = row.event_type == "refresh" and _method(row) == RefreshMethod.FULL_RECOMPUTE
    return "the run asked for a full refresh" if is_recomputed and row.status in DID_WORK else ""


def _method(row: EventRow) -> str:
    return read_method(str(row.details.get("method") or ("merged" if row.event_type == "apply" else "")))
