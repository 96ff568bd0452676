"""The days of the star schema, from the first day with an order to the last. One row per date_key."""

from medallion import Table, between, not_null

TABLE = Table(
    keys=("date_key",),
    tags=("star-schema",),
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
    descriptions={
        "date_key": "The day as a number, yyyymmdd",
        "day": "The day",
        "year": "Calendar year",
        "quarter": "Quarter of the year, 1 to 4",
        "month": "Month of the year, 1 to 12",
        "day_of_month": "1 to 31",
        "day_of_week": "1 is Monday, 7 is Sunday",
        "iso_year": "The year that the ISO week belongs to",
        "iso_week": "ISO week, 1 to 53",
        "week_start": "Monday of the ISO week",
    },
)
