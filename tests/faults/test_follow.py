"""Following a source: what arrives in pieces is taken once it is whole, in order, and from where a crash left off."""

from dataclasses import replace
from itertools import count

import pytest

from medallion.errors import CheckFailed
from medallion.ops import event_log
from medallion.pipeline import follow
from medallion.pipeline.follow import Followed, Pace, hops_of
from medallion.pipeline.steps import STEPS, run_step
from tests.faults.world import HOURS, World, differing
from tests.shop import SHOP

H0, H1, H2 = HOURS


def followed(world: World, until: str, sleep: object = None) -> list[Followed]:
    numbers = count()
    pause = sleep if callable(sleep) else lambda _: None
    pace = Pace(settle=2.0, poll=0.01)  # longer than a look at the source takes
    run_id = lambda: f"follow-{next(numbers)}"  # noqa: E731
    return list(follow.follow(world.driver(), "incremental", pace, run_id, until, pause))


def test_follow_applies_an_hour_once_its_files_have_settled(world: World) -> None:
    whole = {path: path.read_bytes() for path in [*world.change_files(H0), *world.change_files(H1)]}
    for path in [*whole, *world.change_files(H2)]:
        path.unlink()
    parts = count(1)

    def arrives(_: float) -> None:
        """A file comes in quarters, one a look, each file of H0 before those of H1."""
        step = next(parts)
        for number, (path, content) in enumerate(whole.items()):
            share = min(4, max(0, step - 2 * number))
            part = content[: len(content) * share // 4]
            if share and not (path.exists() and path.read_bytes() == part):  # what has arrived is not written again
                path.write_bytes(part)

    done = followed(world, H1, arrives)
    assert [one.hour for one in done] == [H0, H1]
    assert differing(world, H1) == []


def test_follow_reports_and_records_the_latency_of_each_hop(world: World) -> None:
    (done,) = followed(world, H0)
    hops = [hop for hop in hops_of(SHOP.layers).values() if hop != "platinum"]
    assert list(done.latency) == hops, "this lake has no such tables"
    assert list(done.latency.values()) == sorted(done.latency.values())
    (row,) = event_log.read(world.lake, hour=H0, event_type="follow")
    assert row.seconds == done.latency["published"] > 0


def test_follow_finishes_an_interrupted_hour_first(world: World) -> None:
    driver, run = world.driver(), world.run(H0, "cut short")
    run_step("land", run, driver)
    run_step("apply", run, driver)
    assert [one.hour for one in followed(world, H0)] == [H0]
    assert differing(world, H0) == []
    assert followed(world, H0) == [], "nothing is left to do"


def test_follow_ends_and_keeps_the_hour_pending_when_a_check_fails(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def red(*_: object) -> None:
        raise CheckFailed("red")

    with monkeypatch.context() as broken:
        broken.setitem(STEPS, "check", replace(STEPS["check"], work=red))
        with pytest.raises(CheckFailed):
            followed(world, H1)
    assert world.published()[0] is None
    assert [one.hour for one in followed(world, H1)] == [H0, H1]
    assert differing(world, H1) == []
