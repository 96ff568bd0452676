"""Orders by the day they were placed. One row per day."""

from medallion import Chart, Table, at_least

TABLE = Table(
    keys=("day",),
    tags=("revenue",),
    expect=(at_least("order_count", 1), at_least("units", 1), at_least("revenue", 0)),
    extra=True,
    chart=Chart("line", "day", ("order_count",)),
    query="""
        WITH days AS (
            SELECT
                CAST(created_at AS DATE) AS day,
                COUNT(*) AS order_count,
                COUNT(*) FILTER (WHERE order_status = 'cancelled') AS cancelled_orders,
                SUM(total_quantity) AS units,
                SUM(order_total) AS revenue
            FROM {silver_orders_enriched}
            GROUP BY CAST(created_at AS DATE)
        )
        SELECT
            day, order_count, cancelled_orders, units, revenue,
            CAST(revenue AS DOUBLE) / order_count AS avg_order_value
        FROM days
    """,
    descriptions={
        "day": "Day on which the orders were placed, UTC",
        "order_count": "Orders of the day",
        "cancelled_orders": "Those that are cancelled",
        "units": "Units on all of them",
        "revenue": "Amount of all orders, cancelled ones too",
        "avg_order_value": "revenue / order_count",
    },
)
