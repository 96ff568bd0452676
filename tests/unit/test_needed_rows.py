"""Which rows of its inputs a query needs: never fewer than can matter, in conditions that mean the same in DuckDB."""

from dataclasses import replace
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from medallion.model.kept_text import inputs_of
from medallion.model.needed_rows import needed_rows
from medallion.model.needs import Needs
from medallion.model.plan import Column
from medallion.model.plan_json import read_plan
from medallion.settings import Settings
from medallion.spark.plans import analyse_here

COLUMNS: dict[str, tuple[Column, ...]] = {
    "a": (
        ("k", "int", False),
        ("x", "int", True),
        ("big", "bigint", True),
        ("name", "string", True),
        ("day", "date", True),
        ("price", "decimal(9,2)", True),
        ("ok", "boolean", True),
        ("at", "timestamp", True),
        ("ratio", "double", True),
    ),
    "b": (("k", "int", False), ("x", "int", True), ("w", "int", True)),
}
# By query: the condition of each read, and which column of it needs a partner in which column of which read.
NEEDS = {
    "SELECT k FROM {a} WHERE x > 3": [('("x" IS NOT NULL) AND ("x" > 3)', "")],
    "SELECT k FROM {a} WHERE NOT (name = 'it''s' OR day < DATE '2025-01-31')": [
        (
            """("name" IS NOT NULL) AND ("day" IS NOT NULL) AND (NOT ("name" = 'it''s'))"""
            """ AND ("day" >= DATE '2025-01-31')""",
            "",
        )
    ],
    "SELECT k FROM {a} WHERE price BETWEEN -0.05 AND 7 AND ok": [
        ('("price" IS NOT NULL) AND ("ok" IS NOT NULL) AND ("price" >= -0.05) AND ("price" <= 7.00) AND "ok"', "")
    ],
    # What may mean something else in DuckDB is left out, with all that it is an alternative to.
    "SELECT k FROM {a} WHERE x = 1 AND ratio > 0.5 AND at > TIMESTAMP '2025-01-01' AND name LIKE 'a_c'": [
        ('("x" IS NOT NULL) AND ("name" IS NOT NULL) AND ("x" = 1)', "")
    ],
    "SELECT k FROM {a} WHERE x = 1 OR ratio > 0.5": [("", "")],
    "SELECT k FROM {a} WHERE NOT (x = 1 AND ratio > 0.5)": [("", "")],
    "SELECT k FROM {a} WHERE NOT (name LIKE 'a_c')": [('("name" IS NOT NULL)', "")],
    "SELECT k FROM {a} WHERE name LIKE 'a%b%c'": [("""("name" IS NOT NULL) AND ("name" LIKE 'a%b%c')""", "")],
    "SELECT k FROM {a} WHERE name LIKE SUBSTRING(name, 1, 2)": [('("name" IS NOT NULL)', "")],
    "SELECT k FROM {a} WHERE CONV(name, 10, 16) = 'A'": [('("name" IS NOT NULL)', "")],
    "SELECT k FROM {a} WHERE x IN (1, 2, NULL)": [("", "")],
    "SELECT k FROM {a} WHERE day < DATE '+10000-01-01'": [('("day" IS NOT NULL)', "")],
    "SELECT k FROM {a} WHERE SUBSTRING(name, 0, 2) = 'a'": [('("name" IS NOT NULL)', "")],
    "SELECT k FROM {a} WHERE SUBSTRING(name, -1, 1) = 'a'": [('("name" IS NOT NULL)', "")],
    "SELECT k FROM {a} WHERE SUBSTRING(UPPER(name), 1, 1) = 'A'": [('("name" IS NOT NULL)', "")],
    "SELECT k FROM {a} WHERE SUBSTRING(name, x, 1) = 'a'": [('("name" IS NOT NULL) AND ("x" IS NOT NULL)', "")],
    "SELECT k FROM {a} WHERE name RLIKE 'abc'": [('("name" IS NOT NULL)', "")],
    "SELECT k FROM {a} WHERE TRY_CAST(name AS INT) IS NULL": [("", "")],
    "SELECT k FROM {b} WHERE x = w": [('("x" IS NOT NULL) AND ("w" IS NOT NULL) AND ("x" = "w")', "")],
    "SELECT k FROM {a} WHERE x + 1 > 3": [('("x" IS NOT NULL)', "")],
    "SELECT a.k FROM {a} AS a INNER JOIN {b} AS b ON a.x = b.w WHERE b.x = 1": [
        ('("x" IS NOT NULL)', "x 1.w"),
        ('("x" IS NOT NULL) AND ("x" = 1) AND ("w" IS NOT NULL)', "w 0.x"),
    ],
    # A row without a partner stays on the outer side; on the other side it has no part in the result.
    "SELECT a.k, b.x FROM {a} AS a LEFT JOIN {b} AS b ON a.x = b.w AND b.x = 1": [
        ("", ""),
        ('("x" IS NOT NULL) AND ("x" = 1) AND ("w" IS NOT NULL)', "w 0.x"),
    ],
    "SELECT a.k, b.x FROM {a} AS a FULL JOIN {b} AS b ON a.x = b.w": [("", ""), ("", "")],
    "SELECT k FROM {a} AS a WHERE EXISTS (SELECT 1 FROM {b} AS b WHERE b.w = a.x)": [
        ("", "x 1.w"),
        ("", "w 0.x"),
    ],
    "SELECT k FROM {a} AS a WHERE NOT EXISTS (SELECT 1 FROM {b} AS b WHERE b.w = a.x AND b.x = 1)": [
        ("", ""),
        ('("x" IS NOT NULL) AND ("x" = 1)', "w 0.x"),
    ],
    "SELECT k FROM {a} WHERE x NOT IN (SELECT w FROM {b})": [("", ""), ("", "")],
    # A group is complete or not there at all.
    "SELECT a.k, t.n FROM {a} AS a INNER JOIN (SELECT w, COUNT(*) AS n FROM {b} GROUP BY w) AS t ON t.w = a.x": [
        ('("x" IS NOT NULL)', "x 1.w"),
        ('("w" IS NOT NULL)', "w 0.x"),
    ],
    "SELECT a.k FROM {a} AS a INNER JOIN (SELECT k, MAX(w) AS w FROM {b} GROUP BY k) AS t ON t.w = a.x": [
        ('("x" IS NOT NULL)', ""),
        ("", ""),
    ],
    "SELECT a.k FROM {a} AS a INNER JOIN (SELECT w, x, SUM(k) OVER (PARTITION BY w) AS s FROM {b}) AS t"
    " ON t.w = a.x AND t.x = a.k AND t.s > 1": [('("x" IS NOT NULL)', "x 1.w"), ('("w" IS NOT NULL)', "w 0.x")],
    "SELECT k FROM {b} ORDER BY x LIMIT 3": [("", "")],
    "SELECT a.k FROM {a} AS a INNER JOIN {b} AS b ON a.k = b.k INNER JOIN {b} AS c ON c.w = b.x WHERE c.k = 5": [
        ("", "k 1.k"),
        ('("x" IS NOT NULL)', "k 0.k; x 2.w"),
        ('("k" = 5) AND ("w" IS NOT NULL)', "w 1.x"),
    ],
    # Equal by a cast only.
    "SELECT a.k FROM {a} AS a INNER JOIN {b} AS b ON a.big = b.w": [
        ('("big" IS NOT NULL)', ""),
        ('("w" IS NOT NULL)', ""),
    ],
    "SELECT k FROM {a} WHERE x > (SELECT MAX(w) FROM {b} WHERE x = 1)": [
        ('("x" IS NOT NULL) AND ("x" = 1)', ""),
        ('("x" IS NOT NULL)', ""),
    ],
    "SELECT k FROM {a} WHERE x = 1 UNION ALL SELECT k FROM {b} WHERE w = 2": [
        ('("x" IS NOT NULL) AND ("x" = 1)', ""),
        ('("w" IS NOT NULL) AND ("w" = 2)', ""),
    ],
}
REQUIRED = {
    "SELECT a.k FROM {a} AS a INNER JOIN {b} AS b ON a.k = b.k": "ab",
    "SELECT a.k FROM {a} AS a LEFT JOIN {b} AS b ON a.k = b.k": "a",
    "SELECT a.k FROM {b} AS b RIGHT JOIN {a} AS a ON a.k = b.k": "a",
    "SELECT a.k FROM {a} AS a FULL JOIN {b} AS b ON a.k = b.k": "",
    "SELECT k FROM {a} WHERE k IN (SELECT k FROM {b})": "ab",
    "SELECT k FROM {a} AS a WHERE NOT EXISTS (SELECT 1 FROM {b} AS b WHERE a.k = b.k)": "a",
    "SELECT k FROM {a} UNION ALL SELECT k FROM {b}": "",
    "SELECT a.k, n FROM {a} AS a CROSS JOIN (SELECT COUNT(*) AS n FROM {b})": "a",
    "SELECT k, COUNT(*) AS n FROM {a} GROUP BY k": "a",
    "SELECT a.k FROM {a} AS a INNER JOIN (SELECT k, COUNT(*) AS n FROM {b} GROUP BY k) AS t ON t.k = a.k": "ab",
    "SELECT m * m AS q, m FROM (SELECT SUM(k) AS m FROM {a})": "a",
    "SELECT a.k, q FROM {a} AS a CROSS JOIN (SELECT m * m AS q, m FROM (SELECT SUM(w) AS m FROM {b}))": "a",
    "SELECT COUNT(*) AS n FROM {a}": "a",  # a count of no rows adds nothing to a count
    "SELECT n + 1 AS m FROM (SELECT COUNT(*) AS n FROM {a}) WHERE n < 5": "",
}


