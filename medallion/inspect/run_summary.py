"""A one-line summary of a run, so that readers of the list of runs need not open a log."""

from collections.abc import Iterable, Sequence

from medallion.counts import counted
from medallion.inspect.run_history import final_steps
from medallion.model.refresh_method import NO_INPUT_CHANGED
from medallion.model.table import QUARANTINE
from medallion.ops import event_log
from medallion.ops.event_schema import DID_WORK, EventRow
from medallion.storage.lake import Lake

MAX_WARNINGS = 5


def run_summary(lake: Lake, run_id: str) -> str:
    """Summarize a published run from the event log: hour, strategy, changed rows, tables, release and warnings.

    For a restatement the rows are those of all its hours.
    """
    steps = final_steps(event_log.read_if_whole(lake, run_id=run_id) or [])
    whole = [row for row in steps if row.table_name is None]
    published = next((row for row in reversed(whole) if row.event_type == "publish"), None)
    parts = []
    if applied := [row for row in whole if row.event_type == "apply"]:
        changed, lines = sum(row.rows_out or 0 for row in applied), sum(row.rows_in or 0 for row in applied)
        parts.append(f"{counted(changed, 'row')} of Bronze changed by {counted(lines, 'line')}")
    if refreshed := [row for row in steps if row.event_type == "refresh" and row.table_name]:
        written = sum(row.status in DID_WORK for row in refreshed)
        unchanged = all(row.details.get("note") == NO_INPUT_CHANGED for row in refreshed)
        of_them = counted(len(refreshed), "table")
        parts.append(
            f"nothing to do, as no input of {of_them} has changed" if unchanged else f"{written} of {of_them} written"
        )
    if published is not None and "release_id" in published.details:
        parts.append(f"release {published.details['release_id']}")
    elif published is not None and (note := published.details.get("note")):
        parts.append(note)
    parts += _drops(steps)
    parts.append(_warnings([row for row in steps if row.status == "warned"]))
    head = f"{published.hour}, {published.strategy}: " if published is not None else ""
    return head + "; ".join(parts)


def _drops(steps: Iterable[EventRow]) -> list[str]:
    """Return what the checks observed about rows that tables drop by design."""
    return [
        result["observed"]
        for row in steps
        if row.event_type == "check" and (row.table_name or "").startswith(QUARANTINE) and row.status == "succeeded"
        for result in row.details.get("expectations", {}).values()
        if "observed" in result and result["failed"]
    ]


def _warnings(warned: Sequence[EventRow]) -> str:
    """Return the warnings in one line; those of whole steps come first, as they often include those of tables."""
    if not warned:
        return "no warnings"
    texts = []
    for row in sorted(warned, key=lambda row: row.table_name or ""):
        where = row.table_name or f"{row.event_type} {row.layer or ''}".strip()
        texts.append(f"{where}: {row.details.get('note') or 'see its log'}")
    more = f" and {len(texts) - MAX_WARNINGS} more" if len(texts) > MAX_WARNINGS else ""
    return f"warnings: {'; '.join(texts[:MAX_WARNINGS])}{more}"
