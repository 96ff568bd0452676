"""Parts that are sold. One row per p_partkey."""

from medallion import Feed

TABLE = Feed(
    keys=("p_partkey",),
    schema="""
        p_partkey BIGINT NOT NULL,
        p_name STRING,
        p_mfgr STRING,
        p_brand STRING,
        p_type STRING,
        p_size INT,
        p_container STRING,
        p_retailprice DECIMAL(15,2),
        p_comment STRING
    """,
)
