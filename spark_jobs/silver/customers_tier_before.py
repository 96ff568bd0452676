"""Customers with their current and previous tier (SCD type 3). One row per customer_id."""

from medallion import dimension

TABLE = dimension(
    "bronze_customers_log",
    key="customer_id",
    sequence_by="updated_at",
    scd_type=3,
    columns=("email", "customer_tier", "geo_country", "geo_region"),
    track=("customer_tier",),
    extra=True,
)
