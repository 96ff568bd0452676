"""Product history (SCD type 2): a version for each period without changes.

One row per product_id and __START_AT.
"""

from medallion import Rows, dimension, no_rows, not_null

TABLE = dimension(
    "bronze_products_log",
    key="product_id",
    sequence_by="updated_at",
    scd_type=2,
    columns=("product_name", "category", "brand", "supplier_id", "list_price", "cost_price", "is_active"),
    expect=(
        not_null("product_name"),
        no_rows(
            "SELECT * FROM {batch} WHERE __END_AT <= __START_AT",
            "every version ends after it began",
            by_change=Rows(),
        ),
    ),
    extra=True,
)
