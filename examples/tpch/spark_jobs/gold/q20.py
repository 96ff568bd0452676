"""Q20, potential part promotion. One row per supplier of Canada."""

from medallion import Table

TABLE = Table(
    keys=("s_name",),
    may_be_empty=True,
    query="""
        SELECT s_name, s_address
        FROM {bronze_supplier}
        INNER JOIN {bronze_nation} ON s_nationkey = n_nationkey
        WHERE
            n_name = 'CANADA'
            AND s_suppkey IN (
                SELECT ps_suppkey
                FROM {bronze_partsupp}
                WHERE
                    ps_partkey IN (
                        SELECT p_partkey
                        FROM {bronze_part}
                        WHERE p_name LIKE 'forest%'
                    )
                    AND ps_availqty > (
                        SELECT 0.5 * SUM(l_quantity)
                        FROM {bronze_lineitem}
                        WHERE
                            l_partkey = ps_partkey
                            AND l_suppkey = ps_suppkey
                            AND l_shipdate >= DATE '1994-01-01'
                            AND l_shipdate < DATE '1995-01-01'
                    )
            )
    """,
)
