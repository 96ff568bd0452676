"""What refreshing a table will cost, from what it cost lately: the event log decides, per table and hour."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from statistics import StatisticsError, linear_regression, median
from typing import Any

from medallion.ops import event_log
from medallion.storage.lake import Lake

MARGIN = 1.5  # incremental is given up only where it is this much dearer: predictions are no better
LEAST = 3  # incremental refreshes that must be known first: the first ones find a cold driver
LATELY = timedelta(days=7)
RETRY = 24  # refreshes in full after which incremental is tried again: what was slow then may be fast now


@dataclass(frozen=True)
class Costs:
    """What a table took lately. full: seconds, oldest first; incremental: size of the change and seconds, the size as
    the table's way of refreshing counts it, values of its key or bytes; newer: how many of the full ones came after
    the last incremental one."""

    full: tuple[float, ...] = ()
    incremental: tuple[tuple[int, float], ...] = ()
    newer: int = 0

    def predicted(self, changed: int) -> float:
        """Seconds that an incremental refresh would take for a change of that size: on a line through the known ones,
        which does not fall."""
        seconds = [s for _, s in self.incremental]
        try:
            line = linear_regression([size for size, _ in self.incremental], seconds)
        except StatisticsError:  # one size alone
            return median(seconds)
        return max(min(seconds), line.intercept + line.slope * changed) if line.slope > 0 else median(seconds)

    def in_full(self, changed: int, change: str) -> str | None:
        """Why recomputing is cheaper for a change of that size, ``change`` in words; None where it is not, or not known
        to be."""
        if not self.full or len(self.incremental) < LEAST or self.newer >= RETRY:
            return None
        least, expected = median(self.full[-5:]), self.predicted(changed)
        if expected <= MARGIN * least:
            return None
        return (
            f"{change} would take about {expected:.1f} s, recomputing takes {least:.1f} s,"
            f" going by the last {len(self.incremental[-5:])} and {len(self.full[-5:])} times"
        )


def known_costs(lake: Lake) -> dict[str, Costs]:
    """By table, what the event log of the last days tells; nothing where it cannot be read."""
    since = datetime.now(UTC) - LATELY
    columns = ("table_name", "strategy", "seconds", "details", "event_type", "status")
    return costs_of(event_log.read_if_whole(lake, since, columns, event_type="refresh", status="succeeded") or ())


def costs_of(rows: Iterable[Mapping[str, Any]]) -> dict[str, Costs]:
    """By table, from rows of the event log in order of time; refreshes that built incremental state do not count."""
    costs: dict[str, Costs] = {}
    for row in rows:
        if (name := row["table_name"]) is None or row["details"].get("set_up"):
            continue
        known = costs.get(name, Costs())
        if row["strategy"] == "full":
            costs[name] = Costs((*known.full, row["seconds"]), known.incremental, known.newer + 1)
        elif (changed := row["details"].get("changed")) is not None:
            costs[name] = Costs(known.full, (*known.incremental, (changed, row["seconds"]))[-5:], 0)
    return costs
