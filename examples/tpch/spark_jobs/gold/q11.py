"""Q11, important stock identification. One row per part."""

from medallion import Table

TABLE = Table(
    keys=("ps_partkey",),
    may_be_empty=True,
    query="""
        SELECT ps_partkey, SUM(ps_supplycost * ps_availqty) AS value
        FROM {bronze_partsupp}
        INNER JOIN {bronze_supplier} ON ps_suppkey = s_suppkey
        INNER JOIN {bronze_nation} ON s_nationkey = n_nationkey
        WHERE n_name = 'GERMANY'
        GROUP BY ps_partkey
        HAVING SUM(ps_supplycost * ps_availqty) > (
            SELECT SUM(ps_supplycost * ps_availqty) * 0.0001
            FROM {bronze_partsupp}
            INNER JOIN {bronze_supplier} ON ps_suppkey = s_suppkey
            INNER JOIN {bronze_nation} ON s_nationkey = n_nationkey
            WHERE n_name = 'GERMANY'
        )
    """,
)
