"""Lines of orders, as the order service has them; a line may come hours after its order. One row per order_item_id."""

from medallion import Feed, not_empty

TABLE = Feed(
    keys=("order_item_id",),
    schema="""
        order_item_id BIGINT NOT NULL COMMENT 'Identifies the line',
        order_id BIGINT NOT NULL COMMENT 'The order',
        product_id BIGINT NOT NULL COMMENT 'The product',
        quantity INT NOT NULL COMMENT 'Units ordered',
        unit_price DECIMAL(10,2) NOT NULL COMMENT 'Price of one unit, before the discount',
        discount_pct DECIMAL(5,2) COMMENT 'Discount on the line, 0 to 100 percent; null for none',
        ingested_at TIMESTAMP NOT NULL COMMENT 'When the order service stored the line, UTC'
    """,
    expect=(not_empty(),),
    pruned_by=("order_id",),
)
