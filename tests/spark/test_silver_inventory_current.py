"""silver_inventory_current: stock is the sum of all movements."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from medallion.testing import Found, Given, Run

SMALLEST_INT = -(2**31)


def stock(run: "Run", *events: "Given", **inputs: Iterable["Given"]) -> "Found":
    """The stock that ``events`` leave of one product with a supplier; ``inputs`` replaces those two."""
    common = {"bronze_products": [{}], "bronze_suppliers": [{}]}
    numbered = [{"inventory_event_id": i, **event} for i, event in enumerate(events)]
    return run("silver_inventory_current", bronze_inventory_events=numbered, **(common | inputs))


def test_every_movement_changes_stock_and_known_ones_their_own_sum(run: "Run") -> None:
    stock(
        run,
        {"event_type": "restock", "quantity_change": 100},
        {"event_type": "sale_reserve", "quantity_change": -30},
        {"event_type": "sale_reserve", "quantity_change": 2},
        {"event_type": "cancellation_restock", "quantity_change": 10},
        {"event_type": "return_restock", "quantity_change": 5},
        {"event_type": "stocktake", "quantity_change": -1},
    ).gives("current_stock, total_restocked, total_sold, total_returned", (86, 100, 22, 5))


def test_warehouses_are_counted_apart_and_a_sum_over_no_movement_is_zero(run: "Run") -> None:
    stock(
        run,
        {"warehouse_id": 1, "event_type": "restock", "quantity_change": 8},
        {"warehouse_id": 2, "event_type": "sale_reserve", "quantity_change": -3},
        {"warehouse_id": 3, "event_type": "cancellation_restock", "quantity_change": 4},
    ).gives(
        "product_id, warehouse_id, current_stock, total_restocked, total_sold, total_returned",
        (1, 1, 8, 8, 0, 0),
        (1, 2, -3, 0, 3, 0),
        (1, 3, 4, 0, -4, 0),
    )


def test_the_largest_movements_do_not_overflow(run: "Run") -> None:
    stock(
        run,
        {"event_type": "sale_reserve", "quantity_change": SMALLEST_INT},
        {"event_type": "sale_reserve", "quantity_change": SMALLEST_INT},
        {"event_type": "cancellation_restock", "quantity_change": SMALLEST_INT},
    ).gives("current_stock, total_sold", (-6442450944, 6442450944))


def test_a_product_must_be_known_and_have_a_known_supplier_but_not_be_active(run: "Run") -> None:
    stock(
        run,
        *({"product_id": i, "event_type": "restock", "quantity_change": 1} for i in range(1, 6)),
        bronze_products=[
            {"product_id": 1},
            {"product_id": 2, "is_active": False},
            {"product_id": 3, "supplier_id": None},
            {"product_id": 4, "supplier_id": 404},
        ],
    ).gives("product_id", 1, 2)


def test_the_context_comes_from_product_and_supplier(run: "Run") -> None:
    stock(
        run,
        {"product_id": 2, "event_type": "restock", "quantity_change": 1},
        {"product_id": 3, "event_type": "restock", "quantity_change": 1},
        bronze_products=[
            {"product_id": 2, "product_name": "chair", "category": "home", "brand": "Lux", "supplier_id": 7},
            {"product_id": 3, "product_name": "desk", "supplier_id": 8},
        ],
        bronze_suppliers=[
            {"supplier_id": 7, "supplier_name": "Zeta", "lead_time_days": 5},
            {"supplier_id": 8, "supplier_name": "Eta", "lead_time_days": None},
        ],
    ).gives(
        "product_id, product_name, category, brand, supplier_id, supplier_name, lead_time_days",
        (2, "chair", "home", "Lux", 7, "Zeta", 5),
        (3, "desk", None, None, 8, "Eta", None),
    )
