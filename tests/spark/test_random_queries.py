"""What is proven gives the rows of its query, incrementally as in full: random queries, and cases that were once wrong.

MEDALLION_QUERIES is how many queries a seed makes (10, and 20 where there is time), MEDALLION_SEED the first of two
seeds (1).
"""

import os
import random
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pytest

from medallion.ingest.arrow_types import arrow_type
from medallion.model.methods import ByKey, Recent, Via
from medallion.model.refresh_method import RefreshMethod
from medallion.model.table import Table
from medallion.pipeline import maintain
from medallion.refresh import by_key
from medallion.refresh.additive import state_groups
from medallion.refresh.full import refresh_full
from medallion.refresh.incremental import refresh_incremental
from medallion.refresh.inputs import input_states, read_inputs
from medallion.refresh.refresh_run import Written
from medallion.spark.configuration import BOUNDED
from medallion.storage import delta_writes, keyed_rows
from medallion.storage.delta_writes import properties, replace_rows
from medallion.storage.lake import state_of
from medallion.storage.merge_on_read import FileLayout
from medallion.storage.replaced_rows import bronze_metadata
from tests import random_queries as made
from tests.refresh_run import refresh_run

QUERIES, SEED = int(os.environ.get("MEDALLION_QUERIES", "0")), int(os.environ.get("MEDALLION_SEED", "1"))


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Follow changes of tables that are so small that they would be recomputed."""
    monkeypatch.setattr("medallion.refresh.plan.MAX_CHANGED_SHARE", 10)
    monkeypatch.setattr("medallion.refresh.additive.MIN_STATE_INPUT_BYTES", 0)


def table(query: str, method: ByKey | Recent, *keys: str) -> Table:
    return Table(keys=keys or ("order_id",), query=query, method=method, name="gold_x", layer="gold", doc="Rows.")


def refreshed(spark: Any, world: made.World, wanted: Table, change: Any) -> Written:
    """Compute the table, change the lake, refresh the table, and compare it with its query."""
    run = refresh_run(world.lake, spark, tables=made.GRAPH)
    refresh_full(run, wanted)
    change()
    written = refresh_incremental(run, wanted)
    frames = read_inputs(spark, world.lake, input_states(world.lake, wanted), run.proof_of(wanted))
    stored = world.lake.opened(world.lake.path(wanted.name)).to_pyarrow_table()
    assert made.rows_of(stored) == made.rows_of(spark.sql(wanted.query, **frames).toArrow())
    return written


@pytest.fixture
def world(spark: Any, tmp_path: Path) -> made.World:
    return made.World(spark, tmp_path / "lake", random.Random(7))


def test_a_row_whose_key_is_null_is_followed_as_any_other(spark: Any, world: made.World) -> None:
    world.write(made.ITEMS, {1: world.row(made.ITEMS, 1) | {"order_id": None}})
    query = "SELECT order_id, COUNT(*) AS m, SUM(n) AS n FROM {bronze_items} GROUP BY order_id"

    def change() -> None:
        world.write(made.ITEMS, {1: world.row(made.ITEMS, 1) | {"order_id": 2, "n": 1}})
        world.write(made.ITEMS, {2: world.row(made.ITEMS, 2) | {"order_id": None, "n": 2}})

    assert refreshed(spark, world, table(query, ByKey("order_id")), change).method == RefreshMethod.UPSERT


@pytest.mark.parametrize("key", ["day", "status"])
def test_a_key_may_be_a_day_or_a_text(spark: Any, world: made.World, key: str) -> None:
    query = f"SELECT {key}, COUNT(*) AS m FROM {{bronze_items}} GROUP BY {key}"
    written = refreshed(spark, world, table(query, ByKey(key), key), world.hour)
    assert written.method in {RefreshMethod.UPSERT, RefreshMethod.UNCHANGED}


@pytest.mark.parametrize("by_spark", [False, True])
def test_a_text_key_may_have_quotes_and_backslashes(
    spark: Any, world: made.World, monkeypatch: pytest.MonkeyPatch, *, by_spark: bool
) -> None:
    if by_spark:
        monkeypatch.setattr(keyed_rows, "MAX_READ_BYTES", 0)
        monkeypatch.setattr(delta_writes, "MAX_LOCAL_TABLE_BYTES", 0)
    texts = enumerate(("it's", "C:\\new", 'a"b', "`c`", "50%\\", "{d}", "${e}"), 1)
    rows = {key: world.row(made.ITEMS, key) | {"status": text, "n": 1} for key, text in texts}
    world.write(made.ITEMS, rows)
    query = "SELECT status, COUNT(*) AS m, SUM(n) AS n FROM {bronze_items} GROUP BY status"

    def change() -> None:
        world.write(made.ITEMS, {key: row | {"n": 2} for key, row in rows.items()})

    written = refreshed(spark, world, table(query, ByKey("status"), "status"), change)
    assert written.method == RefreshMethod.UPSERT, written.note


def test_latest_rows_by_day_keep_the_day_at_the_border(spark: Any, world: made.World) -> None:
    query = (
        "SELECT item_id, day FROM {bronze_items} WHERE day >= (SELECT MAX(day) FROM {bronze_items}) - INTERVAL 7 DAYS"
    )
    first = date(2025, 12, 1)
    world.write(made.ITEMS, {key: world.row(made.ITEMS, key) | {"day": first} for key in range(1, 15)})

    def change() -> None:
        world.write(made.ITEMS, {20: world.row(made.ITEMS, 20) | {"day": first + timedelta(days=7)}})

    written = refreshed(spark, world, table(query, Recent("bronze_items", "day", timedelta(days=7)), "item_id"), change)
    assert written.method == RefreshMethod.LATEST_ROWS and written.rows_out == 15


@pytest.mark.parametrize("column", ["day", "sold_at"])
def test_latest_rows_are_the_newest_that_are_left_where_rows_are_deleted_by_position(
    spark: Any, world: made.World, column: str
) -> None:
    """The file of a deleted row keeps its bounds."""
    query = (
        f"SELECT item_id, {column} FROM {{bronze_items}}"
        f" WHERE {column} >= (SELECT MAX({column}) FROM {{bronze_items}}) - INTERVAL 7 DAYS"
    )

    def mark(rows: Mapping[int, datetime | None]) -> None:
        path = world.lake.path("bronze_items")
        delta = world.lake.opened(path)
        made_rows = [
            world.row(made.ITEMS, 1) | {"item_id": key, "day": at.date(), "sold_at": at}
            for key, at in rows.items()
            if at
        ]
        schema = pa.schema([(field.name, arrow_type(field)) for field in made.ITEMS.columns])
        commit = properties(bronze_metadata(("item_id",)), upon=delta)
        layout = FileLayout(world.lake.at(path), 1 << 20, 1)
        replace_rows(delta, pa.Table.from_pylist(made_rows, schema), "item_id", sorted(rows), commit, layout)

    usual, old, wrong = (datetime(*day, tzinfo=UTC) for day in ((2030, 1, 10), (2029, 12, 1), (2031, 1, 1)))
    mark(dict.fromkeys(range(1000, 1010), usual))
    mark({2000: wrong, **dict.fromkeys(range(2001, 2010), old)})
    wanted = table(query, Recent("bronze_items", column, timedelta(days=7)), "item_id")
    written = refreshed(spark, world, wanted, lambda: mark({2000: None}))
    assert (written.method, written.rows_out) == (RefreshMethod.LATEST_ROWS, 10)


@pytest.mark.parametrize("listed", [2_000, 0])
@pytest.mark.parametrize("here", [True, False], ids=["in this process", "by Spark"])
def test_a_column_may_have_any_name(
    spark: Any, world: made.World, monkeypatch: pytest.MonkeyPatch, listed: int, *, here: bool
) -> None:
    monkeypatch.setattr(delta_writes, "MAX_LISTED_KEYS", listed)
    if not here:
        monkeypatch.setattr(delta_writes, "MAX_LOCAL_TABLE_BYTES", 0)
    query = "SELECT item_id, n AS `x-y`, status AS `select` FROM {bronze_items}"
    written = refreshed(spark, world, table(query, ByKey("item_id"), "item_id"), world.hour)
    assert written.method == RefreshMethod.UPSERT


def test_a_column_that_is_not_declared_any_more_is_not_seen(spark: Any, world: made.World) -> None:
    path = world.lake.path("bronze_users")
    users = world.lake.opened(path).to_pyarrow_table()
    orders = pa.array([None] * len(users), pa.int64())
    spark.createDataFrame(users.append_column("order_id", orders)).write.format("delta").mode("overwrite").option(
        "overwriteSchema", "true"
    ).save(path)
    query = "SELECT o.order_id, u.* FROM {bronze_orders} AS o INNER JOIN {bronze_users} AS u ON u.user_id = o.user_id"
    wanted = table(query, ByKey("order_id", via={"bronze_users": Via("user_id", "bronze_orders", "user_id")}))

    def change() -> None:
        world.write(made.ORDERS, {1: world.row(made.ORDERS, 1) | {"user_id": 1}})

    assert refreshed(spark, world, wanted, change).method == RefreshMethod.UPSERT


def test_a_table_that_was_sorted_by_its_key_is_not_sorted_again(
    spark: Any, world: made.World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither after upkeep has sorted it, nor by the retry of a refresh that failed after it did."""
    monkeypatch.setattr("medallion.refresh.commits.ROWS_PER_FILE", 5)
    monkeypatch.setattr("medallion.refresh.commits.SMALL_ROWS", 0)  # a full refresh writes all rows, unsorted
    monkeypatch.setattr(maintain, "SPARE_FILES", -100)
    wanted = table("SELECT item_id, order_id, n FROM {bronze_items}", ByKey("order_id"), "item_id")
    run, path = refresh_run(world.lake, spark, tables=made.GRAPH), world.lake.path(wanted.name)

    def refresh(n: int) -> str:
        world.write(made.ITEMS, {1: world.row(made.ITEMS, 1) | {"n": n}})
        return refresh_incremental(run, wanted).note or ""

    for _ in range(2):  # the first one sorts
        refresh_full(run, wanted)
    maintain.maintain_table(world.lake, path, (), maintain.Retention(hours=0), "order_id")
    assert "clustered" not in refresh(70)
    refresh_full(run, wanted)
    with monkeypatch.context() as broken:
        broken.setattr(by_key, "KeyedInputs", Mock(side_effect=RuntimeError("died")))
        with pytest.raises(RuntimeError, match="died"):
            refresh(71)
    assert "clustered" not in refresh(72)
    refresh_full(run, wanted)
    monkeypatch.setattr("medallion.storage.clustering.MAX_CLUSTER_BYTES", 0)
    assert "not clustered by order_id, only small files merged" in refresh(73)


