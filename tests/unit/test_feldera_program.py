"""Feldera's program, made from our own tables: what is written otherwise, what is refused, and what it computes.

The engine is the stand-in's. A fragment of SQL that means something else in Feldera does so in the stand-in too.
"""

import json
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import sqlglot
from deltalake import DeltaTable

from bench.duck import translated
from bench.feldera.driver import change_lines
from bench.feldera.program import FelderaSQL, program, view
from demo.generate import generate
from medallion.errors import MedallionError
from medallion.ingest.arrow_types import arrow_type
from medallion.model.table import Feed, Table
from tests.shop import registry
from tests.unit.feldera_engine import Engine, SqlError

GOLDEN = Path(__file__).with_name("feldera_program.sql")
SPARK_TYPES = Path(__file__).with_name("spark_types.json")  # tests/spark/test_feldera_types.py holds it against Spark
COLUMNS = {
    "bronze_t": {
        **{"k": "BIGINT", "whole": "INT", "big": "BIGINT", "money": "DECIMAL(12,2)", "share": "DOUBLE"},
        **{"t": "TIMESTAMP", "word": "STRING"},
    }
}
TABLE = """
    CREATE TABLE bronze_t (
        k BIGINT NOT NULL, whole INT, big BIGINT, money DECIMAL(12, 2), share DOUBLE, t TIMESTAMP, word TEXT,
        PRIMARY KEY (k)
    );
"""


def as_view(query: str) -> str:
    """One view, on one line, without its head."""
    table = Table(keys=("k",), query=query, name="gold_x", doc="X.")
    return " ".join(view(table, dict(COLUMNS), {"bronze_t": {"k"}}).split("AS\n", 1)[1].rstrip(";").split())


def computed(expression: str, *rows: str) -> Any:
    """What Feldera makes of an expression over such rows: the value of the only row of a view."""
    engine = Engine(f"{TABLE} CREATE MATERIALIZED VIEW v AS SELECT {expression} AS x FROM bronze_t;")
    for row in rows:
        engine.connection.execute(f"INSERT INTO bronze_t BY NAME SELECT {row}")
    engine.step()
    ((value,),) = engine.connection.execute("SELECT x FROM v").fetchall()
    return value


# --- what is written otherwise ---------------------------------------------------------------------------------------


def test_program_has_the_statements_that_are_checked_in() -> None:
    """A change of one is a change of what is compared: look at it, and run it on the real engine.

    Tables that somebody added have statements of their own.
    """
    now, golden = (text.split(";\n") for text in (program(), GOLDEN.read_text()))
    changed = [statement for statement in golden if statement not in now]
    assert not changed, f"after that: medallion feldera-program > {GOLDEN}"


def test_a_week_is_moved_to_begin_on_monday() -> None:
    sql = as_view("SELECT DATE_TRUNC('WEEK', t) AS k FROM {bronze_t}")
    assert sql == "SELECT ( TIMESTAMP_TRUNC(t - INTERVAL '1' DAY, WEEK) + INTERVAL '1' DAY ) AS k FROM bronze_t"
    assert "TIMESTAMP_TRUNC(t, MONTH)" in as_view("SELECT DATE_TRUNC('MONTH', t) AS k FROM {bronze_t}")


@pytest.mark.parametrize(
    "moment", ["2025-11-30 23:59:59.999999", "2025-12-01 00:00:00", "2025-12-06 12:00:00", "2026-01-01 00:00:00"]
)
def test_a_week_begins_on_monday_as_written_and_on_sunday_without(moment: str) -> None:
    row, then = f"1 AS k, TIMESTAMP '{moment}' AS t", datetime.fromisoformat(moment)
    monday = (then - timedelta(days=then.weekday())).replace(hour=0, minute=0, second=0, microsecond=0)
    written = as_view("SELECT DATE_TRUNC('WEEK', t) AS x FROM {bronze_t}")
    (expression,) = re.findall(r"SELECT (.*) AS x FROM", written)
    assert computed(expression, row) == monday
    assert computed("TIMESTAMP_TRUNC(t, WEEK)", row).strftime("%A") == "Sunday"


def test_a_sum_of_integers_is_widened_as_spark_does() -> None:
    assert "SUM(CAST(whole AS BIGINT)) AS k" in as_view("SELECT SUM(whole) AS k FROM {bronze_t}")
    assert "SUM(CAST(CASE WHEN share > 1 THEN whole ELSE 0 END AS BIGINT))" in as_view(
        "SELECT SUM(CASE WHEN share > 1 THEN whole ELSE 0 END) AS k FROM {bronze_t}"
    )
    assert "SUM(w)" in as_view("WITH c AS (SELECT SUM(whole) AS w FROM {bronze_t}) SELECT SUM(w) AS k FROM c")
    assert "SUM(CAST(w AS BIGINT))" in as_view(
        "WITH c AS (SELECT whole AS w FROM {bronze_t}) SELECT SUM(w) AS k FROM c"
    )
    assert "SUM(money)" in as_view("SELECT SUM(money) AS k FROM {bronze_t}")


