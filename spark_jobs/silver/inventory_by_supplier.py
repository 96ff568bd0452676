"""Stock and movements per supplier, over all its products and warehouses. One row per supplier_id."""

from medallion import Table, at_least, not_null

TABLE = Table(
    keys=("supplier_id",),
    expect=(
        not_null("supplier_name"),
        not_null("total_current_stock"),
        at_least("total_current_stock", 0, severity="warning"),
    ),
    query="""
        SELECT
            supplier_id,
            supplier_name,
            SUM(current_stock) AS total_current_stock,
            SUM(total_sold) AS total_sold,
            SUM(total_restocked) AS total_restocked,
            SUM(total_returned) AS total_returned
        FROM {silver_inventory_current}
        GROUP BY supplier_id, supplier_name
    """,
    descriptions={
        "total_current_stock": "Units in all warehouses",
        "total_sold": "Units reserved for orders, less those of cancelled orders",
        "total_restocked": "Units that came from the supplier",
        "total_returned": "Units that customers sent back",
    },
)