@pytest.mark.parametrize(
    ("query", "keys"),
    [
        (
            "WITH sums AS (SELECT product_id, SUM(n) AS n, SUM(price) AS price, COUNT(*) AS items FROM {bronze_items}"
            " GROUP BY product_id) SELECT product_id, n, price, items FROM sums",
            ("product_id",),
        ),
        (
            "WITH days AS (SELECT product_id, day, SUM(n) AS n, COUNT(*) AS c FROM {bronze_items}"
            " GROUP BY product_id, day), sums AS (SELECT product_id, SUM(n) AS n, COUNT(*) AS days FROM days"
            " GROUP BY product_id) SELECT product_id, n, days FROM sums",
            ("product_id",),
        ),
        (
            "SELECT o.status, COUNT(DISTINCT i.product_id) AS products, SUM(i.n) AS n FROM {bronze_items} AS i"
            " INNER JOIN {bronze_orders} AS o ON o.order_id = i.order_id GROUP BY o.status",
            ("status",),
        ),
    ],
    ids=["sums", "sums of sums", "of a join"],
)
def test_upkeep_adds_up_aggregate_state_and_changes_are_added_to_it_after_that(
    spark: Any, world: made.World, query: str, keys: tuple[str, ...]
) -> None:
    wanted = made.as_derived(Table(keys=keys, query=query, name="silver_x", layer="silver", doc="Rows."))
    run = refresh_run(world.lake, spark, tables=made.GRAPH)
    refresh_full(run, wanted)

    def refresh(hour: int) -> None:
        rows = {key: world.row(made.ITEMS, key) | {"n": hour * key % 7 + 1, "product_id": key} for key in (1, 2, 3)}
        world.write(made.ITEMS, rows | ({4: None} if hour == 3 else {}))
        written = refresh_incremental(run, wanted)
        assert (written.method, written.state_work) == (RefreshMethod.INCREMENTAL_AGGREGATE, None), written.note
        frames = read_inputs(spark, world.lake, input_states(world.lake, wanted), run.proof_of(wanted))
        stored = world.lake.opened(world.lake.path(wanted.name)).to_pyarrow_table()
        assert made.rows_of(stored) == made.rows_of(spark.sql(wanted.query, **frames).toArrow())

    for hour in range(20):
        refresh(hour)
    shrunk = 0
    for part, groups in state_groups(wanted).items():
        path = world.lake.aggregate_state_path(wanted.name, part)
        before = world.lake.opened(path).to_pyarrow_table()
        maintain.maintain_table(world.lake, path, (), maintain.Retention(hours=0), groups=groups)
        after = world.lake.opened(path).to_pyarrow_table()
        shrunk += len(after) < len(before)
        totals = [rows.group_by([*groups]).aggregate([]).num_rows for rows in (before, after)]
        assert after.schema == before.schema and len(after) in (totals[1], len(before))
    assert shrunk
    for hour in range(20, 22):
        refresh(hour)


