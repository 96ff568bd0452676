"""gold_supplier_performance: sales of a supplier's products, beside its inventory."""

from collections.abc import Iterable
from decimal import Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from medallion.testing import Found, Given, Run


def performance(run: "Run", *lines: "Given", inventory: Iterable["Given"] = ({},)) -> "Found":
    """What ``lines`` say of their suppliers; supplier 1 has an inventory row."""
    numbered = [{"order_item_id": i, **line} for i, line in enumerate(lines)]
    return run(
        "gold_supplier_performance", silver_confirmed_order_items=numbered, silver_inventory_by_supplier=inventory
    )


def test_products_and_orders_are_counted_once_and_units_by_quantity(run: "Run") -> None:
    performance(
        run,
        {"order_id": 1, "product_id": 1, "quantity": 2},
        {"order_id": 1, "product_id": 1, "quantity": 3},
        {"order_id": 1, "product_id": 2, "quantity": 1},
        {"order_id": 2, "product_id": 1, "quantity": 4},
    ).gives("products_sold, orders_fulfilled, total_units_sold", (2, 2, 10))


def test_an_order_with_lines_of_two_suppliers_counts_for_both(run: "Run") -> None:
    performance(
        run,
        {"order_id": 1, "supplier_id": 1, "product_id": 1},
        {"order_id": 1, "supplier_id": 2, "product_id": 2},
        {"order_id": 1, "supplier_id": 2, "product_id": 3},
        inventory=[{"supplier_id": 1}, {"supplier_id": 2}],
    ).gives("supplier_id, products_sold, orders_fulfilled", (1, 1, 1), (2, 2, 1))


def test_money_adds_up_exactly_over_products_and_margin_leaves_unknown_costs_out(run: "Run") -> None:
    performance(
        run,
        {"product_id": 1, "line_net_revenue": Decimal("26.268705"), "line_gross_margin": Decimal("14.97")},
        {"product_id": 1, "line_net_revenue": Decimal("0.008766"), "line_gross_margin": Decimal("-4.99")},
        {"product_id": 2, "line_net_revenue": Decimal("0.000001"), "line_gross_margin": None},
    ).gives(
        "total_net_revenue, total_gross_margin, avg_margin_pct",
        (Decimal("26.277472"), Decimal("9.98"), 9.98 / 26.277472),
    )


def test_margin_of_no_revenue_is_null(run: "Run") -> None:
    performance(run, {"line_net_revenue": Decimal("0.000000"), "line_gross_margin": Decimal("-5.00")}).gives(
        "total_net_revenue, total_gross_margin, avg_margin_pct", (Decimal("0.000000"), Decimal("-5.00"), None)
    )


def test_the_average_discount_is_over_discounted_lines_of_all_products(run: "Run") -> None:
    performance(
        run,
        {"product_id": 1, "discount_pct": Decimal("0.01")},
        {"product_id": 1, "discount_pct": Decimal("0.02")},
        {"product_id": 2, "discount_pct": Decimal("0.02")},
        {"product_id": 2, "discount_pct": None},
        {"supplier_id": 2, "discount_pct": None},
        inventory=[{"supplier_id": 1}, {"supplier_id": 2}],
    ).gives("supplier_id, avg_discount_applied", (1, 0.05 / 3), (2, None))


def test_reliability_is_the_share_of_lines_not_of_orders(run: "Run") -> None:
    performance(
        run,
        {"order_id": 1, "product_id": 1, "order_status": "delivered"},
        {"order_id": 2, "product_id": 1, "order_status": "shipped"},
        {"order_id": 2, "product_id": 2, "order_status": "shipped"},
    ).gives("reliability_score", 1 / 3)


def test_a_supplier_needs_both_sales_and_inventory(run: "Run") -> None:
    performance(run, {"supplier_id": 1}, {"supplier_id": 2}, inventory=[{"supplier_id": 1}, {"supplier_id": 3}]).gives(
        "supplier_id", 1
    )


def test_unknown_country_and_lead_time_are_no_reason_to_drop_a_supplier(run: "Run") -> None:
    performance(
        run,
        {"supplier_id": 1, "supplier_country": None, "lead_time_days": None},
        {"supplier_id": 2, "supplier_country": "DE", "lead_time_days": 5},
        inventory=[
            {
                "supplier_id": 1,
                "total_current_stock": -1,
                "total_sold": 2,
                "total_restocked": 3,
                "total_returned": 4,
            },
            {"supplier_id": 2},
        ],
    ).gives(
        "supplier_id, supplier_name, supplier_country, lead_time_days, total_current_stock, inventory_units_sold,"
        " inventory_units_restocked, inventory_units_returned",
        (1, "Acme", None, None, -1, 2, 3, 4),
        (2, "Acme", "DE", 5, None, None, None, None),
    )
