"""The ten customers of each region with the highest lifetime value. One row per customer_region and place.

The lower user_id wins a tie.
"""

from medallion import Table, between, not_null

TABLE = Table(
    keys=("customer_region", "place"),
    tags=("customers",),
    nullable_keys=("customer_region",),
    expect=(between("place", 1, 10), not_null("user_id")),
    extra=True,
    query="""
        WITH ranked AS (
            SELECT
                user_id, customer_tier, customer_country, customer_region, orders_kept, lifetime_value,
                ROW_NUMBER() OVER (
                    PARTITION BY customer_region ORDER BY lifetime_value DESC, user_id
                    ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
                ) AS place
            FROM {gold_customer_ltv}
        )
        SELECT customer_region, place, user_id, customer_tier, customer_country, orders_kept, lifetime_value
        FROM ranked
        WHERE place <= 10
    """,
    descriptions={
        "place": "1 to 10 in the region, by lifetime_value",
    },
)
