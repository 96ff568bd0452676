"""silver_order_items_enriched: valid lines of active products, their money exact to the last digit."""

from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from medallion.testing import Found, Given, Run

LARGEST_PRICE = Decimal("99999999.99")
LARGEST_INT = 2**31 - 1


def lines(run: "Run", **inputs: Iterable["Given"]) -> "Found":
    """One line of 1 x 10.00 with all it joins to; ``inputs`` replaces what matters."""
    common = {
        name: [{}]
        for name in ("bronze_order_items", "bronze_products", "bronze_suppliers", "bronze_orders", "silver_customers")
    }
    return run("silver_order_items_enriched", **(common | inputs))


def test_money_keeps_every_digit(run: "Run") -> None:
    lines(
        run,
        bronze_products=[{"cost_price": Decimal("5.00")}],
        bronze_order_items=[
            {"order_item_id": 1, "quantity": 3, "unit_price": Decimal("9.99"), "discount_pct": Decimal("12.35")},
            {"order_item_id": 2, "quantity": 1, "unit_price": Decimal("0.01"), "discount_pct": Decimal("12.34")},
            {"order_item_id": 3, "quantity": 7, "unit_price": Decimal("0.00"), "discount_pct": Decimal("50.00")},
        ],
    ).gives(
        "order_item_id, line_gross_revenue, line_net_revenue, line_gross_margin",
        (1, Decimal("29.97"), Decimal("26.268705"), Decimal("14.97")),
        (2, Decimal("0.01"), Decimal("0.008766"), Decimal("-4.99")),
        (3, Decimal("0.00"), Decimal("0.000000"), Decimal("-35.00")),
    )


def test_no_discount_and_a_null_discount_are_the_same_and_a_full_one_leaves_nothing(run: "Run") -> None:
    discounts = [None, Decimal("0.00"), Decimal("100.00")]
    lines(run, bronze_order_items=[{"order_item_id": i, "discount_pct": pct} for i, pct in enumerate(discounts)]).gives(
        "order_item_id, discount_pct, line_net_revenue",
        (0, None, Decimal("10.000000")),
        (1, Decimal("0.00"), Decimal("10.000000")),
        (2, Decimal("100.00"), Decimal("0.000000")),
    )


def test_the_largest_legal_line_neither_overflows_nor_loses_a_digit(run: "Run") -> None:
    largest = {"quantity": LARGEST_INT, "unit_price": LARGEST_PRICE}
    lines(
        run,
        bronze_products=[{"cost_price": -LARGEST_PRICE}],
        bronze_order_items=[
            {"order_item_id": 1, **largest, "discount_pct": Decimal("-999.99")},
            {"order_item_id": 2, **largest, "discount_pct": Decimal("999.99")},
        ],
    ).gives(
        "order_item_id, line_gross_revenue, line_net_revenue, line_gross_margin",
        (
            1,
            Decimal("214748364678525163.53"),
            Decimal("2362210536627308946.313647"),
            Decimal("429496729357050327.06"),
        ),
        (
            2,
            Decimal("214748364678525163.53"),
            Decimal("-1932713807270258619.253647"),
            Decimal("429496729357050327.06"),
        ),
    )


def test_a_product_without_a_cost_has_no_margin_but_stays(run: "Run") -> None:
    lines(run, bronze_products=[{"cost_price": None}]).gives(
        "order_item_id, cost_price, line_gross_margin", (1, None, None)
    )


def test_only_lines_with_a_quantity_and_no_negative_price_are_kept(run: "Run") -> None:
    lines(
        run,
        bronze_order_items=[
            {"order_item_id": 1, "quantity": 1, "unit_price": Decimal("0.00")},
            {"order_item_id": 2, "quantity": 0},
            {"order_item_id": 3, "quantity": -1},
            {"order_item_id": 4, "unit_price": Decimal("-0.01")},
        ],
    ).gives("order_item_id", 1)


def test_only_products_known_to_be_active_and_with_a_known_supplier_are_kept(run: "Run") -> None:
    lines(
        run,
        bronze_products=[
            {"product_id": 1},
            {"product_id": 2, "is_active": False},
            {"product_id": 3, "is_active": None},
            {"product_id": 4, "supplier_id": None},
            {"product_id": 5, "supplier_id": 404},
        ],
        bronze_order_items=[{"order_item_id": i, "product_id": i} for i in range(1, 7)],
    ).gives("order_item_id, product_id", (1, 1))


def test_only_orders_of_valid_status_are_kept_whatever_their_total(run: "Run") -> None:
    statuses = ["pending", "confirmed", "shipped", "delivered", "cancelled", "returned", "lost", None]
    lines(
        run,
        bronze_orders=[
            {"order_id": i, "order_status": status, "order_total": Decimal("-1.00")}
            for i, status in enumerate(statuses)
        ],
        bronze_order_items=[{"order_item_id": i, "order_id": i} for i in range(len(statuses))],
    ).gives("order_item_id", 0, 1, 2, 3, 4, 5)


def test_a_line_without_its_order_or_of_an_unknown_customer_is_dropped(run: "Run") -> None:
    lines(
        run,
        bronze_orders=[{"order_id": 1}, {"order_id": 2, "user_id": None}, {"order_id": 3, "user_id": 404}],
        bronze_order_items=[{"order_item_id": i, "order_id": i} for i in range(1, 5)],
    ).gives("order_item_id, order_id", (1, 1))


def test_the_context_comes_from_product_supplier_order_and_customer(run: "Run") -> None:
    created = datetime(2025, 12, 1, 23, 59, 59, 999999)
    money = {"cost_price": Decimal("4.00"), "list_price": Decimal("12.00")}
    chair = {"product_name": "chair", "category": "home", "brand": "Lux", **money}
    lines(
        run,
        bronze_products=[{"product_id": 2, "supplier_id": 3, **chair}],
        bronze_suppliers=[{"supplier_id": 3, "supplier_name": "Zeta", "country": "DE", "lead_time_days": 5}],
        bronze_orders=[{"order_id": 4, "order_status": "shipped", "user_id": 5, "created_at": created}],
        silver_customers=[{"customer_id": 5, "customer_tier": "gold"}],
        bronze_order_items=[{"order_id": 4, "product_id": 2}],
    ).gives(
        "product_id, product_name, category, brand, cost_price, list_price, supplier_id, supplier_name,"
        " supplier_country, lead_time_days, order_id, order_created_at, order_status, user_id, customer_tier",
        (2, *chair.values(), 3, "Zeta", "DE", 5, 4, created, "shipped", 5, "gold"),
    )


def test_every_line_of_an_order_is_a_row_of_its_own(run: "Run") -> None:
    lines(run, bronze_order_items=[{"order_item_id": 1}, {"order_item_id": 2}]).gives(
        "order_item_id, order_id", (1, 1), (2, 1)
    )
