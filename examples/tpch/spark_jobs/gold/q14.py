"""Q14, promotion effect. One row per scope, of which there is one."""

from medallion import Table

TABLE = Table(
    keys=("scope",),
    may_be_empty=True,
    query="""
        SELECT
            'all' AS scope,
            100 * CAST(SUM(CASE WHEN p_type LIKE 'PROMO%' THEN l_extendedprice * (1 - l_discount) ELSE 0 END) AS DOUBLE)
                / CAST(SUM(l_extendedprice * (1 - l_discount)) AS DOUBLE) AS promo_revenue
        FROM {bronze_lineitem}
        INNER JOIN {bronze_part} ON l_partkey = p_partkey
        WHERE l_shipdate >= DATE '1995-09-01' AND l_shipdate < DATE '1995-10-01'
    """,
)
