"""gold_customer_orders_summary: orders of each customer."""

from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from medallion.testing import Run


def test_orders_and_units_are_counted_and_amounts_leave_out_lost_orders(run: "Run") -> None:
    def order(status: str, total: str, quantity: int, day: int) -> dict[str, object]:
        return {
            "order_status": status,
            "order_total": Decimal(total),
            "total_quantity": quantity,
            "created_at": datetime(2025, 11, day),
        }

    run(
        "gold_customer_orders_summary",
        silver_orders_enriched=[
            order("delivered", "10.00", 1, 4),
            order("pending", "5.50", 2, 3),
            order("cancelled", "100.00", 4, 2),
            order("returned", "200.00", 8, 9),
        ],
    ).gives(
        "user_id, order_count, lost_orders, units, total_spent, first_order_at, last_order_at",
        (1, 4, 2, 15, Decimal("15.50"), datetime(2025, 11, 2), datetime(2025, 11, 9)),
    )


def test_a_customer_whose_orders_were_all_lost_has_spent_nothing(run: "Run") -> None:
    run("gold_customer_orders_summary", silver_orders_enriched=[{"order_status": "returned"}]).gives(
        "order_count, lost_orders, total_spent", (1, 1, Decimal("0.00"))
    )


def test_customers_are_kept_apart(run: "Run") -> None:
    run(
        "gold_customer_orders_summary",
        silver_orders_enriched=[{"order_id": 1, "user_id": 1}, {"order_id": 2, "user_id": 2}],
    ).gives("user_id, order_count", (1, 1), (2, 1))
