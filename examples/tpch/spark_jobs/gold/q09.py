"""Q9, product type profit measure. One row per nation and year."""

from medallion import Table

TABLE = Table(
    keys=("nation", "o_year"),
    may_be_empty=True,
    query="""
        WITH profit AS (
            SELECT
                n_name AS nation,
                EXTRACT(YEAR FROM o_orderdate) AS o_year,
                l_extendedprice * (1 - l_discount) - ps_supplycost * l_quantity AS amount
            FROM {bronze_part}
            INNER JOIN {bronze_lineitem} ON p_partkey = l_partkey
            INNER JOIN {bronze_supplier} ON s_suppkey = l_suppkey
            INNER JOIN {bronze_partsupp} ON ps_suppkey = l_suppkey AND ps_partkey = l_partkey
            INNER JOIN {bronze_orders} ON o_orderkey = l_orderkey
            INNER JOIN {bronze_nation} ON s_nationkey = n_nationkey
            WHERE p_name LIKE '%green%'
        )
        SELECT nation, o_year, SUM(amount) AS sum_profit
        FROM profit
        GROUP BY nation, o_year
    """,
)
