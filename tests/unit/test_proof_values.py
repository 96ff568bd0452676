"""What the plan of a query leaves out, and the proofs must know all the same, is refused or told apart."""

from datetime import timedelta
from functools import partial

import pytest

from medallion.model.methods import Additive, ByKey, Recent
from medallion.model.plan import Expression
from medallion.model.plan import Node as PlanNode
from medallion.model.table import Feed, Node
from tests.proving import refusal as refusal_over

pytestmark = pytest.mark.usefixtures("spark")  # which reads every query

ITEMS = Feed(
    keys=("item_id",),
    schema="item_id BIGINT NOT NULL, order_id BIGINT, n INT, l ARRAY<INT>, s STRUCT<a: INT, b: INT>, status STRING,"
    " day DATE, sold_at TIMESTAMP",
    name="bronze_items",
)
NODES: dict[str, Node] = {ITEMS.name: ITEMS}
Method = ByKey | Additive | Recent | None
KEY, PART = ByKey("order_id"), Additive(("a",))


refusal = partial(refusal_over, nodes=NODES)


def of_groups(first: str, second: str) -> str:
    """Why sums by two expressions, of which one is selected, are refused."""
    part = f"SELECT {first} AS k, SUM(n) AS n FROM {{bronze_items}} GROUP BY {first}, {second}"
    return refusal(f"WITH a AS ({part}) SELECT k, n FROM a", PART)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("s.a", "s.b"),
        ("AGGREGATE(l, 0, (x, y) -> x - y)", "AGGREGATE(l, 0, (x, y) -> y - x)"),
        ("FROM_JSON(status, 'a INT').a", "FROM_JSON(status, 'a INT', MAP('mode', 'FAILFAST')).a"),
        ("FROM_JSON(status, 'a INT')", "FROM_JSON(status, 'b INT')"),
    ],
)
def test_expressions_that_differ_in_a_value_alone_are_two(first: str, second: str) -> None:
    assert "does not add up" in of_groups(first, second)


def test_an_order_by_one_field_of_a_struct_does_not_tell_rows_of_another_apart() -> None:
    query = "SELECT s.a AS a, s.b AS b, COUNT(*) AS c FROM {bronze_items} GROUP BY s.a, s.b ORDER BY a"
    assert "LIMIT 1 is not deterministic where rows tie" in refusal(f"{query} LIMIT 1", None)
    assert refusal(f"{query}, b LIMIT 1", None) == ""
    numbered = "SELECT s.a AS a, s.b AS b, ROW_NUMBER() OVER (ORDER BY s.a) AS r FROM {bronze_items} GROUP BY s.a, s.b"
    assert "is not deterministic" in refusal(numbered, None)


def test_an_order_by_one_variable_does_not_tell_rows_of_another_apart() -> None:
    within, by = "FILTER(l, (x, i) -> x > 1)", "FILTER(l, (x, i) -> i > 1)"
    query = f"SELECT item_id, ROW_NUMBER() OVER (PARTITION BY {within} ORDER BY {by}) AS r FROM {{bronze_items}}"
    assert "is not deterministic" in refusal(query, None)


def test_a_group_by_a_field_that_is_not_selected_is_named_as_it_is_written() -> None:
    assert "it groups by s.b and does not select it" in of_groups("s.a", "s.b")


def test_subqueries_are_two_whatever_they_read() -> None:
    query = "SELECT item_id FROM {bronze_items} ORDER BY (SELECT MAX(n) FROM {bronze_items}) LIMIT 3"
    assert "is not deterministic" in refusal(query, None)
    first, second = (
        Expression("ScalarSubquery", "x", plan=PlanNode(kind, (), {}, (), {})) for kind in ("Project", "Aggregate")
    )
    assert first.key != second.key


@pytest.mark.parametrize(
    "key", ["s.a", "TRANSFORM(l, x -> x + 1)", "n BETWEEN 1 AND 3", "status LIKE 'n%'", "CASE n WHEN 1 THEN s.a END"]
)
def test_the_same_expression_twice_is_one(key: str) -> None:
    part = f"SELECT {key} AS k, SUM(n) AS n FROM {{bronze_items}} GROUP BY {key}"
    assert refusal(f"WITH a AS ({part}) SELECT k, n FROM a", PART) == ""


