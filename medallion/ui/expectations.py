"""The page of expectations over the last checks, table by table: what failed first."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from medallion.inspect.check_history import Judged, Trend, trends
from medallion.inspect.volumes import QUARANTINE, Dropped, Volume, read_volumes
from medallion.storage.lake import Lake
from medallion.templating import Bars, Grid, Long, Status, render, render_notice

TALL = 22  # pixels of the tallest bar
SHOWN_CHECKS = 24
COLUMNS = ("last check", "last checks", "expectation", "severity", "failed records", "passed records", "last hour")
STATUSES = ("failed", "warned", "succeeded")


@dataclass(frozen=True)
class Group:
    """The expectations of one table. status: the worst of them; rows: its volume, in words and as bars."""

    table: str
    layer: str
    status: str
    summary: str
    rows: str
    bars: Bars | None
    expectations: Grid


def expectations_page(lake: Lake, status: str = "", table: str = "", layer: str = "") -> str:
    """A group per table, those that failed first; status, table, layer: only groups of that kind, empty for all."""
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
    counts = {word: sum(group.status == word for group in groups) for word in STATUSES}
    return render(
        "expectations.html",
        title="Expectations",
        page="expectations",
        lead=f"{len(known):,} expectations on {len(groups)} tables in the newest check of each: "
        + ", ".join(f"{count} {word}" for word, count in counts.items()),
        groups=wanted,
        filters=(
            ("status", status, STATUSES),
            ("table", table, sorted(group.table for group in groups)),
            ("layer", layer, list(dict.fromkeys(group.layer for group in groups))),
        ),
    )


def _groups(lake: Lake, known: Sequence[Trend]) -> list[Group]:
    volumes, dropped = read_volumes(lake)
    tables: dict[str, list[Trend]] = {}
    for trend in known:
        tables.setdefault(trend.table, []).append(trend)
    groups = [
        _group(table, own, volumes.get(table), dropped.get(table.removeprefix(QUARANTINE)))
        for table, own in tables.items()
    ]
    return sorted(groups, key=lambda group: STATUSES.index(group.status))


def _group(table: str, own: Sequence[Trend], volume: Volume | None, dropped: Dropped | None) -> Group:
    drops = dropped if table.startswith(QUARANTINE) else None
    words = ["warned"] if (volume is not None and volume.is_jump and drops is None) else []
    if drops is None:
        words += [trend.last.status for trend in own]
        failed = sum(trend.last.status != "succeeded" for trend in own)
        summary = f"{len(own)} expectations, {f'{failed} not met' if failed else 'all met'}"
    else:
        words += ["warned" if drops.is_jump else "succeeded"]
        summary = drop_in_words(drops)
    worst = next((word for word in STATUSES if word in words), "succeeded")
    grid = Grid(f"Expectations of {table}", COLUMNS, [_row(trend, drops) for trend in own], {4, 5})
    rows = volume_in_words(volume) if volume else ""
    return Group(table, own[0].layer, worst, summary, rows, _volume_bars(volume) if volume else None, grid)


def drop_in_words(dropped: Dropped) -> str:
    """What a table leaves out: nothing to worry about unless its share jumps."""
    amount = f"{dropped.rows:,} dropped ({100 * dropped.share:.1f} % of {dropped.table})"
    return f"{amount}: the share jumped from its history" if dropped.is_jump else f"ok, {amount}"


def volume_in_words(volume: Volume) -> str:
    """How many rows a table has, and what was to be expected where they jump."""
    amount = f"{volume.rows[-1]:,} rows"
    return (
        f"{amount}, a jump: about {volume.expected:,.0f} were expected from its history" if volume.is_jump else amount
    )


def _volume_bars(volume: Volume) -> Bars:
    newest = [*zip(volume.hours, volume.rows, strict=True)][-SHOWN_CHECKS:]
    most = max((count for _, count in newest), default=0) or 1
    bars = [(max(1, round(TALL * count / most)), "quiet", f"{hour}: {count:,} rows") for hour, count in newest]
    return Bars(bars, f"rows of {volume.table} in the last {len(bars)} checks")


def _row(trend: Trend, dropped: Dropped | None) -> Sequence[Any]:
    last = trend.last
    word = last.status
    if dropped is not None and word == "warned":
        word = "warned" if dropped.is_jump else "succeeded"
    counts = (last.failed, last.passed, last.hour)
    return (Status(word), draw_checks(trend), Long(trend.expectation), trend.severity, *counts)


def draw_checks(trend: Trend) -> Bars:
    """A bar for each check of an expectation, oldest first, as high as the share of rows that failed."""
    return Bars([_bar(check) for check in trend.checks], f"the last {len(trend.checks)} checks of {trend.expectation}")


def _bar(check: Judged) -> tuple[float, str, str]:
    whole = (check.passed or 0) + (check.failed or 0)
    share = 1.0 if check.failed is None else check.failed / whole if whole else 0.0
    height = 2 if not share else max(5, round(TALL * share**0.3))
    verdict = "no verdict" if check.failed is None else f"{check.failed:,} of {whole:,} rows"
    return height, check.status, f"{check.hour}: {verdict}"
