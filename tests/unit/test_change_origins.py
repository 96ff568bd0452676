"""What a check found is traced to the lines of the hour's change files that changed it."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from medallion.ingest.change_origins import ChangeOrigins
from medallion.ingest.landing import ToLand, copy_change_files
from medallion.ingest.source import FolderSource
from medallion.model.table import Feed, Table
from tests.shop import build
from tests.unit import small_lake
from tests.unit.small_lake import H0, Shop

ORDERS, ITEMS = f"cdc/orders/{H0}.json", f"cdc/items/{H0}.json"


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    """A shop of orders and of items, which have an order; both have a file."""
    columns = "item_id BIGINT NOT NULL, id BIGINT, name STRING"
    tables = build(
        [
            Feed(keys=("id",), schema=small_lake.COLUMNS, name="bronze_orders", layer="bronze", doc="One row per id."),
            Feed(keys=("item_id",), schema=columns, name="bronze_items", layer="bronze", doc="One row per item_id."),
            Table(
                keys=("id",),
                query="SELECT o.id, i.name FROM {bronze_orders} AS o INNER JOIN {bronze_items} AS i ON i.id = o.id",
                name="silver_orders",
                layer="silver",
                doc="Orders with items.",
            ),
        ]
    )
    made = Shop(tmp_path, tables)
    made.put(H0, '{"insert": {"id": 1, "name": "a"}}\n{"delete": {"id": 7}}\n{"delete": {"id": 8}}\n')
    made.put(H0, '{"insert": {"item_id": 70, "id": 7, "name": "x"}}\n', "items")
    names = {topic: (f"cdc/{topic}/{H0}.json",) for topic in ("orders", "items")}
    copy_change_files(FolderSource(made.settings.source), made.lake, H0, ToLand(names))
    return made


@pytest.mark.parametrize(
    ("tables", "record", "origins"),
    [
        (["bronze_orders"], {"id": "7", "name": None}, (f"{ORDERS}: line 2 deletes id 7",)),
        (
            ["bronze_items", "bronze_orders"],
            {"id": "7", "rows_with_it": "1"},
            (f"{ITEMS}: line 1 inserts or updates id 7", f"{ORDERS}: line 2 deletes id 7"),
        ),
        (["silver_orders"], {"id": "1"}, (f"{ORDERS}: line 1 inserts or updates id 1",)),
        (
            ["silver_orders"],
            {"id": "5"},
            (
                f"{ORDERS}: lines 2 to 3 delete rows, line 1 inserts or updates a row",
                f"{ITEMS}: line 1 inserts or updates a row",
            ),
        ),
    ],
    ids=["its own file", "a lookup", "a table computed from it", "no line has the record"],
)
def test_failed_records_are_traced_to_lines_of_change_files(
    shop: Shop, tables: list[str], record: Mapping[str, str | None], origins: tuple[str, ...]
) -> None:
    assert ChangeOrigins(shop.lake, H0, shop.tables).describe(tables, [record]) == origins


def test_an_hour_whose_file_is_gone_has_no_origins_and_raises_nothing(shop: Shop) -> None:
    (shop.lake.landing / "orders" / f"{H0}.json").unlink()
    assert ChangeOrigins(shop.lake, H0, shop.tables).describe(["bronze_orders"], []) == ()
