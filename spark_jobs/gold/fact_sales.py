"""Order lines of the star schema, with customer and product as of the order. One row per order_item_id.

A key is null where customer or product did not exist then, between a deletion and a return.
"""

from medallion import Table, not_null, refers_to

TABLE = Table(
    keys=("order_item_id",),
    tags=("star-schema",),
    expect=(
        not_null("date_key"),
        refers_to("customer_key", "gold_dim_customer"),
        refers_to("product_key", "gold_dim_product"),
        refers_to("date_key", "gold_dim_date"),
        not_null("customer_key", allowed_percent=1, severity="warning"),
        not_null("product_key", allowed_percent=1, severity="warning"),
    ),
    extra=True,
    query="""
        SELECT
            i.order_item_id, i.order_id, c.customer_key, p.product_key,
            YEAR(i.order_created_at) * 10000 + MONTH(i.order_created_at) * 100 + DAY(i.order_created_at) AS date_key,
            i.order_status, i.quantity, i.unit_price, i.discount_pct,
            i.line_gross_revenue AS gross_revenue,
            i.line_net_revenue AS net_revenue,
            -- at the cost of that time, where line_gross_margin has today's
            i.quantity * (i.unit_price - p.cost_price) AS gross_margin
        FROM {silver_order_items_enriched} AS i
        LEFT JOIN {gold_dim_customer} AS c
            ON c.customer_id = i.user_id
            AND i.order_created_at >= c.valid_from
            AND (c.valid_to IS NULL OR i.order_created_at < c.valid_to)
        LEFT JOIN {gold_dim_product} AS p
            ON p.product_id = i.product_id
            AND i.order_created_at >= p.valid_from
            AND (p.valid_to IS NULL OR i.order_created_at < p.valid_to)
    """,
    descriptions={
        "date_key": "Day of the order as a number, yyyymmdd",
        "gross_margin": "quantity x (unit_price - cost_price), at the cost when the order was placed",
    },
)
