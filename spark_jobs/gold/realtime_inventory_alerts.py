"""Products whose stock ends before a reorder can arrive (risk CRITICAL). One row per product_id."""

from medallion import Chart, Table, in_set, not_null

TABLE = Table(
    keys=("product_id",),
    tags=("stock",),
    may_be_empty=True,  # when stock lasts everywhere
    expect=(
        not_null("stock_risk_level"),
        in_set("stock_risk_level", ("CRITICAL",)),
        not_null("lead_time_days"),
    ),
    chart=Chart("bars", "category", first="days_of_stock_remaining"),
    query="""
        SELECT
            product_id, product_name, category, brand, supplier_name, lead_time_days,
            total_stock_all_warehouses, units_sold, avg_daily_units, days_of_stock_remaining, stock_risk_level,
            net_revenue, gross_margin
        FROM {gold_inventory_risk}
        WHERE stock_risk_level = 'CRITICAL'
    """,
)
