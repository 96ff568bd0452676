"""Headline numbers: one number for each published table with a chart, its change, and a sparkline."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from medallion.errors import MedallionError
from medallion.hours import hour_or_snapshot, parse_hour
from medallion.inspect.results import Series, read_series
from medallion.model.table import Table
from medallion.ops.releases import Release
from medallion.storage.lake import Lake

MAX_POINTS = 24  # of a sparkline
_DAY = timedelta(hours=24)


@dataclass(frozen=True)
class Headline:
    """A headline number of a table.

    name: the column that is summed, or ``rows``. of: the period or the hour of the value. former, former_of: the value
    one period or about a day earlier, and its period or hour; None if unknown. points: values of the sparkline, oldest
    first for a line chart, else in the order of the chart, which begins with the largest.
    """

    table: str
    name: str
    value: float
    of: Any
    former: float | None
    former_of: Any
    points: Sequence[float]
    kind: str

    @property
    def change(self) -> float | None:
        """The change as a share of the former value."""
        return (self.value - self.former) / abs(self.former) if self.former else None


def compared_release(release: Release, retained: Sequence[Release]) -> Release | None:
    """Return the release to compare with: the newest that is at least a day older, else the oldest retained one."""
    others = [other for other in retained if other.release_id < release.release_id]
    if not others or release.hour is None:
        return None
    then = parse_hour(release.hour) - _DAY
    old_enough = [other for other in others if other.hour and parse_hour(other.hour) <= then]
    return (old_enough or others[:1])[-1]


def read_headline(lake: Lake, release: Release, earlier: Release | None, table: Table) -> Headline | None:
    """Return the headline of ``table`` at a release, compared with an earlier release; None if it has no value.

    For a line chart it is the value of the last complete period, compared with the period before; else the total.

    Raises:
        MedallionError: The table cannot be read at its version.
    """
    series = read_series(lake, release, table)
    kind = table.chart.kind if table.chart else ""
    if kind == "line":
        return _of_period(table.name, series, kind)
    former = None
    if earlier is not None and table.name in earlier.versions:
        try:
            former = read_series(lake, earlier, table).total
        except MedallionError:  # its files may have been removed: the number is shown without its change
            former = None
    points = [point[1] or 0.0 for point in series.points[:MAX_POINTS]]
    of, former_of = hour_or_snapshot(release.hour), hour_or_snapshot(earlier.hour) if earlier else None
    return Headline(table.name, series.names[0], series.total, of, former, former_of, points, kind)


def _of_period(table: str, series: Series, kind: str) -> Headline | None:
    whole = series.whole_points
    if not whole:
        return None
    (of, value, *_), before = whole[-1], whole[-2] if len(whole) > 1 else (None, None)
    points = [point[1] or 0.0 for point in whole[-MAX_POINTS:]]
    return Headline(table, series.names[0], value or 0.0, of, before[1], before[0], points, kind)
