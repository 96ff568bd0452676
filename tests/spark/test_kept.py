"""Relations that are kept give the rows of the query after each hour, and are really added to."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from medallion.model import kept_text
from medallion.model.methods import Kept
from medallion.model.refresh_method import RefreshMethod
from medallion.model.table import Table
from medallion.refresh import needed_inputs
from medallion.refresh.full import refresh_full
from medallion.refresh.incremental import refresh_incremental
from medallion.refresh.inputs import input_states, read_inputs
from medallion.storage import keyed_rows
from tests import random_queries as made
from tests.refresh_run import refresh_run

BOTH = "{bronze_items} AS i INNER JOIN {bronze_orders} AS o ON o.order_id = i.order_id"
QUERIES = {
    "aggregates of every kind": f"""
        SELECT
            o.status AS k, SUM(i.n) AS a, AVG(i.n) AS b, AVG(i.price) AS c, MIN(i.n) AS d,
            COUNT(DISTINCT i.product_id) AS e, MAX(i.day) FILTER (WHERE i.n > 1) AS f
        FROM {BOTH} GROUP BY o.status HAVING COUNT(*) > 1
    """,
    "one row of all": f"""
        SELECT 'all' AS k, COALESCE(SUM(i.price), 0) AS a, COUNT(*) AS n, MAX(o.status) AS m
        FROM {BOTH} INNER JOIN {{bronze_users}} AS u ON u.user_id = o.user_id
    """,
    "rows in an order": f"""
        SELECT o.order_id AS k, i.item_id, i.n FROM {BOTH} WHERE i.n >= (SELECT AVG(n) FROM {{bronze_items}})
        ORDER BY i.n DESC, i.item_id, o.order_id LIMIT 4
    """,
    "row by row": """
        SELECT status AS k, CAST(SUM(n) AS DOUBLE) / COUNT(*) AS p, COUNT(*) AS c FROM {bronze_items} GROUP BY status
    """,
    "subqueries": """
        SELECT o.status AS k, COUNT(*) AS n FROM {bronze_orders} AS o
        WHERE NOT EXISTS (SELECT 1 FROM {bronze_items} AS e WHERE e.order_id = o.order_id AND e.n > 2)
            AND o.order_id NOT IN (SELECT e.order_id FROM {bronze_orders} AS e WHERE e.n > 2)
        GROUP BY o.status
    """,
    "groups over groups": f"""
        SELECT i.product_id AS k, SUM(i.n) AS n FROM {BOTH} GROUP BY i.product_id
        HAVING SUM(i.n) > (SELECT SUM(i.n) * 0.1 FROM {BOTH})
    """,
    "looked up for a union": """
        SELECT u.tier AS k, COUNT(*) AS n, SUM(t.n) AS s FROM (
            SELECT order_id, user_id AS who, n FROM {bronze_orders}
            UNION ALL
            SELECT order_id, product_id AS who, n FROM {bronze_items}
        ) AS t INNER JOIN {bronze_users} AS u ON u.user_id = t.who
        GROUP BY u.tier
    """,
    "an input of which every row may matter": f"""
        SELECT o.status AS k, COUNT(*) AS c, SUM(i.n) AS n
        FROM {BOTH} INNER JOIN {{bronze_users}} AS u ON u.user_id = o.user_id
        WHERE u.tier IN (SELECT s.tier FROM {{bronze_users}} AS s WHERE s.user_id < 3) GROUP BY o.status
    """,
    "columns that it names and does not use": f"""
        WITH t AS (SELECT o.status AS k, o.sold_at, o.user_id, i.n, i.price AS p, i.day FROM {BOTH}),
        u AS (SELECT user_id, tier FROM {{bronze_users}})
        SELECT t.k, SUM(t.n) AS n, COUNT(*) AS c FROM t INNER JOIN u ON u.user_id = t.user_id GROUP BY t.k
    """,
    "groups of several levels": f"""
        SELECT
            o.status AS k, i.product_id % 2 AS odd, GROUPING_ID() AS level, SUM(i.n) AS n, COUNT(*) AS c,
            AVG(i.price) AS p, RANK() OVER (PARTITION BY GROUPING_ID() ORDER BY COUNT(*), o.status) AS place
        FROM {BOTH} GROUP BY ROLLUP (o.status, i.product_id % 2)
    """,
    "groups of chosen levels, row by row": """
        SELECT status AS k, day, GROUPING(day) AS any_day, COUNT(n) AS n, SUM(n) FILTER (WHERE n > 0) AS s
        FROM {bronze_items} GROUP BY GROUPING SETS ((status, day), (status), ()) HAVING COUNT(*) > 1
    """,
}

# Columns that are kept, although the rest of the query does not use them.
STORED_ONLY = {
    "a maximum that the rest does not use": f"""
        WITH t AS (SELECT o.status AS k, SUM(i.n) AS s, MAX(i.price) AS m FROM {BOTH} GROUP BY o.status)
        SELECT k, s FROM t
    """,
    "values of rows that the rest does not use": f"""
        WITH t AS (
            SELECT o.order_id AS k, i.item_id, i.n, i.price AS p FROM {BOTH}
            WHERE i.n >= (SELECT AVG(n) FROM {{bronze_items}})
        )
        SELECT k, item_id, n FROM t ORDER BY n DESC, item_id, k LIMIT 4
    """,
}


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Follow changes of tables that are so small that they would be recomputed."""
    monkeypatch.setattr("medallion.refresh.plan.MAX_CHANGED_SHARE", 10)
    monkeypatch.setattr("medallion.refresh.additive.MIN_STATE_INPUT_BYTES", 0)


