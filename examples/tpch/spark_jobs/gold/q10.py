"""Q10, returned item reporting: the twenty customers who returned most. One row per customer."""

from medallion import Table

TABLE = Table(
    keys=("c_custkey",),
    may_be_empty=True,
    query="""
        SELECT
            c_custkey,
            c_name,
            SUM(l_extendedprice * (1 - l_discount)) AS revenue,
            c_acctbal,
            n_name,
            c_address,
            c_phone,
            c_comment
        FROM {bronze_customer}
        INNER JOIN {bronze_orders} ON c_custkey = o_custkey
        INNER JOIN {bronze_lineitem} ON l_orderkey = o_orderkey
        INNER JOIN {bronze_nation} ON c_nationkey = n_nationkey
        WHERE o_orderdate >= DATE '1993-10-01' AND o_orderdate < DATE '1994-01-01' AND l_returnflag = 'R'
        GROUP BY c_custkey, c_name, c_acctbal, c_phone, n_name, c_address, c_comment
        ORDER BY revenue DESC, c_custkey, c_name, c_acctbal, c_phone, n_name, c_address, c_comment
        LIMIT 20
    """,
)
