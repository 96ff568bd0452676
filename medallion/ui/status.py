"""The page of the lakehouse: its state compared with the source, each table's last check, and the lineage."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any
from urllib.parse import quote

from medallion.hours import hour_or_snapshot
from medallion.html.templating import Grid, Link, Status, render, render_notice
from medallion.inspect.hour_history import HourMark
from medallion.inspect.run_history import is_of_airflow
from medallion.inspect.status import TableStatus
from medallion.model.registry import Registry
from medallion.refresh.definitions import CHANGED
from medallion.ui.lineage import lineage_graph
from medallion.ui.standing import Standing

SHOWN = 8  # problems listed one by one
COLUMNS = (
    *("table", "rows", "version", "published", "last hour", "behind the source", "last check", "failures"),
    *("refresh method", "last s", "mean s"),
)


@dataclass(frozen=True)
class Day:
    """A row of the map of hours: a mark for each hour of the day, None where nothing is known."""

    date: str
    marks: Sequence[HourMark | None]


@dataclass(frozen=True)
class Blocked:
    """Why later hours wait.

    headline, reason: which hours are red, and why. recovery: what to do. report: the address of the failed
    check's report, None if no check failed.
    """

    headline: str
    reason: str
    recovery: str
    report: str | None


def status_page(standing: Standing, tables: Registry, chosen: str = "") -> str:
    """Render the page of the lakehouse. chosen: the table whose neighbours are highlighted in the lineage."""
    title, status = "Lakehouse", standing.status
    release = status.release
    if release is None:
        text = f"Nothing is published in {status.lake}: run medallion load, then trigger the DAG."
        return render_notice(title, text, "status")
    lead = (
        f"Release {release.release_id} of {hour_or_snapshot(release.hour)}, published"
        f" {release.published_at:%Y-%m-%d %H:%M:%S} UTC"
    )
    above = (status.red, status.unfinished) if standing.blocked else ()  # as the notes above the list say the same
    problems = [problem for problem in status.problems if problem not in above]
    more = [f"and {len(problems) - SHOWN} more"] if len(problems) > SHOWN else []
    classes = {row.table: f"{row.check.replace(' ', '-')}{' stale' if row.stale else ''}" for row in status.tables}
    rows = [_row(row, standing) for row in status.tables]
    return render(
        "status.html",
        title=title,
        page="status",
        lead=lead,
        standing=standing,
        blocked=_blocked(standing),
        by_airflow=bool(standing.blocked and standing.blocked.red and is_of_airflow(standing.blocked.red.run_id)),
        problems=[*problems[:SHOWN], *more],
        days=_days(standing.hours),
        tables=Grid("Tables of the lake", COLUMNS, rows, {1, 2, 3, 5, 7, 9, 10}, None, True),
        graph=lineage_graph(tables, classes, chosen if chosen in tables.tables else None),
    )


def _blocked(standing: Standing) -> Blocked | None:
    if standing.blocked is None or standing.blocked.red is None:
        return None
    red = standing.blocked.red
    report = f"reports/file/{quote('/'.join(red.report.split('/')[-2:]))}" if red.report else None
    return Blocked(red.sentence, red.cause, red.recovery, report)


def _days(hours: Sequence[HourMark]) -> list[Day]:
    days = []
    for date, marks in groupby(hours, key=lambda mark: mark.hour[:10]):
        known = {int(mark.hour[11:]): mark for mark in marks}
        days.append(Day(date, [known.get(hour) for hour in range(24)]))
    return days


def _row(row: TableStatus, standing: Standing) -> Sequence[Any]:
    seconds = ("" if value is None else f"{value:.1f}" for value in (row.last_seconds, row.mean_seconds))
    lag = standing.lag_hours(row.hour)
    counts = (row.rows, row.version, row.published, row.hour or "snapshot")
    name = Link(row.table, f"table?name={row.table}")
    mode = f"{row.mode}; {CHANGED}" if row.definition_changed else row.mode
    behind = "" if lag is None else f"{lag:,.0f} h"
    return (name, *counts, behind, Status(row.check), row.failures or "", mode, *seconds)
