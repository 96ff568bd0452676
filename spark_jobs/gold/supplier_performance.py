"""Earnings and delivery of each supplier's products, beside its stock. One row per supplier_id."""

from medallion import Chart, Table, at_least, between, not_null

TABLE = Table(
    keys=("supplier_id",),
    tags=("stock",),
    expect=(
        at_least("products_sold", 1),
        at_least("orders_fulfilled", 1),
        not_null("total_units_sold"),
        at_least("total_units_sold", 1),
        not_null("total_net_revenue"),
        not_null("reliability_score"),
        between("reliability_score", 0, 1),
        between("avg_discount_applied", 0, 100, severity="warning"),
        at_least("total_net_revenue", 0, severity="warning"),
    ),
    chart=Chart("extremes", "supplier_name", ("total_gross_margin",), first="-total_gross_margin"),
    query="""
        WITH products AS (
            -- a few thousand rows, which make counting products a count of rows
            SELECT
                supplier_id, supplier_name, supplier_country, lead_time_days, product_id,
                COUNT(*) AS line_count,
                COUNT(*) FILTER (WHERE order_status = 'delivered') AS delivered_line_count,
                SUM(quantity) AS units_sold,
                SUM(line_net_revenue) AS net_revenue,
                SUM(line_gross_margin) AS gross_margin,
                SUM(discount_pct) AS discount_sum,
                COUNT(discount_pct) AS discount_count
            FROM {silver_confirmed_order_items}
            GROUP BY supplier_id, supplier_name, supplier_country, lead_time_days, product_id
        ),
        sales AS (
            SELECT
                supplier_id, supplier_name, supplier_country, lead_time_days,
                COUNT(*) AS products_sold,
                SUM(units_sold) AS total_units_sold,
                SUM(net_revenue) AS total_net_revenue,
                SUM(gross_margin) AS total_gross_margin,
                CAST(SUM(discount_sum) AS DOUBLE) / NULLIF(SUM(discount_count), 0) AS avg_discount_applied,
                CAST(SUM(delivered_line_count) AS DOUBLE) / SUM(line_count) AS reliability_score
            FROM products
            GROUP BY supplier_id, supplier_name, supplier_country, lead_time_days
        ),
        orders AS (
            -- apart from the sums: two distinct counts in one aggregate would multiply its input
            SELECT supplier_id, COUNT(DISTINCT order_id) AS orders_fulfilled
            FROM {silver_confirmed_order_items}
            GROUP BY supplier_id
        )
        SELECT
            s.supplier_id, s.supplier_name, s.supplier_country, s.lead_time_days,
            s.products_sold, o.orders_fulfilled, s.total_units_sold, s.total_net_revenue, s.total_gross_margin,
            CAST(s.total_gross_margin AS DOUBLE) / CAST(NULLIF(s.total_net_revenue, 0) AS DOUBLE) AS avg_margin_pct,
            s.avg_discount_applied, s.reliability_score,
            i.total_current_stock,
            i.total_sold AS inventory_units_sold,
            i.total_restocked AS inventory_units_restocked,
            i.total_returned AS inventory_units_returned
        FROM sales AS s
        INNER JOIN orders AS o ON o.supplier_id = s.supplier_id
        INNER JOIN {silver_inventory_by_supplier} AS i ON i.supplier_id = s.supplier_id
    """,
    descriptions={
        "products_sold": "Products of the supplier with a confirmed line",
        "orders_fulfilled": "Orders with a confirmed line of the supplier",
        "total_units_sold": "Units on confirmed lines",
        "total_net_revenue": "Revenue of confirmed lines, after discounts",
        "total_gross_margin": "Margin of confirmed lines, before discounts",
        "avg_margin_pct": "total_gross_margin / total_net_revenue, a share and no percentage; null without revenue",
        "avg_discount_applied": "Mean discount of the lines that have one, percent",
        "reliability_score": "Share of its lines whose order is delivered, 0 to 1",
    },
)
