"""Customers. One row per c_custkey."""

from medallion import Feed

TABLE = Feed(
    keys=("c_custkey",),
    schema="""
        c_custkey BIGINT NOT NULL,
        c_name STRING,
        c_address STRING,
        c_nationkey INT,
        c_phone STRING,
        c_acctbal DECIMAL(15,2),
        c_mktsegment STRING,
        c_comment STRING
    """,
)