def test_a_column_by_which_files_are_skipped_may_be_replaced(spark: Any, world: made.World) -> None:
    """Delta has its name in a property of the table."""
    run = refresh_run(world.lake, spark, tables=made.GRAPH)
    for key in ("item_id", "order_id", "item_id"):
        wanted = table(f"SELECT {key}, SUM(n) AS n FROM {{bronze_items}} GROUP BY {key}", ByKey(key), key)
        assert refresh_full(run, wanted).warning is None
        delta = world.lake.opened(world.lake.path(wanted.name))
        assert sorted(delta.to_pyarrow_table().column_names) == sorted([key, "n"])
        assert delta.metadata().configuration.get(BOUNDED) in (key, None)
        assert state_of(delta).actions[f"max.{key}"], "its files can still be skipped"


@pytest.mark.parametrize("key", ["order_id + 1", "CAST(NULL AS BIGINT)"])
@pytest.mark.parametrize(
    "limits",
    [{}, {"MAX_LISTED_KEYS": 0}, {"MAX_LOCAL_TABLE_BYTES": 0}, {"MAX_LISTED_KEYS": 0, "MAX_LOCAL_TABLE_BYTES": 0}],
    ids=["few keys", "many keys", "few keys by Spark", "many keys by Spark"],
)
def test_rows_of_another_key_recompute_the_table_and_warn(
    spark: Any, world: made.World, limits: dict[str, int], key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = table(f"SELECT {key} AS order_id, n FROM {{bronze_items}}", ByKey("order_id"))
    honest = refresh_run(world.lake, spark, tables=made.GRAPH)
    proof = replace(honest.proof_of(replace(wanted, method=None)), restricted={"bronze_items": "order_id"})
    monkeypatch.setattr("tests.refresh_run.proven_before", lambda _: proof)
    for name, most in limits.items():
        monkeypatch.setattr(delta_writes, name, most)

    def change() -> None:
        world.write(made.ITEMS, {1: world.row(made.ITEMS, 1) | {"order_id": 3}})

    written = refreshed(spark, world, wanted, change)
    assert written.strategy == "full"
    assert written.warning is not None and "a row with order_id = " in written.warning


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "queries"), [(SEED, QUERIES or 10), pytest.param(SEED + 1, QUERIES or 20, marks=pytest.mark.long)]
)
def test_random_queries_are_recomputed_or_give_their_rows_after_random_hours(
    spark: Any, seed: int, queries: int
) -> None:
    examples = made.usable(spark, made.spark_examples(spark), random.Random(seed), 20)
    found = made.run(spark, seed, queries=queries, hours=2, examples=examples)
    assert found.wrong == []
    print(found.coverage())
    assert found.seen["compared"] > queries / 2, found.seen
    assert not found.in_full, "a derived method that does not run"
    assert found.seen["derived ByKey"] and found.seen["derived Additive"], found.seen
