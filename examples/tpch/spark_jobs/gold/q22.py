"""Q22, global sales opportunity. One row per country code."""

from medallion import Table

TABLE = Table(
    keys=("cntrycode",),
    may_be_empty=True,
    query="""
        WITH custsale AS (
            SELECT SUBSTRING(c_phone, 1, 2) AS cntrycode, c_acctbal
            FROM {bronze_customer}
            WHERE
                SUBSTRING(c_phone, 1, 2) IN ('13', '31', '23', '29', '30', '18', '17')
                AND c_acctbal > (
                    SELECT AVG(c_acctbal)
                    FROM {bronze_customer}
                    WHERE c_acctbal > 0 AND SUBSTRING(c_phone, 1, 2) IN ('13', '31', '23', '29', '30', '18', '17')
                )
                AND NOT EXISTS (
                    SELECT 1
                    FROM {bronze_orders}
                    WHERE o_custkey = c_custkey
                )
        )
        SELECT cntrycode, COUNT(*) AS numcust, SUM(c_acctbal) AS totacctbal
        FROM custsale
        GROUP BY cntrycode
    """,
)
