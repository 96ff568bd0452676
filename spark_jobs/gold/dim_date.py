"""The days of the star schema, from the first day with an order to the last. One row per date_key."""

from medallion import Table, between, not_null

TABLE = Table(
    keys=("date_key",),
    expect=(not_null("day"), between("iso_week", 1, 53), between("day_of_week", 1, 7)),
    extra=True,
    query="""
        WITH span AS (
            SELECT MIN(day) AS first_day, MAX(day) AS last_day
            FROM {gold_daily_orders}
        ),
        days AS (
            SELECT EXPLODE(SEQUENCE(first_day, last_day, INTERVAL '1' DAY)) AS day
            FROM span
        ),
        weeks AS (
            SELECT CAST(day AS DATE) AS day, CAST(DATE_TRUNC('WEEK', day) AS DATE) AS week_start
            FROM days
        )
        SELECT
            YEAR(day) * 10000 + MONTH(day) * 100 + DAY(day) AS date_key,
            day,
            YEAR(day) AS year,
            QUARTER(day) AS quarter,
            MONTH(day) AS month,
            DAY(day) AS day_of_month,
            DATEDIFF(day, week_start) + 1 AS day_of_week,
            -- a week belongs to the year of its Thursday
            YEAR(DATE_ADD(week_start, 3)) AS iso_year,
            WEEKOFYEAR(day) AS iso_week,
            week_start
        FROM weeks
    """,
)
