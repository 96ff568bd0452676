"""A red hour under two people at both doors, the shell and the scheduler, in every order of their steps.

Whatever they do, nothing is applied on top of a red hour, the first red hour is the one that is named, and what the
message advises heals the lake. Orders that lead to the same lake are followed once.
"""

import shutil
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from medallion.errors import CheckFailed, HourNotAvailable, MedallionError
from medallion.ingest.restatement import read_restatement
from medallion.ingest.unpublished import find_red
from medallion.ops.event_log import EventLog
from medallion.ops.red_hours import RedHour
from medallion.pipeline import driver as driver_module
from medallion.pipeline.reprocess import require_published
from medallion.pipeline.run import Run
from medallion.pipeline.turns import Request, Take, decide, read_line
from tests.faults.test_interleavings import (
    DECISIVE,
    FEW,
    ONWARD,
    Memory,
    State,
    Step,
    begin_restatement,
    copy,
    land,
    look,
    roll_back,
    step,
    unlocked,
)
from tests.unit import small_lake
from tests.unit.small_lake import H0, H1, H2, Shop

EMPTIED = '{"delete": {"id": 0}}\n'  # what makes H1 red


class NoOtherRuns:
    """The scheduler has no run but the one that asks."""

    def active(self, run_id: str) -> bool:
        return False

    def running(self, hours: Collection[str]) -> bool:
        return False

    def queued(self, hours: Collection[str]) -> bool:
        return False


def triggered(hour: str | None) -> Step:
    """The first task of a run that somebody triggers."""

    def work(shop: Shop, _: Memory) -> Memory:
        verdict = decide(Request("person", hour), read_line(shop.settings, hour), NoOtherRuns(), 72)
        if not isinstance(verdict, Take):
            raise MedallionError(verdict.reason)
        return shop.step("land", verdict.hour).hour

    work.__name__ = f"triggered {hour or 'next'}"
    return work


def onward(shop: Shop, hour: Memory) -> Memory:
    """What follows once an hour is applied, up to the release."""
    for work in ONWARD:
        work(shop, hour)
    return hour


def run_of_airflow(hour: str | None) -> tuple[Step, ...]:
    return (triggered(hour), step("apply"), onward)


def reprocess(shop: Shop, hour: Memory) -> Memory:
    require_published(Run(shop.settings, H0, "again"), shop.driver())
    return H0


def whole(hour: str) -> Step:
    """A refresh of the shell, which nobody interrupts."""

    def work(shop: Shop, _: Memory) -> Memory:
        return shop.refresh(hour).hour

    work.__name__ = f"refresh {hour}"
    return work


SHELL = (land(H1), step("apply"), onward)

# Whether H1 is red before; then what the two do.
SCENARIOS: Mapping[str, tuple[bool, tuple[Step, ...], tuple[Step, ...]]] = {
    "the shell makes it red, the scheduler takes the next": (
        False,
        (land(H1), step("apply"), onward),
        run_of_airflow(H2),
    ),
    "the scheduler makes it red, the shell takes the next": (False, run_of_airflow(H1), (whole(H2),)),
    "both go on": (True, (triggered(None), triggered(H2)), (land(H2), step("apply"))),
    "restated as it is": (True, (begin_restatement(H1), land(None), step("apply"), onward), (triggered(H2),)),
    "restated later, rolled back, reprocessed": (True, (begin_restatement(H2),), (roll_back, reprocess)),
    "restated from before": (True, (begin_restatement(H0), land(None), step("apply")), (whole(H2),)),
}


def red_of(shop: Shop) -> RedHour | None:
    return find_red(shop.lake, FEW, shop.applied, read_restatement(shop.lake))


def require_healing(shop: Shop, scratch: Path) -> None:
    """Do what the messages say, once the source has corrected the file: every hour is published as it should be."""
    shop = copy(shop, scratch)
    (shop.root / "source" / "cdc" / "orders" / f"{H1}.json").unlink()  # a link to the file of all copies
    shop.put(H1, {1: "mended"})
    if (red := red_of(shop)) is not None:
        shop.restate(red.hour)
    for _ in range(3):  # a restatement that was cut short is finished by any refresh
        try:
            shop.refresh()
        except CheckFailed:
            red = red_of(shop)
            assert red is not None
            shop.restate(red.hour)
        except HourNotAvailable:
            break
    assert shop.published("silver_orders") == {0: H0, 1: "mended", 2: H2}
    assert (shop.applied, red_of(shop), read_restatement(shop.lake)) == (H2, None, None)
    shutil.rmtree(scratch)


@pytest.mark.parametrize("name", SCENARIOS)
def test_red_hour_stops_both_doors_and_is_healed_by_its_advice_in_every_order(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_lake.without_spark(monkeypatch)
    monkeypatch.setattr(driver_module, "writer_lock", unlocked)
    monkeypatch.setattr(EventLog, "write_waiting", lambda _: None)
    monkeypatch.setattr(EventLog, "flush", lambda _: None)
    for users in ("ingest.arrivals", "ops.lake_tables"):
        monkeypatch.setattr(f"medallion.{users}.tables_of", lambda *_: FEW)
    is_red, *programs = SCENARIOS[name]
    shop = small_lake.load(tmp_path / "0", FEW)
    shop.put(H0, {0: H0})
    shop.refresh(H0)
    shop.put(H1, EMPTIED)
    if is_red:
        with pytest.raises(CheckFailed):
            shop.refresh(H1)
    shop.put(H2, {2: H2})
    seen: set[str] = set()
    lakes: set[str] = set()
    reds: set[str] = set()
    waiting, made = deque([State(shop)]), 0
    while waiting:
        state = waiting.popleft()
        before = red_of(state.shop)
        for person, program in enumerate(programs):
            if state.done[person] == len(program):
                continue
            made += 1
            after = copy(state.shop, tmp_path / str(made))
            work = program[state.done[person]]
            path = (*state.path, f"{'AB'[person]}: {work.__name__}")
            done, memory = tuple(d + (p == person) for p, d in enumerate(state.done)), state.memory[person]
            refused = ""
            try:
                memory = work(after, memory)
            except MedallionError as error:  # the person may try again
                done, refused = state.done, str(error)
            memories = tuple(memory if p == person else m for p, m in enumerate(state.memory))
            lake, red = look(after), red_of(after)
            named = red and (red.headline, red.layer)  # not its report, whose path differs from copy to copy
            key, decisive = repr((done, memories, lake, named)), repr([*(lake[what] for what in DECISIVE), named])
            try:
                require_gate(before, after, refused)
                if decisive not in lakes:
                    lakes.add(decisive)
                    require_healing(after, tmp_path / "healed")
            except (AssertionError, MedallionError) as error:
                raise AssertionError(f"{error} after {', '.join(path)}") from None
            if red is not None:
                reds.add(red.hour)
            if key in seen:
                shutil.rmtree(after.root)
                continue
            seen.add(key)
            waiting.append(replace(state, shop=after, done=done, memory=memories, path=path))  # type: ignore[arg-type]
        shutil.rmtree(state.shop.root)
    assert reds <= {H0, H1} and H1 in reds, "the first red hour is the one that is named"
    assert made > 3


def require_gate(before: RedHour | None, after: Shop, refused: str) -> None:
    """Nothing was applied on top of a red hour; who is refused because of it is told which, and the way out."""
    if before is None:
        return
    assert (after.applied or "") <= before.until, "an hour was applied on top of a red one"
    if " red: " in refused or " red. " in refused:
        assert before.headline.lower() in refused.lower() and f"--restate {before.hour}" in refused, refused
