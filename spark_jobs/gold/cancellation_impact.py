"""What cancelled orders cost by category and week, with running rates. One row per category and week_start.

A week is an ISO week. An order with lines in two categories counts in both; returned orders are not cancelled.
"""

from medallion import Chart, Table, at_least, between, not_null

TABLE = Table(
    keys=("category", "week_start"),
    tags=("revenue",),
    nullable_keys=("category",),
    expect=(
        at_least("weekly_total_orders", 1),
        at_least("weekly_cancelled_orders", 0),
        not_null("weekly_cancelled_revenue"),
        not_null("cumulative_cancellation_rate"),
        between("cumulative_cancellation_rate", 0, 1),
        not_null("cancellation_rate_4wk"),
        between("cancellation_rate_4wk", 0, 1),
        at_least("weekly_cancelled_revenue", 0, severity="warning"),
    ),
    chart=Chart("line", "week_start", ("weekly_cancelled_revenue",)),
    query="""
        WITH orders AS (
            -- one row per order in a category: it has one week and one status, so counting rows counts orders
            SELECT
                category,
                DATE_TRUNC('WEEK', order_created_at) AS week_start,
                order_id,
                order_status,
                SUM(line_net_revenue) AS net_revenue
            FROM {silver_order_items_enriched}
            GROUP BY category, DATE_TRUNC('WEEK', order_created_at), order_id, order_status
        ),
        weeks AS (
            SELECT
                category,
                week_start,
                COUNT(*) FILTER (WHERE order_status = 'cancelled') AS weekly_cancelled_orders,
                COUNT(*) AS weekly_total_orders,
                SUM(CASE WHEN order_status = 'cancelled' THEN net_revenue ELSE 0 END) AS weekly_cancelled_revenue,
                SUM(net_revenue) AS weekly_total_revenue
            FROM orders
            GROUP BY category, week_start
        )
        SELECT
            category, week_start,
            weekly_cancelled_orders, weekly_total_orders, weekly_cancelled_revenue, weekly_total_revenue,
            CAST(SUM(weekly_cancelled_orders) OVER so_far AS DOUBLE)
                / NULLIF(SUM(weekly_total_orders) OVER so_far, 0) AS cumulative_cancellation_rate,
            SUM(weekly_cancelled_revenue) OVER so_far AS cumulative_cancelled_revenue,
            CAST(SUM(weekly_cancelled_orders) OVER last_4_weeks AS DOUBLE)
                / NULLIF(SUM(weekly_total_orders) OVER last_4_weeks, 0) AS cancellation_rate_4wk
        FROM weeks
        WINDOW
            so_far AS (
                PARTITION BY category ORDER BY week_start
                RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
            ),
            -- a range of dates, not of rows: a category may have no order in a week
            last_4_weeks AS (
                PARTITION BY category ORDER BY week_start
                RANGE BETWEEN INTERVAL '21' DAY PRECEDING AND CURRENT ROW
            )
    """,
    descriptions={
        "week_start": "Monday of the ISO week in which the orders were placed",
        "weekly_cancelled_orders": "Orders of the week that are cancelled",
        "weekly_total_orders": "Orders of the week",
        "weekly_cancelled_revenue": "Net revenue of the cancelled orders",
        "weekly_total_revenue": "Net revenue of all orders",
        "cumulative_cancellation_rate": "Share of all orders up to this week that are cancelled, 0 to 1",
        "cumulative_cancelled_revenue": "Net revenue of all cancelled orders up to this week",
        "cancellation_rate_4wk": "Share of the orders of this week and the three before that are cancelled, 0 to 1",
    },
)