def test_a_sum_of_integers_ends_the_pipeline_where_it_was_not_widened() -> None:
    rows = (f"1 AS k, {2**31 - 1}::INT AS whole", "2 AS k, 1::INT AS whole")
    assert computed("SUM(CAST(whole AS BIGINT))", *rows) == 2**31
    with pytest.raises(Exception, match="out of range"):
        computed("SUM(whole)", *rows)


def test_named_windows_and_names_of_types_stay_as_they_are() -> None:
    sql = as_view("SELECT SUM(money) OVER w AS k FROM {bronze_t} WINDOW w AS (PARTITION BY word ORDER BY t)")
    assert sql == "SELECT SUM(money) OVER w AS k FROM bronze_t WINDOW w AS (PARTITION BY word ORDER BY t)"
    assert "    email TEXT,\n" in program()


def test_a_timestamp_has_no_zone() -> None:
    assert "    created_at TIMESTAMP NOT NULL,\n" in program()
    with pytest.raises(SqlError, match="no time zone"):
        Engine(TABLE.replace("t TIMESTAMP", "t TIMESTAMPTZ"))


def test_beyond_these_differences_each_view_is_our_query() -> None:
    theirs = {name: sql.upper() for name, sql in re.findall(r"VIEW (\w+) AS\n(.*?);", program(), re.DOTALL)}
    for table in registry():
        if isinstance(table, Feed):
            continue
        ours = table.query.format_map({name: name for name in table.inputs})
        words = set(re.findall(r"\w+", sqlglot.transpile(ours, read="spark", comments=False)[0].upper()))
        words_of_theirs = set(re.findall(r"\w+", theirs[table.name]))
        assert words_of_theirs - words <= {"TIMESTAMP_TRUNC", "CAST", "AS", "BIGINT", "INTERVAL", "DAY", "1"}, (
            table.name
        )
        assert words - words_of_theirs <= {"DATE_TRUNC", "TRY_CAST"}, table.name


def test_the_program_has_every_table_once_inputs_first() -> None:
    statements = sqlglot.parse(program(), read=FelderaSQL)
    names = [statement.find(sqlglot.exp.Table).name for statement in statements if statement]
    assert names == [table.name for table in registry()]


# --- what would mean something else: refused here, and other there ---------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("whole / 2", "integer division drops the fraction"),
        ("whole DIV 2", "integer division ends"),
        ("whole % 2", "integer division ends"),
        ("money / 3", "quotient of decimals"),
        ("AVG(money)", "AVG keeps the type"),
        ("AVG(whole)", "AVG keeps the type"),
        ("CAST(money AS INT)", "cuts them"),
        ("CAST(money AS DECIMAL(12, 1))", "cuts them"),
        ("CAST(share AS DECIMAL(12, 2))", "cuts them"),
        ("GREATEST(money, 0)", "null is passed over"),
        ("LEAST(whole, big)", "null is passed over"),
        ("CAST(word AS INT)", "runtime error"),
        ("CAST(word AS DATE)", "runtime error"),
        ("TRY_CAST(money AS INT)", "runtime error"),
        ("CAST(big AS INT)", "runtime error"),
        ("SPLIT(word, ',')[0]", "runtime error"),
    ],
)
def test_a_query_is_refused_and_named_where_feldera_differs(expression: str, reason: str) -> None:
    with pytest.raises(MedallionError, match=rf"^gold_x cannot be computed by Feldera as Spark does: .*{reason}"):
        as_view(f"SELECT {expression} AS k FROM {{bronze_t}}")


@pytest.mark.parametrize(
    "expression",
    [
        *("CAST(whole AS DOUBLE) / NULLIF(big, 0)", "AVG(share)", "CAST(t AS DATE)", "CAST(big AS DECIMAL(19, 0))"),
        *("GREATEST(COALESCE(money, 0), 0)", "LEAST(k, 3)", "CAST(whole AS BIGINT)", "GREATEST(COUNT(money), 1)"),
    ],
)
def test_a_query_is_taken_where_both_compute_the_same(expression: str) -> None:
    assert as_view(f"SELECT {expression} AS x FROM {{bronze_t}}").startswith("SELECT ")


def test_a_null_from_an_outer_join_is_seen_through_subqueries() -> None:
    joined = "WITH c AS (SELECT {} FROM {{bronze_t}} AS a LEFT JOIN {{bronze_t}} AS b ON a.k = b.big)"
    asked = " SELECT GREATEST(x, 0) AS k FROM c"
    assert as_view(joined.format("a.k AS x") + asked)
    with pytest.raises(MedallionError, match="null is passed over"):
        as_view(joined.format("b.k AS x") + asked)


