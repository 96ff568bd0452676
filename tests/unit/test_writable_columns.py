"""A query that gives two columns of one name is refused before anything is written, as Delta cannot write it."""

from pathlib import Path
from typing import Any

import pytest

from medallion.errors import MedallionError
from medallion.model.table import Feed, Table
from medallion.model.writable_columns import require_writable_columns
from medallion.spark.empty_frames import EmptyFrames
from tests.proving import derivation

ORDERS = Feed(keys=("k",), schema="k BIGINT NOT NULL, fare BIGINT, minutes BIGINT", name="bronze_orders")
SHIFTS = Feed(keys=("k",), schema="k BIGINT NOT NULL, driver STRING", name="bronze_shifts")
NODES = {node.name: node for node in (ORDERS, SHIFTS)}


def refused(query: str, policy: str) -> str:
    with pytest.raises(MedallionError) as refusal:
        derivation(query, NODES, refresh=policy)
    return str(refusal.value)


@pytest.mark.parametrize("policy", ["auto", "full"])
@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("SELECT k, fare, minutes AS fare FROM {bronze_orders}", "its query gives fare twice: leave one out"),
        ("SELECT k, fare, minutes AS FARE FROM {bronze_orders}", "gives fare twice (fare, FARE): leave one out"),
        ("SELECT k, MAX(fare), MAX(fare) FROM {bronze_orders} GROUP BY k", "gives max(fare) twice"),
        (
            "SELECT * FROM {bronze_orders} AS o INNER JOIN {bronze_shifts} AS s ON s.k = o.k",
            "its query gives k twice: write the columns instead of *",
        ),
        ("SELECT o.*, o.k FROM {bronze_orders} AS o", "its query gives k twice: write the columns instead of *"),
        ("SELECT k, k, k, fare, fare FROM {bronze_orders}", "its query gives k 3 times, fare twice: leave one out"),
    ],
)
def test_a_query_that_gives_a_column_twice_is_refused_by_its_name(query: str, problem: str, policy: str) -> None:
    message = refused(query, policy)
    assert message.startswith("spark_jobs/gold/x.py (gold_x): ") and problem in message


def test_a_column_that_only_a_subquery_gives_twice_is_not_refused() -> None:
    derivation("SELECT k FROM (SELECT k, fare, minutes AS fare FROM {bronze_orders})", NODES)


def test_the_line_of_a_repeated_column_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "spark_jobs" / "gold"
    folder.mkdir(parents=True)
    for query, names, line in (
        ("SELECT\n  k,\n  fare,\n  minutes AS fare\nFROM {bronze_orders}", ("k", "fare", "fare"), 6),
        ("SELECT\n  *\nFROM {bronze_orders}", ("k", "K"), 4),
    ):
        module = folder / "x.py"
        module.write_text(f'"""X."""\n\nQUERY = """{query}"""\n')
        table = Table(keys=("k",), query=query, name="gold_x", layer="gold", module=module)
        with pytest.raises(MedallionError, match=rf"^spark_jobs/gold/x\.py, line {line}: its query gives"):
            require_writable_columns(table, [(name, "bigint") for name in names])


@pytest.mark.parametrize(
    ("columns", "problem"), [("fare, fare", "its query gives fare twice"), ("NULL AS v", "v has no type")]
)
def test_what_delta_cannot_write_is_refused_without_plans_too(spark: Any, columns: str, problem: str) -> None:
    """As where a Spark Connect server analyses the query."""
    query = f"SELECT k, {columns} FROM {{bronze_orders}}"
    table = Table(keys=("k",), query=query, name="gold_x", layer="gold")
    with pytest.raises(MedallionError, match=problem):
        EmptyFrames(spark, NODES).analyse(table)
