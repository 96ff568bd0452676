"""Trips by the day they began and their district. One row per day and district."""

from medallion import Additive, Table, at_least

TABLE = Table(
    keys=("day", "district"),
    nullable_keys=("district",),
    expect=(at_least("trips", 1),),
    incremental=Additive(("days",)),
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
