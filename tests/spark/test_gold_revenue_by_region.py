"""gold_revenue_by_region: revenue by day and region of the customer."""

from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from medallion.testing import Run


def test_revenue_leaves_out_lost_orders_and_keeps_days_and_regions_apart(run: "Run") -> None:
    def order(day: int, region: str | None, status: str, total: str) -> dict[str, object]:
        return {
            "created_at": datetime(2025, 11, day, 23),
            "customer_region": region,
            "order_status": status,
            "order_total": Decimal(total),
        }

    run(
        "gold_revenue_by_region",
        silver_orders_enriched=[
            order(3, "north", "delivered", "10.00"),
            order(3, "north", "pending", "5.00"),
            order(3, "north", "cancelled", "100.00"),
            order(3, "south", "returned", "100.00"),
            order(4, "north", "shipped", "1.00"),
            order(4, None, "shipped", "2.00"),
        ],
    ).gives(
        "day, customer_region, order_count, revenue, avg_order_value",
        (date(2025, 11, 3), "north", 2, Decimal("15.00"), 7.5),
        (date(2025, 11, 4), "north", 1, Decimal("1.00"), 1.0),
        (date(2025, 11, 4), None, 1, Decimal("2.00"), 2.0),
    )
