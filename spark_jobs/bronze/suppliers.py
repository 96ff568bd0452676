"""Suppliers, as purchasing has them. One row per supplier_id."""

from medallion import Feed, not_empty

TABLE = Feed(
    keys=("supplier_id",),
    schema="""
        supplier_id BIGINT NOT NULL,
        supplier_name STRING NOT NULL,
        country STRING,
        lead_time_days INT,
        updated_at TIMESTAMP NOT NULL
    """,
    event_time=("updated_at",),
    expect=(not_empty(),),
)
