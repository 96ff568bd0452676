"""Predict what a refresh of a table will cost from what recent ones cost according to the event log."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from statistics import StatisticsError, linear_regression, median
from threading import Lock
from zlib import crc32

from medallion.model.refresh_method import read_state_work
from medallion.ops import event_log
from medallion.ops.event_schema import DID_WORK, EventRow
from medallion.storage.lake import Lake

MAX_COST_RATIO = 1.1  # most that an incremental refresh may be expected to take, as a ratio to a full recompute
MIN_TRIAL_RATIO = 0.25  # from this ratio to the load on, full is tried if no hour has recomputed the table
MAX_SHARE_COST = 4  # ratio of following a row, with what leads to it and its commit, to recomputing it
MIN_SAMPLES = 3  # fewest incremental refreshes to predict from: the first ones run on a cold driver
SAMPLE_WINDOW = timedelta(days=7)
BEFORE_RETRY = 24  # after so many refreshes one way, the other is tried again: what was slow may be fast by now
RETRY_SPREAD = 8  # tables try full again fewer refreshes than this later, so that few do it in the same hour
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
        has_failed: Whether the newest refresh failed.
        method: How the incremental refreshes were done, because sizes of two methods have different units.
        full_failed: Whether the last full recompute that was chosen failed: until full is due again, none is chosen.
        is_retrying: Whether incremental is tried again: what it took a day ago counts no more, and the first refresh,
            which caught up with a day of changes, does not count.
    """

    table: str
    load: float | None = None
    full: tuple[float, ...] = ()
    incremental: tuple[tuple[int, float], ...] = ()
    full_since_incremental: int = 0
    incremental_since_full: int = 0
    has_failed: bool = False
    method: str | None = None
    full_failed: bool = False
    is_retrying: bool = False

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

    def reason_to_try_full(
        self, changed: int, change: str, share: float | None = None, *, may_retry: bool = False
    ) -> str | None:
        """Return why to recompute the table to learn what that takes; None if enough, or too little, is known.

        After a failed refresh nothing is tried: the hour has to end first.

        Args:
            changed: Values of the key, or bytes.
            change: The change in words, for the reason.
            share: The share of the inputs that it is, if known.
            may_retry: Whether full is tried again some day, as it may have been slow on a cold Spark; not for a table
                that it overwrites as a whole, as each of its readers would be recomputed too.
        """
        full_seconds = self._known_full_seconds
        if full_seconds is None or self.has_failed:
            return None
        fastest = min(seconds for _, seconds in self.incremental)  # slower ones may have run on a cold Spark too
        takes = f"{change} would take about {self.predict_seconds(changed, share):.1f} s"
        if not self.full and self.incremental_since_full >= self.try_after and fastest > MIN_TRIAL_RATIO * full_seconds:
            return (
                f"{takes}, the load took {full_seconds:.1f} s, perhaps on a cold Spark: a full recompute is tried once"
            )
        is_due = may_retry and self.incremental_since_full >= self.retry_after
        if is_due and fastest > MIN_RETRY_RATIO * full_seconds:
            return (
                f"{takes}, a full recompute took about {full_seconds:.1f} s {self.incremental_since_full} refreshes"
                " ago: it is tried again"
            )
        return None

    def reason_to_recompute(self, changed: int, change: str, share: float | None = None) -> str | None:
        """Return why to recompute the table rather than follow a change: it is cheaper; None if too little is known.

        The arguments are those of ``reason_to_try_full``.
        """
        full_seconds = self._known_full_seconds
        if full_seconds is None or self.full_since_incremental >= BEFORE_RETRY:
            return None
        expected = self.predict_seconds(changed, share)
        if expected <= MAX_COST_RATIO * full_seconds:
            return None
        return (
            f"{change} would take about {expected:.1f} s, a full recompute {full_seconds:.1f} s"
            f" (from the last {len(self.incremental)} incremental and {max(1, len(self.full[-5:]))} full refreshes)"
        )

    @property
    def _known_full_seconds(self) -> float | None:
        """What a full recompute takes, if it may be chosen and enough is known of incremental refreshes to compare."""
        if self.full_failed and self.incremental_since_full < self.retry_after:
            return None
        return self.full_seconds if len(self.incremental) >= MIN_SAMPLES else None

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
    return costs_of(event_log.read_if_whole(lake, since, columns, event_type="refresh") or ())


def costs_of(rows: Iterable[EventRow]) -> dict[str, Costs]:
    """Collect the costs by table from refreshes in the event log, in order of time."""
    costs: dict[str, Costs] = {}
    for row in rows:
        if row.table_name is not None and row.status in DID_WORK:
            known = costs.get(row.table_name, Costs(row.table_name))
            costs[row.table_name] = replace(_with(known, row), has_failed=False)
        elif row.status == "failed":  # a failed layer counts for all tables: they may have been lost with its process
            names = [*costs] if row.table_name is None else [row.table_name]
            costs |= {name: replace(costs.get(name, Costs(name)), has_failed=True) for name in names}
    return costs


def _with(known: Costs, row: EventRow) -> Costs:
    """Return the costs of a table with those of one more refresh.

    One that built state costs more than others and is no sample. It counts as a try of incremental, so that the next
    hour does not pay for another.
    """
    if row.details.get("full_failed"):
        return replace(known, full_failed=True, full_since_incremental=0, incremental_since_full=0)
    changed = row.details.get("changed")
    if row.strategy != "full" and changed is not None and known.full_since_incremental >= BEFORE_RETRY:
        return replace(known, incremental=(), full_since_incremental=0, is_retrying=True)
    if read_state_work(row.details):
        return replace(known, full_since_incremental=0)
    if row.strategy == "full" and row.hour is None:
        return replace(known, load=row.seconds, full_failed=False)
    if row.strategy == "full":
        since = known.full_since_incremental + 1
        is_retry = known.incremental_since_full >= BEFORE_RETRY  # what was slow on a cold Spark counts no more
        full = (row.seconds,) if is_retry else (*known.full, row.seconds)
        return replace(known, full=full, full_failed=False, full_since_incremental=since, incremental_since_full=0)
    if changed is None:
        return known
    method = row.details.get("method")
    sample, former = (changed, row.seconds), known.incremental if method == known.method else ()
    return replace(
        known,
        incremental=(sample,) * MIN_SAMPLES if known.is_retrying else (*former, sample)[-5:],
        full_since_incremental=0,
        incremental_since_full=known.incremental_since_full + 1,
        method=method,
        is_retrying=False,
    )
