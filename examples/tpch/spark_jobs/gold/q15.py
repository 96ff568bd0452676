"""Q15, top supplier. One row per supplier."""

from medallion import Table

TABLE = Table(
    keys=("s_suppkey",),
    may_be_empty=True,
    query="""
        WITH revenue AS (
            SELECT l_suppkey AS supplier_no, SUM(l_extendedprice * (1 - l_discount)) AS total_revenue
            FROM {bronze_lineitem}
            WHERE l_shipdate >= DATE '1996-01-01' AND l_shipdate < DATE '1996-04-01'
            GROUP BY l_suppkey
        )
        SELECT s_suppkey, s_name, s_address, s_phone, total_revenue
        FROM {bronze_supplier}
        INNER JOIN revenue ON s_suppkey = supplier_no
        WHERE total_revenue = (SELECT MAX(total_revenue) FROM revenue)
    """,
)
