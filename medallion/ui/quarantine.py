"""The page of the quarantine: lines that could not be applied, with hour and reason, and how to replay them."""

import json
from urllib.parse import quote

from medallion.html.templating import Grid, Link, Long, render
from medallion.ingest.quarantine import SNAPSHOT, feed_of, read_rejected
from medallion.inspect.quarantined import count_dropped_rows, count_rejected_lines
from medallion.model.registry import Registry
from medallion.model.table import QUARANTINE
from medallion.storage.lake import Lake

SHOWN = 200  # lines
SUMMARY = ("name", "what", "hour", "reason", "count")
LINES = ("hour", "file", "line", "reason", "as it came")


def quarantine_page(lake: Lake, tables: Registry, feed: str = "", hour: str = "") -> str:
    """Render what is in quarantine and why. feed, hour: show lines of these. Raises UsageError for an unknown feed."""
    counts = [*count_rejected_lines(lake, tables), *count_dropped_rows(lake)]
    rows = [
        (
            Link(row.name, f"quarantine?feed={quote(row.name)}&hour={row.hour}#lines")
            if row.kind == "rejected lines"
            else Link(row.name, f"table?name={QUARANTINE}{quote(row.name)}"),
            *(row.kind, row.hour, Long(row.reason), row.count),
        )
        for row in counts
    ]
    lines = read_rejected(lake, feed_of(tables.feeds, feed), hour or None) if feed else []
    shown = [(row.hour, row.file, row.line_number, Long(row.reason), Long(row.raw)) for row in lines[:SHOWN]]
    can_be_replayed = lines and hour not in ("", SNAPSHOT)
    correction = [{"line_number": line.line_number, "raw": line.raw} for line in lines]
    return render(
        "quarantine.html",
        title="Quarantine",
        page="quarantine",
        summary=Grid("Kept aside, by name, hour and reason", SUMMARY, rows, {4}, searchable=True),
        feed=feed,
        hour=hour,
        lines=Grid(f"{len(shown)} of {len(lines)} lines of {feed}", LINES, shown, {2}) if lines else None,
        correction=json.dumps(correction, indent=1, ensure_ascii=False) if can_be_replayed else None,
    )
