"""After runs of selected tables, the next whole run gives the rows that whole runs would have given all along."""

from collections.abc import Callable
from pathlib import Path

import pytest

from medallion.inspect.lake_difference import differing
from medallion.ops import releases
from medallion.pipeline import operations
from medallion.pipeline.driver import Driver
from medallion.pipeline.run import Run
from tests.shop import registry

H0, H1, H2 = "2025-11-30T00", "2025-11-30T01", "2025-11-30T02"


@pytest.fixture(scope="module")
def whole(loaded_shop: Path, copied_shop: Callable[[Path], Driver], small_inputs_keep_state: None) -> Driver:
    """A lake of the snapshot, with all tables refreshed in full in each of three hours."""
    driver = copied_shop(loaded_shop)
    for hour in (H0, H1, H2):
        operations.refresh_hour(Run(driver.settings, hour, hour, strategy="full"), driver)
    return driver


@pytest.mark.long
@pytest.mark.parametrize("strategy", ["full", "incremental"])
def test_selected_then_whole_runs_give_the_rows_of_whole_runs(
    strategy: str, whole: Driver, loaded_shop: Path, copied_shop: Callable[[Path], Driver]
) -> None:
    selected = copied_shop(loaded_shop)
    choices = {H0: "", H1: "silver_orders_enriched, gold_inventory_risk", H2: "+gold_order_status_summary"}
    for hour, select in choices.items():
        operations.refresh_hour(Run(selected.settings, hour, hour, strategy=strategy, select=select), selected)
    published = releases.latest(selected.lake)
    assert published is not None and published.hour == H0, "nothing is published while tables are left behind"
    operations.refresh_hour(Run(selected.settings, None, "catch up", strategy=strategy), selected)
    assert differing(whole.lake, selected.lake, registry()) == []
