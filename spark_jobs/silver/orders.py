"""Orders of known customers; orders to review are flagged. One row per order_id."""

from expectations.values import CUSTOMER_TIERS
from medallion import Table, in_set, not_null

TABLE = Table(
    keys=("order_id",),
    expect=(
        not_null("flagged_for_review"),
        not_null("payment_method", severity="drop"),
        in_set("customer_tier", CUSTOMER_TIERS),
    ),
    extra=True,
    query="""
        SELECT
            order_id, user_id, order_status, order_total, payment_method, created_at, updated_at,
            customer_tier, customer_region,
            order_total > 10000 AND customer_tier = 'standard' AS flagged_for_review
        FROM {silver_orders_enriched}
    """,
    descriptions={
        "flagged_for_review": "Whether somebody should look at it: above 10,000, from a customer of tier standard",
    },
)
