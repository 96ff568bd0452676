"""How fresh each table is, how its last check ended, and how the tables hang together, in the same colours."""

from collections.abc import Mapping, Sequence
from typing import Any

from medallion.hours import hour_or_snapshot
from medallion.model.registry import Registry
from medallion.templating import Grid, Link, Status, render, render_notice
from medallion.ui.lineage import lineage_graph

SHOWN = 8  # problems named one by one
COLUMNS = (
    *("table", "rows", "version", "published", "last hour", "age", "last check", "failures"),
    *("refresh method", "last s", "mean s"),
)


def status_page(found: Mapping[str, Any], tables: Registry, chosen: str = "") -> str:
    """The page of ``lake_status``; chosen: the table whose neighbours are lit in the lineage."""
    title = "Lakehouse"
    release = found["release"]
    if release is None:
        text = f"Nothing is published in {found['lake']}: run medallion load, then trigger the DAG."
        return render_notice(title, text, "status")
    writer = f"; being written by {found['writer']}" if found["writer"] else ""
    lead = (
        f"Release {release['release_id']} of {hour_or_snapshot(release['hour'])}, published"
        f" {release['published_at']:%Y-%m-%d %H:%M:%S} UTC{writer}"
    )
    problems = found["problems"]
    more = [f"and {len(problems) - SHOWN} more"] if len(problems) > SHOWN else []
    classes = {
        row["table"]: f"{row['check'].replace(' ', '-')}{' stale' if row['stale'] else ''}" for row in found["tables"]
    }
    return render(
        "status.html",
        title=title,
        page="status",
        lead=lead,
        problems=[*problems[:SHOWN], *more],
        tables=Grid("Tables of the lake", COLUMNS, [*map(_row, found["tables"])], {1, 2, 3, 5, 7, 9, 10}, None, True),
        graph=lineage_graph(tables, classes, chosen if chosen in tables.tables else None),
    )


def _row(row: Mapping[str, Any]) -> Sequence[Any]:
    seconds = ("" if row[name] is None else f"{row[name]:.1f}" for name in ("last_seconds", "mean_seconds"))
    counts = (row["rows"], row["version"], row["published"], row["hour"] or "snapshot", _age(row))
    name = Link(row["table"], f"table?name={row['table']}")
    return (name, *counts, Status(row["check"]), row["failures"] or "", row["mode"], *seconds)


def _age(row: Mapping[str, Any]) -> str:
    age = row["age_hours"]
    if age is None:
        return ""
    return f"{age:,.0f} h" if age < 48 else f"{age / 24:,.0f} days"
