"""Q2, minimum cost supplier. One row per part and supplier of Europe that sells it cheapest, of the hundred richest."""

from medallion import Table

TABLE = Table(
    keys=("p_partkey", "s_name"),
    may_be_empty=True,
    query="""
        SELECT s_acctbal, s_name, n_name, p_partkey, p_mfgr, s_address, s_phone, s_comment
        FROM {bronze_part}
        INNER JOIN {bronze_partsupp} ON p_partkey = ps_partkey
        INNER JOIN {bronze_supplier} ON s_suppkey = ps_suppkey
        INNER JOIN {bronze_nation} ON s_nationkey = n_nationkey
        INNER JOIN {bronze_region} ON n_regionkey = r_regionkey
        WHERE
            p_size = 15
            AND p_type LIKE '%BRASS'
            AND r_name = 'EUROPE'
            AND ps_supplycost = (
                SELECT MIN(ps_supplycost)
                FROM {bronze_partsupp}
                INNER JOIN {bronze_supplier} ON s_suppkey = ps_suppkey
                INNER JOIN {bronze_nation} ON s_nationkey = n_nationkey
                INNER JOIN {bronze_region} ON n_regionkey = r_regionkey
                WHERE p_partkey = ps_partkey AND r_name = 'EUROPE'
            )
        ORDER BY s_acctbal DESC, n_name, s_name, p_partkey, ps_suppkey, s_suppkey, r_regionkey, n_nationkey
        LIMIT 100
    """,
)
