"""Predict what a refresh of a table will cost from what recent ones cost according to the event log."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from statistics import StatisticsError, linear_regression, median
from threading import Lock

from medallion.model.refresh_method import read_state_work
from medallion.ops import event_log
from medallion.ops.event_schema import EventRow
from medallion.storage.lake import Lake

MAX_COST_RATIO = 1.1  # most that an incremental refresh may be expected to take, as a ratio to a full recompute
MIN_TRIAL_RATIO = 0.25  # from this ratio on full is tried once more, if only that of the load is known
MAX_SHARE_COST = 4  # ratio of following a row, with what leads to it and its commit, to recomputing it
MIN_SAMPLES = 3  # fewest incremental refreshes to predict from: the first ones run on a cold driver
SAMPLE_WINDOW = timedelta(days=7)
MAX_FULL_BEFORE_RETRY = 24  # after so many full recomputes incremental is tried again, sooner if it was hardly dearer


@dataclass(frozen=True)
class Costs:
    """How long recent refreshes of a table took, oldest first.

    Args:
        full: Seconds of each full recompute.
        incremental: Size of the change and seconds of each incremental refresh, the size in values of its key or bytes.
        full_since_incremental: Full recomputes since the last incremental refresh.
    """

    full: tuple[float, ...] = ()
    incremental: tuple[tuple[int, float], ...] = ()
    full_since_incremental: int = 0

    def predict_seconds(self, changed: int, share: float | None = None) -> float:
        """Predict the seconds of an incremental refresh of ``changed`` values or bytes.

        Linear regression over the known refreshes, or their median where time does not grow with size. The prediction
        is capped in proportion to the longest refresh, because sizes that lie close together make the line steep. A
        change that is larger than all known ones is not expected to take more than that ``share`` of the inputs
        explains: hours of a few hundred changes tell little of one with ten thousands.
        """
        sizes = [size for size, _ in self.incremental]
        seconds = [s for _, s in self.incremental]
        try:
            line = linear_regression(sizes, seconds)
        except StatisticsError:  # all sizes are the same
            return median(seconds)
        if line.slope <= 0:
            return median(seconds)
        longest = max(seconds) * max(1.0, changed / max(sizes))
        if share is not None and self.full and changed > max(sizes):
            longest = min(longest, max(seconds) + MAX_SHARE_COST * share * self.full_seconds)
        return min(max(min(seconds), line.intercept + line.slope * changed), longest)

    def reason_to_recompute(self, changed: int, change: str, share: float | None = None) -> str | None:
        """Return why a full recompute is cheaper for a change of this size; None if it is not, or if nothing is known.

        Args:
            changed: Values of the key, or bytes.
            change: The change in words, for the reason.
            share: The share of the inputs that it is, if known.
        """
        if not self.full or len(self.incremental) < MIN_SAMPLES:
            return None
        full_seconds, expected = self.full_seconds, self.predict_seconds(changed, share)
        ratio = expected / max(full_seconds, 0.001)
        least = min(seconds for _, seconds in self.incremental)  # those of a cold process say as little as the load
        is_trial = len(self.full) == 1 and least > MIN_TRIAL_RATIO * full_seconds and ratio <= MAX_COST_RATIO
        is_retry = self.full_since_incremental >= MAX_FULL_BEFORE_RETRY * min(1, ratio - 1)
        if not is_trial and (ratio <= MAX_COST_RATIO or is_retry):
            return None
        known = f"from the last {len(self.incremental[-5:])} incremental and {len(self.full[-5:])} full refreshes"
        if is_trial:
            known = "tried once more, as it is known from one refresh alone, perhaps on a cold Spark"
        return f"{change} would take about {expected:.1f} s, a full recompute {full_seconds:.1f} s ({known})"

    @property
    def full_seconds(self) -> float:
        """The seconds that a full recompute takes: the first one counts only while there is no other."""
        return median((self.full[1:] or self.full)[-5:])


class RecentCosts:
    """Costs by table, read once when first needed, so that an hour is not judged by its own refreshes."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._by_table: Mapping[str, Costs] | None = None
        self._reading = Lock()  # tables are refreshed in parallel, and the first ones ask at the same time

    def of(self, table: str) -> Costs:
        """Return how long refreshes of ``table`` took; empty if the event log cannot be read."""
        with self._reading:
            if self._by_table is None:
                self._by_table = _read_costs(self._lake)
            return self._by_table.get(table, Costs())


def _read_costs(lake: Lake) -> dict[str, Costs]:
    since = datetime.now(UTC) - SAMPLE_WINDOW
    columns = ("table_name", "strategy", "seconds", "details", "event_type", "status")
    return costs_of(event_log.read_if_whole(lake, since, columns, event_type="refresh", status="succeeded") or ())


def costs_of(rows: Iterable[EventRow]) -> dict[str, Costs]:
    """Collect the costs by table from event log rows in order of time, without refreshes that built state."""
    costs: dict[str, Costs] = {}
    for row in rows:
        if (name := row.table_name) is None or read_state_work(row.details):
            continue
        known = costs.get(name, Costs())
        if row.strategy == "full":
            costs[name] = Costs((*known.full, row.seconds), known.incremental, known.full_since_incremental + 1)
        elif (changed := row.details.get("changed")) is not None:
            costs[name] = Costs(known.full, (*known.incremental, (changed, row.seconds))[-5:], 0)
    return costs