ESCAPED = ("status LIKE 'n!_' ESCAPE {}", "LIKE(status, 'n!_', {})", "ilike(status, 'n!_', {})")


@pytest.mark.parametrize("escaped", ESCAPED)
@pytest.mark.parametrize("prefix", ["", "r"])
def test_like_with_escape_is_refused_as_plans_leave_its_character_out(escaped: str, prefix: str) -> None:
    one, another = (escaped.format(f"{prefix}'{character}'") for character in "!/")
    assert "it has LIKE with an escape character" in of_groups(one, another)


@pytest.mark.parametrize("method", [KEY, None])
@pytest.mark.parametrize("name", ["'try_sum'", "'try_' || 'sum'"])
def test_functions_that_identifier_hides_are_refused(name: str, method: ByKey | None) -> None:
    query = f"SELECT order_id, IDENTIFIER({name})(n) AS n FROM {{bronze_items}} GROUP BY order_id"
    assert "IDENTIFIER() hides what it names" in refusal(query, method)


@pytest.mark.parametrize(
    "text",
    [
        "status COLLATE UTF8_LCASE",
        "COLLATE(status, 'UTF8_LCASE')",
        "CAST(status AS STRING COLLATE UTF8_LCASE)",
        "`collate`(status, 'UTF8_LCASE')",
    ],
)
def test_of_texts_that_a_collation_holds_equal_one_would_stand_for_all(text: str) -> None:
    grouped = f"SELECT order_id, {text} AS t, COUNT(*) AS c FROM {{bronze_items}} GROUP BY ALL"
    assert "it has COLLATE" in refusal(grouped, KEY)
    assert "it has COLLATE" in refusal(f"SELECT order_id, MAX({text}) AS t FROM {{bronze_items}} GROUP BY ALL", KEY)
    assert "COLLATE is not deterministic" in refusal(grouped, None)
    assert refusal(f"SELECT item_id FROM {{bronze_items}} WHERE {text} = 'new'", None) == ""


def test_collation_of_a_schema_in_a_string_is_seen() -> None:
    text = "FROM_JSON(status, 'a STRING COLLATE UTF8_LCASE').a"
    query = f"SELECT order_id, {text} AS t, COUNT(*) AS c FROM {{bronze_items}} GROUP BY ALL"
    assert "it has COLLATE" in refusal(query, KEY)
    assert "COLLATE is not deterministic" in refusal(query, None)


@pytest.mark.parametrize("method", [KEY, None])
@pytest.mark.parametrize("function", ["TRY_SUM", "try_avg"])
def test_a_sum_that_is_null_where_it_overflows_goes_by_the_order_of_reading(function: str, method: Method) -> None:
    query = f"SELECT order_id, {function}(item_id) AS t FROM {{bronze_items}} GROUP BY order_id"
    assert f"{function.upper()} is not deterministic where it overflows" in refusal(query, method)


@pytest.mark.parametrize(
    "moment",
    [
        "CAST(CONCAT('no', 'w') AS TIMESTAMP)",
        "CAST('no' 'w' AS TIMESTAMP)",
        "TO_DATE(CONCAT('to', 'day'))",
        "DATE r'today'",
        "CAST(LOWER('NOW') AS TIMESTAMP)",
        "DATE(CAST(REVERSE('won') AS STRING))",
    ],
)
def test_a_clock_that_is_written_in_pieces_is_one(moment: str) -> None:
    assert "is not deterministic" in refusal(f"SELECT order_id, {moment} AS t FROM {{bronze_items}}", KEY)


@pytest.mark.parametrize(
    "moment",
    [
        "CAST('2025-12-01' AS DATE)",
        "DATE '2025-12-01'",
        "CAST(DATE_TRUNC('month', TIMESTAMP '2025-12-05 10:00:00') AS DATE)",
        "CAST(CAST('2025-12-01' AS DATE) AS TIMESTAMP)",
        "CAST(status AS DATE)",
        "TO_DATE(status, 'yyyy')",
        "CAST(MAKE_DATE(2025, 12, 1) AS TIMESTAMP)",
        "CAST(NULL AS DATE)",
    ],
)
def test_a_moment_that_is_written_as_it_is_is_none(moment: str) -> None:
    assert refusal(f"SELECT order_id, {moment} AS t FROM {{bronze_items}}", KEY) == ""


