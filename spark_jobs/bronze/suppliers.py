"""Suppliers, as purchasing has them. One row per supplier_id."""

from medallion import Feed, not_empty

TABLE = Feed(
    keys=("supplier_id",),
    schema="""
        supplier_id BIGINT NOT NULL COMMENT 'Identifies the supplier',
        supplier_name STRING NOT NULL COMMENT 'Name of the supplier',
        country STRING COMMENT 'Country of the supplier',
        lead_time_days INT COMMENT 'Days from a reorder to its arrival',
        updated_at TIMESTAMP NOT NULL COMMENT 'When purchasing last changed the supplier, UTC'
    """,
    event_time=("updated_at",),
    expect=(not_empty(),),
)
