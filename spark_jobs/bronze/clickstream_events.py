"""Clicks in the shop, as the tracker sends them. One row per event_id."""

from medallion import Feed, not_empty

TABLE = Feed(
    keys=("event_id",),
    schema="""
        event_id BIGINT NOT NULL,
        user_id BIGINT,
        session_id STRING,
        event_type STRING,
        page_url STRING,
        product_id BIGINT,
        referrer STRING,
        device_type STRING,
        geo_country STRING,
        geo_region STRING,
        event_timestamp TIMESTAMP NOT NULL,
        ingested_at TIMESTAMP NOT NULL
    """,
    event_time=("event_timestamp",),
    subject="user_id",
    personal=("session_id",),
    erase="delete",
    expect=(not_empty(),),
)
