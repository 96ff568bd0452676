"""Products of the star schema, by version. One row per product_key.

The key is derived from the product and the start of the version, so a rebuild gives the same keys. The first known
version also stands for earlier dates.
"""

from medallion import Keys, Table, no_rows, not_null

TABLE = Table(
    keys=("product_key",),
    tags=("star-schema",),
    expect=(
        not_null("product_id"),
        not_null("valid_from"),
        no_rows(
            "SELECT product_id, COUNT(*) AS current FROM {batch} WHERE is_current GROUP BY product_id"
            " HAVING COUNT(*) > 1",
            "a product has one current version at most",
            by_change=Keys(("product_id",)),
        ),
    ),
    extra=True,
    query="""
        WITH versions AS (
            SELECT
                product_id, product_name, category, brand, supplier_id, list_price, cost_price, is_active,
                __START_AT, __END_AT,
                LAG(__START_AT) OVER (PARTITION BY product_id ORDER BY __START_AT) AS previous_start
            FROM {silver_products_history}
        )
        SELECT
            MD5(CONCAT(CAST(product_id AS STRING), '@', CAST(UNIX_MICROS(__START_AT) AS STRING))) AS product_key,
            product_id, product_name, category, brand, supplier_id, list_price, cost_price, is_active,
            CASE WHEN previous_start IS NULL THEN TIMESTAMP '1900-01-01 00:00:00' ELSE __START_AT END AS valid_from,
            __END_AT AS valid_to,
            __END_AT IS NULL AS is_current
        FROM versions
    """,
    descriptions={
        "product_key": "Identifies the version, the same after a rebuild",
        "valid_from": "When the version began to hold, itself included",
        "is_current": "Whether it still holds",
    },
)
