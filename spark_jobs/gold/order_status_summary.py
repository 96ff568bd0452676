"""Orders, revenue and customers by order status. One row per order_status."""

from expectations.values import ORDER_STATUSES
from medallion import Chart, Table, at_least, in_set, not_null

TABLE = Table(
    keys=("order_status",),
    tags=("revenue",),
    expect=(
        in_set("order_status", ORDER_STATUSES),
        not_null("order_count"),
        at_least("order_count", 1),
        at_least("unique_customers", 1),
        not_null("total_revenue"),
        at_least("total_revenue", 0),
    ),
    chart=Chart("bars", "order_status", ("order_count",), first="-order_count"),
    query="""
        WITH customers AS (
            -- one row per status and customer, which makes counting customers a count of rows
            SELECT
                order_status,
                user_id,
                COUNT(*) AS order_count,  -- the input has one row per order
                SUM(order_total) AS revenue,
                COUNT(order_total) AS total_count
            FROM {silver_orders_enriched}
            GROUP BY order_status, user_id
        )
        SELECT
            order_status,
            SUM(order_count) AS order_count,
            COALESCE(SUM(revenue), 0) AS total_revenue,
            CAST(SUM(revenue) AS DOUBLE) / NULLIF(SUM(total_count), 0) AS avg_order_value,
            COUNT(user_id) AS unique_customers
        FROM customers
        GROUP BY order_status
    """,
    descriptions={
        "order_count": "Orders with this status",
        "total_revenue": "Their amount",
        "avg_order_value": "Mean amount of those that have one",
        "unique_customers": "Customers who have such an order",
    },
)
