"""How each expectation has fared over the last checks: what is broken first."""

from collections.abc import Sequence
from html import escape

from medallion.inspect.check_history import Judged, Trend, trends
from medallion.storage.lake import Lake
from medallion.ui.shell import STATUS_COLOURS, empty, page, status, table

BAR, TALL = 7, 22  # pixels of a bar, and of the tallest


def expectations_page(lake: Lake) -> str:
    """A row for each expectation: rows that kept and broke it in the newest check, and a bar for each of the last."""
    title, found = "Expectations", trends(lake)
    if not found:
        return page(title, empty("Nothing has been checked yet: trigger hourly_refresh, or run medallion load."))
    broken = sum(one.last.status != "succeeded" for one in found)
    lead = (
        f'<p class="soft">{len(found):,} expectations, {broken:,} of them not kept in the newest check of their table.'
        " A bar is a check, as high as the share of rows that broke it, on a scale that shows one row too."
        " Checks of the newest 7 days count.</p>"
    )
    names = ("last check", "last checks", "table", "expectation", "severity", "rows broken", "rows kept", "last hour")
    return page(title, lead, table(names, map(_row, found), numbers=(5, 6)))


def _row(one: Trend) -> Sequence[str]:
    last = one.last
    counts = ("" if count is None else f"{count:,}" for count in (last.failed, last.passed))
    told = (escape(one.table), f'<div class="text">{escape(one.expectation)}</div>', escape(one.severity))
    return (status(last.status), _bars(one.checks), *told, *counts, escape(last.hour))


def _bars(checks: Sequence[Judged]) -> str:
    drawn = []
    for place, check in enumerate(checks):
        whole = (check.passed or 0) + (check.failed or 0)
        share = 1.0 if check.failed is None else check.failed / whole if whole else 0.0
        height = 2 if not share else max(5, round(TALL * share**0.3))
        told = f"{check.hour}: {'no verdict' if check.failed is None else f'{check.failed:,} of {whole:,} rows'}"
        drawn.append(
            f'<rect x="{place * BAR}" y="{TALL - height}" width="{BAR - 2}" height="{height}"'
            f' fill="{STATUS_COLOURS[check.status]}"><title>{escape(told)}</title></rect>'
        )
    width = len(checks) * BAR
    return (
        f'<svg style="min-width:0" width="{width}" height="{TALL}" viewBox="0 0 {width} {TALL}">{"".join(drawn)}</svg>'
    )
