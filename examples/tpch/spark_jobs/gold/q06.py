"""Q6, forecasting revenue change. One row per scope, of which there is one."""

from medallion import Table

TABLE = Table(
    keys=("scope",),
    may_be_empty=True,
    query="""
        SELECT 'all' AS scope, SUM(l_extendedprice * l_discount) AS revenue
        FROM {bronze_lineitem}
        WHERE
            l_shipdate >= DATE '1994-01-01'
            AND l_shipdate < DATE '1995-01-01'
            AND l_discount BETWEEN 0.05 AND 0.07
            AND l_quantity < 24
    """,
)
