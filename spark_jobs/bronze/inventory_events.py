"""Movements of stock, as the warehouses book them. One row per inventory_event_id."""

from medallion import Feed, not_empty

TABLE = Feed(
    keys=("inventory_event_id",),
    schema="""
        inventory_event_id BIGINT NOT NULL,
        product_id BIGINT NOT NULL,
        warehouse_id BIGINT NOT NULL,
        event_type STRING NOT NULL,
        quantity_change INT NOT NULL,
        event_timestamp TIMESTAMP NOT NULL,
        ingested_at TIMESTAMP NOT NULL
    """,
    event_time=("event_timestamp",),
    expect=(not_empty(),),
)
