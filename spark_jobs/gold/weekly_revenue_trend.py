"""Revenue by week and category, with change, moving averages and sum of the year. One row per week_start and category.

A week is an ISO week and belongs to the year of its Monday.
"""

from medallion import Chart, Table, at_least, not_null

TABLE = Table(
    keys=("week_start", "category"),
    tags=("revenue",),
    nullable_keys=("category",),
    expect=(
        at_least("order_count", 1),
        at_least("units_sold", 1),
        not_null("weekly_net_revenue"),
        not_null("revenue_4wk_moving_avg"),
        not_null("cumulative_ytd_revenue"),
        at_least("weekly_net_revenue", 0, severity="warning"),
    ),
    chart=Chart("line", "week_start", ("weekly_net_revenue", "revenue_4wk_moving_avg")),
    query="""
        WITH weeks AS (
            SELECT
                DATE_TRUNC('WEEK', order_created_at) AS week_start,
                category,
                SUM(line_net_revenue) AS weekly_net_revenue,
                SUM(line_gross_margin) AS weekly_gross_margin,
                COUNT(DISTINCT order_id) AS order_count,
                SUM(quantity) AS units_sold
            FROM {silver_confirmed_order_items}
            GROUP BY DATE_TRUNC('WEEK', order_created_at), category
        ),
        weeks_with_previous AS (
            SELECT
                week_start, category, weekly_net_revenue, weekly_gross_margin, order_count, units_sold,
                LAG(weekly_net_revenue) OVER (PARTITION BY category ORDER BY week_start) AS previous_net_revenue
            FROM weeks
        )
        SELECT
            week_start, category, weekly_net_revenue, weekly_gross_margin, order_count, units_sold,
            weekly_net_revenue - previous_net_revenue AS revenue_wow_change,
            CAST(weekly_net_revenue - previous_net_revenue AS DOUBLE)
                / CAST(NULLIF(previous_net_revenue, 0) AS DOUBLE) AS revenue_wow_pct_change,
            CAST(SUM(weekly_net_revenue) OVER last_4_weeks AS DOUBLE)
                / COUNT(weekly_net_revenue) OVER last_4_weeks AS revenue_4wk_moving_avg,
            CAST(SUM(weekly_gross_margin) OVER last_4_weeks AS DOUBLE)
                / NULLIF(COUNT(weekly_gross_margin) OVER last_4_weeks, 0) AS margin_4wk_moving_avg,
            SUM(weekly_net_revenue) OVER year_to_date AS cumulative_ytd_revenue
        FROM weeks_with_previous
        WINDOW
            -- a range of dates, not of rows: a category may have no sale in a week
            last_4_weeks AS (
                PARTITION BY category ORDER BY week_start
                RANGE BETWEEN INTERVAL '21' DAY PRECEDING AND CURRENT ROW
            ),
            year_to_date AS (
                PARTITION BY category, EXTRACT(YEAR FROM week_start) ORDER BY week_start
                RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
            )
    """,
    descriptions={
        "week_start": "Monday of the ISO week in which the orders were placed",
        "weekly_net_revenue": "Revenue of confirmed lines, after discounts",
        "weekly_gross_margin": "Their margin, before discounts",
        "order_count": "Orders with a confirmed line in the category",
        "units_sold": "Units on confirmed lines",
        "revenue_wow_change": "weekly_net_revenue less that of the last week with a sale; null in the first",
        "revenue_wow_pct_change": "revenue_wow_change as a share of that week's revenue; null where that is 0",
        "revenue_4wk_moving_avg": "Mean net revenue of this week and the three before, of those with a sale",
        "margin_4wk_moving_avg": "Mean margin of the same weeks",
        "cumulative_ytd_revenue": "Net revenue from the first week of the year to this one",
    },
)
