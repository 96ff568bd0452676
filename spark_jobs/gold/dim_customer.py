"""Customers of the star schema, by version. One row per customer_key.

The key is derived from the customer and the start of the version, so a rebuild gives the same keys. The first known
version also stands for earlier dates.
"""

from medallion import Keys, Table, no_rows, not_null

TABLE = Table(
    keys=("customer_key",),
    tags=("star-schema",),
    expect=(
        not_null("customer_id"),
        not_null("valid_from"),
        no_rows(
            "SELECT customer_id, COUNT(*) AS current FROM {batch} WHERE is_current GROUP BY customer_id"
            " HAVING COUNT(*) > 1",
            "a customer has one current version at most",
            by_change=Keys(("customer_id",)),
        ),
    ),
    extra=True,
    query="""
        WITH versions AS (
            SELECT
                customer_id, email, signup_date, customer_tier, geo_country, geo_region, __START_AT, __END_AT,
                LAG(__START_AT) OVER (PARTITION BY customer_id ORDER BY __START_AT) AS previous_start
            FROM {silver_customers_history}
        )
        SELECT
            MD5(CONCAT(CAST(customer_id AS STRING), '@', CAST(UNIX_MICROS(__START_AT) AS STRING))) AS customer_key,
            customer_id, email, signup_date, customer_tier, geo_country, geo_region,
            CASE WHEN previous_start IS NULL THEN TIMESTAMP '1900-01-01 00:00:00' ELSE __START_AT END AS valid_from,
            __END_AT AS valid_to,
            __END_AT IS NULL AS is_current
        FROM versions
    """,
    descriptions={
        "customer_key": "Identifies the version, the same after a rebuild",
        "valid_from": "When the version began to hold, itself included",
        "is_current": "Whether it still holds",
    },
)
