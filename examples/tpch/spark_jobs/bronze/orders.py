"""Orders. One row per o_orderkey."""

from medallion import Feed

TABLE = Feed(
    keys=("o_orderkey",),
    schema="""
        o_orderkey BIGINT NOT NULL,
        o_custkey BIGINT,
        o_orderstatus STRING,
        o_totalprice DECIMAL(15,2),
        o_orderdate DATE,
        o_orderpriority STRING,
        o_clerk STRING,
        o_shippriority INT,
        o_comment STRING
    """,
)
