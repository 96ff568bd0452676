"""Clicks in the shop, as the tracker sends them. One row per event_id."""

from medallion import Feed, not_empty

TABLE = Feed(
    keys=("event_id",),
    schema="""
        event_id BIGINT NOT NULL COMMENT 'Identifies the click',
        user_id BIGINT COMMENT 'The customer who clicked; null for a visitor who is not known',
        session_id STRING COMMENT 'The visit that the click belongs to',
        event_type STRING COMMENT 'page_view, product_view, add_to_cart, begin_checkout, purchase, or noise',
        page_url STRING COMMENT 'Address of the page',
        product_id BIGINT COMMENT 'The product on the page, if it shows one',
        referrer STRING COMMENT 'Address that the visitor came from',
        device_type STRING COMMENT 'Kind of device, such as mobile',
        geo_country STRING COMMENT 'Country of the visitor',
        geo_region STRING COMMENT 'Region of the visitor',
        event_timestamp TIMESTAMP NOT NULL COMMENT 'When it was clicked, UTC',
        ingested_at TIMESTAMP NOT NULL COMMENT 'When the tracker stored the click, UTC'
    """,
    event_time=("event_timestamp",),
    subject="user_id",
    personal=("session_id",),
    erase="delete",
    expect=(not_empty(),),
)
