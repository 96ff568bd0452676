"""Customer history (SCD type 2): a version for each period with the same tier and place.

One row per customer_id and __START_AT.
"""

from medallion import Keys, Rows, dimension, no_rows

TABLE = dimension(
    "bronze_customers_log",
    key="customer_id",
    sequence_by="updated_at",
    scd_type=2,
    columns=("email", "signup_date", "customer_tier", "geo_country", "geo_region"),
    track=("customer_tier", "geo_country", "geo_region"),
    expect=(
        no_rows(
            "SELECT * FROM {batch} WHERE __END_AT <= __START_AT",
            "every version ends after it began",
            by_change=Rows(),
        ),
        no_rows(
            """
            SELECT version.*, later.__START_AT AS later_start
            FROM {batch} AS version
            INNER JOIN {batch} AS later
                ON later.customer_id = version.customer_id
                AND later.__START_AT > version.__START_AT
                AND later.__START_AT < COALESCE(version.__END_AT, later.__START_AT + INTERVAL 1 DAY)
            """,
            "no two versions of a customer hold at the same time",
            by_change=Keys(("customer_id",)),
        ),
    ),
    extra=True,
)
