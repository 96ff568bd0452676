"""The enriched order lines that count as sold: neither cancelled nor returned. One row per order_item_id."""

from medallion import Table, in_set

TABLE = Table(
    keys=("order_item_id",),
    expect=(in_set("order_status", ("pending", "confirmed", "shipped", "delivered")),),
    query="""
        SELECT
            order_item_id, order_id, product_id, quantity, unit_price, discount_pct,
            line_gross_revenue, line_net_revenue, line_gross_margin,
            product_name, category, brand, cost_price, list_price,
            supplier_id, supplier_name, supplier_country, lead_time_days,
            order_created_at, order_status, user_id, customer_tier
        FROM {silver_order_items_enriched}
        WHERE order_status NOT IN ('cancelled', 'returned')
    """,
)
