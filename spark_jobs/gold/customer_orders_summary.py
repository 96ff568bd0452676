"""Orders of each customer: count, amounts, first order. One row per user_id.

Amounts exclude cancelled and returned orders.
"""

from medallion import Table, at_least, not_null

TABLE = Table(
    keys=("user_id",),
    tags=("customers",),
    expect=(at_least("order_count", 1), at_least("total_spent", 0), not_null("first_order_at")),
    extra=True,
    query="""
        SELECT
            user_id,
            COUNT(*) AS order_count,
            COUNT(*) FILTER (WHERE order_status IN ('cancelled', 'returned')) AS lost_orders,
            SUM(total_quantity) AS units,
            COALESCE(SUM(CASE WHEN order_status NOT IN ('cancelled', 'returned') THEN order_total END), 0)
                AS total_spent,
            MIN(created_at) AS first_order_at,
            MAX(created_at) AS last_order_at
        FROM {silver_orders_enriched}
        GROUP BY user_id
    """,
    descriptions={
        "order_count": "Orders of the customer",
        "lost_orders": "Those that are cancelled or returned",
        "units": "Units on all of them",
        "total_spent": "Amount of the orders that are neither cancelled nor returned",
        "first_order_at": "When the first was placed, UTC",
        "last_order_at": "When the newest was placed, UTC",
    },
)
