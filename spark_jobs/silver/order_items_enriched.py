"""Valid order lines of active products, with amounts and details of order, product and supplier.

One row per order_item_id.
"""

from expectations.values import ORDER_STATUSES
from medallion import Table, at_least, between, in_set, not_null

TABLE = Table(
    keys=("order_item_id",),
    expect=(
        not_null("supplier_id"),
        not_null("line_net_revenue"),
        at_least("quantity", 1),
        at_least("unit_price", 0),
        in_set("order_status", ORDER_STATUSES),
        between("discount_pct", 0, 100, severity="warning"),
        not_null("line_gross_margin", allowed_percent=5, severity="warning"),
    ),
    values={"ORDER_STATUSES": ORDER_STATUSES},
    query="""
        SELECT
            i.order_item_id, i.order_id, i.product_id, i.quantity, i.unit_price, i.discount_pct,
            i.quantity * i.unit_price AS line_gross_revenue,
            -- times 0.01 and not / 100: a product of decimals keeps every digit, a quotient is rounded
            i.quantity * i.unit_price * (1 - COALESCE(i.discount_pct, 0.00) * 0.01) AS line_net_revenue,
            i.quantity * (i.unit_price - p.cost_price) AS line_gross_margin,
            p.product_name, p.category, p.brand, p.cost_price, p.list_price,
            s.supplier_id, s.supplier_name, s.country AS supplier_country, s.lead_time_days,
            o.created_at AS order_created_at, o.order_status, o.user_id, c.customer_tier
        -- orders first, and as they are: narrow rows meet in the one large join, the small tables are looked up after
        FROM {bronze_order_items} AS i
        INNER JOIN {bronze_orders} AS o ON o.order_id = i.order_id
        INNER JOIN {silver_customers} AS c ON c.customer_id = o.user_id
        INNER JOIN {bronze_products} AS p ON p.product_id = i.product_id
        INNER JOIN {bronze_suppliers} AS s ON s.supplier_id = p.supplier_id
        WHERE i.quantity > 0 AND i.unit_price >= 0
            AND o.order_status IN {ORDER_STATUSES}
            AND p.is_active
    """,
    descriptions={
        "line_gross_revenue": "quantity x unit_price, before the discount",
        "line_net_revenue": "Revenue after the discount on the line, exact",
        "line_gross_margin": "quantity x (unit_price - cost_price), at the cost of today and before the discount",
    },
)
