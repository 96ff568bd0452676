"""Interest in each product on the last day of clicks, against its stock. One row per product_id.

The day ends with the newest click in the table, not at the current time.
"""

from medallion import Chart, Table, at_least, in_set, not_null

TABLE = Table(
    keys=("product_id",),
    tags=("stock",),
    expect=(
        at_least("recent_views", 0),
        at_least("recent_add_to_carts", 0),
        at_least("recent_checkouts", 0),
        not_null("total_stock_all_warehouses"),
        at_least("days_of_stock_cover", 0),
        at_least("view_to_checkout_rate", 0),
        not_null("demand_alert"),
        in_set("demand_alert", ("SURGE_STOCKOUT_RISK", "WARNING", "OK")),
        not_null("product_name", allowed_percent=5, severity="warning"),
    ),
    chart=Chart("bars", "demand_alert", first="days_of_stock_cover"),
    query="""
        WITH recent AS (
            SELECT
                product_id,
                COUNT(*) FILTER (WHERE event_type = 'product_view') AS recent_views,
                COUNT(*) FILTER (WHERE event_type = 'add_to_cart') AS recent_add_to_carts,
                COUNT(*) FILTER (WHERE event_type = 'begin_checkout') AS recent_checkouts
            FROM {silver_enriched_clickstream}
            WHERE product_id IS NOT NULL
                AND event_timestamp
                    > (SELECT MAX(event_timestamp) FROM {silver_enriched_clickstream}) - INTERVAL '1' DAY
            GROUP BY product_id
        ),
        stock AS (
            SELECT product_id, SUM(current_stock) AS total_stock, MAX(lead_time_days) AS lead_time_days
            FROM {silver_inventory_current}
            GROUP BY product_id
        ),
        demand AS (
            SELECT
                r.product_id, r.recent_views, r.recent_add_to_carts, r.recent_checkouts,
                COALESCE(t.total_stock, 0) AS total_stock,
                t.lead_time_days,
                -- the carts that would fill one lead time at this pace; a week where none is known
                r.recent_add_to_carts * COALESCE(t.lead_time_days, 7) AS lead_time_carts
            FROM recent AS r
            LEFT JOIN stock AS t ON t.product_id = r.product_id
        )
        SELECT
            d.product_id, d.recent_views, d.recent_add_to_carts, d.recent_checkouts,
            p.product_name, p.category AS product_category, p.brand AS product_brand,
            d.total_stock AS total_stock_all_warehouses,
            d.lead_time_days,
            CAST(GREATEST(d.total_stock, 0) AS DOUBLE) / NULLIF(d.recent_add_to_carts, 0) AS days_of_stock_cover,
            CAST(d.recent_checkouts AS DOUBLE) / NULLIF(d.recent_views, 0) AS view_to_checkout_rate,
            -- whole numbers instead of the quotient: stock exactly on a border is not below it
            CASE
                WHEN d.recent_add_to_carts = 0 THEN 'OK'
                WHEN d.total_stock <= 0 OR d.total_stock < d.lead_time_carts THEN 'SURGE_STOCKOUT_RISK'
                WHEN d.total_stock < 2 * d.lead_time_carts THEN 'WARNING'
                ELSE 'OK'
            END AS demand_alert
        FROM demand AS d
        LEFT JOIN {silver_products} AS p ON p.product_id = d.product_id
    """,
    descriptions={
        "recent_views": "Views of the product on the last day of clicks",
        "recent_add_to_carts": "Times it was put into a cart on that day",
        "recent_checkouts": "Checkouts begun with it on that day",
        "total_stock_all_warehouses": "Units in all warehouses, 0 where none are known",
        "lead_time_days": "Days from a reorder to its arrival; null where no stock is known",
        "days_of_stock_cover": "Days that the stock lasts at the pace of carts; null where nobody filled one",
        "view_to_checkout_rate": "recent_checkouts / recent_views; null without a view",
        "demand_alert": "SURGE_STOCKOUT_RISK if the stock lasts less than a lead time, WARNING than two, or OK",
    },
)
