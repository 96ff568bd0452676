"""How fresh each table is, how its last check ended, and how the tables hang together, in the same colours."""

from collections.abc import Mapping
from html import escape
from typing import Any

from medallion.hours import hour_or_snapshot
from medallion.model.registry import Registry
from medallion.ui.shell import STATUS_COLOURS, empty, page, status, table

SHOWN = 8  # problems named one by one
WIDTH, HEIGHT, ROW, COLUMN = 190, 26, 36, 240  # pixels of a box, and of the places where boxes stand


def status_page(found: Mapping[str, Any], tables: Registry) -> str:
    """The page of ``lake_status``."""
    title = "Lakehouse"
    release = found["release"]
    if release is None:
        return page(title, empty(f"Nothing is published in {found['lake']}: run medallion load, then trigger the DAG."))
    lead = (
        f'<p class="soft">Release {release["release_id"]} of {escape(hour_or_snapshot(release["hour"]))}, published'
        f" {release['published_at']:%Y-%m-%d %H:%M:%S} UTC"
        f"{'; being written by ' + escape(found['writer']) if found['writer'] else ''}</p>"
    )
    told = found["problems"][:SHOWN] + [f"and {len(found['problems']) - SHOWN} more"] * (len(found["problems"]) > SHOWN)
    problems = "".join(f"<li>{escape(problem)}</li>" for problem in told)
    rows = [
        (
            escape(row["table"]),
            "" if row["rows"] is None else f"{row['rows']:,}",
            "" if row["version"] is None else str(row["version"]),
            "" if row["published"] is None else str(row["published"]),
            escape(row["hour"] or "snapshot"),
            _age(row),
            status(row["check"]),
            str(row["failures"] or ""),
            escape(row["mode"]),
            *("" if row[name] is None else f"{row[name]:.1f}" for name in ("last_seconds", "mean_seconds")),
        )
        for row in found["tables"]
    ]
    legend = ", ".join(status(word) for word in ("succeeded", "warned", "failed", "not checked"))
    names = ("table", "rows", "version", "published", "last hour", "age", "last check", "failures")
    kept = ("kept by", "last s", "mean s")
    return page(
        title,
        lead,
        f"<ul>{problems}</ul>" if problems else '<p class="succeeded">Nothing is stale, nothing is red.</p>',
        table((*names, *kept), rows, numbers=(1, 2, 3, 5, 7, 9, 10)),
        '<p class="soft">Checks, failures and seconds are of the 7 days before the newest event.</p>',
        "<h2>Lineage</h2>",
        f'<p class="soft">A box has the colour of its last check, {legend}; a dashed one is stale.</p>',
        lineage(found, tables),
    )


def _age(row: Mapping[str, Any]) -> str:
    if row["age_hours"] is None:
        return ""
    age = row["age_hours"]
    told = f"{age:,.0f} h" if age < 48 else f"{age / 24:,.0f} days"
    return f'<span class="failed">{told}</span>' if row["stale"] else told


def lineage(found: Mapping[str, Any], tables: Registry) -> str:
    """The tables as boxes, each right of all that it reads."""
    depth: dict[str, int] = {}
    for node in tables:  # in dependency order
        depth[node.name] = 1 + max((depth[name] for name in node.inputs), default=-1)
    places, filled = {}, [0] * (max(depth.values()) + 1)
    for name, column in depth.items():
        places[name] = (20 + column * COLUMN, 10 + filled[column] * ROW)
        filled[column] += 1
    known = {row["table"]: row for row in found["tables"]}
    lines = []
    for node in tables:
        for name in node.inputs:
            start, end = places[name][0] + WIDTH, places[node.name][0]
            a, b = places[name][1] + HEIGHT // 2, places[node.name][1] + HEIGHT // 2
            middle = (start + end) // 2
            lines.append(f'<path d="M{start},{a} C{middle},{a} {middle},{b} {end},{b}" fill="none" stroke="#c9cdd3"/>')
    boxes = []
    for name, (x, y) in places.items():
        row = known[name]
        colour, dashes = STATUS_COLOURS.get(row["check"], "#60646c"), ' stroke-dasharray="4 3"' if row["stale"] else ""
        boxes.append(
            f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="5" fill="#fff" stroke="{colour}"'
            f' stroke-width="1.6"{dashes}/><text x="{x + 8}" y="{y + 17}" font-size="11.5">{escape(name)}</text>'
        )
    width, height = 40 + COLUMN * len(filled) - (COLUMN - WIDTH), 20 + ROW * max(filled)
    return (
        f'<div class="wide"><svg viewBox="0 0 {width} {height}" width="{width}" xmlns="http://www.w3.org/2000/svg"'
        f' font-family="system-ui, sans-serif">{"".join(lines)}{"".join(boxes)}</svg></div>'
    )
