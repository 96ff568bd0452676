"""Trips with the district that they began in; those of an unknown station are of none. One row per trip_id."""

from medallion import Table, at_least, not_null

TABLE = Table(
    keys=("trip_id",),
    expect=(not_null("minutes"), at_least("minutes", 0), at_least("fare", 0, severity="warning")),
    query="""
        SELECT
            t.trip_id,
            s.district,
            t.started_at,
            t.minutes,
            t.fare
        FROM {bronze_trips} AS t
        LEFT JOIN {bronze_stations} AS s ON s.station_id = t.station_id
        WHERE t.minutes IS NOT NULL
    """,
)
