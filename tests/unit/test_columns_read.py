"""Which columns of its inputs a query uses: never fewer than can affect its rows."""

from functools import partial

import pytest

from medallion.model.columns_read import columns_read
from medallion.model.proof import Prover
from medallion.model.table import Feed, Table
from medallion.settings import Settings
from medallion.spark.plans import analyse_here

NODES = {
    "bronze_a": Feed(keys=("k",), schema="k INT NOT NULL, x INT, y INT, z INT", name="bronze_a", doc="Rows."),
    "bronze_b": Feed(keys=("k",), schema="k INT NOT NULL, x INT, w INT", name="bronze_b", doc="Rows."),
}
QUERIES = {
    "SELECT k, x AS n FROM {bronze_a}": {"a": "k x"},
    "SELECT k FROM {bronze_a} WHERE y > 1 ORDER BY z": {"a": "k y z"},
    "SELECT * FROM {bronze_a}": {"a": "k x y z"},
    "TABLE {bronze_a}": {"a": "k x y z"},
    "SELECT k FROM (SELECT DISTINCT * FROM {bronze_a})": {"a": "k x y z"},
    "SELECT k FROM {bronze_a} UNION SELECT w FROM {bronze_b}": {"a": "k", "b": "w"},
    "SELECT k FROM (SELECT k, x, w FROM {bronze_b} UNION ALL TABLE {bronze_b}) AS t": {"b": "k x w"},
    "SELECT a.k FROM {bronze_a} AS a NATURAL JOIN {bronze_b}": {"a": "k x", "b": "k x"},
    "SELECT k, w FROM {bronze_a} INNER JOIN {bronze_b} USING (k)": {"a": "k", "b": "k w"},
    "SELECT k FROM {bronze_a} WHERE x IN (SELECT w FROM {bronze_b})": {"a": "k x", "b": "w"},
    "SELECT k FROM {bronze_a} AS o WHERE NOT EXISTS (SELECT 1 FROM {bronze_b} AS i WHERE i.w = o.z)": {
        "a": "k z",
        "b": "w",
    },
    "SELECT k, (SELECT MAX(x) FROM {bronze_b}) AS m FROM {bronze_a}": {"a": "k", "b": "x"},
    "SELECT MAX(k) AS k, COUNT(*) AS n, SUM(x) FILTER (WHERE y > 0) AS s FROM {bronze_a} GROUP BY z": {"a": "k x y z"},
    "SELECT k, SUM(x) OVER (PARTITION BY y ORDER BY k) AS s FROM {bronze_a}": {"a": "k x y"},
    "SELECT k, SUM(y) AS s FROM {bronze_a} GROUP BY ROLLUP (k, x)": {"a": "k x y"},
    "WITH t AS (SELECT k, x FROM {bronze_a}), u AS (TABLE {bronze_b}) SELECT t.k FROM t INNER JOIN u ON t.k = u.k": {
        "a": "k",
        "b": "k",
    },
    "SELECT k, e FROM {bronze_a} LATERAL VIEW EXPLODE(ARRAY(x, y)) AS e": {"a": "k x y"},
    "SELECT o.k FROM {bronze_a} AS o INNER JOIN {bronze_a} AS i ON i.y = o.x": {"a": "k x y"},
    "SELECT k FROM (SELECT k, x, SUM(y) OVER (ORDER BY k) AS s, z + 1 AS u FROM {bronze_a}) WHERE x > 0": {"a": "k x"},
    "SELECT k FROM (SELECT k, SUM(x) AS s FROM {bronze_a} GROUP BY k, z HAVING MAX(y) > 1)": {"a": "k y z"},
    "WITH t AS (SELECT k, x AS p, y AS q FROM {bronze_a}) SELECT u.k FROM t AS u INNER JOIN t ON t.p = u.k": {
        "a": "k x"
    },
    "SELECT k FROM {bronze_a} GROUP BY CUBE (k, y), z": {"a": "k y z"},
    "SELECT STRUCT(*) AS s, 1 AS k FROM {bronze_b}": {"b": "k x w"},
}


@pytest.mark.parametrize("query", QUERIES)
def test_every_column_that_can_affect_a_row_is_used(query: str) -> None:
    table = Table(keys=("k",), query=query, name="gold_t", layer="gold", doc="Rows.")
    plan = Prover({**NODES, table.name: table}, partial(analyse_here, Settings.from_environment())).plan_of(table)
    expected = {f"bronze_{name}": tuple(columns.split()) for name, columns in QUERIES[query].items()}
    assert columns_read(plan) == expected
