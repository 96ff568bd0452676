"""Q8, national market share of Brazil in America. One row per year."""

from medallion import Table

TABLE = Table(
    keys=("o_year",),
    may_be_empty=True,
    query="""
        WITH all_nations AS (
            SELECT
                EXTRACT(YEAR FROM o_orderdate) AS o_year,
                l_extendedprice * (1 - l_discount) AS volume,
                sold.n_name AS nation
            FROM {bronze_part}
            INNER JOIN {bronze_lineitem} ON p_partkey = l_partkey
            INNER JOIN {bronze_supplier} ON s_suppkey = l_suppkey
            INNER JOIN {bronze_orders} ON l_orderkey = o_orderkey
            INNER JOIN {bronze_customer} ON o_custkey = c_custkey
            INNER JOIN {bronze_nation} AS bought ON c_nationkey = bought.n_nationkey
            INNER JOIN {bronze_region} ON bought.n_regionkey = r_regionkey
            INNER JOIN {bronze_nation} AS sold ON s_nationkey = sold.n_nationkey
            WHERE
                r_name = 'AMERICA'
                AND o_orderdate BETWEEN DATE '1995-01-01' AND DATE '1996-12-31'
                AND p_type = 'ECONOMY ANODIZED STEEL'
        )
        SELECT
            o_year,
            CAST(SUM(CASE WHEN nation = 'BRAZIL' THEN volume ELSE 0 END) AS DOUBLE)
                / CAST(SUM(volume) AS DOUBLE) AS mkt_share
        FROM all_nations
        GROUP BY o_year
    """,
)
