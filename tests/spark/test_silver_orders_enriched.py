"""silver_orders_enriched: valid orders of known customers, with their valid items summed up."""

from collections.abc import Iterable
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from medallion.testing import Found, Given, Run

LARGEST_PRICE = Decimal("99999999.99")
LARGEST_INT = 2**31 - 1


def orders(run: "Run", **inputs: Iterable["Given"]) -> "Found":
    """One delivered order of 10.00 by a standard customer, with one item; ``inputs`` replaces what matters."""
    common = {"bronze_orders": [{}], "silver_customers": [{}], "bronze_order_items": [{}]}
    return run("silver_orders_enriched", **(common | inputs))


def test_only_the_six_valid_statuses_are_kept(run: "Run") -> None:
    statuses = ["pending", "confirmed", "shipped", "delivered", "cancelled", "returned", "lost", "Shipped", None]
    orders(
        run,
        bronze_orders=[{"order_id": i, "order_status": status} for i, status in enumerate(statuses)],
        bronze_order_items=[{"order_id": i} for i in range(len(statuses))],
    ).gives("order_id", 0, 1, 2, 3, 4, 5)


def test_a_total_may_be_zero_but_neither_negative_nor_unknown(run: "Run") -> None:
    totals = [Decimal("0.00"), Decimal("-0.01"), None]
    orders(
        run,
        bronze_orders=[{"order_id": i, "order_total": total} for i, total in enumerate(totals)],
        bronze_order_items=[{"order_id": i} for i in range(len(totals))],
    ).gives("order_id, order_total", (0, Decimal("0.00")))


def test_an_order_of_no_user_or_an_unknown_customer_is_dropped(run: "Run") -> None:
    orders(
        run,
        bronze_orders=[{"order_id": 1}, {"order_id": 2, "user_id": None}, {"order_id": 3, "user_id": 404}],
        bronze_order_items=[{"order_id": 1}, {"order_id": 2}, {"order_id": 3}],
    ).gives("order_id", 1)


def test_an_order_without_a_valid_item_is_dropped(run: "Run") -> None:
    orders(
        run,
        bronze_orders=[{"order_id": 1}, {"order_id": 2}, {"order_id": 3}],
        bronze_order_items=[{"order_id": 1}, {"order_id": 2, "quantity": 0}],
    ).gives("order_id", 1)


def test_items_without_quantity_or_with_a_negative_price_do_not_count_but_free_ones_do(run: "Run") -> None:
    orders(
        run,
        bronze_order_items=[
            {"quantity": 2, "unit_price": Decimal("9.99")},
            {"quantity": 3, "unit_price": Decimal("0.00")},
            {"quantity": 0, "unit_price": Decimal("5.00")},
            {"quantity": -1, "unit_price": Decimal("5.00")},
            {"quantity": 1, "unit_price": Decimal("-0.01")},
        ],
    ).gives("item_count, total_quantity, gross_item_revenue", (2, 5, Decimal("19.98")))


def test_the_average_discount_leaves_nulls_out_and_keeps_every_digit(run: "Run") -> None:
    discounts = {1: ["0.01", "0.02", "0.02", None], 2: [None, None], 3: ["10.00", "0.00"]}
    orders(
        run,
        bronze_orders=[{"order_id": order} for order in discounts],
        bronze_order_items=[
            {"order_id": order, "discount_pct": pct and Decimal(pct)}
            for order, pcts in discounts.items()
            for pct in pcts
        ],
    ).gives("order_id, item_count, avg_discount_pct", (1, 4, 0.05 / 3), (2, 2, None), (3, 2, 5.0))


def test_the_largest_quantities_and_prices_stay_exact(run: "Run") -> None:
    orders(run, bronze_order_items=[{"quantity": LARGEST_INT, "unit_price": LARGEST_PRICE} for _ in range(3)]).gives(
        "total_quantity, gross_item_revenue", (6442450941, Decimal("644245094035575490.59"))
    )


def test_the_customer_is_the_one_of_the_order(run: "Run") -> None:
    orders(
        run,
        bronze_orders=[{"user_id": 2}],
        silver_customers=[
            {"customer_id": 1},
            {
                "customer_id": 2,
                "customer_tier": "gold",
                "geo_country": "DE",
                "geo_region": "BE",
                "signup_date": date(2024, 2, 29),
            },
        ],
    ).gives(
        "user_id, customer_tier, customer_country, customer_region, signup_date",
        (2, "gold", "DE", "BE", date(2024, 2, 29)),
    )
