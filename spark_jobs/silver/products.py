"""The product catalogue for reporting, without costs. One row per product_id."""

from medallion import Table, at_least, not_null

TABLE = Table(
    keys=("product_id",),
    expect=(
        not_null("product_name"),
        at_least("list_price", 0, severity="warning"),
    ),
    query="""
        SELECT
            product_id, product_name, category, brand, list_price
        FROM {bronze_products}
    """,
)
