"""Strategies side by side: each has a driver and a copy of the lake of its own, and they take turns hour by hour.

After every hour all Silver and Gold tables are compared, row by row; a strategy with other rows voids the run.
"""

import json
import os
import platform
import re
import resource
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from itertools import islice
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from bench.declarative import hour_declarative
from bench.duck import refresh_duckdb
from bench.feldera.driver import FelderaDriver
from bench.feldera.service import Service
from bench.naive import SETTINGS, refresh_naive
from bench.proof import differing
from medallion.demo.generate import generate
from medallion.errors import MedallionError, UsageError
from medallion.hours import hour_from_number, hour_number, next_hour
from medallion.model.registry import registry
from medallion.ops import event_log
from medallion.pipeline import operations
from medallion.pipeline.driver import Driver
from medallion.pipeline.run import Run
from medallion.refresh import strategies
from medallion.settings import PROJECT, Settings
from medallion.spark.session import needed_conf, spark_session
from medallion.storage.files import read_json, write_json, write_text
from medallion.storage.lake import Lake

FIRST_HOUR = "2025-11-30T00"  # of the changes of a generated source
REFRESH: Mapping[str, strategies.Refresh] = {"naive": refresh_naive, **strategies.REFRESH, "duckdb": refresh_duckdb}
STRATEGIES = (*REFRESH, "declarative", "feldera")
CATALOGUE = ("customers", "products", "suppliers")
_WRITTEN = 0.6  # of the bytes of a lake, by an hour that recomputes all
PHASES = ("land", "apply", "push", "compute", "silver", "gold", "check", "publish", "other")
VIEWS = "views"  # the phase in which all views of another engine are read, apart from the total


@dataclass(frozen=True)
class Plan:
    """What is compared. days: sizes of history, each with the usual change of an hour, ``repeats`` times; changes:
    multiples of that change, each once with the history ``changes_at``, by default the first; hours: that count, after
    those that warm a driver up; feldera: where a Feldera runs, for the strategy of that name. catalogue:
    whether customers, products and suppliers change too, whose changes fan out to many orders."""

    strategies: Sequence[str]
    days: Sequence[int]
    changes: Sequence[float] = ()
    changes_at: int | None = None
    hours: int = 10
    warm_up: int = 3
    repeats: int = 1
    scale: float = 1.0
    seed: int = 0
    feldera: str | None = None
    catalogue: bool = True

    def __post_init__(self) -> None:
        if unknown := [name for name in self.strategies if name not in STRATEGIES]:
            raise UsageError(f"strategy {unknown[0][:40]!r} is unknown: choose {', '.join(STRATEGIES)}")
        if len(self.strategies) < 2 or min(*self.days, *self.changes, self.hours, self.repeats, self.at) <= 0:
            raise UsageError("a comparison takes two strategies or more, and at least one hour, day and repeat")
        if ("feldera" in self.strategies) != (self.feldera is not None):
            raise UsageError("the strategy feldera needs --feldera-url, and that address the strategy")

    @property
    def all_hours(self) -> int:
        """Hours that a driver refreshes."""
        return self.warm_up + self.hours

    @property
    def at(self) -> int:
        """The history with which changes of other sizes are measured."""
        return self.changes_at or self.days[0]

    @property
    def rounds(self) -> "list[Round]":
        """All sizes of history once, then the other sizes of change, then the repeats."""
        first, *again = ([Round(days, 1.0, repeat) for days in self.days] for repeat in range(1, self.repeats + 1))
        others = [Round(self.at, change, 1) for change in self.changes if change != 1]
        return list(dict.fromkeys([*first, *others, *(one for repeat in again for one in repeat)]))


class Round(NamedTuple):
    """Fresh drivers that refresh the same hours in turns. change: a multiple of an hour's usual one."""

    days: int
    change: float
    repeat: int


@dataclass(frozen=True)
class Measure:
    """One phase of one hour of one strategy. number counts the hours of a driver from 1; the first ones warm it up.

    seconds are wall seconds, cpu_seconds those of the driver and its JVM, jobs those of its Spark: None where that is
    not known apart. files, commits and bytes_out are of the tables of that phase; what is kept beside the tables (event
    log, sums, reports) counts as other.
    """

    days: int
    change: float
    repeat: int
    strategy: str
    hour: str
    number: int
    warm: bool
    phase: str
    seconds: float
    cpu_seconds: float | None = None
    rows_out: int | None = None
    files: int = 0
    commits: int = 0
    bytes_out: int = 0
    jobs: int | None = None


