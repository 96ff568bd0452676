"""Strategies are given to the driver: those of the engine, or others, as of the benchmark."""

from dataclasses import replace
from pathlib import Path

import pytest

from medallion.errors import UsageError
from medallion.model.table import STRATEGIES, Table
from medallion.ops import event_log
from medallion.pipeline import operations
from medallion.pipeline.driver import Driver
from medallion.pipeline.run import Run
from medallion.refresh.refresh_run import RefreshRun, Written
from medallion.refresh.strategies import ENGINE_STRATEGIES
from medallion.settings import Settings
from tests.unit.small_lake import H0, Shop, copied


def test_engine_has_each_strategy_that_the_form_offers_and_no_other() -> None:
    assert tuple(ENGINE_STRATEGIES) == STRATEGIES


def test_unknown_strategy_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    settings = Settings(lake=str(tmp_path / "lake"), source=str(tmp_path / "source"))
    driver = Driver(settings, report=lambda _: None)
    with pytest.raises(UsageError, match="strategy 'magic' is unknown: choose full, incremental"):
        operations.refresh_hour(Run(settings, H0, "run", strategy="magic"), driver)
    assert not (tmp_path / "lake").exists()


def test_driver_refreshes_by_the_strategy_that_it_was_given(shop: Shop) -> None:
    refreshed: list[str] = []

    def marked(run: RefreshRun, table: Table) -> Written:
        refreshed.append(table.name)
        return replace(copied(run, table), strategy="marked")

    shop.put(H0, {1: "first"})
    driver = Driver(shop.settings, lambda _: None, {"marked": marked})
    driver.tables = shop.tables
    operations.refresh_hour(Run(shop.settings, H0, "run", strategy="marked"), driver)
    rows = event_log.read(shop.lake, run_id="run", event_type="refresh")
    assert {row.table_name for row in rows if row.strategy == "marked" and row.table_name} == set(refreshed)
    assert set(refreshed) == {"silver_orders", "gold_orders"}


@pytest.mark.parametrize("note", ["its inputs are small", "full recompute: its inputs are small"])
def test_a_full_recompute_that_was_chosen_is_reported_with_its_reason(shop: Shop, note: str) -> None:
    def chosen(run: RefreshRun, table: Table) -> Written:
        return replace(copied(run, table), note=note)

    shop.put(H0, {1: "a"})
    said: list[str] = []
    driver = Driver(shop.settings, said.append, {"incremental": chosen})
    driver.tables = shop.tables
    operations.refresh_hour(Run(shop.settings, H0, "run", strategy="incremental"), driver)
    (line,) = (line for line in said if line.startswith("gold  gold_orders  1 row"))
    assert line.endswith(" s  full recompute: its inputs are small")
