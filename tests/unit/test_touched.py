"""The key values that a change touches are found without Spark where no changed row matters."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from medallion.model.methods import ByKey, Via
from medallion.model.needs import Needs, Read
from medallion.refresh.touched import Trace, count_keys
from medallion.storage import delta_writes
from medallion.storage.change_feed import changes
from medallion.storage.lake import Lake, TableState, state_of
from tests.shop import registry

HERE, THERE = "here", "there"


@pytest.mark.parametrize("most_local_bytes", [-1, 1 << 30], ids=["followed by Spark", "followed here"])
def test_a_path_ends_where_no_changed_row_matters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most_local_bytes: int
) -> None:
    """Spark Connect refuses a table without rows whose column has no type."""
    monkeypatch.setattr(delta_writes, "MAX_LOCAL_TABLE_BYTES", most_local_bytes)
    write_deltalake(str(tmp_path / "orders"), pa.table({"id": [1, 2], "by": [7, 8]}))
    customers = str(tmp_path / "customers")
    feed = {"delta.enableChangeDataFeed": "true"}
    write_deltalake(customers, pa.table({"customer": [7, 8], "place": [HERE, THERE]}), configuration=feed)
    write_deltalake(customers, pa.table({"customer": [9], "place": [THERE]}), mode="append")
    by = ByKey("id", {"customers": Via("customer", "orders", "by")}, {"orders": "id"})
    needs = Needs((Read("customers", f"\"place\" = '{HERE}'"), Read("orders")))
    trace = Trace(
        spark=cast(Any, None),  # not asked
        lake=cast(Lake, SimpleNamespace(folder=tmp_path.joinpath, path=lambda name: str(tmp_path / name))),
        by=by,
        restricted=by.columns,
        reads={"customers": ("customer", "place"), "orders": ("id", "by")},
        inputs={name: state_of(DeltaTable(str(tmp_path / name))) for name in ("customers", "orders")},
        changes={"customers": changes(tmp_path / "customers", 0, 1)},
        needs=needs,
    )
    assert trace.values() == []


def test_how_many_keys_may_change_goes_by_an_input_with_one_row_for_each() -> None:
    """With many lines an order, a fifth of the lines would be half of the orders."""
    inputs = {
        "bronze_orders": cast(TableState, SimpleNamespace(rows=1_000_000)),
        "bronze_order_items": cast(TableState, SimpleNamespace(rows=3_000_000)),
        "bronze_products": cast(TableState, SimpleNamespace(rows=100)),
    }
    restricted = {"bronze_orders": "order_id", "bronze_order_items": "order_id"}
    assert count_keys(registry(), restricted, inputs) == 1_000_000
    of_lines = {"bronze_order_items": "order_id"}
    assert count_keys(registry(), of_lines, inputs) == 3_000_000, "without one, the largest stands for them"
    assert count_keys(registry(), of_lines, inputs, [900_000]) == 900_000, "the table itself has a row for each"
    nothing = cast(Any, None)

    def most(keys: int) -> int:
        return Trace(nothing, nothing, ByKey("order_id"), restricted, {}, inputs, {}, key_count=keys).most

    assert [most(keys) for keys in (1_000, 1_000_000, 10_000_000)] == [20_000, 200_000, 500_000]
