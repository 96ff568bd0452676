"""Customers as first seen (SCD type 0). One row per customer_id."""

from medallion import dimension

TABLE = dimension(
    "bronze_customers_log",
    key="customer_id",
    sequence_by="updated_at",
    scd_type=0,
    columns=("signup_date", "customer_tier", "geo_country", "geo_region"),
    extra=True,
)
