"""A few faults of every kind, by a seed; ``python -m tests.faults`` runs all of them."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from medallion.model.table import STRATEGIES
from tests.faults.faults import Fault, every_fault, suffer
from tests.faults.world import World

SEED = 20251130
KINDS = {
    "refresh dies": 2,
    "restatement dies": 1,
    "maintenance dies": 1,
    "roll back dies": 1,
    "no space": 1,
    "kill -9 of Python and JVM": 1,
    "kill -9 of Python alone": 1,
    "two refreshes": 1,
    "another machine freezes": 1,
    "a file cut off": 1,
    "a file with": 1,
    "a file empty": 1,
    "a file blank": 1,
    "a file full": 1,
    "hour": 1,
    "the event log": 1,
    "the machine is in": 1,
    "a check breaks down": 1,
}
_QUICK = {"refresh dies", "restatement dies", "kill -9 of Python and JVM", "a file with", "two refreshes"}


@pytest.fixture(scope="module")
def every(few: World, tmp_path_factory: pytest.TempPathFactory) -> list[Fault]:
    """All that there are."""
    count, folder = iter(range(100)), tmp_path_factory.mktemp("counting")
    return every_fault(lambda since: few.copy(folder / str(next(count)), since), SEED)


@pytest.fixture(scope="module")
def faults(every: list[Fault]) -> dict[str, list[Fault]]:
    """Those to suffer, by kind."""
    chance = random.Random(SEED)
    kinds = {kind: [fault for fault in every if fault.name.startswith(kind)] for kind in KINDS}
    return {kind: chance.sample(found, KINDS[kind]) for kind, found in kinds.items()}


@pytest.fixture
def fresh(few: World, tmp_path: Path) -> Callable[[Fault], World]:
    """A world for a fault, as it has to be before."""

    def of(fault: Fault) -> World:
        strategy = random.Random(fault.name).choice(STRATEGIES)
        return few.copy(tmp_path / fault.name.replace(" ", "-"), fault.since, strategy)

    return of


def test_every_fault_is_of_a_kind_that_has_a_sample(every: list[Fault]) -> None:
    assert [fault.name for fault in every if not fault.name.startswith(tuple(KINDS))] == []


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.long] * (kind not in _QUICK)) for kind in KINDS]
)
def test_after_a_fault_a_plain_re_run_gives_the_rows_of_an_undisturbed_one(
    kind: str, faults: dict[str, list[Fault]], fresh: Callable[[Fault], World]
) -> None:
    for fault in faults[kind]:
        result = suffer(fault, fresh(fault))
        assert (fault.name, result.struck, result.differing, result.torn) == (fault.name, result.struck, [], [])
        assert result.reads > 0
