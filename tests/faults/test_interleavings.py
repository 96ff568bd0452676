"""Two people work on one lake, step by step, in every order, each stopped at each step: F25 of the fault matrix.

Orders that lead to the same lake are followed once: what the lake holds, and how far each person is, is the state.
After each step the invariants are asserted, and from each lake a plain re-run must reach every hour.
"""

import json
import os
import shutil
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from medallion.checks import checkpoint
from medallion.checks.result import CheckResult
from medallion.errors import HourNotAvailable, MedallionError
from medallion.ingest import ledger
from medallion.ingest.restatement import read_restatement
from medallion.ops import releases
from medallion.ops.check_records import read_check_records
from medallion.ops.event_log import EventLog
from medallion.pipeline import driver as driver_module
from medallion.pipeline import operations
from medallion.pipeline.run import Run
from medallion.storage.files import write_json
from medallion.storage.lake import hour_in
from tests.commits import origin_of
from tests.shop import graph
from tests.unit import small_lake
from tests.unit.small_lake import H0, H1, H2, TABLES, Shop

FEW = graph({name: TABLES[name] for name in ("bronze_orders", "silver_orders")})
HOURS = (H0, H1, H2)
DECISIVE = ("bronze", "landed", "restatement", "release")  # what of a lake a plain re-run goes by
ID = {hour: number for number, hour in enumerate(HOURS)}
Memory = str | None  # the hour that a person works on, once land has said which
Step = Callable[[Shop, Memory], Memory]


def step(name: str, layer: str | None = None) -> Step:
    """A step of the hour that the person works on."""

    def work(shop: Shop, hour: Memory) -> Memory:
        shop.step(name, hour, layer)
        return hour

    work.__name__ = f"{name} {layer or ''}".strip()
    return work


def land(hour: str | None) -> Step:
    def work(shop: Shop, _: Memory) -> Memory:
        return shop.step("land", hour).hour

    work.__name__ = f"land {hour or 'next'}"
    return work


def begin_restatement(hour: str) -> Step:
    """What a restatement does first; killed there, it leaves the rest to whoever comes."""

    def work(shop: Shop, _: Memory) -> Memory:
        driver = shop.driver()
        with driver.writing(Run(shop.settings, hour, "restate"), "restate"):
            operations.begin_restatement(driver, hour)
        return None

    work.__name__ = f"restate {hour}"
    return work


def roll_back(shop: Shop, hour: Memory) -> Memory:
    shop.roll_back()
    return hour


def recompute(shop: Shop, hour: Memory) -> Memory:
    """The steps between apply and the last check: one person's, with nobody in between, to keep orders few."""
    shop.step("check", hour, "bronze")
    shop.step("refresh", hour, "silver")
    return hour


ONWARD = (recompute, step("check", "silver"), step("publish"))


def refresh(hour: str) -> tuple[Step, ...]:
    return (land(hour), step("apply"), *ONWARD)


def restate(hour: str, hours: int) -> tuple[Step, ...]:
    return (begin_restatement(hour), *((land(None), step("apply")) * hours), *ONWARD)


# What a lake holds before, by the number of hours that are published; then what the two do.
SCENARIOS: Mapping[str, tuple[int, tuple[Step, ...], tuple[Step, ...]]] = {
    "two hours": (1, refresh(H1), refresh(H2)),
    "the same hour": (1, refresh(H1), refresh(H1)),
    "the next hour and a restatement": (2, refresh(H2), restate(H0, 2)),
    "the next hour and a roll back": (2, refresh(H2), (roll_back,)),
    "two restatements": (2, restate(H1, 1), (begin_restatement(H0),)),
    "a restatement and a roll back": (2, restate(H0, 2), (roll_back,)),
}
_LONG = {"two hours", "the same hour", "the next hour and a restatement"}  # more than a minute each


@dataclass
class State:
    """How far each person is, what each works on, and the lake."""

    shop: Shop
    done: tuple[int, int] = (0, 0)
    memory: tuple[Memory, Memory] = (None, None)
    path: tuple[str, ...] = field(default=())


def copy(shop: Shop, root: Path) -> Shop:
    """The same shop in another folder. Its files never change where they are, so links to them will do."""
    shutil.copytree(shop.root, root, copy_function=os.link)
    return replace(shop, root=root)


def look(shop: Shop) -> dict[str, Any]:
    """What a lake holds, without the numbers of versions, which differ from order to order."""
    lake, release = shop.lake, releases.require_release(shop.lake, None)
    bronze, silver = (lake.opened(lake.path(name)) for name in FEW.tables)
    versions = {"bronze_orders": bronze.version(), "silver_orders": silver.version()}
    checks = {
        name: record for record in read_check_records(lake, FEW.layers).values() if record for name in record.tables
    }
    return {
        "bronze": (hour_in(bronze), shop.rows("bronze_orders")),
        "silver": (origin_of(silver).get("hour"), shop.rows("silver_orders")),
        "silver follows": origin_of(silver)["inputs"]["bronze_orders"] == bronze.version(),
        "release": (release.hour, {name: shop.rows(name, version) for name, version in release.versions.items()}),
        "released": [release.versions[name] == version for name, version in versions.items()],
        "checked": [
            name in checks and checks[name].tables[name].version == version for name, version in versions.items()
        ],
        "landed": {h: ledger.read_manifest(lake, h) for h in sorted(ledger.landed_hours(lake))},
        "restatement": read_restatement(lake),
        "behind it": [r.hour for r in releases.read_all(lake)[-2:]],
    }


