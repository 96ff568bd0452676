"""Follow the source: one process with a warm session refreshes each hour as soon as its files have settled.

It uses the same steps, lock and event log as ``medallion refresh``.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from medallion.ingest import ledger
from medallion.ingest.arrivals import Arrivals
from medallion.ingest.restatement import read_restatement
from medallion.ingest.unpublished import find_unpublished
from medallion.ops import event_log
from medallion.ops.event_schema import DID_WORK
from medallion.pipeline.driver import Driver
from medallion.pipeline.operations import refresh_hour
from medallion.pipeline.run import Outcome, Run

MIN_WAIT = 0.01  # least seconds between two looks: clocks are not exact enough for zero


def hops_of(layers: Sequence[str]) -> dict[tuple[str, str | None], str]:
    """Return the steps that bring the rows of an hour further, in order: (event type, layer) -> name of the hop."""
    fed, *computed = layers
    refreshed: dict[tuple[str, str | None], str] = {("refresh", layer): layer for layer in computed}
    return {("land", fed): "landed", ("apply", fed): fed, **refreshed, ("publish", None): "published"}


@dataclass(frozen=True)
class Pace:
    """When to look and when to refresh.

    settle: seconds for which the files of an hour must not have been modified, so that none is half-written. every:
    least seconds from the start of one refresh to the start of the next. poll: seconds between two looks at a source
    without a pending hour; with one, the next look is when its files may have settled.
    """

    settle: float = 10.0
    every: float = 0.0
    poll: float = 1.0


@dataclass(frozen=True)
class Followed:
    """A refreshed hour. latency: seconds from the last modification of its files to each hop of ``hops_of``."""

    hour: str
    outcome: Outcome
    latency: Mapping[str, float]


def follow(
    driver: Driver,
    strategy: str,
    pace: Pace,
    run_id: Callable[[], str],
    until: str | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Followed]:
    """Refresh the next pending hour whenever its files have settled; end after ``until``.

    A failure is raised and the hour stays pending: an hour that cannot be applied blocks all later ones.
    """
    # The session is started now, so that the first hour does not wait for it.
    warm = Run(driver.settings, None, run_id(), strategy=strategy)
    with driver.recording(warm, "follow") as log:
        driver.spark(log)
    began = float("-inf")
    hour, arrived = _left_behind(driver), time.time()
    while True:
        if hour is None:
            hour, arrived = _wait_for_hour(driver, pace, until, sleep)
        if hour is None:
            return
        sleep(max(0.0, began + pace.every - time.monotonic()))
        began = time.monotonic()
        run = Run(driver.settings, hour, run_id(), strategy=strategy)
        outcome = refresh_hour(run, driver)
        latency = _latency(driver, run, arrived)
        with driver.recording(run, "follow") as log:
            log.add("follow", None, None, seconds=latency.get("published", 0.0), details={"latency": latency})
        yield Followed(hour, outcome, latency)
        driver.renew_if_short()
        hour = None


def _left_behind(driver: Driver) -> str | None:
    """Return the hour that is in Bronze but not published, or red, because a run ended in between; else None."""
    applied = ledger.applied_hour(driver.lake, driver.tables)
    unpublished = find_unpublished(driver.lake, driver.tables, applied, read_restatement(driver.lake))
    return unpublished.hour if unpublished else None


def _wait_for_hour(
    driver: Driver, pace: Pace, until: str | None, sleep: Callable[[float], None]
) -> tuple[str | None, float]:
    """Wait for the next pending hour and return it with the time its files were modified; None after ``until``."""
    arrivals = Arrivals(driver.settings, pace.settle)
    while True:
        applied = ledger.applied_hour(driver.lake, driver.tables)
        if until is not None and applied is not None and applied >= until:
            return None, 0.0
        if (hour := arrivals.look()) is not None:
            return hour
        wait = arrivals.seconds_to_settle()
        sleep(pace.poll if wait is None else max(wait, MIN_WAIT))


def _latency(driver: Driver, run: Run, arrived: float) -> dict[str, float]:
    latency, hops = {}, hops_of(driver.tables.declared_layers)
    for row in event_log.read(driver.lake, run_id=run.run_id):
        is_hop = row.table_name is None and row.status in DID_WORK  # not where another process had done the hour
        hop = hops.get((row.event_type, row.layer)) if is_hop else None
        if hop is not None:
            ended: datetime = row.event_timestamp
            latency[hop] = round(ended.timestamp() - arrived, 3)
    return dict(sorted(latency.items(), key=lambda item: item[1]))