def run(
    plan: Plan,
    settings: Settings,
    work: Path,
    out: Path,
    advance: Callable[[str, int, int], None],
    resume: bool = False,
) -> dict[str, Any]:
    """Run all of it in ``work``; the results as plain values, which are in ``out`` too after each round of drivers.

    resume: go on with the rounds that ``out`` lacks; it may have been begun with fewer sizes and repeats. Raises
    UsageError when it holds those of another plan or machine, MedallionError when rows differ.
    """
    load = os.getloadavg()
    result: dict[str, Any] = {
        "plan": asdict(plan),
        "machine": machine() | {"load at the start": f"{load[0]:.2f}, {load[1]:.2f}, {load[2]:.2f}"},
        "kept_bytes": {},
        "session_seconds": {},
        "measures": [],
        "rounds": [],
    }
    if resume:
        result = _former(out, result)
    measures: list[dict[str, Any]] = result["measures"]
    done = {Round(one["days"], one["change"], one["repeat"]) for one in measures}
    todo = [one for one in plan.rounds if one not in done]
    turns = (len(done) + len(todo)) * len(plan.strategies) * plan.all_hours
    for days, change, repeat in todo:
        advance(f"{days} days: generate and load", len(measures) // (len(PHASES) + 1), turns)
        ready = prepare(plan, settings, work, days, change)
        _require_room(plan, _bytes(Path(ready.lake)), work)
        with _drivers(plan, ready, work) as drivers:
            for name, driver in drivers.items():
                start = f"{days} {change:g} {name}"
                result["session_seconds"].setdefault(start, _short(driver.session_seconds))  # the first round's
            for measure in _hours(plan, drivers, days, change, repeat):
                measures.append({name: _short(value) for name, value in asdict(measure).items()})
                if measure.phase == "total":
                    taken = len(measures) // (len(PHASES) + 1)
                    advance(f"{days} days, {measure.hour}, {measure.strategy}", taken, turns)
            for name, driver in drivers.items():
                if isinstance(driver, FelderaDriver):
                    result.setdefault("services", {}).setdefault(f"{days} {change:g} {name}", driver.facts)
            if "incremental" in drivers:
                kept = _bytes(Path(drivers["incremental"].lake, "ops", "kept"))
                result["kept_bytes"].setdefault(str(days), kept)  # the first round's: of the usual change
        where = {"days": days, "change": change, "repeat": repeat}
        result["rounds"].append(where | {"commit": commit(), "load": f"{os.getloadavg()[0]:.2f}"})
        write_text(out / "measures.json", as_json(result))
    return result


def _short(value: Any) -> Any:
    return round(value, 4) if isinstance(value, float) else value


def as_json(result: Mapping[str, Any]) -> str:
    """The results as JSON, a measure or round to the line."""

    def told(value: Any) -> str:
        if not isinstance(value, list):
            return json.dumps(value)
        return "[\n  " + ",\n  ".join(map(json.dumps, value)) + "\n ]"

    return "{\n " + ",\n ".join(f"{json.dumps(name)}: {told(value)}" for name, value in result.items()) + "\n}\n"


_MAY_GROW = {"days", "changes", "changes_at", "repeats"}  # in a plan that is resumed


def _former(out: Path, now: Mapping[str, Any]) -> dict[str, Any]:
    """The results in ``out``, whose rounds are whole, or ``now``, which has none, where there are no results."""
    file = out / "measures.json"
    former = read_json(file)
    if former is None:
        return dict(now)
    same = {name: value for name, value in former["machine"].items() if name != "load at the start"} == machine()
    plan = json.loads(json.dumps(now["plan"]))
    if not same or any(former["plan"][name] != value for name, value in plan.items() if name not in _MAY_GROW):
        raise UsageError(f"{file} is of another plan, machine or version: give another --out, or leave out --resume")
    return former | {"plan": plan}


def commit() -> str:
    """The commit of this code, with a plus where files of it have been changed since; unknown outside of git."""
    try:
        words = ("git", "-C", str(PROJECT), "describe", "--always", "--dirty=+", "--exclude=*")
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def machine() -> dict[str, str]:
    """What it ran on, for whoever reads the figures."""
    names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    cpu = names[0].split(":")[1].strip() if names else platform.processor()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    packages = ("pyspark", "delta-spark", "deltalake", "duckdb")
    return {
        "processor": f"{cpu}, {os.cpu_count()} cores",
        "memory": f"{memory:.0f} GiB",
        "system": platform.platform(),
        "python": platform.python_version(),
        **{package: version(package) for package in packages},
    }


# --- sources ---------------------------------------------------------------------------------------------------------


def prepare(plan: Plan, settings: Settings, work: Path, days: int, change: float = 1.0) -> Settings:
    """The settings of a lake in ``work`` that holds the snapshot, for all to copy, and of a source with the changes.

    A lake that is there is used if the same code loaded it from the same snapshot: another's would be brought up to
    date in the hours that are measured.
    """
    source = work / f"source-{days}"
    generate(source, days=days, hours=int(max(1, change) * plan.all_hours) + 1, scale=plan.scale, seed=plan.seed)
    loaded = replace(settings, lake=str(work / f"loaded-{days}"), source=str(source))
    origin, told = {"commit": commit(), "scale": plan.scale, "seed": plan.seed}, work / f"loaded-{days}.json"
    if read_json(told) != origin:
        told.unlink(missing_ok=True)
        shutil.rmtree(loaded.lake, ignore_errors=True)
        _load(loaded)
        write_json(told, origin)
    return replace(loaded, source=str(_with_changes(source, change, plan.all_hours, plan.catalogue)))


def _with_changes(source: Path, change: float, hours: int, catalogue: bool = True) -> Path:
    """A source whose hours have ``change`` times the usual lines: several hours in one, or the first part of one.

    catalogue: with the changes of customers, products and suppliers.
    """
    if change == 1 and catalogue:
        return source
    target = source.with_name(f"{source.name}-x{change:g}{'' if catalogue else '-orders'}")
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    (target / "snapshot").symlink_to(source / "snapshot")
    for folder in sorted((source / "cdc").iterdir()):
        if not catalogue and folder.name in CATALOGUE:
            continue
        (target / "cdc" / folder.name).mkdir(parents=True)
        whole, hour = FIRST_HOUR, FIRST_HOUR
        for _ in range(hours):
            lines: list[bytes] = []
            for _ in range(max(1, int(change))):
                file = folder / f"{whole}.json"
                lines += file.read_bytes().splitlines(keepends=True) if file.exists() else []
                whole = next_hour(whole)
            if change < 1:
                lines = list(islice(lines, int(len(lines) * change)))
            if lines:
                (target / "cdc" / folder.name / f"{hour}.json").write_bytes(b"".join(lines))
            hour = next_hour(hour)
    return target


def _require_room(plan: Plan, lake: int, work: Path) -> None:
    """Raises MedallionError when ``work`` cannot take the copies of a lake of so many bytes, and what comes to them."""
    needed = int(lake * len(plan.strategies) * (1 + _WRITTEN * plan.all_hours))
    free = shutil.disk_usage(work).free
    if needed > free:
        raise MedallionError(
            f"{work} has {free / 1e9:.0f} GB free, and this round may take {needed / 1e9:.0f}: choose another --work,"
            " or fewer --days, --hours or --strategies"
        )


def _load(settings: Settings) -> None:
    process = get_context("spawn").Process(target=_load_here, args=(settings,))
    process.start()
    process.join()
    if process.exitcode:
        raise MedallionError(f"{settings.lake} could not be loaded: see above")


def _load_here(settings: Settings) -> None:
    driver = Driver(settings, report=lambda _: None)
    operations.load(Run(settings, None, "bench-load"), driver)
    driver.stop()


# --- drivers ---------------------------------------------------------------------------------------------------------


class _Taken(NamedTuple):
    """What an hour took of a driver: wall and CPU seconds, and when each of its Spark jobs was submitted, in seconds
    since the epoch; None where that is not ours to know."""

    seconds: float
    cpu_seconds: float | None
    jobs: Sequence[float] | None = None
    views_seconds: float | None = None


@dataclass
class _Remote:
    """A driver in a process of its own."""

    lake: str
    orders: Connection
    process: Any
    session_seconds: float = 0.0

    def refresh(self, hour: str) -> _Taken:
        """One hour. Raises MedallionError when it failed."""
        self.orders.send(hour)
        taken: _Taken
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


_Drivers = Mapping[str, _Remote | FelderaDriver]
_Steps = Mapping[str, Sequence[Mapping[str, Any]]]


class _drivers:
    """A driver and a fresh copy of the loaded lake for each strategy, gone when the block ends."""

    def __init__(self, plan: Plan, settings: Settings, work: Path) -> None:
        self._plan, self._settings, self._work = plan, settings, work
        self._made: dict[str, _Remote | FelderaDriver] = {}

    def __enter__(self) -> dict[str, _Remote | FelderaDriver]:
        processes = get_context("spawn")
        for strategy in self._plan.strategies:
            lake = self._work / f"lake-{strategy}"
            shutil.rmtree(lake, ignore_errors=True)
            if strategy == "feldera":
                service = Service.from_environment(str(self._plan.feldera))
                bad, workers = self._settings.max_bad_lines, cores(self._settings.spark_master)
                self._made[strategy] = FelderaDriver(service, Path(self._settings.source), lake, workers, bad)
                continue
            shutil.copytree(self._settings.lake, lake)
            mine, orders = processes.Pipe()
            arguments = (strategy, replace(self._settings, lake=str(lake)), orders)
            process = processes.Process(target=_drive, args=arguments, daemon=True)
            process.start()
            orders.close()
            self._made[strategy] = _Remote(str(lake), mine, process, mine.recv())
        return self._made

    def __exit__(self, *_: object) -> None:
        for remote in self._made.values():
            remote.stop()
            for folder in (remote.lake, f"{remote.lake}-pipeline"):
                shutil.rmtree(folder, ignore_errors=True)


def cores(master: str) -> int:
    """How many cores a local Spark master takes, which another engine then has too; of a cluster, those of here."""
    limit = re.fullmatch(r"local\[(\d+)(?:,\d+)?\]", master)
    return int(limit[1]) if limit else 1 if master == "local" else len(os.sched_getaffinity(0))


def _drive(strategy: str, settings: Settings, orders: Connection) -> None:
    """Refresh an hour each time one is named, and answer with what it took, and an error if there is."""
    strategies.REFRESH[strategy] = REFRESH.get(strategy, strategies.REFRESH["full"])
    conf = {**needed_conf(settings, settings.spark_master), **SETTINGS} if strategy == "naive" else None
    driver = Driver(settings, report=lambda _: None)
    start = time.perf_counter()
    spark = spark_session(settings, conf=conf)
    driver.use(spark)
    orders.send(time.perf_counter() - start)
    while hour := orders.recv():
        run = Run(settings, hour, f"bench-{hour}", strategy=strategy)
        error, taken, after, begun = None, None, None, _jobs_begun(spark)
        start, used = time.perf_counter(), _cpu(driver)
        try:
            if strategy == "declarative":
                after = hour_declarative(run, driver)
            else:
                operations.refresh_hour(run, driver)
            taken = _Taken(time.perf_counter() - start, _cpu(driver) - used)
            if strategy != "declarative":  # whose Spark is another process
                taken = taken._replace(jobs=_submitted(spark, begun))
            if after is not None:
                after()
        except Exception as failure:  # told to the one who asked, whatever it is
            error = f"{type(failure).__name__}: {failure}"
        orders.send((taken, error))
    driver.stop()


def _cpu(driver: Driver) -> float:
    """CPU seconds of this process, its JVM, and the processes it started that have ended."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return driver.cpu() + ended.ru_utime + ended.ru_stime


def _jobs_begun(spark: Any) -> int:
    """How many jobs this Spark has been given so far, which number them from 0."""
    return int(spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs())


def _submitted(spark: Any, since: int) -> list[float]:
    """When its jobs from number ``since`` on were submitted, in seconds since the epoch."""
    context = spark.sparkContext._jsc.sc()
    context.listenerBus().waitUntilEmpty()  # which is how the store hears of jobs
    jobs = map(context.statusStore().job, range(since, _jobs_begun(spark)))
    return [job.submissionTime().get().getTime() / 1000 for job in jobs]


# --- hours -----------------------------------------------------------------------------------------------------------


def _hours(
    plan: Plan, drivers: Mapping[str, _Remote | FelderaDriver], days: int, change: float, repeat: int
) -> Iterator[Measure]:
    first = hour_number(FIRST_HOUR)
    for number in range(1, plan.all_hours + 1):
        hour = hour_from_number(first + number - 1)
        names = list(drivers)
        for strategy in names[number % len(names) :] + names[: number % len(names)]:  # nobody is always first
            lake = Lake(drivers[strategy].lake)
            before = _footprint(lake)
            taken = _Taken(*drivers[strategy].refresh(hour))
            grown = _footprint(lake)
            grown.subtract(before)
            if isinstance(drivers[strategy], FelderaDriver):  # what it wrote is in the service, the copies are ours
                grown.clear()
            where = (days, change, repeat, strategy, hour, number, number > plan.warm_up)
            yield from _measures(where, taken, event_log.steps_by_phase(lake, f"bench-{hour}"), grown)
        _require_equal(drivers, hour)


def _measures(where: tuple[Any, ...], taken: _Taken, steps_of: _Steps, grown: Counter[Any]) -> Iterator[Measure]:
    """An hour by phase, and its total. steps_of: the event log's rows of whole steps; grown: as of _footprint."""
    jobs = Counter(_phase_at(moment, steps_of) for moment in taken.jobs or ())

    def measure(phase: str, seconds: float, cpu: float | None, rows: int | None, of: Sequence[str]) -> Measure:
        written = (sum(grown[one, what] for one in of) for what in ("files", "commits", "bytes_out"))
        return Measure(
            *(*where, phase, seconds, cpu, rows, *written),
            jobs=None if taken.jobs is None else sum(jobs[one] for one in of),
        )

    known = 0.0
    for phase in PHASES[:-1]:
        rows = steps_of.get(phase, ())
        seconds, cpu, count = (sum(row[name] or 0 for row in rows) for name in ("seconds", "cpu_seconds", "rows_out"))
        known += seconds
        yield measure(phase, seconds, cpu if rows else None, count if rows else None, [phase])
    yield measure("other", max(0.0, taken.seconds - known), None, None, ["other"])
    yield measure("total", taken.seconds, taken.cpu_seconds, None, PHASES)
    if taken.views_seconds is not None:
        yield measure(VIEWS, taken.views_seconds, None, None, [])


def _phase_at(moment: float, steps_of: _Steps) -> str:
    """What was going on, in seconds since the epoch."""
    for phase, rows in steps_of.items():
        if any(0 <= moment - row["started_at"].timestamp() <= row["seconds"] for row in rows):
            return phase
    return "other"


_WRITES = {"bronze": "apply", "silver": "silver", "gold": "gold"}  # the folders of a lake, and who writes there


def _footprint(lake: Lake) -> Counter[tuple[str, str]]:
    """By phase, how many data files and commits there are, and the bytes of the files."""
    found: Counter[tuple[str, str]] = Counter()
    for top in Path(lake.root).iterdir():
        phase = _WRITES.get(top.name, "other")
        for folder, _, names in os.walk(top):
            for name in names:
                if name.endswith(".json") and folder.endswith("_delta_log"):
                    found[phase, "commits"] += 1
                elif name.endswith(".parquet") and not folder.endswith("_delta_log"):
                    found[phase, "files"] += 1
                    found[phase, "bytes_out"] += os.path.getsize(os.path.join(folder, name))
    return found


def _bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _require_equal(drivers: _Drivers, hour: str) -> None:
    reference, *others = drivers
    for other in others:
        if wrong := differing(Lake(drivers[reference].lake), Lake(drivers[other].lake), registry()):
            raise MedallionError(f"after hour {hour}, {other} and {reference} differ in {', '.join(wrong)}: void")
