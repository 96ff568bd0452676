"""Q21, suppliers who kept orders waiting, the first hundred. One row per supplier of Saudi Arabia."""

from medallion import Table

TABLE = Table(
    keys=("s_name",),
    may_be_empty=True,
    query="""
        SELECT s_name, COUNT(*) AS numwait
        FROM {bronze_supplier}
        INNER JOIN {bronze_lineitem} AS late ON s_suppkey = late.l_suppkey
        INNER JOIN {bronze_orders} ON o_orderkey = late.l_orderkey
        INNER JOIN {bronze_nation} ON s_nationkey = n_nationkey
        WHERE
            o_orderstatus = 'F'
            AND late.l_receiptdate > late.l_commitdate
            AND EXISTS (
                SELECT 1
                FROM {bronze_lineitem} AS other
                WHERE other.l_orderkey = late.l_orderkey AND other.l_suppkey <> late.l_suppkey
            )
            AND NOT EXISTS (
                SELECT 1
                FROM {bronze_lineitem} AS other
                WHERE
                    other.l_orderkey = late.l_orderkey
                    AND other.l_suppkey <> late.l_suppkey
                    AND other.l_receiptdate > other.l_commitdate
            )
            AND n_name = 'SAUDI ARABIA'
        GROUP BY s_name
        ORDER BY numwait DESC, s_name
        LIMIT 100
    """,
)
