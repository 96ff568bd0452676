"""Products after their newest change, in any order of arrival (SCD type 1). One row per product_id."""

from medallion import dimension, not_null

TABLE = dimension(
    "bronze_products_log",
    key="product_id",
    sequence_by="updated_at",
    scd_type=1,
    columns=("product_name", "category", "brand", "supplier_id", "list_price", "cost_price", "is_active"),
    expect=(not_null("product_name"),),
    extra=True,
)
