"""Q17, small-quantity-order revenue. One row per scope, of which there is one."""

from medallion import Table

TABLE = Table(
    keys=("scope",),
    may_be_empty=True,
    query="""
        SELECT 'all' AS scope, CAST(SUM(l_extendedprice) AS DOUBLE) / 7 AS avg_yearly
        FROM {bronze_lineitem} AS line
        INNER JOIN {bronze_part} ON p_partkey = line.l_partkey
        WHERE
            p_brand = 'Brand#23'
            AND p_container = 'MED BOX'
            AND l_quantity < (
                SELECT 0.2 * AVG(other.l_quantity)
                FROM {bronze_lineitem} AS other
                WHERE other.l_partkey = p_partkey
            )
    """,
)
