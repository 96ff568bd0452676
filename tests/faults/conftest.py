"""Worlds to be spoiled: learned once, copied for each test."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.world import Ahead, Expected, World, make_world, state_of_small_inputs
from tests.made_once import made_once
from tests.part_of_shop import some_tables


@pytest.fixture(scope="module", autouse=True)
def _state_of_small_inputs() -> Iterator[None]:
    with state_of_small_inputs():
        yield


@pytest.fixture(scope="session")
def few(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> World:
    """All of Bronze, two tables of Silver and one of Gold: the way of every table, in half the time."""
    tables = some_tables("gold_order_status_summary")

    def make(folder: Path) -> tuple[Expected, Ahead]:
        with state_of_small_inputs():
            world = make_world(folder / "world", spark, tables)
        return world.expected, world.ahead

    folder, (expected, ahead) = made_once(tmp_path_factory, "few", make)
    return World(folder / "world", spark, tables, expected, ahead)


@pytest.fixture
def world(few: World, tmp_path: Path) -> World:
    """A loaded lake of those, with every hour still to come."""
    return few.copy(tmp_path / "world")


@pytest.fixture
def at(few: World, tmp_path: Path) -> Callable[[str], World]:
    """One that has been refreshed up to an hour."""
    return lambda hour: few.copy(tmp_path / "world", hour)
