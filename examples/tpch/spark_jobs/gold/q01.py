"""Q1, pricing summary report. One row per return flag and line status."""

from medallion import Table

TABLE = Table(
    keys=("l_returnflag", "l_linestatus"),
    may_be_empty=True,
    query="""
        SELECT
            l_returnflag,
            l_linestatus,
            SUM(l_quantity) AS sum_qty,
            SUM(l_extendedprice) AS sum_base_price,
            SUM(l_extendedprice * (1 - l_discount)) AS sum_disc_price,
            SUM(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS sum_charge,
            CAST(SUM(l_quantity) AS DOUBLE) / COUNT(l_quantity) AS avg_qty,
            CAST(SUM(l_extendedprice) AS DOUBLE) / COUNT(l_extendedprice) AS avg_price,
            CAST(SUM(l_discount) AS DOUBLE) / COUNT(l_discount) AS avg_disc,
            COUNT(*) AS count_order
        FROM {bronze_lineitem}
        WHERE l_shipdate <= DATE '1998-09-02'
        GROUP BY l_returnflag, l_linestatus
    """,
)
