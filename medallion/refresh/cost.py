"""Predict what a refresh of a table will cost from what recent ones cost according to the event log."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from statistics import StatisticsError, linear_regression, median
from threading import Lock
from zlib import crc32

from medallion.model.refresh_method import read_state_work
from medallion.ops import event_log
from medallion.ops.event_schema import EventRow
from medallion.storage.lake import Lake

MAX_COST_RATIO = 1.1  # most that an incremental refresh may be expected to take, as a ratio to a full recompute
MIN_TRIAL_RATIO = 0.25  # from this ratio to the load on, full is tried if no hour has recomputed the table
MAX_SHARE_COST = 4  # ratio of following a row, with what leads to it and its commit, to recomputing it
MIN_SAMPLES = 3  # fewest incremental refreshes to predict from: the first ones run on a cold driver
SAMPLE_WINDOW = timedelta(days=7)
BEFORE_RETRY = 24  # after so many refreshes one way, the other is tried again: what was slow may be fast by now
RETRY_SPREAD = 8  # tables try full again up to so many refreshes later, so that few do it in the same hour
TRIAL_SPREAD = 4  # the same for the first try of full
MIN_RETRY_RATIO = 0.5  # from this ratio to the known full on, full is tried again: cheaper tables are not worth it


@dataclass(frozen=True)
class Costs:
    """How long recent refreshes of a table took, oldest first.

    Args:
        table: Its name, by which tables take turns in trying full.
        load: Seconds of the first full refresh, which may have run on a cold Spark; None if it was long ago.
        full: Seconds of each full recompute in an hour; after a day without one, only of those since then.
        incremental: Size of the change and seconds of each incremental refresh, the size in values of its key or bytes.
        full_since_incremental: Full recomputes since the last incremental refresh.
        incremental_since_full: Incremental refreshes since the last full recompute.
    """

    table: str
    load: float | None = None
    full: tuple[float, ...] = ()
    incremental: tuple[tuple[int, float], ...] = ()
    full_since_incremental: int = 0
    incremental_since_full: int = 0

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
        if share is not None and self.full_seconds is not None and changed > max(sizes):
            longest = min(longest, max(seconds) + MAX_SHARE_COST * share * self.full_seconds)
        return min(max(min(seconds), line.intercept + line.slope * changed), longest)

    def reason_to_recompute(
        self, changed: int, change: str, share: float | None = None, *, may_retry: bool = False
    ) -> str | None:
        """Return why to recompute the table for a change of this size: it is cheaper, or is to be measured (again).

        None if there is no reason, or if too little is known.

        Args:
            changed: Values of the key, or bytes.
            change: The change in words, for the reason.
            share: The share of the inputs that it is, if known.
            may_retry: Whether full is tried again some day, as it may have been slow on a cold Spark; not for a table
                that it overwrites as a whole, as each of its readers would be recomputed too.
        """
        full_seconds = self.full_seconds
        if full_seconds is None or len(self.incremental) < MIN_SAMPLES:
            return None
        expected = self.predict_seconds(changed, share)
        fastest = min(seconds for _, seconds in self.incremental)  # slower ones may have run on a cold Spark too
        if not self.full and self.incremental_since_full >= self.try_after and fastest > MIN_TRIAL_RATIO * full_seconds:
            return (
                f"{change} would take about {expected:.1f} s, the load took {full_seconds:.1f} s, perhaps on a cold"
                " Spark: a full recompute is tried once"
            )
        is_due = may_retry and self.incremental_since_full >= self.retry_after
        if is_due and fastest > MIN_RETRY_RATIO * full_seconds:
            return (
                f"{change} would take about {expected:.1f} s, a full recompute took about {full_seconds:.1f} s"
                f" {self.incremental_since_full} refreshes ago: it is tried again"
            )
        if expected <= MAX_COST_RATIO * full_seconds or self.full_since_incremental >= BEFORE_RETRY:
            return None
        return (
            f"{change} would take about {expected:.1f} s, a full recompute {full_seconds:.1f} s"
            f" (from the last {len(self.incremental)} incremental and {max(1, len(self.full[-5:]))} full refreshes)"
        )

    @property
    def full_seconds(self) -> float | None:
        """About what a full recompute takes: the load counts only while there is no other; None if none is known."""
        return median(self.full[-5:]) if self.full else self.load

    @property
    def try_after(self) -> int:
        """After how many incremental refreshes full is tried first, if only the load is known."""
        return MIN_SAMPLES + crc32(self.table.encode()) % TRIAL_SPREAD

    @property
    def retry_after(self) -> int:
        """After how many incremental refreshes full is tried again."""
        return BEFORE_RETRY + crc32(self.table.encode()) % RETRY_SPREAD


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
            return self._by_table.get(table, Costs(table))


def _read_costs(lake: Lake) -> dict[str, Costs]:
    since = datetime.now(UTC) - SAMPLE_WINDOW
    columns = ("table_name", "hour", "strategy", "seconds", "details", "event_type", "status")
    return costs_of(event_log.read_if_whole(lake, since, columns, event_type="refresh", status="succeeded") or ())


def costs_of(rows: Iterable[EventRow]) -> dict[str, Costs]:
    """Collect the costs by table from event log rows in order of time, without refreshes that built state.

    These count as tries of incremental, so that the next hour does not pay for another.
    """
    costs: dict[str, Costs] = {}
    for row in rows:
        if (name := row.table_name) is None:
            continue
        known = costs.get(name, Costs(name))
        if read_state_work(row.details):
            costs[name] = replace(known, full_since_incremental=0)
        elif row.strategy == "full" and row.hour is None:
            costs[name] = replace(known, load=row.seconds)
        elif row.strategy == "full":
            since = known.full_since_incremental + 1
            is_retry = known.incremental_since_full >= BEFORE_RETRY  # what was slow on a cold Spark counts no more
            full = (row.seconds,) if is_retry else (*known.full, row.seconds)
            costs[name] = replace(known, full=full, full_since_incremental=since, incremental_since_full=0)
        elif (changed := row.details.get("changed")) is not None:
            samples = (*known.incremental, (changed, row.seconds))[-5:]
            since = known.incremental_since_full + 1
            costs[name] = replace(known, incremental=samples, full_since_incremental=0, incremental_since_full=since)
    return costs
