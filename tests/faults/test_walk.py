"""Hours, crashes, replays, restatements, roll backs, upkeep and drift in any order: all end in the same rows.

MEDALLION_WALKS is how many walks are made (2).
"""

import itertools
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from medallion.errors import MedallionError
from medallion.model.table import STRATEGIES
from medallion.ops import releases
from medallion.pipeline import operations
from medallion.pipeline.maintain import Retention, maintain
from medallion.pipeline.rollback import rollback
from medallion.pipeline.run import Run
from medallion.storage.live_rows import read_live_rows
from medallion.storage.rewind import require_version_before
from tests.faults.model import Model, snapshot, with_hour
from tests.faults.world import HOURS, World, dies


class Walk(RuleBasedStateMachine):
    """A lake, what it may do next, and what must be true whatever it did."""

    def __init__(self, world: World, models: dict[str | None, Model]) -> None:
        super().__init__()
        self.world, self.models = world, models
        self.reached: str | None = None  # the last hour that was published
        self.under_way = False  # something was cut short

    @property
    def following(self) -> list[str]:
        return [hour for hour in HOURS if self.reached is None or hour > self.reached]

    def run(self, name: str, hour: str | None = None) -> Run:
        return self.world.run(hour, name)

    @precondition(lambda self: self.following)
    @rule(strategy=st.sampled_from(STRATEGIES))
    def refresh(self, strategy: str) -> None:
        """The next hour, or what was cut short, as far as the hour that it was for; in this way from now on."""
        self.world.strategy = strategy
        self.reached = self.following[0]
        self.world.catch_up(self.reached)
        self.under_way = False

    @precondition(lambda self: self.reached)
    @rule()
    def replay(self) -> None:
        self.world.catch_up(self.reached or "")
        self.under_way = False

    @precondition(lambda self: self.following)
    @rule(effect=st.integers(0, 33), after=st.booleans())
    def crash(self, effect: int, after: bool) -> None:
        hour = self.following[0]
        dies(lambda: self.world.catch_up(hour), effect, after=after)
        self.under_way = True

    @precondition(lambda self: self.reached)
    @rule(back=st.integers(1, 3), effect=st.none() | st.integers(0, 40))
    def restate(self, back: int, effect: int | None) -> None:
        self.replay()
        hour = [hour for hour in HOURS if hour <= (self.reached or "")][-back:][0]
        try:
            require_version_before(self.world.lake, "bronze_orders", hour)
        except MedallionError:
            return  # no longer kept
        work: Callable[[], Any] = lambda: operations.restate(self.run("restate", hour), self.world.driver())  # noqa: E731
        if effect is None:
            work()
        else:
            dies(work, effect, after=False)
            self.under_way = True

    @rule(hours=st.sampled_from([0, 24]), effect=st.none() | st.integers(0, 40))
    def upkeep(self, hours: int, effect: int | None) -> None:
        dies(
            lambda: maintain(self.run("tidy"), self.world.driver(), Retention(hours=hours)),
            1_000_000 if effect is None else effect,
            after=True,
        )

    @precondition(lambda self: not self.under_way and len(releases.read_all(self.world.lake)) > 1)
    @rule()
    def roll_back_and_forward(self) -> None:
        rollback(self.run("back"), self.world.driver(), None)
        hour, rows = self.world.published()
        assert rows == self.world.expected[hour]
        self.world.catch_up(self.reached or "")

    @precondition(lambda self: self.following)
    @rule()
    def drift(self) -> None:
        """The source starts to send another column."""
        for file in self.world.change_files(self.following[0]):
            lines = [json.loads(line) for line in file.read_text().splitlines()]
            for line in lines:
                next(iter(line.values()))["colour"] = "red"
            file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))

    @invariant()
    def readers_see_one_hour_whole(self) -> None:
        hour, rows = self.world.published()
        assert rows == self.world.expected[hour]

    @invariant()
    def bronze_is_the_snapshot_and_each_hour_once(self) -> None:
        release = releases.require_release(self.world.lake, None)
        for feed in self.world.tables.feeds:
            delta: Any = self.world.lake.open(self.world.lake.path(feed.name), release.versions[feed.name])
            rows = read_live_rows(delta, self.world.lake.folder(feed.name)).to_pylist()
            assert {row[feed.keys[0]]: row for row in rows} == self.models[release.hour][feed.name]
            assert len(rows) == len(self.models[release.hour][feed.name])

    def teardown(self) -> None:
        self.world.catch_up(HOURS[-1])
        hour, rows = self.world.published()
        assert (hour, rows) == (HOURS[-1], self.world.expected[HOURS[-1]])


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_any_walk_ends_in_the_rows_of_an_undisturbed_run(few: World, tmp_path: Path) -> None:
    models: dict[str | None, Model] = {None: snapshot(few)}
    for before, hour in itertools.pairwise([None, *HOURS]):
        models[hour] = with_hour(few, models[before], str(hour), tmp_path / "changes.parquet")
    number = itertools.count()
    run_state_machine_as_test(
        lambda: Walk(few.copy(tmp_path / f"walk-{next(number)}"), models),
        settings=settings(
            max_examples=int(os.environ.get("MEDALLION_WALKS", "2")),
            stateful_step_count=8,
            deadline=None,
            derandomize="MEDALLION_WALKS" not in os.environ,
            suppress_health_check=list(HealthCheck),
            database=None,
        ),
    )
