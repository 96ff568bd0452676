"""Movements of stock, as the warehouses book them. One row per inventory_event_id."""

from medallion import Feed, not_empty

TABLE = Feed(
    keys=("inventory_event_id",),
    schema="""
        inventory_event_id BIGINT NOT NULL COMMENT 'Identifies the movement',
        product_id BIGINT NOT NULL COMMENT 'The product',
        warehouse_id BIGINT NOT NULL COMMENT 'The warehouse',
        event_type STRING NOT NULL COMMENT 'restock, sale_reserve, cancellation_restock, return_restock, and others',
        quantity_change INT NOT NULL COMMENT 'Units, negative where stock goes down',
        event_timestamp TIMESTAMP NOT NULL COMMENT 'When it was booked, UTC',
        ingested_at TIMESTAMP NOT NULL COMMENT 'When the warehouse system stored it, UTC'
    """,
    event_time=("event_timestamp",),
    expect=(not_empty(),),
)
