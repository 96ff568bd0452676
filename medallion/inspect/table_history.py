"""One table over time: rows, bytes and seconds of its refreshes and why each went as it did, from the event log."""

from dataclasses import dataclass

from medallion.model.refresh_method import read_method
from medallion.ops import event_log
from medallion.storage.lake import Lake

COLUMNS = (
    *("run_id", "hour", "event_type", "table_name", "strategy", "status", "seconds"),
    *("rows_in", "rows_out", "bytes_out", "details"),
)


@dataclass(frozen=True)
class TableRefresh:
    """One refresh of a table. rows: of the whole table after it, as its check counted them; changed: rows written.

    method, reason: how it was refreshed and why, in words.
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
    """Every refresh of ``table`` in the 7 days before the newest event, oldest first."""
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
                read_method(str(details.get("method") or ("merged" if row.event_type == "apply" else ""))),
                str(details.get("error") or details.get("note") or ""),
            )
        )
    return history
