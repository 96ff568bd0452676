"""A table whose definition changed is rebuilt at the published hour, and the lake says so until then."""

from dataclasses import replace
from functools import partial

import pytest

from medallion.cli.sheets import status_sheet, tables_sheet
from medallion.errors import CheckFailed, HourNotAvailable, MedallionError, UsageError
from medallion.inspect.status import lake_status
from medallion.model.table import Table
from medallion.ops import event_log, releases
from medallion.pipeline import operations
from medallion.pipeline.reprocess import reprocess
from medallion.pipeline.run import Outcome, Run
from medallion.refresh.definitions import CHANGED, find_tables_to_rebuild
from medallion.refresh.refresh_run import RefreshRun, Written
from tests.shop import graph
from tests.unit import small_lake
from tests.unit.small_lake import H0, H1, Shop


def edited(shop: Shop, name: str = "silver_orders") -> Shop:
    """The same shop with another query of a table."""
    table = shop.tables[name]
    assert isinstance(table, Table)
    query = f"{table.query} WHERE id > 0"
    return replace(shop, tables=graph({**shop.tables.tables, name: replace(table, query=query)}))


def rebuild(shop: Shop, select: str = "", said: list[str] | None = None) -> Outcome:
    return reprocess(Run(shop.settings, None, "reprocess", select=select), shop.driver(said))


@pytest.fixture
def published(shop: Shop) -> Shop:
    shop.put(H0, {1: "a"})
    shop.refresh(H0)
    return shop


def test_edited_table_and_what_reads_it_are_published_as_a_new_release_of_the_hour(published: Shop) -> None:
    before = releases.require_release(published.lake, None)
    assert rebuild(published).status == "skipped"
    said: list[str] = []
    assert rebuild(edited(published), said=said).status == "succeeded"
    after = releases.require_release(published.lake, None)
    assert (after.hour, after.release_id) == (H0, before.release_id + 1)
    changed = {name for name, version in after.versions.items() if before.versions[name] != version}
    assert changed == {"silver_orders", "gold_orders"}
    assert any(f"rebuilding silver_orders and what reads it at hour {H0}: {CHANGED}" in line for line in said)
    assert find_tables_to_rebuild(published.lake, edited(published).tables, None) == {}


def test_check_that_fails_after_an_edit_names_the_query_before_any_change_file(
    published: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(small_lake.STRATEGIES, "full", partial(small_lake.copied, rows_kept=0))
    with pytest.raises(CheckFailed) as failed:
        rebuild(edited(published))
    assert "the query of silver_orders changed since release 2" in str(failed.value)


def test_named_table_is_rebuilt_though_it_was_not_edited(published: Shop) -> None:
    before = releases.require_release(published.lake, None)
    rebuild(published, "gold_orders")
    after = releases.require_release(published.lake, None)
    assert after.versions["gold_orders"] > before.versions["gold_orders"]
    assert after.versions["silver_orders"] == before.versions["silver_orders"]


def test_table_that_was_never_built_is_built_at_the_published_hour(published: Shop) -> None:
    new = Table(keys=("id",), query="SELECT * FROM {silver_orders}", name="gold_new", layer="gold", doc="A copy.")
    rebuild(replace(published, tables=graph({**published.tables.tables, new.name: new})))
    release = releases.require_release(published.lake, None)
    assert release.hour == H0 and "gold_new" in release.versions


def test_hour_that_readers_do_not_have_is_published_first(published: Shop) -> None:
    published.put(H1, {2: "b"})
    published.step("land", H1)
    published.step("apply", H1)
    with pytest.raises(UsageError, match=f"Bronze is at hour {H1}.*medallion refresh"):
        rebuild(edited(published))


@pytest.mark.parametrize("hour", [H0, None])
def test_plain_refresh_rebuilds_where_no_hour_is_left_that_would(published: Shop, hour: str | None) -> None:
    number = releases.require_release(published.lake, None).release_id
    assert edited(published).refresh(hour).status == "succeeded"
    release = releases.require_release(published.lake, None)
    assert (release.hour, release.release_id) == (H0, number + 1)
    if hour is None:
        with pytest.raises(HourNotAvailable):
            edited(published).refresh(hour)
    else:
        assert edited(published).refresh(hour).status == "skipped"


def test_refresh_of_selected_tables_of_the_published_hour_leaves_other_edited_ones(published: Shop) -> None:
    shop = edited(edited(published, "gold_orders"))
    run = Run(shop.settings, H0, "refresh", select="gold_orders")
    operations.refresh_hour(run, shop.driver())
    assert find_tables_to_rebuild(shop.lake, shop.tables, None) == {"silver_orders": CHANGED}


def test_step_of_the_published_hour_says_that_a_definition_changed(published: Shop) -> None:
    message = edited(published).step("land", H0).message
    assert f"nothing to do; {CHANGED}: silver_orders: run medallion reprocess" in message
    assert CHANGED not in published.step("land", H0).message


def test_status_and_tables_name_what_was_edited(published: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("medallion.inspect.status.tables_of", lambda *_: published.tables)
    assert not any(CHANGED in line for line in status_sheet(lake_status(published.settings)).title)
    monkeypatch.setattr("medallion.inspect.status.tables_of", lambda *_: edited(published).tables)
    status = lake_status(published.settings)
    assert any(f"{CHANGED}: silver_orders" in line for line in status_sheet(status).title)
    assert [row[0] for row in tables_sheet(status).rows if any(CHANGED in str(value) for value in row)] == [
        "silver_orders"
    ]
    assert status.problems == lake_status(published.settings).problems


def test_failed_table_stops_what_reads_it_alone_and_is_retried_with_that(
    published: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def copy_of(name: str, source: str) -> Table:
        return Table(keys=("id",), query=f"SELECT * FROM {{{source}}}", name=name, layer="gold", doc="A copy.")

    more = {t.name: t for t in (copy_of("gold_new", "silver_orders"), copy_of("gold_reader", "gold_orders"))}
    shop = replace(published, tables=graph({**published.tables.tables, **more}))
    computed: list[str] = []

    def fails(run: RefreshRun, table: Table) -> Written:
        computed.append(table.name)
        if table.name == "gold_orders" and run.run_id != "retry":
            raise MedallionError("gold_orders could not be computed: 'x' is no number")
        return small_lake.copied(run, table)

    monkeypatch.setitem(small_lake.STRATEGIES, "full", fails)
    shop.put(H1, {2: "b"})
    with pytest.raises(MedallionError, match=r"is no number; 1 other gold tables are refreshed, 1 that follow from it"):
        shop.refresh(H1)
    assert sorted(computed) == ["gold_new", "gold_orders", "silver_orders"]
    waiting = [row for row in event_log.read(shop.lake) if row.table_name == "gold_reader"]
    assert [(row.status, row.details["note"]) for row in waiting] == [
        ("skipped", "waits: gold_orders, which it reads, failed")
    ]

    computed.clear()
    operations.refresh_hour(Run(shop.settings, None, "retry", select="gold_orders+"), shop.driver())
    assert computed == ["gold_orders", "gold_reader"]
    assert releases.require_release(shop.lake, None).hour == H1
