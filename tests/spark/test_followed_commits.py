"""Aggregate state follows the commits that its table's proof is about, and is rebuilt where there are others."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from medallion.ingest.schema_evolution import arrow_schema
from medallion.model.methods import Additive, ByKey
from medallion.model.registry import Registry
from medallion.model.table import Feed, Table
from medallion.refresh.full import refresh_full
from medallion.refresh.incremental import refresh_incremental
from medallion.refresh.refresh_run import Written
from medallion.spark.configuration import TABLE_PROPERTIES
from medallion.storage import delta_writes
from medallion.storage.lake import Lake
from medallion.storage.merge_on_read import FileLayout
from medallion.storage.replaced_rows import bronze_metadata
from tests.refresh_run import refresh_run
from tests.shop import build

ITEMS = Feed(
    keys=("item_id",),
    schema="item_id BIGINT NOT NULL, order_id BIGINT, product_id BIGINT",
    name="bronze_items",
    layer="bronze",
    doc="One row per item.",
)
LINES = Table(
    keys=("item_id",),
    query="SELECT item_id, order_id, product_id FROM {bronze_items}",
    method=ByKey("order_id"),
    name="silver_lines",
    doc="One row per item.",
)
ORDERS = Table(
    keys=("product_id",),
    query="""
        WITH products AS (
            SELECT product_id, COUNT(DISTINCT order_id) AS orders FROM {silver_lines} GROUP BY product_id
        )
        SELECT product_id, orders FROM products
    """,
    method=Additive(("products",)),
    name="gold_orders",
    layer="gold",
    doc="One row per product.",
)
BY_ORDER = build([ITEMS, LINES, ORDERS])
BY_ITEM = build([ITEMS, replace(LINES, method=ByKey("item_id")), replace(ORDERS, method=None)])


class Shop:
    """One product and its orders, in a lake of three tables."""

    def __init__(self, lake: Lake, spark: Any) -> None:
        self.lake, self._spark, self._hour = lake, spark, 0
        DeltaTable.create(lake.path(ITEMS.name), arrow_schema(ITEMS.columns), configuration=TABLE_PROPERTIES)

    def put(self, **order_by_item: int | None) -> None:
        """Write one commit of Bronze: the order of each item, None to delete it."""
        delta, schema = self.lake.opened(self.lake.path(ITEMS.name)), arrow_schema(ITEMS.columns)
        orders = {int(item.removeprefix("item_")): order for item, order in order_by_item.items()}
        rows = [{"item_id": item, "order_id": order, "product_id": 1} for item, order in orders.items() if order]
        commit = delta_writes.properties(bronze_metadata(ITEMS.keys))
        layout, data = FileLayout(self.lake.folder(ITEMS.name), 1 << 20), pa.Table.from_pylist(rows, schema)
        delta_writes.replace_rows(delta, data, "item_id", sorted(orders), commit, layout)

    def refresh(
        self, tables: Registry, *names: str, refresh: Callable[..., Written] = refresh_incremental
    ) -> dict[str, Written]:
        """Refresh these tables as they are declared in ``tables``."""
        self._hour += 1
        run = refresh_run(self.lake, self._spark, run_id=f"run {self._hour}", tables=tables)
        return {name: refresh(run, tables[name]) for name in names}

    @property
    def orders(self) -> int:
        """How many orders the product has, as Gold says."""
        (row,) = self.lake.opened(self.lake.path("gold_orders")).to_pyarrow_table().to_pylist()
        return int(row["orders"])


@pytest.fixture
def shop(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    monkeypatch.setattr("medallion.refresh.additive.MIN_STATE_INPUT_BYTES", 0)
    shop = Shop(Lake(str(tmp_path / "lake")), spark)
    shop.put(item_1=1, item_2=1, item_3=2, item_4=3)
    shop.refresh(BY_ORDER, "silver_lines", "gold_orders", refresh=refresh_full)
    assert shop.orders == 3
    return shop


def test_commits_by_the_declared_key_are_followed(shop: Shop) -> None:
    shop.put(item_2=None)
    written = shop.refresh(BY_ORDER, "silver_lines", "gold_orders")["gold_orders"]
    assert (bool(written.state_work), shop.orders) == (False, 3), "order 1 still has item 1"
    shop.put(item_1=None)
    written = shop.refresh(BY_ORDER, "silver_lines", "gold_orders")["gold_orders"]
    assert (bool(written.state_work), shop.orders) == (False, 2)


def test_state_is_rebuilt_when_its_input_was_refreshed_by_another_key_meanwhile(shop: Shop) -> None:
    shop.put(item_2=None)
    shop.refresh(BY_ITEM, "silver_lines")  # of order 1 this commit brings item 2 alone
    shop.put(item_3=None)
    written = shop.refresh(BY_ORDER, "silver_lines", "gold_orders")["gold_orders"]
    assert shop.orders == 2
    assert "silver_lines replaced rows by item_id, not by order_id" in str(written.note)
    shop.put(item_4=None)
    written = shop.refresh(BY_ORDER, "silver_lines", "gold_orders")["gold_orders"]
    assert (bool(written.state_work), shop.orders) == (False, 1)


def test_state_is_rebuilt_when_its_input_had_another_query_meanwhile(shop: Shop) -> None:
    other = build([ITEMS, replace(LINES, query=f"{LINES.query} WHERE item_id > 2"), ORDERS])
    shop.put(item_5=5)
    shop.refresh(other, "silver_lines")
    shop.put(item_2=None)
    written = shop.refresh(BY_ORDER, "silver_lines", "gold_orders")["gold_orders"]
    assert shop.orders == 4
    assert "silver_lines was computed by another query" in str(written.note)


def test_state_is_rebuilt_when_a_commit_does_not_say_what_it_replaced(shop: Shop) -> None:
    delta = shop.lake.opened(shop.lake.path("silver_lines"))
    state, origin = delta.version(), delta.history(1)[0]["userMetadata"]
    delta.delete("item_id = 2")  # by somebody else
    shop.put(item_4=None)
    delta = shop.lake.opened(shop.lake.path("silver_lines"))
    delta_writes.append_rows(delta, None, delta_writes.properties(origin))
    assert delta.version() == state + 2
    written = shop.refresh(BY_ORDER, "silver_lines", "gold_orders")["gold_orders"]
    assert shop.orders == 2
    assert "does not say which rows it replaced" in str(written.note)


def test_state_of_an_older_version_of_the_method_is_rebuilt(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("medallion.storage.replaced_rows.METHOD_VERSION", 99)
    shop.put(item_2=None)
    written = shop.refresh(BY_ORDER, "gold_orders")["gold_orders"]
    assert not bool(written.state_work), "nothing changed in what it reads"
    written = shop.refresh(BY_ORDER, "silver_lines", "gold_orders")["gold_orders"]
    assert "another version of its refresh method" in str(written.note)
    assert shop.orders == 3
