"""Q5, local supplier volume. One row per nation of Asia."""

from medallion import Table

TABLE = Table(
    keys=("n_name",),
    may_be_empty=True,
    query="""
        SELECT n_name, SUM(l_extendedprice * (1 - l_discount)) AS revenue
        FROM {bronze_customer}
        INNER JOIN {bronze_orders} ON c_custkey = o_custkey
        INNER JOIN {bronze_lineitem} ON l_orderkey = o_orderkey
        INNER JOIN {bronze_supplier} ON l_suppkey = s_suppkey AND c_nationkey = s_nationkey
        INNER JOIN {bronze_nation} ON s_nationkey = n_nationkey
        INNER JOIN {bronze_region} ON n_regionkey = r_regionkey
        WHERE r_name = 'ASIA' AND o_orderdate >= DATE '1994-01-01' AND o_orderdate < DATE '1995-01-01'
        GROUP BY n_name
    """,
)
