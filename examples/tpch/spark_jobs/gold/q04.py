"""Q4, order priority checking. One row per order priority."""

from medallion import Table

TABLE = Table(
    keys=("o_orderpriority",),
    may_be_empty=True,
    query="""
        SELECT o_orderpriority, COUNT(*) AS order_count
        FROM {bronze_orders}
        WHERE
            o_orderdate >= DATE '1993-07-01'
            AND o_orderdate < DATE '1993-10-01'
            AND EXISTS (
                SELECT 1
                FROM {bronze_lineitem}
                WHERE l_orderkey = o_orderkey AND l_commitdate < l_receiptdate
            )
        GROUP BY o_orderpriority
    """,
)
