"""Stations, as the operator's back office has them. One row per station_id."""

from medallion import Feed

TABLE = Feed(
    keys=("station_id",),
    schema="""
        station_id BIGINT NOT NULL,
        station_name STRING,
        district STRING,
        updated_at TIMESTAMP
    """,
)
