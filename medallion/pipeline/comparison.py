"""Compare full with incremental on a project's own tables: the same hours of its source, on two copies of its lake.

Both take turns in one JVM, so that neither runs in a colder one. An hour counts only if its rows are equal. The lake
itself is not changed.
"""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from medallion.counts import counted
from medallion.errors import MedallionError, UsageError
from medallion.ingest.arrivals import pending_at_source
from medallion.ingest.ledger import pending_hours
from medallion.ingest.listing import change_files
from medallion.ingest.source import Advance, open_source
from medallion.inspect.lake_difference import differing
from medallion.inspect.run_history import COLUMNS, RunFigures, run_history
from medallion.ops import event_log
from medallion.pipeline import operations
from medallion.pipeline.driver import Driver, open_driver
from medallion.pipeline.run import Run
from medallion.project import find_project
from medallion.settings import Settings
from medallion.spark.session import spark_session
from medallion.storage.files import in_bucket
from medallion.storage.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STRATEGIES = ("full", "incremental")


@dataclass(frozen=True)
class ComparedHour:
    """An hour that was refreshed with both strategies, with the same rows. counts: whether it is after the warm-up."""

    hour: str
    figures: Mapping[str, RunFigures]
    counts: bool


@dataclass(frozen=True)
class Saving:
    """The cost of incremental relative to full, in medians over the hours that count.

    hours: how many count. seconds: the ratio of wall seconds of the computed layers. cpu: the ratio of CPU time of the
    whole hour. cpu_hours: by strategy, the core-hours of an hour.
    """

    hours: int
    seconds: float
    cpu: float
    cpu_hours: Mapping[str, float]


@dataclass(frozen=True)
class Comparison:
    """What is compared.

    settings: name the lake and the source. hours: the number of hours that count. warm_up: the number of hours before
    them, at least one: the first hour compiles code and builds incremental state. anew: whether to load the snapshot
    and use the first hours of the source, instead of copying the lake.
    """

    settings: Settings
    hours: int
    warm_up: int = 1
    anew: bool = False

    def run(self, work: Path, advance: Advance) -> Iterator[ComparedHour]:
        """Refresh the next hours of the source in full and incrementally, and yield each once its rows are equal.

        Args:
            work: An empty folder for the copies.
            advance: Called with the current action, its number, and the number of actions.

        Raises:
            UsageError: The lake cannot be copied, or fewer hours are pending.
            MedallionError: An hour failed, or rows differ.
        """
        total = 1 + (self.hours + self.warm_up) * len(STRATEGIES)  # the first action makes the copies
        if in_bucket(self.settings.lake) and not self.anew:
            raise UsageError(
                f"{self.settings.lake} is in a bucket, and is not copied: give --anew, which loads the snapshot into a"
                " folder"
            )
        own = [self.settings.replace(lake=str(work / strategy), spark_connect=None) for strategy in STRATEGIES]
        self._require_enough(_hours_of_source(self.settings) if self.anew else pending_at_source(self.settings))
        advance("load the snapshot" if self.anew else "copy the lake", 0, total)
        if not self.anew:
            _copy_lake(self.settings, [of.lake for of in own])
        spark = spark_session(own[0])
        with ExitStack() as opened:  # the drivers, and with them the session, end with this block
            full = _opened(opened, own[0], spark)
            if self.anew:
                operations.load(Run(own[0], None, "load"), full)
                _copy(Lake.of(own[0]), own[1].lake)
            incremental = _opened(opened, own[1], spark)
            drivers = dict(zip(STRATEGIES, (full, incremental), strict=True))
            for number, hour in enumerate(self._require_enough(pending_at_source(own[0]))):
                for turn, strategy in enumerate(STRATEGIES if number % 2 else reversed(STRATEGIES), start=1):
                    advance(f"{hour}, {strategy}", number * len(STRATEGIES) + turn, total)
                    run = Run(drivers[strategy].settings, hour, f"compare-{hour}", strategy=strategy)
                    operations.refresh_hour(run, drivers[strategy])
                if wrong := differing(full.lake, incremental.lake, full.tables):
                    raise MedallionError(f"after hour {hour}, full and incremental differ in {', '.join(wrong)}")
                figures = {name: _figures(driver, hour) for name, driver in drivers.items()}
                yield ComparedHour(hour, figures, number >= self.warm_up)

    def _require_enough(self, pending: Sequence[str]) -> Sequence[str]:
        """Return the hours to refresh, the first of ``pending``. Raises UsageError if these are too few."""
        count = self.warm_up + self.hours
        if len(pending) < count:
            anew = "" if self.anew else ", or --anew to begin with the snapshot"
            raise UsageError(
                f"a comparison of {counted(self.hours, 'hour')} needs {count} pending ones, warm-up included, and the"
                f" source has {len(pending)}: give fewer --hours{anew}"
            )
        return pending[:count]


def saving(compared: Sequence[ComparedHour]) -> Saving:
    """Summarise the hours of a comparison that count; there must be at least one."""
    measured = [hour.figures for hour in compared if hour.counts]
    seconds = [of["incremental"].refresh_seconds / max(of["full"].refresh_seconds, 1e-3) for of in measured]
    cpu = {strategy: median(of[strategy].cpu_hours for of in measured) for strategy in STRATEGIES}
    return Saving(len(measured), median(seconds), cpu["incremental"] / max(cpu["full"], 1e-9), cpu)


def _hours_of_source(settings: Settings) -> Sequence[str]:
    """Return the hours that a lake of the snapshot alone has still to apply."""
    listing = change_files(open_source(settings), find_project().registry(extras=bool(settings.extras)).feeds)
    return pending_hours(None, listing.hours_after(None))


def _copy_lake(settings: Settings, targets: Sequence[str]) -> None:
    with (
        open_driver(settings, lambda _: None) as driver,
        driver.writing(Run(settings, None, "compare"), "compare"),  # nobody writes while the lake is copied
    ):
        for target in targets:
            _copy(driver.lake, target)


def _copy(lake: Lake, target: str) -> None:
    """Copy a lake without its writer lock and lease: a writer of the copy would wait for their holder."""
    own = Path(lake.root, "ops")  # elsewhere a table may be called lease

    def of_writer(folder: str, _: list[str]) -> set[str]:
        return {"writer.lock", "lease"} if Path(folder) == own else set()

    shutil.copytree(lake.root, target, ignore=of_writer)


def _opened(opened: ExitStack, settings: Settings, spark: "SparkSession") -> Driver:
    driver = opened.enter_context(open_driver(settings, lambda _: None))
    driver.use(spark)
    return driver


def _figures(driver: Driver, hour: str) -> RunFigures:
    rows = event_log.read(driver.lake, run_id=f"compare-{hour}", columns=COLUMNS)
    (figures,) = run_history(rows)
    return figures
