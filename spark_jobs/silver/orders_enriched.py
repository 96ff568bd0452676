"""Orders of known customers that have a valid status, total and item. One row per order_id."""

from expectations.values import CUSTOMER_TIERS, ORDER_STATUSES
from medallion import Table, at_least, between, in_set

TABLE = Table(
    keys=("order_id",),
    expect=(
        in_set("order_status", ORDER_STATUSES),
        in_set("customer_tier", CUSTOMER_TIERS),
        at_least("order_total", 0),
        at_least("item_count", 1),
        at_least("total_quantity", 1),
        at_least("gross_item_revenue", 0),
        between("avg_discount_pct", 0, 100, severity="warning"),
    ),
    values={"ORDER_STATUSES": ORDER_STATUSES},
    query="""
        WITH items AS (
            -- one row per order before any join, so that no order column is aggregated
            SELECT
                order_id,
                COUNT(*) AS item_count,
                SUM(quantity) AS total_quantity,
                SUM(quantity * unit_price) AS gross_item_revenue,
                -- an exact sum and one division: AVG over DECIMAL(5,2) would round to six digits
                CAST(SUM(discount_pct) AS DOUBLE) / NULLIF(COUNT(discount_pct), 0) AS avg_discount_pct
            FROM {bronze_order_items}
            WHERE quantity > 0 AND unit_price >= 0
            GROUP BY order_id
        )
        SELECT
            o.order_id, o.user_id, o.order_status, o.order_total, o.discount_amount, o.shipping_cost,
            o.payment_method, o.coupon_code, o.created_at, o.updated_at,
            c.customer_tier, c.geo_country AS customer_country, c.geo_region AS customer_region, c.signup_date,
            i.item_count, i.total_quantity, i.gross_item_revenue, i.avg_discount_pct
        FROM {bronze_orders} AS o
        INNER JOIN {silver_customers} AS c ON c.customer_id = o.user_id
        INNER JOIN items AS i ON i.order_id = o.order_id
        WHERE o.order_status IN {ORDER_STATUSES}
            AND o.order_total >= 0
    """,
    descriptions={
        "item_count": "Valid lines of the order",
        "total_quantity": "Units on its valid lines",
        "gross_item_revenue": "Revenue of its valid lines, before discounts",
        "avg_discount_pct": "Mean discount of its valid lines that have one, percent",
    },
)
