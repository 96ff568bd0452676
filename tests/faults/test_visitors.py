"""Random visitors between the steps of random hours: what readers get is what the source gives, or nothing new (F39).

MEDALLION_VISITORS is how many histories are tried (2), MEDALLION_SEED the first of them (1); MEDALLION_VISIT_SECONDS
goes on with further ones for that long.
"""

import os
import random
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, write_deltalake
from deltalake.exceptions import DeltaError
from deltalake.schema import PrimitiveType

from medallion.errors import MedallionError
from medallion.hours import ONE_HOUR, format_hour, parse_hour
from medallion.pipeline import adoption, steps
from medallion.pipeline.maintain import Retention, maintain
from medallion.pipeline.run import Run
from tests.shop import graph
from tests.unit import small_lake
from tests.unit.small_lake import ARROW, H0, load, without_spark

TABLES = graph(
    {name: replace(node, may_be_empty=True, max_row_change=9e9) for name, node in small_lake.TABLES.tables.items()}
)
NAMES = ("bronze_orders", "bronze_items", "silver_orders", "gold_orders")
HOURS = 4
SECONDS = float(os.environ.get("MEDALLION_VISIT_SECONDS", "0"))


class History:
    """A lake, what it must hold, and what has happened to it."""

    def __init__(self, root: Path, seed: int) -> None:
        self.chance, self.shop = random.Random(seed), load(root, TABLES)
        self.told = [f"seed {seed}"]
        self.orders: dict[int, str] = {}

    def visit(self) -> None:
        """Somebody does something to some table."""
        table = self.chance.choice(NAMES)
        delta = self.shop.lake.opened(self.shop.lake.path(table))
        acts = {
            "update": lambda: delta.update({"name": "'by hand'"}, predicate=f"id % 3 = {self.chance.randrange(3)}"),
            "delete": lambda: delta.delete(f"id % 3 = {self.chance.randrange(3)}"),
            "delete all": lambda: delta.delete(),
            "append": lambda: write_deltalake(delta, self._row(), mode="append", schema_mode="merge"),
            "overwrite": lambda: write_deltalake(delta, self._row(), mode="overwrite", schema_mode="merge"),
            "restore": lambda: self._restore(delta),
            "add column": lambda: delta.alter.add_columns([Field(f"extra_{delta.version()}", PrimitiveType("string"))]),
            "optimize": lambda: delta.optimize.compact(),
            "properties": lambda: delta.alter.set_table_properties({"delta.logRetentionDuration": "interval 9 days"}),
            "checkpoint": lambda: delta.create_checkpoint(),
            "cut checkpoint": lambda: self._cut_checkpoint(delta, table),
        }
        act = self.chance.choice([*acts])
        self.told.append(f"{act} of {table}")
        try:
            acts[act]()
        except DeltaError as error:  # as when the files of the version to restore were vacuumed: nothing has happened
            self.told.append(f"which Delta refused: {error}")

    def _restore(self, delta: DeltaTable) -> None:
        if delta.version() > 0:  # Delta restores no table to the version that it has
            delta.restore(self.chance.randrange(delta.version()))

    def _row(self) -> pa.Table:
        return pa.table({"id": [self.chance.randrange(100, 120)], "name": ["by hand"]}, schema=ARROW)

    def _cut_checkpoint(self, delta: DeltaTable, table: str) -> None:
        delta.create_checkpoint()
        (file,) = Path(self.shop.lake.path(table), "_delta_log").glob(f"{delta.version():020}.checkpoint*.parquet")
        file.write_bytes(file.read_bytes()[: self.chance.randrange(200)])

    def hour(self, hour: str) -> None:
        """Deliver and refresh one hour, visited now and then; a refusal is answered until it is published."""
        rows = {self.chance.randrange(30): hour for _ in range(self.chance.randrange(1, 5))}
        self.shop.put(hour, rows)
        self.told.append(hour)
        expected = self.orders | rows
        for attempt in range(12):
            before = self.shop.published()
            try:
                self.shop.refresh(None if attempt == 0 else hour)
            except MedallionError as error:
                self.told.append(f"refused: {error}")
                self._require("\n" not in str(error) and self.shop.published() == before)
                expected = self._answer(expected, rows)
                continue
            assert self.shop.published() == expected, self.told
            self.orders = expected
            return
        pytest.fail(f"{self.told}: never published")

    def _require(self, holds: bool) -> None:
        assert holds, self.told

    def _answer(self, expected: dict[int, str], rows: dict[int, str]) -> dict[int, str]:
        """Keep or undo what somebody changed in Bronze; return what it holds after the hour."""
        driver = self.shop.driver()
        for table in NAMES[:2]:
            for work in self.chance.sample((adoption.adopt, adoption.discard), 2):
                try:
                    work(Run(self.shop.settings, None, "answer"), driver, table)
                except MedallionError as error:
                    self.told.append(f"{work.__name__} {table}: {error}")
                    continue
                self.told.append(f"{work.__name__} {table}")
                if table == "bronze_orders" and work is adoption.adopt:
                    kept = self.shop.rows("bronze_orders")
                    is_applied = self.shop.lake.applied_hour("bronze_orders") == self.told_hour
                    expected = kept if is_applied else kept | rows
                break
        return expected

    @property
    def told_hour(self) -> str:
        return max(word for word in self.told if word.startswith("2025"))


def seeds() -> list[int]:
    first = int(os.environ.get("MEDALLION_SEED", "1"))
    return [*range(first, first + int(os.environ.get("MEDALLION_VISITORS", "2")))]


def visit_at_random(root: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    history, run_step = History(root, seed), steps.run_step
    left = [0]

    def visited(name: str, run: Run, driver: Any, at: Any = None) -> Any:
        if left[0] and history.chance.random() < 0.2:
            left[0] -= 1
            history.visit()
        return run_step(name, run, driver, at)

    with monkeypatch.context() as patch:
        for module in ("steps", "operations"):
            patch.setattr(f"medallion.pipeline.{module}.run_step", visited)
        hour = H0
        for _ in range(HOURS):
            left[0] = 2
            history.hour(hour)
            if history.chance.random() < 0.2:
                maintain(Run(history.shop.settings, None, "maintain"), history.shop.driver(), Retention(0, 1))
            hour = format_hour(parse_hour(hour) + ONE_HOUR)


@pytest.mark.long
@pytest.mark.timeout(600 + SECONDS)
@pytest.mark.parametrize("seed", seeds())
def test_readers_get_what_the_source_gives_whoever_visits_the_lake(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_spark(monkeypatch)
    visit_at_random(tmp_path / "first", seed, monkeypatch)
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        seed += len(seeds())
        visit_at_random(tmp_path / str(seed), seed, monkeypatch)
