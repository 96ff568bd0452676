"""Trips by bike, corrected when a bike turns up elsewhere. One row per trip_id."""

from medallion import Feed

TABLE = Feed(
    keys=("trip_id",),
    schema="""
        trip_id BIGINT NOT NULL,
        station_id BIGINT,
        started_at TIMESTAMP,
        minutes INT,
        fare DECIMAL(8,2),
        updated_at TIMESTAMP
    """,
)
