"""Q18, large volume customers: the hundred dearest of the largest orders. One row per order."""

from medallion import Table

TABLE = Table(
    keys=("o_orderkey",),
    may_be_empty=True,
    query="""
        SELECT
            c_name,
            c_custkey,
            o_orderkey,
            o_orderdate,
            o_totalprice,
            SUM(l_quantity) AS total_quantity
        FROM {bronze_customer}
        INNER JOIN {bronze_orders} ON c_custkey = o_custkey
        INNER JOIN {bronze_lineitem} ON o_orderkey = l_orderkey
        WHERE o_orderkey IN (
            SELECT l_orderkey
            FROM {bronze_lineitem}
            GROUP BY l_orderkey
            HAVING SUM(l_quantity) > 300
        )
        GROUP BY c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice
        ORDER BY o_totalprice DESC, o_orderdate, o_orderkey, c_name, c_custkey
        LIMIT 100
    """,
)
