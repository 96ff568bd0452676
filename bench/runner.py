"""Strategies side by side: they take turns hour by hour.

After every hour all Silver and Gold tables are compared, row by row; a strategy with other rows voids the run.
"""

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from bench.choices import ALWAYS, CHOSEN, RECOMPUTED, Refresh, judge
from bench.drivers import Drivers, Remote, Taken
from bench.feldera.driver import FelderaDriver
from bench.machine import commit, machine
from bench.plan import PHASES, VIEWS, Measure, Plan, Round, hours_of
from bench.results import CONDITIONS, read_results, write_results
from bench.sources import folder_bytes, prepare, require_room
from medallion.errors import MedallionError, UsageError
from medallion.inspect.lake_difference import differing
from medallion.ops import event_log
from medallion.ops.event_schema import EventRow
from medallion.project import find_project
from medallion.settings import Settings
from medallion.storage.lake import Lake


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
    done = {Round(row["days"], row["change"], row["repeat"]) for row in measures}
    todo = [planned for planned in plan.rounds if planned not in done]
    turns = (len(done) + len(todo)) * len(plan.strategies) * plan.all_hours
    for days, change, repeat in todo:
        advance(f"{days} days: generate and load", len(measures) // (len(PHASES) + 1), turns)
        ready = prepare(plan, settings, work, days, change)
        require_room(plan, folder_bytes(Path(ready.lake)), work)
        with Drivers(plan, ready, work) as drivers:
            for name, driver in drivers.items():
                start = f"{days} {change:g} {name}"
                result["session_seconds"].setdefault(start, _short(driver.session_seconds))  # the first round's
            for measure in run_hours(plan, drivers, days, change, repeat):
                measures.append({name: _short(value) for name, value in asdict(measure).items()})
                if measure.phase == "total":
                    taken = len(measures) // (len(PHASES) + 1)
                    advance(f"{days} days, {measure.hour}, {measure.strategy}", taken, turns)
            for name, driver in drivers.items():
                if isinstance(driver, FelderaDriver):
                    result.setdefault("services", {}).setdefault(f"{days} {change:g} {name}", driver.facts)
            if "incremental" in drivers:
                state_bytes = folder_bytes(Path(drivers["incremental"].lake, "ops", "aggregate_states"))
                result["kept_bytes"].setdefault(str(days), state_bytes)  # the first round's: of the usual change
            if {CHOSEN, RECOMPUTED, ALWAYS} <= drivers.keys():
                judged = judge(_refreshes(plan, drivers, change))
                result.setdefault("choices", {})[f"{days} {change:g} {repeat}"] = judged.as_values()
        where = {"days": days, "change": change, "repeat": repeat}
        result["rounds"].append(where | {"commit": commit(), "load": f"{os.getloadavg()[0]:.2f}"})
        write_results(out, result)
    return result


def _short(value: Any) -> Any:
    return round(value, 4) if isinstance(value, float) else value


def _refreshes(plan: Plan, drivers: Mapping[str, Remote | FelderaDriver], change: float) -> Iterator[Refresh]:
    """Yield the refreshes of every table in the warm hours."""
    warm = {*hours_of(change, plan.all_hours)[plan.warm_up :]}
    for strategy in (CHOSEN, RECOMPUTED, ALWAYS):
        for row in event_log.read(Lake(drivers[strategy].lake), event_type="refresh"):
            if row.table_name and row.hour in warm:
                yield Refresh(strategy, row.table_name, row.details["method"], row.seconds)


_MAY_GROW = {"days", "changes", "changes_at", "repeats"}  # in a plan that is resumed


def _former(out: Path, now: Mapping[str, Any]) -> dict[str, Any]:
    """The results in ``out``, whose rounds are whole, or ``now``, which has none, where there are no results."""
    former = read_results(out)
    if former is None:
        return dict(now)
    same = {name: value for name, value in former["machine"].items() if name != "load at the start"} == machine()
    plan = json.loads(json.dumps(now["plan"]))
    if not same or any(former["plan"][name] != value for name, value in plan.items() if name not in _MAY_GROW):
        raise UsageError(
            f"{out / CONDITIONS} is of another plan, machine or version: give another --out, or leave out --resume"
        )
    return former | {"plan": plan}


def run_hours(
    plan: Plan, drivers: Mapping[str, Remote | FelderaDriver], days: int, change: float, repeat: int
) -> Iterator[Measure]:
    for number, hour in enumerate(hours_of(change, plan.all_hours), 1):
        names = list(drivers)
        for strategy in names[number % len(names) :] + names[: number % len(names)]:  # nobody is always first
            lake = Lake(drivers[strategy].lake)
            before = footprint(lake)
            taken = Taken(*drivers[strategy].refresh(hour))
            grown = footprint(lake)
            grown.subtract(before)
            if isinstance(drivers[strategy], FelderaDriver):  # what it wrote is in the service, the copies are ours
                grown.clear()
            where = (days, change, repeat, strategy, hour, number, number > plan.warm_up)
            yield from phase_measures(where, taken, event_log.steps_by_phase(lake, f"bench-{hour}"), grown)
        _require_equal(drivers, hour)


_Steps = Mapping[str, Sequence[EventRow]]
_Where = tuple[int, float, int, str, str, int, bool]  # the first fields of Measure


def phase_measures(where: _Where, taken: Taken, steps_of: _Steps, grown: Counter[Any]) -> Iterator[Measure]:
    """An hour by phase, and its total. steps_of: the event log's rows of whole steps; grown: as of footprint."""
    jobs = Counter(_phase_at(moment, steps_of) for moment in taken.jobs or ())

    def measure(phase: str, seconds: float, cpu: float | None, rows: int | None, of: Sequence[str]) -> Measure:
        files, commits, size = (sum(grown[part, what] for part in of) for what in ("files", "commits", "bytes_out"))
        submitted = None if taken.jobs is None else sum(jobs[part] for part in of)
        return Measure(*where, phase, seconds, cpu, rows, files, commits, size, submitted)

    known = 0.0
    for phase in PHASES[:-1]:
        rows = steps_of.get(phase, ())
        seconds, cpu = sum(row.seconds for row in rows), sum(row.cpu_seconds or 0 for row in rows)
        count = sum(row.rows_out or 0 for row in rows)
        known += seconds
        yield measure(phase, seconds, cpu if rows else None, count if rows else None, [phase])
    yield measure("other", max(0.0, taken.seconds - known), None, None, ["other"])
    whole = measure("total", taken.seconds, taken.cpu_seconds, None, PHASES)
    yield replace(whole, bytes_read=taken.bytes_read)
    if taken.views_seconds is not None:
        yield measure(VIEWS, taken.views_seconds, None, None, [])


def _phase_at(moment: float, steps_of: _Steps) -> str:
    """What was going on, in seconds since the epoch."""
    for phase, rows in steps_of.items():
        if any(0 <= moment - row.started_at.timestamp() <= row.seconds for row in rows):
            return phase
    return "other"


_WRITES = {"bronze": "apply", "silver": "silver", "gold": "gold"}  # the folders of a lake, and who writes there


def footprint(lake: Lake) -> Counter[tuple[str, str]]:
    """By phase, how many data files and commits there are, and the bytes of the files."""
    counts: Counter[tuple[str, str]] = Counter()
    for top in Path(lake.root).iterdir():
        phase = _WRITES.get(top.name, "other")
        for folder, _, names in os.walk(top):
            for name in names:
                if name.endswith(".json") and folder.endswith("_delta_log"):
                    counts[phase, "commits"] += 1
                elif name.endswith(".parquet") and not folder.endswith("_delta_log"):
                    counts[phase, "files"] += 1
                    counts[phase, "bytes_out"] += os.path.getsize(os.path.join(folder, name))
    return counts


def _require_equal(drivers: Mapping[str, Remote | FelderaDriver], hour: str) -> None:
    reference, *others = drivers
    for other in others:
        if wrong := differing(Lake(drivers[reference].lake), Lake(drivers[other].lake), find_project().registry()):
            raise MedallionError(f"after hour {hour}, {other} and {reference} differ in {', '.join(wrong)}: void")
