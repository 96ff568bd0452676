"""Customers of the four known tiers. One row per customer_id."""

from expectations.values import CUSTOMER_TIERS
from medallion import Table, in_set, not_null

TABLE = Table(
    keys=("customer_id",),
    expect=(not_null("customer_tier"), in_set("customer_tier", CUSTOMER_TIERS)),
    values={"CUSTOMER_TIERS": CUSTOMER_TIERS},
    query="""
        SELECT
            customer_id, email, signup_date, customer_tier, geo_country, geo_region, updated_at
        FROM {bronze_customers}
        WHERE customer_tier IN {CUSTOMER_TIERS}
    """,
)
