"""Q3, shipping priority: the ten dearest orders not shipped yet. One row per order."""

from medallion import Table

TABLE = Table(
    keys=("l_orderkey",),
    may_be_empty=True,
    query="""
        SELECT
            l_orderkey,
            SUM(l_extendedprice * (1 - l_discount)) AS revenue,
            o_orderdate,
            o_shippriority
        FROM {bronze_customer}
        INNER JOIN {bronze_orders} ON c_custkey = o_custkey
        INNER JOIN {bronze_lineitem} ON l_orderkey = o_orderkey
        WHERE c_mktsegment = 'BUILDING' AND o_orderdate < DATE '1995-03-15' AND l_shipdate > DATE '1995-03-15'
        GROUP BY l_orderkey, o_orderdate, o_shippriority
        ORDER BY revenue DESC, o_orderdate, l_orderkey, o_shippriority
        LIMIT 10
    """,
)
