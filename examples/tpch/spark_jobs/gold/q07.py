"""Q7, volume shipping between France and Germany. One row per pair of nations and year."""

from medallion import Table

TABLE = Table(
    keys=("supp_nation", "cust_nation", "l_year"),
    may_be_empty=True,
    query="""
        WITH shipping AS (
            SELECT
                sold.n_name AS supp_nation,
                bought.n_name AS cust_nation,
                EXTRACT(YEAR FROM l_shipdate) AS l_year,
                l_extendedprice * (1 - l_discount) AS volume
            FROM {bronze_supplier}
            INNER JOIN {bronze_lineitem} ON s_suppkey = l_suppkey
            INNER JOIN {bronze_orders} ON o_orderkey = l_orderkey
            INNER JOIN {bronze_customer} ON c_custkey = o_custkey
            INNER JOIN {bronze_nation} AS sold ON s_nationkey = sold.n_nationkey
            INNER JOIN {bronze_nation} AS bought ON c_nationkey = bought.n_nationkey
            WHERE
                (
                    (sold.n_name = 'FRANCE' AND bought.n_name = 'GERMANY')
                    OR (sold.n_name = 'GERMANY' AND bought.n_name = 'FRANCE')
                )
                AND l_shipdate BETWEEN DATE '1995-01-01' AND DATE '1996-12-31'
        )
        SELECT supp_nation, cust_nation, l_year, SUM(volume) AS revenue
        FROM shipping
        GROUP BY supp_nation, cust_nation, l_year
    """,
)
