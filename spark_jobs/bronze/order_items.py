"""Lines of orders, as the order service has them; a line may come hours after its order. One row per order_item_id."""

from medallion import Feed, not_empty

TABLE = Feed(
    keys=("order_item_id",),
    schema="""
        order_item_id BIGINT NOT NULL,
        order_id BIGINT NOT NULL,
        product_id BIGINT NOT NULL,
        quantity INT NOT NULL,
        unit_price DECIMAL(10,2) NOT NULL,
        discount_pct DECIMAL(5,2),
        ingested_at TIMESTAMP NOT NULL
    """,
    expect=(not_empty(),),
    pruned_by=("order_id",),
)
