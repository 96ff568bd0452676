"""A driver for each strategy: a process with a Spark session and a copy of the lake of its own."""

import resource
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from bench.choices import ALWAYS
from bench.declarative import hour_declarative
from bench.duck import refresh_duckdb
from bench.feldera.driver import FelderaDriver
from bench.feldera.service import Service
from bench.machine import cores
from bench.naive import SETTINGS, refresh_naive
from bench.plan import Plan
from bench.source_formats import project_in_format
from medallion.errors import MedallionError
from medallion.model.table import Table
from medallion.pipeline import operations
from medallion.pipeline.driver import Driver, open_driver
from medallion.pipeline.run import Run
from medallion.refresh.full import refresh_full
from medallion.refresh.incremental import refresh_incremental
from medallion.refresh.refresh_run import RefreshRun, Written
from medallion.refresh.strategies import ENGINE_STRATEGIES, Strategies
from medallion.settings import Settings
from medallion.spark.configuration import needed_conf
from medallion.spark.session import spark_session


def refresh_always(run: RefreshRun, table: Table) -> Written:
    """Refresh a table incrementally wherever that is possible, whatever it costs."""
    return refresh_incremental(run, replace(table, refresh="incremental"))


BENCHMARK_STRATEGIES: Strategies = {
    "naive": refresh_naive,
    **ENGINE_STRATEGIES,
    ALWAYS: refresh_always,
    "duckdb": refresh_duckdb,
    "declarative": refresh_full,  # its lake is loaded in full; spark-pipelines refreshes it
}


class Taken(NamedTuple):
    """What an hour took of a driver: wall and CPU seconds, when each of its Spark jobs was submitted, in seconds since
    the epoch, and the bytes that it read; None where that is not ours to know."""

    seconds: float
    cpu_seconds: float | None
    jobs: Sequence[float] | None = None
    views_seconds: float | None = None
    bytes_read: int | None = None


@dataclass
class Remote:
    """A driver in a process of its own."""

    lake: str
    orders: Connection
    process: Any
    session_seconds: float = 0.0

    def refresh(self, hour: str) -> Taken:
        """One hour. Raises MedallionError when it failed."""
        self.orders.send(hour)
        taken: Taken
        try:
            taken, error = self.orders.recv()
        except EOFError:
            raise MedallionError(f"the driver of {self.lake} ended in hour {hour}") from None
        if error:
            raise MedallionError(f"{self.lake}, hour {hour}: {error}")
        return taken

    def stop(self) -> None:
        """End the process."""
        with suppress(OSError):  # it has ended
            self.orders.send(None)
        self.process.join(timeout=60)


class Drivers:
    """A driver and a fresh copy of the loaded lake for each strategy, gone when the block ends."""

    def __init__(self, plan: Plan, settings: Settings, work: Path) -> None:
        self._plan, self._settings, self._work = plan, settings, work
        self._made: dict[str, Remote | FelderaDriver] = {}

    def __enter__(self) -> dict[str, Remote | FelderaDriver]:
        processes = get_context("spawn")
        for strategy in self._plan.strategies:
            lake = self._work / f"lake-{strategy}"
            shutil.rmtree(lake, ignore_errors=True)
            if strategy == "feldera":
                service = Service.of(self._settings, str(self._plan.feldera))
                bad, workers = self._settings.max_bad_lines, cores(self._settings.spark_master)
                self._made[strategy] = FelderaDriver(service, Path(self._settings.source), lake, workers, bad)
                continue
            shutil.copytree(self._settings.lake, lake)
            mine, orders = processes.Pipe()
            arguments = (self._plan.source_format, strategy, self._settings.replace(lake=str(lake)), orders)
            process = processes.Process(target=_drive_in, args=arguments, daemon=True)
            process.start()
            orders.close()
            self._made[strategy] = Remote(str(lake), mine, process, mine.recv())
        return self._made

    def __exit__(self, *_: object) -> None:
        for remote in self._made.values():
            remote.stop()
            for folder in (remote.lake, f"{remote.lake}-pipeline"):
                shutil.rmtree(folder, ignore_errors=True)


def _drive_in(source_format: str, strategy: str, settings: Settings, orders: Connection) -> None:
    """Do as ``_drive``, in the project whose source is in that format: a process of its own finds the usual one."""
    with project_in_format(source_format):
        _drive(strategy, settings, orders)


def _drive(strategy: str, settings: Settings, orders: Connection) -> None:
    """Refresh an hour each time one is named, and answer with what it took, and an error if there is."""
    conf = {**needed_conf(settings, settings.spark_master), **SETTINGS} if strategy == "naive" else None
    with open_driver(settings, report=lambda _: None, strategies=BENCHMARK_STRATEGIES) as driver:
        start = time.perf_counter()
        spark = spark_session(settings, conf=conf)
        driver.use(spark)
        orders.send(time.perf_counter() - start)
        while hour := orders.recv():
            run = Run(settings, hour, f"bench-{hour}", strategy=strategy)
            error, taken, after, begun = None, None, None, jobs_begun(spark)
            start, used, read = time.perf_counter(), _cpu(driver), bytes_read()
            try:
                if strategy == "declarative":
                    after = hour_declarative(run, driver)
                else:
                    operations.refresh_hour(run, driver)
                taken = Taken(time.perf_counter() - start, _cpu(driver) - used)
                if strategy != "declarative":  # whose Spark is another process
                    taken = taken._replace(jobs=jobs_submitted(spark, begun), bytes_read=_less(bytes_read(), read))
                if after is not None:
                    after()
            except Exception as failure:  # told to the one who asked, whatever it is
                error = f"{type(failure).__name__}: {failure}"
            orders.send((taken, error))


def _cpu(driver: Driver) -> float:
    """CPU seconds of this process, its JVM, and the processes it started that have ended."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return driver.cpu() + ended.ru_utime + ended.ru_stime


def bytes_read() -> int | None:
    """Bytes that this process and its children have read by system calls; None where the system does not count them.

    Pages of a file that is mapped into memory are not counted.
    """
    own = psutil.Process()
    try:
        return sum(int(process.io_counters().read_chars) for process in (own, *own.children(recursive=True)))
    except (AttributeError, psutil.Error):  # only Linux has these counters, and a child may have ended
        return None


def _less(after: int | None, before: int | None) -> int | None:
    return None if after is None or before is None else after - before


def jobs_begun(spark: Any) -> int:
    """How many jobs this Spark has been given so far, which number them from 0."""
    return int(spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs())


def jobs_submitted(spark: Any, since: int) -> list[float]:
    """When its jobs from number ``since`` on were submitted, in seconds since the epoch."""
    context = spark.sparkContext._jsc.sc()
    context.listenerBus().waitUntilEmpty()  # which is how the store hears of jobs
    jobs = map(context.statusStore().job, range(since, jobs_begun(spark)))
    return [job.submissionTime().get().getTime() / 1000 for job in jobs]
