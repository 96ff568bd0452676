"""Products, as the catalogue has them. One row per product_id."""

from medallion import Feed, not_empty

TABLE = Feed(
    keys=("product_id",),
    schema="""
        product_id BIGINT NOT NULL COMMENT 'Identifies the product',
        product_name STRING NOT NULL COMMENT 'Name of the product',
        category STRING COMMENT 'Category in the catalogue',
        brand STRING COMMENT 'Brand of the product',
        supplier_id BIGINT COMMENT 'The supplier that the product is bought from',
        list_price DECIMAL(10,2) COMMENT 'Price of one unit in the catalogue',
        cost_price DECIMAL(10,2) COMMENT 'What one unit costs the shop',
        weight_kg DECIMAL(6,2) COMMENT 'Weight of one unit, kg',
        is_active BOOLEAN COMMENT 'Whether it is on sale',
        updated_at TIMESTAMP NOT NULL COMMENT 'When the catalogue last changed the product, UTC'
    """,
    event_time=("updated_at",),
    expect=(not_empty(),),
)
