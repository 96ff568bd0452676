"""How long the stock of each sold product lasts, against its supplier's lead time. One row per product_id."""

from medallion import Chart, Table, at_least, in_set, not_null

TABLE = Table(
    keys=("product_id",),
    tags=("stock",),
    expect=(
        not_null("units_sold"),
        at_least("units_sold", 1),
        not_null("avg_daily_units"),
        not_null("stock_risk_level"),
        in_set("stock_risk_level", ("CRITICAL", "WARNING", "OK")),
        at_least("total_stock_all_warehouses", 0, allowed_percent=10, severity="warning"),
        at_least("net_revenue", 0, severity="warning"),
    ),
    chart=Chart("bars", "stock_risk_level", first="days_of_stock_remaining"),
    query="""
        WITH stock AS (
            SELECT
                product_id, product_name, category, brand, supplier_name, lead_time_days,
                SUM(current_stock) AS total_stock
            FROM {silver_inventory_current}
            GROUP BY product_id, product_name, category, brand, supplier_name, lead_time_days
        ),
        days AS (
            -- one row per product and day, which makes counting days a count of rows
            SELECT
                product_id,
                CAST(order_created_at AS DATE) AS day,
                SUM(quantity) AS units_sold,
                SUM(line_net_revenue) AS net_revenue,
                SUM(line_gross_margin) AS gross_margin
            FROM {silver_confirmed_order_items}
            GROUP BY product_id, CAST(order_created_at AS DATE)
        ),
        sales AS (
            SELECT
                product_id,
                SUM(units_sold) AS units_sold,
                COUNT(*) AS days_sold,
                SUM(net_revenue) AS net_revenue,
                SUM(gross_margin) AS gross_margin
            FROM days
            GROUP BY product_id
        ),
        cover AS (
            -- days of stock < 1.5 x lead time, multiplied out: 2 x stock x days < 3 x lead time x units. In whole
            -- numbers a product exactly on the border is not below it, in DOUBLE 35 / (14 / 3) < 7.5 is true.
            -- DECIMAL because such products of BIGINT can overflow.
            SELECT
                t.product_id, t.product_name, t.category, t.brand, t.supplier_name, t.lead_time_days, t.total_stock,
                s.units_sold, s.days_sold, s.net_revenue, s.gross_margin,
                CAST(t.total_stock AS DECIMAL(19, 0)) * s.days_sold AS stock_days,
                CAST(t.lead_time_days AS DECIMAL(10, 0)) * s.units_sold AS lead_units
            FROM stock AS t
            INNER JOIN sales AS s ON s.product_id = t.product_id
        )
        SELECT
            product_id, product_name, category, brand, supplier_name, lead_time_days,
            total_stock AS total_stock_all_warehouses,
            units_sold,
            CAST(units_sold AS DOUBLE) / days_sold AS avg_daily_units,
            CASE WHEN units_sold > 0 THEN CAST(stock_days AS DOUBLE) / units_sold END AS days_of_stock_remaining,
            CASE
                WHEN units_sold > 0 AND 2 * stock_days < 3 * lead_units THEN 'CRITICAL'
                WHEN units_sold > 0 AND stock_days < 3 * lead_units THEN 'WARNING'
                ELSE 'OK'
            END AS stock_risk_level,
            net_revenue, gross_margin
        FROM cover
    """,
    descriptions={
        "total_stock_all_warehouses": "Units in all warehouses",
        "units_sold": "Units on confirmed lines",
        "avg_daily_units": "Units sold per day with a sale",
        "days_of_stock_remaining": "Days that the stock lasts at that pace; null where nothing sells",
        "stock_risk_level": "CRITICAL where the stock lasts less than 1.5 lead times, WARNING less than 3, else OK",
        "net_revenue": "Revenue of confirmed lines, after discounts",
        "gross_margin": "Margin of confirmed lines, before discounts",
    },
)
