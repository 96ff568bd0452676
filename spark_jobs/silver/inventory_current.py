"""Stock and movements per product and warehouse. One row per product_id and warehouse_id."""

from medallion import Table, at_least, not_null

TABLE = Table(
    keys=("product_id", "warehouse_id"),
    expect=(
        not_null("supplier_id"),
        not_null("current_stock"),
        at_least("current_stock", 0, allowed_percent=10, severity="warning"),
        at_least("total_restocked", 0, severity="warning"),
        at_least("total_sold", 0, allowed_percent=5, severity="warning"),
        at_least("total_returned", 0, severity="warning"),
    ),
    query="""
        WITH stock AS (
            -- a few rows per product before any join; BIGINT because ABS and minus of the smallest INT overflow
            SELECT
                product_id,
                warehouse_id,
                SUM(quantity_change) AS current_stock,
                SUM(CASE WHEN event_type = 'restock' THEN quantity_change ELSE 0 END) AS total_restocked,
                SUM(CASE event_type
                    WHEN 'sale_reserve' THEN ABS(CAST(quantity_change AS BIGINT))
                    WHEN 'cancellation_restock' THEN -CAST(quantity_change AS BIGINT)
                    ELSE 0
                END) AS total_sold,
                SUM(CASE WHEN event_type = 'return_restock' THEN quantity_change ELSE 0 END) AS total_returned
            FROM {bronze_inventory_events}
            GROUP BY product_id, warehouse_id
        )
        SELECT
            t.product_id, t.warehouse_id, p.product_name, p.category, p.brand,
            s.supplier_id, s.supplier_name, s.lead_time_days,
            t.current_stock, t.total_restocked, t.total_sold, t.total_returned
        FROM stock AS t
        INNER JOIN {bronze_products} AS p ON p.product_id = t.product_id
        INNER JOIN {bronze_suppliers} AS s ON s.supplier_id = p.supplier_id
    """,
    descriptions={
        "current_stock": "Units in the warehouse: the sum of all movements",
        "total_restocked": "Units that came from suppliers",
        "total_sold": "Units reserved for orders, less those of cancelled orders",
        "total_returned": "Units that customers sent back",
    },
)
