"""Q16, parts by the number of suppliers. One row per brand, type and size."""

from medallion import Table

TABLE = Table(
    keys=("p_brand", "p_type", "p_size"),
    may_be_empty=True,
    query="""
        SELECT p_brand, p_type, p_size, COUNT(DISTINCT ps_suppkey) AS supplier_cnt
        FROM {bronze_partsupp}
        INNER JOIN {bronze_part} ON p_partkey = ps_partkey
        WHERE
            p_brand <> 'Brand#45'
            AND p_type NOT LIKE 'MEDIUM POLISHED%'
            AND p_size IN (49, 14, 23, 45, 19, 3, 36, 9)
            AND ps_suppkey NOT IN (
                SELECT s_suppkey
                FROM {bronze_supplier}
                WHERE s_comment LIKE '%Customer%Complaints%'
            )
        GROUP BY p_brand, p_type, p_size
    """,
)
