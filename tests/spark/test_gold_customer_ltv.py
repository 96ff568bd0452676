"""gold_customer_ltv: lifetime value of each customer, in total and per month."""

from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from medallion.testing import Run


def test_value_is_divided_by_the_months_begun_between_the_first_order_and_the_last(run: "Run") -> None:
    run(
        "gold_customer_ltv",
        gold_customer_orders_summary=[
            {
                "user_id": 7,
                "order_count": 5,
                "lost_orders": 2,
                "total_spent": Decimal("90.00"),
                "first_order_at": datetime(2024, 12, 31, 23),
                "last_order_at": datetime(2025, 2, 1),
            },
        ],
        silver_customers=[
            {"customer_id": 7, "customer_tier": "gold", "geo_country": "NZ", "geo_region": "Otago"},
        ],
    ).gives(
        "user_id, customer_tier, customer_country, customer_region, orders_kept, lifetime_value, months,"
        " value_per_month",
        (7, "gold", "NZ", "Otago", 3, Decimal("90.00"), 3, 30.0),
    )


def test_a_customer_with_one_order_counts_one_month(run: "Run") -> None:
    moment = datetime(2025, 11, 3)
    order = {"total_spent": Decimal("8.00"), "first_order_at": moment, "last_order_at": moment}

    run("gold_customer_ltv", gold_customer_orders_summary=[order], silver_customers=[{}]).gives(
        "months, value_per_month", (1, 8.0)
    )


def test_orders_without_a_known_customer_are_left_out(run: "Run") -> None:
    run(
        "gold_customer_ltv",
        gold_customer_orders_summary=[{"user_id": 7}],
        silver_customers=[{"customer_id": 8}],
    ).gives("user_id")
