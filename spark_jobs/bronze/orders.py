"""Orders, as the order service has them. One row per order_id."""

from medallion import Feed, not_empty

TABLE = Feed(
    keys=("order_id",),
    schema="""
        order_id BIGINT NOT NULL,
        user_id BIGINT,
        order_status STRING,
        order_total DECIMAL(12,2),
        discount_amount DECIMAL(12,2),
        shipping_cost DECIMAL(12,2),
        payment_method STRING,
        coupon_code STRING,
        created_at TIMESTAMP NOT NULL,
        updated_at TIMESTAMP NOT NULL,
        ingested_at TIMESTAMP NOT NULL
    """,
    event_time=("created_at", "updated_at"),
    subject="user_id",
    personal=("coupon_code",),
    erase="blank",
    expect=(not_empty(),),
)
