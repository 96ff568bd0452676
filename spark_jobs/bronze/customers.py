"""Customers, as the account service has them. One row per customer_id."""

from medallion import Feed, not_empty

TABLE = Feed(
    keys=("customer_id",),
    schema="""
        customer_id BIGINT NOT NULL COMMENT 'Identifies the customer',
        email STRING COMMENT 'Email address',
        signup_date DATE COMMENT 'Day the account was opened',
        customer_tier STRING COMMENT 'standard, silver, gold, platinum, or noise of the account service',
        geo_country STRING COMMENT 'Country of the customer',
        geo_region STRING COMMENT 'Region of the customer',
        updated_at TIMESTAMP NOT NULL COMMENT 'When the account service last changed the customer, UTC'
    """,
    event_time=("updated_at",),
    subject="customer_id",
    personal=("email",),
    erase="delete",
    expect=(not_empty(),),
)
