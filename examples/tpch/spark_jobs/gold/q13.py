"""Q13, customer distribution. One row per number of orders."""

from medallion import Table

TABLE = Table(
    keys=("c_count",),
    may_be_empty=True,
    query="""
        WITH c_orders AS (
            SELECT c_custkey, COUNT(o_orderkey) AS c_count
            FROM {bronze_customer}
            LEFT JOIN {bronze_orders} ON c_custkey = o_custkey AND o_comment NOT LIKE '%special%requests%'
            GROUP BY c_custkey
        )
        SELECT c_count, COUNT(*) AS custdist
        FROM c_orders
        GROUP BY c_count
    """,
)