@pytest.mark.parametrize(
    ("expression", "row", "value"),
    [
        ("whole / 2", "7 AS whole", 3),
        ("CAST(AVG(money) AS TEXT)", "0.05 AS money UNION ALL SELECT 2, 0.10", "0.07"),
        ("CAST(CAST(money AS DECIMAL(12, 1)) AS TEXT)", "0.99 AS money", "0.9"),
        ("CAST(share AS INT)", "2.9::DOUBLE AS share", 2),
        ("GREATEST(money, 0)", "NULL AS money", None),
    ],
)
def test_the_stand_in_computes_it_as_feldera_does(expression: str, row: str, value: Any) -> None:
    assert computed(expression, f"1 AS k, {row}") == value


def test_a_runtime_error_is_one_in_the_stand_in() -> None:
    for expression, row in (("whole / (whole - whole)", "1 AS whole"), ("CAST(word AS INT)", "'x' AS word")):
        with pytest.raises(Exception, match="Division by zero|Could not convert"):
            computed(expression, f"1 AS k, {row}")


# --- the rows --------------------------------------------------------------------------------------------------------

# In Spark's words. A sum is DECIMAL(38, s) there, a product has a digit less: the same values, so compared by value.
OTHER_PRECISION = {
    ("gold_order_status_summary", "total_revenue"): "DECIMAL(32,2)",
    ("gold_weekly_revenue_trend", "weekly_gross_margin"): "DECIMAL(32,2)",
    ("silver_confirmed_order_items", "line_gross_margin"): "DECIMAL(22,2)",
    ("silver_confirmed_order_items", "line_gross_revenue"): "DECIMAL(21,2)",
    ("silver_confirmed_order_items", "line_net_revenue"): "DECIMAL(31,6)",
    ("silver_order_items_enriched", "line_gross_margin"): "DECIMAL(22,2)",
    ("silver_order_items_enriched", "line_gross_revenue"): "DECIMAL(21,2)",
    ("silver_order_items_enriched", "line_net_revenue"): "DECIMAL(31,6)",
    ("silver_orders_enriched", "gross_item_revenue"): "DECIMAL(31,2)",
}
IN_SPARK = {"VARCHAR": "string", "INTEGER": "int"}


def test_the_types_are_those_of_spark_but_for_the_precision_of_nine_decimals() -> None:
    engine, ours = Engine(program()), json.loads(SPARK_TYPES.read_text())
    other = {
        (table, column): kind.upper()
        for table, columns in ours.items()
        for column, kind in columns.items()
        if IN_SPARK.get(engine.types[table][column], engine.types[table][column].lower()) != kind
    }
    assert other == OTHER_PRECISION
    for (table, column), kind in other.items():
        assert engine.types[table][column].partition(",")[2] == kind.partition(",")[2], "the same scale"


@pytest.mark.slow
def test_its_rows_are_those_of_our_queries(tmp_path: Path) -> None:
    generate(tmp_path, days=40, hours=1, scale=0.01, seed=0)
    engine = Engine(program())
    for feed in registry().feeds:
        rows = DeltaTable(str(tmp_path / "snapshot" / feed.name)).to_pyarrow_table()
        assert engine.take(feed.name, list(change_lines(rows, feed))) == []
    engine.step()
    for table in registry():
        if isinstance(table, Table):
            ours = f"SELECT * FROM ({translated(table)})"  # over the stand-in's tables, so each is compared for itself
            for one, another in ((ours, f"FROM {table.name}"), (f"FROM {table.name}", ours)):
                missing = engine.connection.execute(f"SELECT * FROM ({one}) EXCEPT ALL SELECT * FROM ({another})")
                assert missing.fetchmany(3) == [], table.name
            assert engine.connection.execute(f"SELECT COUNT(*) > 1 FROM {table.name}").fetchone() == (True,)


def test_changes_are_pushed_exactly_and_deletes_by_key() -> None:
    (feed,) = (feed for feed in registry().feeds if feed.name == "bronze_orders")
    row: dict[str, Any] = dict.fromkeys(column.name for column in feed.columns)
    at = datetime(2025, 11, 30, 1, 2, 3, 4, UTC)
    row |= {"order_id": 1, "order_total": Decimal("0.10"), "order_status": 'a"ü\n', "created_at": at}
    row |= {"updated_at": at, "ingested_at": at}
    schema = pa.schema([pa.field("_deleted", pa.bool_()), *((c.name, arrow_type(c)) for c in feed.columns)])
    changes = pa.Table.from_pylist([row | {"_deleted": True, "created_at": None}, row | {"_deleted": False}], schema)
    deleted, inserted = change_lines(changes, feed)
    assert deleted == b'{"delete":{"order_id":1}}', "whose other columns may be null"
    assert b'"order_total":"0.10"' in inserted and b'"created_at":"2025-11-30 01:02:03.000004"' in inserted
    assert json.loads(inserted)["insert"]["order_status"] == 'a"ü\n'
    assert Engine(program()).take(feed.name, [deleted, inserted]) == []
