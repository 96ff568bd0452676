"""After runs of selected tables, the next whole run gives the rows that whole runs would have given all along."""

from pathlib import Path
from typing import Any

import pytest

from bench.proof import differing
from medallion.demo.generate import generate
from medallion.model.registry import registry
from medallion.ops import releases
from medallion.pipeline import operations
from medallion.pipeline.driver import Driver
from medallion.pipeline.run import Run
from medallion.settings import Settings

H0, H1, H2 = "2025-11-30T00", "2025-11-30T01", "2025-11-30T02"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("select") / "source"
    generate(folder, days=1, hours=3, scale=0.03, seed=2)
    return folder


def load(source: Path, lake: Path, spark: Any) -> Driver:
    driver = Driver(Settings(lake=str(lake), source=str(source)), report=lambda _: None)
    driver.use(spark)
    operations.load(Run(driver.settings, None, "load"), driver)
    return driver


@pytest.mark.parametrize("strategy", ["full", "incremental"])
def test_selected_then_whole_runs_give_the_rows_of_whole_runs(
    strategy: str, source: Path, tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("medallion.refresh.additive.MIN_STATE_INPUT_BYTES", 0)
    whole, selected = (load(source, tmp_path / name, spark) for name in ("whole", "selected"))
    for hour in (H0, H1, H2):
        operations.refresh_hour(Run(whole.settings, hour, hour, strategy="full"), whole)
    choices = {H0: "", H1: "silver_orders_enriched, gold_inventory_risk", H2: "+gold_order_status_summary"}
    for hour, select in choices.items():
        operations.refresh_hour(Run(selected.settings, hour, hour, strategy=strategy, select=select), selected)
    published = releases.latest(selected.lake)
    assert published is not None and published.hour == H0, "nothing is published while tables are left behind"
    operations.refresh_hour(Run(selected.settings, None, "catch up", strategy=strategy), selected)
    assert differing(whole.lake, selected.lake, registry()) == []
