"""What tests of the shop begin with: rows that pass every filter and meet every join, lakes that are loaded already."""

import shutil
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from demo.generate import generate
from medallion.pipeline import operations
from medallion.pipeline.driver import Driver
from medallion.pipeline.run import Run as RunOfHour
from medallion.settings import Settings
from medallion.testing import Run as Run
from tests.made_once import made_once

MONDAY = datetime(2025, 11, 3)
DEFAULTS: Mapping[str, Any] = {
    **dict.fromkeys(("order_id", "order_item_id", "user_id", "customer_id", "product_id", "supplier_id"), 1),
    **dict.fromkeys(("event_id", "inventory_event_id", "warehouse_id"), 1),
    **dict.fromkeys(("created_at", "updated_at", "ingested_at", "event_timestamp", "order_created_at"), MONDAY),
    "order_status": "delivered",
    "order_total": Decimal("10.00"),
    "quantity": 1,
    "unit_price": Decimal("10.00"),
    "product_name": "lamp",
    "is_active": True,
    "supplier_name": "Acme",
    "customer_tier": "standard",
}


@pytest.fixture(scope="session")
def row_defaults() -> Mapping[str, Any]:
    """What a row has, null elsewhere."""
    return DEFAULTS


def driver_of(root: Path, spark: Any) -> Driver:
    """A driver over the source and the lake in a folder."""
    made = Driver(Settings(lake=str(root / "lake"), source=str(root / "source")), report=lambda _: None)
    made.use(spark)
    return made


@pytest.fixture(scope="session")
def loaded_shop(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a source of two days, five hours and a lake that was loaded from it."""

    def load(root: Path) -> None:
        generate(root / "source", days=2, hours=5, scale=0.05, seed=1)
        made = driver_of(root, spark)
        operations.load(RunOfHour(made.settings, None, "load"), made)

    return made_once(tmp_path_factory, "loaded", load)[0]


@pytest.fixture(scope="session")
def refreshed_shop(loaded_shop: Path, spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same after the first hour, refreshed in full by the run "first"."""

    def refresh(root: Path) -> None:
        shutil.copytree(loaded_shop, root, dirs_exist_ok=True)
        made = driver_of(root, spark)
        operations.refresh_hour(RunOfHour(made.settings, "2025-11-30T00", "first"), made)

    return made_once(tmp_path_factory, "refreshed", refresh)[0]


@pytest.fixture(scope="session")
def copied_shop(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Driver]:
    """Copies such a folder, and returns a driver over the copy."""
    return lambda root: driver_of(shutil.copytree(root, tmp_path_factory.mktemp("copy") / "shop"), spark)


@pytest.fixture(scope="module")
def small_inputs_keep_state() -> Iterator[None]:
    """Have a small shop refreshed as a large one is: its aggregates would be recomputed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("medallion.refresh.additive.MIN_STATE_INPUT_BYTES", 0)
        yield
