"""Lifetime value of each customer, in total and per month. One row per user_id."""

from medallion import Table, at_least, not_null

TABLE = Table(
    keys=("user_id",),
    tags=("customers",),
    expect=(not_null("customer_tier"), at_least("lifetime_value", 0), at_least("months", 1)),
    extra=True,
    query="""
        WITH known AS (
            SELECT
                o.user_id, c.customer_tier, c.geo_country AS customer_country, c.geo_region AS customer_region,
                o.order_count - o.lost_orders AS orders_kept,
                o.total_spent AS lifetime_value,
                -- months begun between the first order and the last, by the data's own clock
                1 + 12 * (YEAR(o.last_order_at) - YEAR(o.first_order_at))
                    + MONTH(o.last_order_at) - MONTH(o.first_order_at) AS months
            FROM {gold_customer_orders_summary} AS o
            INNER JOIN {silver_customers} AS c ON c.customer_id = o.user_id
        )
        SELECT
            user_id, customer_tier, customer_country, customer_region, orders_kept, lifetime_value, months,
            CAST(lifetime_value AS DOUBLE) / months AS value_per_month
        FROM known
    """,
    descriptions={
        "orders_kept": "Orders that are neither cancelled nor returned",
        "months": "Calendar months from the first order to the newest, both counted",
        "value_per_month": "lifetime_value / months",
    },
)
