"""What rows of the shop have in the columns that a test does not state: they pass every filter, and meet every join."""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest

from medallion.testing import Run as Run

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
