"""Products, as the catalogue has them. One row per product_id."""

from medallion import Feed, not_empty

TABLE = Feed(
    keys=("product_id",),
    schema="""
        product_id BIGINT NOT NULL,
        product_name STRING NOT NULL,
        category STRING,
        brand STRING,
        supplier_id BIGINT,
        list_price DECIMAL(10,2),
        cost_price DECIMAL(10,2),
        weight_kg DECIMAL(6,2),
        is_active BOOLEAN,
        updated_at TIMESTAMP NOT NULL
    """,
    event_time=("updated_at",),
    expect=(not_empty(),),
)
