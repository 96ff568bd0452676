"""Upkeep of a lake that nobody used for weeks removes nothing that a kept release is read from."""

import os
import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from medallion.errors import MedallionError
from medallion.ingest.unpublished import read_unpublished
from medallion.inspect.query import open_release
from medallion.ops import event_log, releases
from medallion.pipeline import maintain as maintain_module
from medallion.pipeline.maintain import Retention, maintain
from medallion.pipeline.run import Run
from medallion.spark.configuration import TABLE_PROPERTIES
from medallion.storage.fence import LeaseLost
from medallion.storage.lake import Lake
from medallion.storage.log_cleanup import LOG_CLEANUP, clean_log
from tests.unit.small_lake import H0, H1, H2, H3, TABLES, Shop

FORTY_DAYS = 40 * 86_400
NEWEST_TWO = Retention(hours=0)  # as forty days later


def age(shop: Shop, seconds: int = FORTY_DAYS) -> None:
    """Have every file of the lake be that much older."""
    for file in Path(shop.lake.root).rglob("*"):
        written = file.stat().st_mtime - seconds
        os.utime(file, (written, written))


def upkeep(shop: Shop, keep: Retention = NEWEST_TWO) -> None:
    maintain(Run(shop.settings, None, "upkeep"), shop.driver(), keep)


def readable(shop: Shop) -> list[dict[str, int]]:
    """The row counts of every kept release, each read through its files."""
    found = []
    for release in releases.read_all(shop.lake):
        with open_release(shop.lake, release) as connection:
            counts = {t: connection.execute(f"SELECT COUNT(*) FROM {t}").fetchall()[0][0] for t in release.versions}
        assert counts == dict(release.row_counts)
        found.append(counts)
    return found


def refresh(shop: Shop, *hours: str) -> None:
    for hour in hours:
        shop.put(hour, {int(hour[-2:]): hour})
        shop.refresh(hour)


def log_entries(lake: Lake, table: str) -> list[str]:
    return sorted(file.name for file in Path(lake.path(table), "_delta_log").glob("0*.json"))


@pytest.mark.slow
def test_every_kept_release_is_read_after_forty_idle_days_and_upkeep(shop: Shop) -> None:
    refresh(shop, H0, H1)
    upkeep(shop, Retention())
    refresh(shop, H2)
    before = readable(shop)[-2:]
    age(shop)
    for _ in range(2):
        upkeep(shop)
        assert readable(shop) == before
        age(shop)
    refresh(shop, H3)
    assert readable(shop)[:-1] == before
    upkeep(shop)
    assert readable(shop)[-1]["gold_orders"] == 4


def test_log_entries_that_nothing_needs_are_removed_once_they_are_old(shop: Shop) -> None:
    refresh(shop, H0, H1)
    upkeep(shop)
    refresh(shop, H2, H3)
    upkeep(shop)
    upkeep(shop)
    assert log_entries(shop.lake, "gold_orders")[0] == f"{0:020}.json", "they are young"
    age(shop)
    upkeep(shop)
    oldest = releases.read_all(shop.lake)[0].versions["gold_orders"]
    first = int(log_entries(shop.lake, "gold_orders")[0][:20])
    assert 0 < first <= oldest
    assert len(readable(shop)) == 2


def test_a_log_without_a_checkpoint_up_to_the_named_version_stays_whole(tmp_path: Path) -> None:
    path = str(tmp_path / "x")
    for x in range(6):
        write_deltalake(path, pa.table({"x": [x]}), mode="append")
    DeltaTable(path).create_checkpoint()
    assert clean_log(tmp_path / "x", {3, 5}, time.time() + 60) == 0
    assert clean_log(tmp_path / "x", {5}, time.time() - 60) == 0
    assert clean_log(tmp_path / "x", {5}, time.time() + 60) == 5
    assert DeltaTable(path).version() == 5


def test_tables_are_made_without_deltas_own_clean_up() -> None:
    assert TABLE_PROPERTIES[LOG_CLEANUP] == "false"


# -- one table's failure


def test_a_table_that_fails_does_not_stop_the_upkeep_of_the_others(shop: Shop) -> None:
    refresh(shop, H0)
    newest = Path(shop.lake.path("bronze_items"), "_delta_log", f"{shop.lake.version('bronze_items'):020}.json")
    newest.write_text("{broken")
    with pytest.raises(MedallionError, match=r"upkeep of bronze_items failed, of everything else it is done; .*bronze"):
        upkeep(shop)
    rows = [row for row in event_log.read(shop.lake, run_id="upkeep", event_type="maintain") if row.table_name]
    statuses = {row.table_name: row.status for row in rows}
    assert statuses.pop("bronze_items") == "failed"
    assert statuses.keys() >= TABLES.tables.keys() - {"bronze_items"} and set(statuses.values()) == {"succeeded"}
    assert DeltaTable(shop.lake.path("gold_orders")).version() >= 0
    assert list(Path(shop.lake.path("gold_orders"), "_delta_log").glob("*.checkpoint.parquet"))


def test_upkeep_stops_at_once_when_another_writer_has_taken_over(shop: Shop) -> None:
    refresh(shop, H0)
    called: list[Any] = []

    def lost(*details: Any) -> None:
        called.append(details)
        raise LeaseLost("another machine writes")

    with patch.object(maintain_module, "maintain_table", lost), pytest.raises(LeaseLost):
        upkeep(shop)
    assert len(called) == 1


# -- tables that were set aside


def test_a_table_that_was_set_aside_goes_once_it_is_old_and_no_release_names_it(shop: Shop) -> None:
    refresh(shop, H0, H1)
    aside = Path(str(shop.lake.move_damaged_table("gold_orders")))
    old = aside.rename(aside.with_name("gold_orders-20200101T000000000000"))
    shop.step("refresh", H1, "gold")
    upkeep(shop)
    assert old.exists() and len(readable(shop)) == 2, "releases are read from it"
    refresh(shop, H2, H3)
    upkeep(shop)
    assert not old.exists() and len(readable(shop)) == 2


def test_a_property_set_by_upkeep_is_no_change_of_rows(shop: Shop) -> None:
    refresh(shop, H0)
    before = shop.lake.version("bronze_orders")
    upkeep(shop)
    newest = shop.lake.version("bronze_orders") or 0
    assert newest > (before or 0) and shop.lake.same_rows("bronze_orders", before, newest)
    assert DeltaTable(shop.lake.path("bronze_orders")).metadata().configuration[LOG_CLEANUP] == "false"
    upkeep(shop)
    assert shop.lake.version("bronze_orders") == newest


def test_an_hour_rolled_back_twice_stays_published_after_upkeep(shop: Shop) -> None:
    refresh(shop, H0, H1)
    shop.roll_back(2)
    shop.roll_back(1)
    upkeep(shop)
    assert [release.hour for release in releases.read_all(shop.lake)] == [H0, None]
    assert (shop.applied, read_unpublished(shop.lake, shop.tables, H1)) == (H1, None)
    refresh(shop, H2)
    assert shop.published() == {0: H0, 1: H1, 2: H2}


def test_a_restatement_leaves_old_log_entries_to_upkeep_as_before(shop: Shop) -> None:
    refresh(shop, H0, H1, H2)  # by a table from before commits did so
    upkeep(shop, Retention(hours=24))
    shop.restate(H1)
    refresh(shop, H3)
    for table in ("bronze_orders", "bronze_items"):
        assert shop.lake.opened(shop.lake.path(table)).metadata().configuration[LOG_CLEANUP] == "false"
    assert len(readable(shop)) == 6
