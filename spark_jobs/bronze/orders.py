"""Orders, as the order service has them. One row per order_id."""

from medallion import Feed, not_empty

TABLE = Feed(
    keys=("order_id",),
    schema="""
        order_id BIGINT NOT NULL COMMENT 'Identifies the order',
        user_id BIGINT COMMENT 'The customer who ordered',
        order_status STRING COMMENT 'pending, confirmed, shipped, delivered, cancelled or returned',
        order_total DECIMAL(12,2) COMMENT 'Amount of the order',
        discount_amount DECIMAL(12,2) COMMENT 'Discount on the whole order',
        shipping_cost DECIMAL(12,2) COMMENT 'Charge for shipping',
        payment_method STRING COMMENT 'How it is paid',
        coupon_code STRING COMMENT 'The coupon that was used; null without one',
        created_at TIMESTAMP NOT NULL COMMENT 'When it was placed, UTC',
        updated_at TIMESTAMP NOT NULL COMMENT 'When the order service last changed the order, UTC',
        ingested_at TIMESTAMP NOT NULL COMMENT 'When the order service stored the order, UTC'
    """,
    event_time=("created_at", "updated_at"),
    subject="user_id",
    personal=("coupon_code",),
    erase="blank",
    expect=(not_empty(),),
)
