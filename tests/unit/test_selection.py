"""Chosen tables are refreshed alone, and nothing is published until all of them follow from the same Bronze."""

from dataclasses import replace

import pytest

from medallion.errors import UsageError
from medallion.model.selection import select_tables
from medallion.ops import event_log, releases
from medallion.pipeline import operations
from medallion.pipeline.run import Outcome, Run
from tests.shop import registry
from tests.unit.small_lake import H0, H1, TABLES, Shop


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("gold_orders", {"gold_orders"}),
        ("+gold_orders", {"bronze_orders", "silver_orders", "gold_orders"}),
        ("bronze_orders+", {"bronze_orders", "silver_orders", "gold_orders"}),
        ("silver_orders, gold_orders", {"silver_orders", "gold_orders"}),
        ("silver_orders bronze_items,", {"silver_orders", "bronze_items"}),
        ("+silver_orders+", {"bronze_orders", "silver_orders", "gold_orders"}),
    ],
)
def test_selectors_name_tables_with_what_they_read_and_what_reads_them(text: str, names: set[str]) -> None:
    assert select_tables(TABLES, text) == names


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("tag:people", {"silver_orders"}),
        ("tag:people+", {"silver_orders", "gold_orders"}),
        ("+tag:people, bronze_items", {"bronze_orders", "bronze_items", "silver_orders"}),
    ],
)
def test_tag_selects_the_tables_that_have_it(text: str, names: set[str]) -> None:
    tagged = {**TABLES.tables, "silver_orders": replace(TABLES["silver_orders"], tags=("orders", "people"))}
    tables = replace(TABLES, tables=tagged)
    assert select_tables(tables, text) == names
    with pytest.raises(UsageError, match="no table has the tag 'persons': there are orders, people"):
        select_tables(tables, "tag:persons")


def test_an_unknown_table_is_refused_with_names_like_it() -> None:
    with pytest.raises(UsageError, match="no table is called 'gold_inventry_risk': did you mean gold_inventory_risk"):
        select_tables(registry(), "gold_inventry_risk+")
    with pytest.raises(UsageError, match="nothing is selected"):
        select_tables(registry(), " , ")


def refresh(shop: Shop, select: str, hour: str | None, said: list[str] | None = None) -> Outcome:
    return operations.refresh_hour(Run(shop.settings, hour, "selected", select=select), shop.driver(said))


def newest_hour(shop: Shop) -> str | None:
    return releases.require_release(shop.lake, None).hour


def test_nothing_is_published_while_a_table_is_left_behind_and_the_next_run_catches_up(shop: Shop) -> None:
    shop.put(H0, {1: "a"})
    shop.refresh()
    shop.put(H1, {1: "b"})
    said: list[str] = []
    outcome = refresh(shop, "silver_orders", H1, said)
    assert outcome.status == "skipped"
    assert "publish waits: gold_orders is left behind by the selection silver_orders" in outcome.message
    assert "run medallion refresh without --select" in outcome.message
    assert "refreshed 1 of 1 silver tables" in " ".join(said) or "no gold table is selected" in said
    assert (newest_hour(shop), shop.published(), shop.rows("silver_orders")) == (H0, {1: "a"}, {1: "b"})
    assert shop.refresh().status == "succeeded"
    assert (newest_hour(shop), shop.published()) == (H1, {1: "b"})


def test_layers_below_those_left_behind_are_checked_and_others_wait(shop: Shop) -> None:
    shop.put(H0, {1: "a"})
    refresh(shop, "silver_orders", H0)
    checks = event_log.read(shop.lake, run_id="selected", event_type="check")
    assert {row.layer: row.status for row in checks if row.table_name is None} == {
        "bronze": "succeeded",
        "silver": "succeeded",
        "gold": "skipped",
    }


def test_a_selection_that_leaves_nothing_behind_is_published(shop: Shop) -> None:
    shop.put(H0, {1: "a"})
    assert refresh(shop, "bronze_orders+", H0).status == "succeeded"
    assert (newest_hour(shop), shop.published()) == (H0, {1: "a"})


def test_tables_left_behind_over_several_hours_are_caught_up_at_once(shop: Shop) -> None:
    shop.put(H0, {1: "a"})
    refresh(shop, "gold_orders", H0)
    shop.put(H1, {2: "b"})
    runs = [Run(shop.settings, H1, "selected", select="gold_orders")]
    operations.refresh_hours(runs, shop.driver())
    assert (shop.applied, newest_hour(shop)) == (H1, None)
    shop.refresh()
    assert (newest_hour(shop), shop.published()) == (H1, {1: "a", 2: "b"})


def test_a_wrong_name_changes_nothing(shop: Shop) -> None:
    shop.put(H0, {1: "a"})
    with pytest.raises(UsageError, match="did you mean gold_orders"):
        refresh(shop, "gold_order", H0)
    assert shop.applied is None


def test_tables_without_an_hour_are_computed_again_at_the_published_hour_with_what_reads_them(shop: Shop) -> None:
    shop.put(H0, {1: "a"})
    shop.refresh()
    shop.put(H1, {1: "b"})
    said: list[str] = []
    before = {name: shop.lake.version(name) for name in ("bronze_orders", "silver_orders", "gold_orders")}
    assert refresh(shop, "silver_orders", None, said).status == "succeeded"
    assert (shop.applied, newest_hour(shop), shop.published()) == (H0, H0, {1: "a"})
    assert f"rebuilding silver_orders and what reads it at hour {H0}" in " ".join(said)
    written = {name for name, version in before.items() if shop.lake.version(name) != version}
    assert written == {"silver_orders", "gold_orders"}
    assert releases.require_release(shop.lake, None).versions["silver_orders"] == shop.lake.version("silver_orders")


def test_tables_without_an_hour_are_of_the_hour_that_is_to_be_finished_where_there_is_one(shop: Shop) -> None:
    shop.put(H0, {1: "a"})
    shop.refresh()
    shop.put(H1, {1: "b"})
    refresh(shop, "silver_orders", H1)
    assert refresh(shop, "gold_orders", None).status == "succeeded"
    assert (shop.applied, newest_hour(shop), shop.published()) == (H1, H1, {1: "b"})
