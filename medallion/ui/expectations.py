"""How each expectation has fared over the last checks: what is broken first."""

from collections.abc import Sequence
from typing import Any

from medallion.inspect.check_history import Judged, Trend, trends
from medallion.storage.lake import Lake
from medallion.templating import Bars, Grid, Long, Status, render, render_notice

TALL = 22  # pixels of the tallest bar
COLUMNS = (
    *("last check", "last checks", "table", "expectation", "severity"),
    *("failed records", "passed records", "last hour"),
)


def expectations_page(lake: Lake) -> str:
    """A row for each expectation: rows that kept and broke it in the newest check, and a bar for each of the last."""
    title, known = "Expectations", trends(lake)
    if not known:
        text = "Nothing has been checked yet: trigger hourly_refresh, or run medallion load."
        return render_notice(title, text, "expectations")
    broken = sum(trend.last.status != "succeeded" for trend in known)
    lead = (
        f"{len(known):,} expectations, {broken:,} of them not kept in the newest check of their table. A bar is a"
        " check, as high as the share of rows that broke it, on a scale that shows one row too. Checks of the newest 7"
        " days count."
    )
    grid = Grid("Expectations, failed ones first", COLUMNS, [*map(_row, known)], {5, 6}, searchable=True)
    return render("expectations.html", title=title, page="expectations", lead=lead, expectations=grid)


def _row(trend: Trend) -> Sequence[Any]:
    last = trend.last
    name = (trend.table, Long(trend.expectation), trend.severity)
    return (Status(last.status), draw_checks(trend), *name, last.failed, last.passed, last.hour)


def draw_checks(trend: Trend) -> Bars:
    """A bar for each check of an expectation, oldest first, as high as the share of rows that failed."""
    return Bars([_bar(check) for check in trend.checks], f"the last {len(trend.checks)} checks of {trend.expectation}")


def _bar(check: Judged) -> tuple[float, str, str]:
    whole = (check.passed or 0) + (check.failed or 0)
    share = 1.0 if check.failed is None else check.failed / whole if whole else 0.0
    height = 2 if not share else max(5, round(TALL * share**0.3))
    verdict = "no verdict" if check.failed is None else f"{check.failed:,} of {whole:,} rows"
    return height, check.status, f"{check.hour}: {verdict}"
