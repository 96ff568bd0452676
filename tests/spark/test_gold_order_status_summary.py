"""gold_order_status_summary: orders, revenue and customers by status."""

from decimal import Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from medallion.testing import Run


def test_orders_revenue_and_customers_are_counted_by_status(run: "Run") -> None:
    run(
        "gold_order_status_summary",
        silver_orders_enriched=[
            {"order_id": 1, "user_id": 1, "order_status": "pending", "order_total": Decimal("0.01")},
            {"order_id": 2, "user_id": 1, "order_status": "pending", "order_total": Decimal("0.02")},
            {"order_id": 3, "user_id": 2, "order_status": "pending", "order_total": Decimal("0.02")},
            {"order_id": 4, "user_id": 1, "order_status": "returned", "order_total": Decimal("7.00")},
        ],
    ).gives(
        "order_status, order_count, total_revenue, avg_order_value, unique_customers",
        ("pending", 3, Decimal("0.05"), 0.05 / 3, 2),
        ("returned", 1, Decimal("7.00"), 7.0, 1),
    )


def test_without_a_known_total_revenue_is_zero_and_the_average_unknown(run: "Run") -> None:
    run("gold_order_status_summary", silver_orders_enriched=[{"order_total": None}]).gives(
        "order_count, total_revenue, avg_order_value", (1, Decimal("0.00"), None)
    )


def test_the_largest_totals_add_up_exactly(run: "Run") -> None:
    run(
        "gold_order_status_summary",
        silver_orders_enriched=[{"order_id": i, "order_total": Decimal("9999999999.99")} for i in range(3)],
    ).gives("total_revenue", Decimal("29999999999.97"))
