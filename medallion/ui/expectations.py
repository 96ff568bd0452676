"""The page of expectations over the last checks, table by table, with failures first."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from medallion.checks.volumes import NOT_COMPARED, ROW_COUNT_BOUND, ROW_COUNT_IN_HISTORY
from medallion.counts import counted
from medallion.html.templating import Bars, Grid, Link, Long, Status, render, render_notice
from medallion.inspect.check_history import Judged, Trend, trends
from medallion.inspect.volumes import read_row_counts
from medallion.model.table import QUARANTINE
from medallion.ops.event_schema import WORST_FIRST
from medallion.storage.lake import Lake

TALL = 22  # pixels of the tallest bar
SHOWN_CHECKS = 24
COLUMNS = ("last check", "last checks", "expectation", "severity", "failed records", "passed records", "last hour")


PASSED = ("table", "layer", "expectations", "rows, check by check")


@dataclass(frozen=True)
class Group:
    """The expectations of one table. status: the worst status. rows, bars: the row counts, in words and as bars."""

    table: str
    layer: str
    status: str
    summary: str
    rows: str
    bars: Bars | None
    expectations: Grid


def expectations_page(lake: Lake, status: str = "", table: str = "", layer: str = "") -> str:
    """Render the tables with expectations that did not pass, then a list of the others, or one table in full.

    status, table, layer: filters of the tables, empty for all.
    """
    known = trends(lake)
    if not known:
        text = "Nothing has been checked yet: trigger hourly_refresh, or run medallion load."
        return render_notice("Expectations", text, "expectations")
    groups = _groups(lake, known)
    wanted = [
        group
        for group in groups
        if status in ("", group.status) and table in ("", group.table) and layer in ("", group.layer)
    ]
    counts = {word: sum(group.status == word for group in groups) for word in WORST_FIRST}
    passed = [group for group in wanted if group.status == "succeeded" and not table]
    return render(
        "expectations.html",
        title="Expectations",
        page="expectations",
        lead=f"{len(known):,} expectations in the newest check of each of {len(groups)} tables; tables: "
        + ", ".join(f"{count} {word}" for word, count in counts.items()),
        groups=[group for group in wanted if group not in passed],
        passed=_list_passed(passed) if passed else None,
        filters=(
            ("status", status, WORST_FIRST),
            ("table", table, [group.table for group in groups]),
            ("layer", layer, list(dict.fromkeys(group.layer for group in groups))),
        ),
    )


def _groups(lake: Lake, known: Sequence[Trend]) -> list[Group]:
    row_counts = read_row_counts(lake)
    tables: dict[str, list[Trend]] = {}
    for trend in known:
        tables.setdefault(trend.table, []).append(trend)
    groups = [_group(table, own, row_counts.get(table)) for table, own in tables.items()]
    return sorted(groups, key=lambda group: WORST_FIRST.index(group.status))


def _group(table: str, own: Sequence[Trend], row_counts: Mapping[str, int] | None) -> Group:
    words = [trend.last.status for trend in own]
    worst = next((word for word in WORST_FIRST if word in words), "succeeded")
    failed = sum(word != "succeeded" for word in words)
    dropped = [trend.last.observed for trend in own if table.startswith(QUARANTINE) and trend.last.observed]
    summary = "; ".join(dropped) or (f"{failed} of {len(own)} did not pass" if failed else f"all {len(own)} passed")
    grid = Grid(f"Expectations of {table}", COLUMNS, [_row(trend) for trend in own], {4, 5})
    bars = _volume_bars(table, row_counts) if row_counts else None
    return Group(table, own[0].layer, worst, summary, describe_volume(own, row_counts), bars, grid)


def _list_passed(groups: Sequence[Group]) -> Grid:
    """List the tables whose expectations all passed, each with a link to its expectations."""
    rows = [
        (
            Link(group.table, f"expectations?table={group.table}"),
            *(group.layer, group.summary, group.bars or ""),
        )
        for group in groups
    ]
    caption = f"{counted(len(rows), 'table')} of which every expectation passed: choose one to see them"
    return Grid(caption, PASSED, rows, searchable=True)


def describe_volume(own: Sequence[Trend], row_counts: Mapping[str, int] | None) -> str:
    """Describe a table's number of rows, the expected number if it jumped, and declared bounds."""
    by_meaning = {trend.expectation: trend.last.observed for trend in own}
    rows = by_meaning.get(ROW_COUNT_IN_HISTORY) or (f"{[*row_counts.values()][-1]:,} rows" if row_counts else "")
    bounds = [meaning for meaning in by_meaning if meaning.startswith(ROW_COUNT_BOUND)]
    return "; ".join(filter(None, (rows, *(f"declared: {bound}" for bound in bounds))))


def _volume_bars(table: str, row_counts: Mapping[str, int]) -> Bars:
    newest = [*row_counts.items()][-SHOWN_CHECKS:]
    most = max((count for _, count in newest), default=0) or 1
    bars = [(max(1, round(TALL * count / most)), "quiet", f"{hour}: {count:,} rows") for hour, count in newest]
    counts = [count for _, count in newest]
    label = f"{counts[-1]:,} rows"
    if min(counts) != max(counts):
        label += f"; {min(counts):,} to {max(counts):,} in {len(bars)} checks"
    return Bars(bars, f"rows of {table} in the last {len(bars)} checks", label)


def _row(trend: Trend) -> Sequence[Any]:
    last = trend.last
    counts = (last.failed_records, last.passed_records, last.hour)
    unknown = last.status == "succeeded" and NOT_COMPARED in (last.observed or "")
    return (
        Status(NOT_COMPARED if unknown else last.status),
        draw_checks(trend),
        Long(trend.expectation),
        trend.severity,
        *counts,
    )


def draw_checks(trend: Trend) -> Bars:
    """Draw a bar for each check of an expectation, oldest first; its height shows the share of failed records."""
    number = len(trend.checks)
    failed = sum(check.status != "succeeded" for check in trend.checks)
    label = f"{failed} of {number} did not pass" if failed else f"{number} passed"
    return Bars([_bar(check) for check in trend.checks], f"the last {number} checks of {trend.expectation}", label)


def _bar(check: Judged) -> tuple[float, str, str]:
    whole = (check.passed or 0) + (check.failed or 0)
    # An expectation about a table as a whole has no failed records.
    share = (check.failed or 0) / whole if check.failed and whole else float(check.status != "succeeded")
    height = 2 if not share else max(5, round(TALL * share**0.3))
    verdict = "no verdict" if check.failed is None else f"{check.failed:,} of {whole:,} records failed"
    if check.failed_as_a_whole:
        verdict = "the table as a whole failed"
    return height, check.status, f"{check.hour}: {verdict}"
