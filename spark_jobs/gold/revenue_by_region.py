"""Revenue by day and region of the customer. One row per day and customer_region.

Cancelled and returned orders are excluded, on the day they were placed.
"""

from medallion import Table, at_least

TABLE = Table(
    keys=("day", "customer_region"),
    tags=("revenue",),
    nullable_keys=("customer_region",),
    expect=(at_least("order_count", 1), at_least("revenue", 0)),
    extra=True,
    query="""
        WITH days AS (
            SELECT
                CAST(created_at AS DATE) AS day,
                customer_region,
                COUNT(*) AS order_count,
                SUM(order_total) AS revenue
            FROM {silver_orders_enriched}
            WHERE order_status NOT IN ('cancelled', 'returned')
            GROUP BY CAST(created_at AS DATE), customer_region
        )
        SELECT
            day, customer_region, order_count, revenue,
            CAST(revenue AS DOUBLE) / order_count AS avg_order_value
        FROM days
    """,
    descriptions={
        "day": "Day on which the orders were placed, UTC",
        "order_count": "Orders that are neither cancelled nor returned",
        "revenue": "Their amount",
        "avg_order_value": "revenue / order_count",
    },
)
