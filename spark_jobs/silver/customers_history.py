"""Customer history (SCD type 2): a version for each period with the same tier and place.

One row per customer_id and __START_AT.
"""

from expectations.scopes import Keys, Rows
from expectations.vocabulary import no_rows
from medallion import dimension

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
            SELECT *
            FROM (
                SELECT *, LEAD(__START_AT) OVER (PARTITION BY customer_id ORDER BY __START_AT) AS next_start
                FROM {batch}
            ) AS ordered
            WHERE next_start < COALESCE(__END_AT, next_start + INTERVAL 1 DAY)
            """,
            "no two versions of a customer hold at the same time",
            by_change=Keys(("customer_id",)),
        ),
    ),
    extra=True,
)