@pytest.mark.timeout(1800)
def test_kept_relations_are_added_to_and_give_the_rows_of_the_query_after_each_hour_and_a_restatement(
    spark: Any, tmp_path: Path
) -> None:
    tables = []
    for number, query in enumerate(QUERIES.values()):
        wanted = Table(keys=("k",), query=query, name=f"silver_x{number}", layer="silver", doc="Rows.")
        tables.append(made.as_derived(wanted))
    assert all(isinstance(table.method, Kept) for table in tables)
    world, found = made.World(spark, tmp_path / "lake", random.Random(3)), made.Found()
    run = refresh_run(world.lake, spark, tables=made.GRAPH)

    def compare(*, first: bool = False) -> None:
        refresh_incremental(run, made.LINES)
        wrong = {table.name: made._differs(spark, world, table, found, first=first) for table in tables}
        assert not any(wrong.values()), wrong

    compare(first=True)
    before = world.moment()
    world.hour()
    compare()
    world.rewind(before)  # the hour is restated, with other files
    world.hour()
    compare()
    assert all(str(reason).startswith("full recompute: bronze_users changed") for reason in found.in_full)
    assert found.seen[f"ran by {RefreshMethod.INCREMENTAL_AGGREGATE}"] > len(QUERIES)


def differs(spark: Any, world: made.World, table: Table, *, first: bool = False) -> str | None:
    return made._differs(spark, world, table, made.Found(), first=first)


def as_table(query: str) -> Table:
    return made.as_derived(Table(keys=("k",), query=query, name="silver_x", layer="silver", doc="Rows."))


def test_state_is_rebuilt_after_a_change_of_an_input_of_which_every_row_may_matter(spark: Any, tmp_path: Path) -> None:
    table, world = (
        as_table(QUERIES["an input of which every row may matter"]),
        made.World(spark, tmp_path / "lake", random.Random(9)),
    )
    assert differs(spark, world, table, first=True) is None
    world.write(made.USERS, {1: {**world.rows["bronze_users"][1], "tier": "another"}})
    assert note_of_refresh(spark, world, table).startswith("full recompute: bronze_users changed")
    for _ in range(2):
        world.write(made.ITEMS, {key: world.row(made.ITEMS, key) for key in (1, 2)})
        assert differs(spark, world, table) is None
    always = replace(table, refresh="incremental")
    world.write(made.USERS, {2: {**world.rows["bronze_users"][2], "tier": "another"}})
    assert "rebuilt aggregate state" in note_of_refresh(spark, world, always)
    assert differs(spark, world, always) is None


def test_averages_too_large_to_be_exact_are_computed_from_all_rows(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_text, "MAX_AVERAGED_SUM", 5)  # for the millions of rows that reach the true one
    large = f"SELECT o.status AS k, AVG(i.n) AS a FROM {BOTH} GROUP BY o.status"
    table, world = as_table(large), made.World(spark, tmp_path / "lake", random.Random(5))
    assert isinstance(table.method, Kept)
    assert differs(spark, world, table, first=True) is None
    for _ in range(2):
        world.write(made.ITEMS, {key: world.row(made.ITEMS, key) | {"order_id": 1, "n": 4} for key in (1, 2, 3)})
        assert differs(spark, world, table) is None