@pytest.mark.parametrize(
    "query",
    [
        "SELECT DISTINCT a.k FROM {a} AS a LEFT JOIN {b} AS b ON a.x = b.w",
        "WITH c AS (SELECT k, x FROM {a}) SELECT DISTINCT p.k FROM c AS p INNER JOIN c AS q ON p.x = q.x"
        " LEFT JOIN {b} AS b ON b.w = p.x",
    ],
)
def test_nothing_is_known_of_a_query_of_which_spark_leaves_out_an_input(query: str) -> None:
    assert needs_of(query) == Needs()


def test_nothing_is_known_of_a_query_with_a_read_that_is_not_found_in_its_plan() -> None:
    inputs = {"a": COLUMNS["a"]}
    analysis = analyse_here(Settings.from_environment(), "SELECT k FROM {a}", inputs, optimize=True)
    root = read_plan(replace(analysis, plan=analysis.optimized)).root
    assert needed_rows(root, analysis.reads, inputs).required
    assert needed_rows(root, (*analysis.reads, (-1, "a")), inputs) == Needs()


@pytest.mark.parametrize(
    "query", ["SELECT k, 1/0 AS x FROM {a} WHERE 1 = 0", "SELECT k, 1/0 AS x FROM {a} WHERE x > 1"]
)
def test_of_a_query_that_spark_cannot_optimize_nothing_is_known(query: str) -> None:
    analysis = analyse_here(Settings.from_environment(), query, {"a": COLUMNS["a"]}, optimize=True)
    assert (analysis.optimized, analysis.reads) == ("", ())