def checked(shop: Shop) -> list[Any]:
    """Table and version of all that was ever checked."""
    file = shop.root / "checked.json"
    return list(json.loads(file.read_text())["checked"]) if file.exists() else []


def passed_and_noted(checked: checkpoint.CheckedLayer, tables: Mapping[str, Any], **about: Any) -> CheckResult:
    result = small_lake.passed(checked, tables, **about)
    file = Path(about["reports"]).parents[2] / "checked.json"
    known = json.loads(file.read_text())["checked"] if file.exists() else []
    write_json(file, {"checked": known + [[name, version] for name, version in result.versions.items()]})
    return result


def require_invariants(shop: Shop, lake: Mapping[str, Any], restated: str | None) -> None:
    """No hour is passed over, in Bronze and in what readers see; nothing is published that was not checked.

    lake: as ``look`` sees it. restated: the earliest hour that a restatement was begun from.
    """
    applied, rows = lake["bronze"]
    assert set(rows) == {ID[hour] for hour in HOURS if hour <= (applied or "")}, f"Bronze is at {applied}"
    hour, published = lake["release"]
    for name, released in published.items():
        assert set(released) == {ID[h] for h in HOURS if h <= (hour or "")}, f"{name} is published as of {hour}"
    for name, version in releases.require_release(shop.lake, None).versions.items():
        assert [name, version] in checked(shop), f"{name} was not checked at version {version}"
    if restated is not None and lake["restatement"] is None:
        old = [hour for hour in HOURS if hour >= restated and rows.get(ID[hour]) == "as it was"]
        assert not old, f"the restatement has ended without {old}"


def require_convergence(shop: Shop, scratch: Path) -> None:
    """A plain re-run reaches the rows of an undisturbed run, from the files as the source has them now."""
    shop = copy(shop, scratch)
    try:
        for hour in HOURS:
            if hour <= H2 and (shop.root / "source" / "cdc" / "orders" / f"{hour}.json").exists():
                shop.refresh(hour)
    except HourNotAvailable:
        pass
    except MedallionError:
        for _ in HOURS:  # a restatement comes first
            shop.refresh()
            if shop.applied == H2:
                break
    assert shop.applied == H2
    assert set(shop.published("silver_orders")) == {0, 1, 2}
    assert read_restatement(shop.lake) is None
    shutil.rmtree(scratch)


@contextmanager
def unlocked(*_: Any, **__: Any) -> Iterator[SimpleNamespace]:
    """Steps of this test come one after the other: what a lock is for is tested elsewhere."""
    yield SimpleNamespace(watch=None)


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.long] * (name in _LONG)) for name in SCENARIOS])
def test_no_interleaving_of_two_people_passes_over_an_hour(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_lake.without_spark(monkeypatch)
    monkeypatch.setattr(checkpoint, "run_checkpoint", passed_and_noted)
    monkeypatch.setattr(driver_module, "writer_lock", unlocked)
    monkeypatch.setattr(EventLog, "write_waiting", lambda _: None)  # nothing goes by the event log
    monkeypatch.setattr(EventLog, "flush", lambda _: None)
    published, *programs = SCENARIOS[name]
    shop = small_lake.load(tmp_path / "0", FEW)
    for hour in HOURS[:published]:
        shop.put(hour, {ID[hour]: "as it was"})
        shop.refresh(hour)
    for hour in HOURS:
        shop.put(hour, {ID[hour]: "as it is"})
    seen: set[str] = set()
    lakes: set[str] = set()
    waiting, made = deque([State(shop)]), 0
    while waiting:
        state = waiting.popleft()
        for person, program in enumerate(programs):
            if state.done[person] == len(program):
                continue
            made += 1
            after = copy(state.shop, tmp_path / str(made))
            work = program[state.done[person]]
            path = (*state.path, f"{'AB'[person]}: {work.__name__}")
            done = tuple(d + (p == person) for p, d in enumerate(state.done))
            try:
                memory = work(after, state.memory[person])
            except (
                MedallionError
            ):  # the person may try again; a step may have continued a restatement before it refused
                done, memory = state.done, state.memory[person]
            memories = tuple(memory if p == person else m for p, m in enumerate(state.memory))
            steps = [step.__name__ for program, d in zip(programs, done, strict=True) for step in program[:d]]
            restated = min((name.split()[1] for name in steps if name.startswith("restate")), default=None)
            lake = look(after)
            key, decisive = repr((done, memories, lake)), repr([lake[what] for what in DECISIVE])
            if key in seen:
                shutil.rmtree(after.root)
                continue
            seen.add(key)
            try:
                require_invariants(after, lake, restated)
                if decisive not in lakes:
                    lakes.add(decisive)
                    require_convergence(after, tmp_path / "again")
            except (AssertionError, MedallionError) as error:
                raise AssertionError(f"{error} after {', '.join(path)}") from None
            waiting.append(State(after, done, memories, path))  # type: ignore[arg-type]
        shutil.rmtree(state.shop.root)
    assert made > len(seen) > len(lakes) > 5