def note_of_refresh(spark: Any, world: made.World, table: Table) -> str:
    return str(refresh_incremental(refresh_run(world.lake, spark, tables=made.GRAPH), table).note)


@pytest.mark.parametrize("query", STORED_ONLY.values(), ids=STORED_ONLY)
def test_rows_whose_other_columns_are_kept_too_are_followed(spark: Any, tmp_path: Path, query: str) -> None:
    table, world = as_table(query), made.World(spark, tmp_path / "lake", random.Random(9))
    assert differs(spark, world, table, first=True) is None
    for hour in range(3):
        for key, row in [*world.rows["bronze_items"].items()][:4]:
            world.write(made.ITEMS, {key: {**row, "n": 100 + hour}})
        written = refresh_incremental(refresh_run(world.lake, spark, tables=made.GRAPH), table)
        assert written.method == RefreshMethod.INCREMENTAL_AGGREGATE
        assert differs(spark, world, table) is None
        world.write(made.ITEMS, {next(iter(world.rows["bronze_items"])): None})
        assert differs(spark, world, table) is None


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("least_share", [0.0, pytest.param(0.5, marks=pytest.mark.long)])
def test_tables_that_share_what_they_read_of_an_input_give_the_rows_of_their_queries(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, least_share: float
) -> None:
    monkeypatch.setattr(needed_inputs, "MIN_SHARED_BYTES", 0)
    monkeypatch.setattr(keyed_rows, "MIN_SHARE", least_share)
    served = list[bool]()
    read_shared = keyed_rows.KeyedRows.read_shared

    def noted(*arguments: Any) -> Any:
        rows = read_shared(*arguments)
        served.append(rows is not None)
        return rows

    monkeypatch.setattr(keyed_rows.KeyedRows, "read_shared", noted)
    queries = {**QUERIES, **STORED_ONLY}
    tables = []
    for number, query in enumerate(queries.values()):
        wanted = Table(keys=("k",), query=query, name=f"silver_x{number}", layer="silver", doc="Rows.")
        tables.append(made.as_derived(wanted))
    world = made.World(spark, tmp_path / "lake", random.Random(11))
    for hour in range(3):
        run = replace(refresh_run(world.lake, spark, tables=made.GRAPH), refreshed=tuple(tables))
        for table in tables:
            (refresh_full if hour == 0 else refresh_incremental)(run, table)
            frames = read_inputs(spark, world.lake, input_states(world.lake, table), run.proof_of(table))
            stored = world.lake.opened(world.lake.path(table.name)).to_pyarrow_table()
            assert made.rows_of(stored) == made.rows_of(spark.sql(table.query, **frames).toArrow()), table.query
        world.hour()
        world.hour()
        for key, row in [*world.rows["bronze_items"].items()][:3]:
            world.write(made.ITEMS, {key: {**row, "n": 100 + hour}})
    assert any(served) and (all(served) or least_share)


def test_state_is_rebuilt_where_its_inputs_cannot_be_read_as_they_were(spark: Any, tmp_path: Path) -> None:
    table, world = as_table(QUERIES["aggregates of every kind"]), made.World(spark, tmp_path / "lake", random.Random(6))
    assert differs(spark, world, table, first=True) is None
    folder = Path(world.lake.path("bronze_items"))
    former = {*folder.glob("*.parquet")}
    world.write(made.ITEMS, {key: world.row(made.ITEMS, key) for key in (1, 2)})  # two: their file is rewritten
    for file in former:
        file.unlink()
    assert "as it was at version" in note_of_refresh(spark, world, table)
    world.write(made.ITEMS, {key: world.row(made.ITEMS, key) for key in (3, 4)})
    assert differs(spark, world, table) is None


def test_state_is_rebuilt_where_the_query_is_another(spark: Any, tmp_path: Path) -> None:
    table, world = as_table(QUERIES["one row of all"]), made.World(spark, tmp_path / "lake", random.Random(7))
    assert differs(spark, world, table, first=True) is None
    edited = made.as_derived(replace(table, method=None, query=table.query.replace("COUNT(*)", "COUNT(i.n)")))
    world.hour()
    assert differs(spark, world, edited) is None
    world.write(made.ITEMS, {key: world.row(made.ITEMS, key) for key in (1, 2)})
    assert differs(spark, world, edited) is None
