"""What each supplier has of each part. One row per ps_partkey and ps_suppkey."""

from medallion import Feed

TABLE = Feed(
    keys=("ps_partkey", "ps_suppkey"),
    schema="""
        ps_partkey BIGINT NOT NULL,
        ps_suppkey BIGINT NOT NULL,
        ps_availqty BIGINT,
        ps_supplycost DECIMAL(15,2),
        ps_comment STRING
    """,
)