def needs_of(query: str) -> Needs:
    inputs = {name: COLUMNS[name] for name in inputs_of(query)}
    analysis = analyse_here(Settings.from_environment(), query, inputs, optimize=True)
    return needed_rows(read_plan(replace(analysis, plan=analysis.optimized)).root, analysis.reads, inputs)


@pytest.mark.parametrize("query", NEEDS)
def test_the_rows_that_can_matter(query: str) -> None:
    found = [
        (read.condition, "; ".join(f"{link.column} {link.read}.{link.of}" for link in read.links))
        for read in needs_of(query).reads
    ]
    assert found == NEEDS[query]


@pytest.mark.parametrize("query", REQUIRED)
def test_the_reads_without_a_row_of_which_there_is_none(query: str) -> None:
    needs = needs_of(query)
    assert "".join(needs.reads[number].input for number in needs.required) == REQUIRED[query]


CONDITIONS = [
    "x IN (1, -2) OR x IS NULL",
    "NOT (x <=> 1)",
    "x <> 1 AND name <> ''",
    "name LIKE 'a%b' OR name LIKE '%\n%'",
    "name NOT LIKE '%é%'",
    "name > 'Z' AND name <= 'é'",
    "SUBSTRING(name, 2, 1) IN ('é', '%', ' ')",
    "startswith(name, 'a') OR endswith(name, '😀') OR contains(name, '\\'')",
    "day >= DATE '1969-12-31' AND day <> DATE '2024-02-29'",
    "price > -0.01 AND price <= 7.10",
    "ok OR NOT ok",
    "ok = (x > 0)",
    "NOT (x > 1 AND name = 'a')",
    "big = 9223372036854775807 OR big < -9223372036854775807",
]
ROWS: list[dict[str, Any]] = [
    {"x": x, "big": big, "name": name, "day": day, "price": price, "ok": ok}
    for place, (x, name) in enumerate(
        (x, name)
        for x in (None, -2, 0, 1, 2)
        for name in (None, "", "a", "ab", "a\nb", "aéb", "é", "Z", "a%b", "a b", "x😀", "it's", "a_b")
    )
    for big, day, price, ok in [
        [
            (None, None, None, None),
            (2**63 - 1, "1969-12-31", "-0.01", True),
            (-(2**63), "2024-02-29", "7.10", False),
            (0, "2025-06-01", "0.00", True),
        ][place % 4]
    ]
]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_condition_means_the_same_in_duckdb(condition: str) -> None:
    from pyspark.sql import SparkSession

    needs = needs_of(f"SELECT k FROM {{a}} WHERE {condition}")
    assert needs.reads[0].condition or condition == "ok = (x > 0)", "nothing is known"
    spark = SparkSession.getActiveSession()
    assert spark is not None
    values = pa.table({name: [row[name] for row in ROWS] for name in ("x", "big", "name", "day", "price", "ok")})
    types = {name: kind for name, kind, _ in COLUMNS["a"]}
    texts = values.append_column("k", pa.array(range(len(ROWS)), pa.int32()))
    rows = spark.createDataFrame(texts).selectExpr(
        *(f"CAST({name} AS {types[name]}) AS {name}" for name in texts.column_names)
    )
    in_spark = {row.k for row in rows.where(condition).collect()}
    with duckdb.connect() as connection:
        connection.register("arrow_rows", rows.toArrow())
        where = needs.reads[0].condition or "TRUE"
        in_duckdb = {key for (key,) in connection.execute(f"SELECT k FROM arrow_rows WHERE {where}").fetchall()}
    assert in_spark <= in_duckdb
    if condition != "ok = (x > 0)":
        assert in_spark == in_duckdb
