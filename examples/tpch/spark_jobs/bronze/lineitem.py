"""Lines of orders. One row per l_orderkey and l_linenumber."""

from medallion import Feed

TABLE = Feed(
    keys=("l_orderkey", "l_linenumber"),
    schema="""
        l_orderkey BIGINT NOT NULL,
        l_partkey BIGINT,
        l_suppkey BIGINT,
        l_linenumber BIGINT NOT NULL,
        l_quantity DECIMAL(15,2),
        l_extendedprice DECIMAL(15,2),
        l_discount DECIMAL(15,2),
        l_tax DECIMAL(15,2),
        l_returnflag STRING,
        l_linestatus STRING,
        l_shipdate DATE,
        l_commitdate DATE,
        l_receiptdate DATE,
        l_shipinstruct STRING,
        l_shipmode STRING,
        l_comment STRING
    """,
)
