"""Customers, as the account service has them. One row per customer_id."""

from medallion import Feed, not_empty

TABLE = Feed(
    keys=("customer_id",),
    schema="""
        customer_id BIGINT NOT NULL,
        email STRING,
        signup_date DATE,
        customer_tier STRING,
        geo_country STRING,
        geo_region STRING,
        updated_at TIMESTAMP NOT NULL
    """,
    event_time=("updated_at",),
    subject="customer_id",
    personal=("email",),
    erase="delete",
    expect=(not_empty(),),
)
