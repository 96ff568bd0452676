"""Trips by the day they began and their district. One row per day and district."""

from medallion import Table, at_least

TABLE = Table(
    keys=("day", "district"),
    nullable_keys=("district",),
    expect=(at_least("trips", 1),),
    query="""
        WITH days AS (
            SELECT
                CAST(started_at AS DATE) AS day,
                district,
                COUNT(*) AS trips,
                SUM(minutes) AS minutes,
                SUM(fare) AS revenue
            FROM {silver_trips}
            GROUP BY CAST(started_at AS DATE), district
        )
        SELECT day, district, trips, minutes, revenue
        FROM days
    """,
)
