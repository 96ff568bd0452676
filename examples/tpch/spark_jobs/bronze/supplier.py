"""Suppliers. One row per s_suppkey."""

from medallion import Feed

TABLE = Feed(
    keys=("s_suppkey",),
    schema="""
        s_suppkey BIGINT NOT NULL,
        s_name STRING,
        s_address STRING,
        s_nationkey INT,
        s_phone STRING,
        s_acctbal DECIMAL(15,2),
        s_comment STRING
    """,
)
