"""After runs of selected tables, the next whole run gives the rows that whole runs would have given all along."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.proof import differing
from medallion.ops import releases
from medallion.pipeline import operations
from medallion.pipeline.driver import Driver
from medallion.pipeline.run import Run
from medallion.settings import Settings
from tests.shop import registry

H0, H1, H2 = "2025-11-30T00", "2025-11-30T01", "2025-11-30T02"


@pytest.fixture(scope="module")
def loaded(loaded_shop: Path, copied_shop: Callable[[Path], Driver], small_inputs_keep_state: None) -> Driver:
    """A lake of the snapshot, with hours to come."""
    return copied_shop(loaded_shop)


@pytest.fixture(scope="module")
def whole(loaded: Driver, tmp_path_factory: pytest.TempPathFactory, spark: Any) -> Driver:
    """A copy of it, with all tables refreshed in full in each hour."""
    driver = copy_of(loaded, tmp_path_factory.mktemp("whole") / "lake", spark)
    for hour in (H0, H1, H2):
        operations.refresh_hour(Run(driver.settings, hour, hour, strategy="full"), driver)
    return driver


def driver_of(lake: Path, source: Path | str, spark: Any) -> Driver:
    driver = Driver(Settings(lake=str(lake), source=str(source)), report=lambda _: None)
    driver.use(spark)
    return driver


def copy_of(driver: Driver, lake: Path, spark: Any) -> Driver:
    shutil.copytree(driver.lake.root, lake)
    return driver_of(lake, driver.settings.source, spark)


@pytest.mark.parametrize("strategy", ["full", "incremental"])
def test_selected_then_whole_runs_give_the_rows_of_whole_runs(
    strategy: str, loaded: Driver, whole: Driver, tmp_path: Path, spark: Any
) -> None:
    selected = copy_of(loaded, tmp_path / "lake", spark)
    choices = {H0: "", H1: "silver_orders_enriched, gold_inventory_risk", H2: "+gold_order_status_summary"}
    for hour, select in choices.items():
        operations.refresh_hour(Run(selected.settings, hour, hour, strategy=strategy, select=select), selected)
    published = releases.latest(selected.lake)
    assert published is not None and published.hour == H0, "nothing is published while tables are left behind"
    operations.refresh_hour(Run(selected.settings, None, "catch up", strategy=strategy), selected)
    assert differing(whole.lake, selected.lake, registry()) == []