@pytest.mark.parametrize(
    "bound",
    [
        "CAST((SELECT MAX(sold_at) FROM {bronze_items}) - INTERVAL 2 DAYS AS DATE)",
        "CAST((SELECT MAX(sold_at) FROM {bronze_items}) AS DATE) - INTERVAL 2 DAYS",
        "CAST(CAST((SELECT MAX(sold_at) FROM {bronze_items}) AS DATE) AS TIMESTAMP) - INTERVAL 2 DAYS",
    ],
)
def test_the_date_of_the_newest_moment_is_up_to_a_day_before_it(bound: str) -> None:
    method = Recent("bronze_items", "sold_at", timedelta(days=2))
    query = f"SELECT item_id, n FROM {{bronze_items}} WHERE sold_at > {bound}"
    assert "is read without the condition sold_at > the largest sold_at" in refusal(query, method)


def test_the_date_of_the_newest_day_is_that_day() -> None:
    newest = "CAST((SELECT MAX(day) FROM {bronze_items}) - INTERVAL 36 HOURS AS DATE)"
    method = Recent("bronze_items", "day", timedelta(hours=36))
    assert refusal(f"SELECT item_id, n FROM {{bronze_items}} WHERE day > {newest}", method) == ""


def test_a_variable_of_the_session_is_no_part_of_the_query(spark: object) -> None:
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession() or spark  # the one that analyses: an earlier test may have left another
    session.sql("DECLARE OR REPLACE VARIABLE of_session INT DEFAULT 1")  # type: ignore[attr-defined]
    query = "SELECT order_id, of_session AS v FROM {bronze_items}"
    try:
        assert "is not deterministic" in refusal(query, KEY)
        assert "is not deterministic" in refusal(query, None)
    finally:
        session.sql("DROP TEMPORARY VARIABLE of_session")  # type: ignore[attr-defined]


def test_a_function_of_the_session_is_not_known_to_be_deterministic(spark: object) -> None:
    from pyspark.sql import SparkSession
    from pyspark.sql.functions import udf

    session = SparkSession.getActiveSession() or spark
    session.udf.register("of_session", udf(lambda n: n, "int"))  # type: ignore[attr-defined]
    session.udf.register("by_chance", udf(lambda n: n, "int").asNondeterministic())  # type: ignore[attr-defined]
    try:
        assert "is not known to be deterministic" in refusal("SELECT of_session(n) AS m FROM {bronze_items}", KEY)
        assert refusal("SELECT of_session(n) AS m FROM {bronze_items}", None) == ""
        assert "not deterministic, as Spark says" in refusal("SELECT by_chance(n) AS m FROM {bronze_items}", None)
    finally:
        for name in ("of_session", "by_chance"):
            session.sql(f"DROP TEMPORARY FUNCTION {name}")  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("value", "refused"),
    [
        ("AVG(item_id)", True),
        ("AVG(item_id) OVER (PARTITION BY order_id)", True),
        ("AVG(CAST(item_id AS DECIMAL(19, 0)))", False),
        ("AVG(n)", False),
    ],
)
def test_an_average_of_bigint_is_refused_as_spark_adds_it_up_in_double(value: str, refused: bool) -> None:
    groups = "" if "OVER" in value else " GROUP BY order_id"
    said = refusal(f"SELECT order_id, {value} AS a FROM {{bronze_items}}{groups}", None)
    assert ("cast it to DECIMAL(19, 0)" in said) == refused, said


@pytest.mark.parametrize("value", ["l", "s", "MAP('a', n)"])
def test_a_key_by_which_no_engine_joins_is_refused(value: str) -> None:
    assert "its key k is " in refusal(f"SELECT {value} AS k FROM {{bronze_items}}", None)
