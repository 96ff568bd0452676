"""gold_daily_orders: orders by the day they were placed."""

from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from medallion.testing import Run


def test_a_day_begins_at_midnight_and_has_all_its_orders(run: "Run") -> None:
    def order(at: datetime, status: str, total: str) -> dict[str, object]:
        return {"created_at": at, "order_status": status, "order_total": Decimal(total), "total_quantity": 2}

    run(
        "gold_daily_orders",
        silver_orders_enriched=[
            order(datetime(2025, 11, 3, 23, 59, 59, 999999), "delivered", "10.00"),
            order(datetime(2025, 11, 3), "cancelled", "5.00"),
            order(datetime(2025, 11, 4), "returned", "1.00"),
        ],
    ).gives(
        "day, order_count, cancelled_orders, units, revenue, avg_order_value",
        (date(2025, 11, 3), 2, 1, 4, Decimal("15.00"), 7.5),
        (date(2025, 11, 4), 1, 0, 2, Decimal("1.00"), 1.0),
    )
