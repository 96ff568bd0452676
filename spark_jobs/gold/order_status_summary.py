"""Orders, revenue and customers by order status. One row per order_status."""

from expectations.vocabulary import at_least, in_set, not_null
from spark_jobs.core.table import Table

TABLE = Table(
    keys=("order_status",),
    expect=(
        in_set("order_status", ("pending", "confirmed", "shipped", "delivered", "cancelled", "returned")),
        at_least("order_count", 1),
        at_least("unique_customers", 1),
        not_null("total_revenue"),
        at_least("total_revenue", 0),
    ),
    query="""
        SELECT
            order_status,
            COUNT(*) AS order_count,  -- the input has one row per order
            COALESCE(SUM(order_total), 0) AS total_revenue,
            CAST(SUM(order_total) AS DOUBLE) / NULLIF(COUNT(order_total), 0) AS avg_order_value,
            COUNT(DISTINCT user_id) AS unique_customers
        FROM {silver_orders_enriched}
        GROUP BY order_status
    """,
)
