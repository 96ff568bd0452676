"""Which tables a lake has is a fact of the lake: another shell's settings change nothing."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from medallion.errors import MedallionError, UsageError
from medallion.inspect.status import lake_status
from medallion.ops import lake_tables, releases
from medallion.ops.lake_tables import TableRecord, read_record, tables_of, write_record
from medallion.pipeline import table_changes
from medallion.pipeline.driver import Driver
from medallion.pipeline.run import Run
from medallion.pipeline.steps import run_step
from medallion.settings import Settings
from medallion.storage.lake import Lake
from tests.shop import build, registry
from tests.unit import small_lake

PLAIN, EVERY = registry(extras=False), registry(extras=True)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A lake, and a shell that says nothing of extras."""
    return Settings(lake=str(tmp_path / "lake"), source=str(tmp_path / "source"), lock_wait=0)


def publish(settings: Settings, names: list[str]) -> None:
    """Publish a release of these tables, of the snapshot, as a lake has it after its load."""
    lake = Lake.of(settings)
    for feed in EVERY.feeds:
        if lake.open(lake.path(feed.name)) is None:
            write_deltalake(lake.path(feed.name), pa.table({"id": pa.array([1])}))
    releases.publish(
        lake,
        after=releases.latest(lake),
        hour=None,
        run_id="load",
        strategy="full",
        contents=releases.Contents(dict.fromkeys(names, 0)),
    )


@pytest.mark.parametrize("setting", [None, True, False])
@pytest.mark.parametrize("extras", [True, False])
def test_every_process_has_the_tables_of_the_lake_whatever_its_shell_says(
    settings: Settings, extras: bool, setting: bool | None
) -> None:
    lake, shell = Lake.of(settings), settings.replace(extras=setting)
    write_record(lake, TableRecord(extras=extras))
    wanted = set((EVERY if extras else PLAIN).tables)
    assert set(Driver(shell, report=lambda _: None).tables.tables) == wanted
    assert set(tables_of(lake, setting).tables) == wanted
    assert set(lake_tables.tables_at_parse_time(shell).tables) == wanted
    assert {row.table for row in lake_status(shell).tables} == wanted


@pytest.mark.parametrize(("setting", "extras"), [(None, False), (False, False), (True, True)])
def test_a_lake_that_is_not_loaded_gets_the_tables_that_its_shell_asks_for(
    settings: Settings, setting: bool | None, extras: bool
) -> None:
    driver = Driver(settings.replace(extras=setting), report=lambda _: None)
    assert driver.tables is registry(extras=extras)
    driver.record_tables()
    assert read_record(driver.lake) == TableRecord(extras=extras, project="shop")


def test_a_lake_of_another_project_is_refused_before_anything_is_read_or_written(settings: Settings) -> None:
    write_record(Lake.of(settings), TableRecord(project="clinic"))
    for ask in (lambda: tables_of(Lake.of(settings)), lambda: Driver(settings, report=lambda _: None)):
        with pytest.raises(UsageError, match="belongs to project clinic, but .* is project shop: name another"):
            ask()
    write_record(Lake.of(settings), TableRecord(project="shop"))
    assert tables_of(Lake.of(settings)) is PLAIN


@pytest.mark.parametrize("extras", [True, False])
def test_a_lake_without_a_record_has_the_tables_of_its_newest_release(settings: Settings, extras: bool) -> None:
    publish(settings, list((EVERY if extras else PLAIN).tables))
    driver = Driver(settings.replace(extras=not extras), report=lambda _: None)
    assert driver.tables is registry(extras=extras)
    with driver.writing(Run(driver.settings, None, "run"), "a step"):
        pass
    assert read_record(driver.lake) == TableRecord(extras=extras, project="shop")


def test_a_shell_that_disagrees_with_the_lake_is_warned_once(settings: Settings) -> None:
    write_record(Lake.of(settings), TableRecord(extras=True))
    said: list[str] = []
    Driver(settings.replace(extras=False), report=said.append)
    (warning,) = said
    assert "MEDALLION_EXTRAS=false is ignored" in warning
    assert "medallion tables --drop extras" in warning
    Driver(settings, report=said.append)  # one that says nothing agrees
    Driver(settings.replace(extras=True), report=said.append)
    assert said == [warning]


def test_a_process_that_stays_follows_the_record_from_its_next_step_on(settings: Settings) -> None:
    lake = Lake.of(settings)
    write_record(lake, TableRecord(extras=False))
    driver = Driver(settings, report=lambda _: None)
    write_record(lake, TableRecord(extras=True))
    with driver.writing(Run(settings, None, "run"), "a step"):
        assert driver.tables is EVERY


def test_dropped_extras_are_gone_from_the_lake_and_may_leave_the_release(settings: Settings) -> None:
    publish(settings, list(EVERY.tables))
    driver = Driver(settings, report=lambda _: None)
    assert lake_tables.missing_tables(driver.lake, PLAIN.tables) == sorted(set(EVERY.tables) - set(PLAIN.tables))
    message = table_changes.drop_tables(Run(settings, None, "run"), driver, "extras")
    assert "the next release will not have bronze_clickstream_events_log" in message
    assert tables_of(driver.lake) is PLAIN
    assert lake_tables.missing_tables(driver.lake, PLAIN.tables) == []
    with pytest.raises(UsageError, match="does not have the extra tables"):
        table_changes.drop_tables(Run(settings, None, "run"), driver, "extras")


def test_added_extras_are_there_and_may_not_leave_the_release_again(settings: Settings) -> None:
    publish(settings, list(EVERY.tables))
    driver = Driver(settings, report=lambda _: None)
    table_changes.drop_tables(Run(settings, None, "run"), driver, "extras")
    table_changes.add_extra_tables(Run(settings, None, "run"), driver)
    assert read_record(driver.lake) == TableRecord(extras=True, project="shop")
    assert lake_tables.missing_tables(driver.lake, PLAIN.tables)
    with pytest.raises(UsageError, match="already"):
        table_changes.add_extra_tables(Run(settings, None, "run"), driver)


def test_a_table_can_be_dropped_once_its_module_is_gone_and_not_before(settings: Settings) -> None:
    publish(settings, [*PLAIN.tables, "gold_old_report"])
    driver, run = Driver(settings, report=lambda _: None), Run(settings, None, "run")
    with pytest.raises(UsageError, match="gold_inventory_risk is still declared"):
        table_changes.drop_tables(run, driver, "gold_inventory_risk")
    with pytest.raises(UsageError, match="release 1 has no table 'gold_nothing'"):
        table_changes.drop_tables(run, driver, "gold_nothing")
    assert lake_tables.missing_tables(driver.lake, PLAIN.tables) == ["gold_old_report"]
    assert "the next release will not have gold_old_report" in table_changes.drop_tables(run, driver, "gold_old_report")
    assert lake_tables.missing_tables(driver.lake, PLAIN.tables) == []


def test_publish_refuses_a_release_that_lacks_a_table_nobody_dropped(settings: Settings) -> None:
    publish(settings, [*PLAIN.tables, "gold_old_report"])
    driver = Driver(settings, report=lambda _: None)
    with pytest.raises(MedallionError, match="gold_old_report would drop out of the release"):
        run_step("publish", Run(settings, None, "run"), driver)
    assert len(releases.read_all(driver.lake)) == 1


def test_refresh_refuses_before_it_writes_where_a_table_that_nobody_dropped_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_lake.without_spark(monkeypatch)
    shop = small_lake.load(tmp_path)
    for hour in (small_lake.H0, small_lake.H1):
        shop.put(hour, {1: hour})
    shop.refresh(small_lake.H0)
    feeds = [table for table in small_lake.TABLES if table.layer == "bronze"]
    silver = small_lake.TABLES["silver_orders"]
    without_gold = replace(shop, tables=build([*feeds, silver]))
    before = {name: shop.lake.version(name) for name in small_lake.TABLES.tables}
    ways = (without_gold.refresh, lambda: without_gold.refresh(small_lake.H1), lambda: without_gold.step("land"))
    refused = "gold_orders would drop out of the release: nothing is refreshed; declare it again, or run medallion"
    for refresh in ways:
        with pytest.raises(UsageError, match=refused):
            refresh()
    with pytest.raises(UsageError, match=f"hour {small_lake.H0} cannot be restated; declare it again"):
        without_gold.restate(small_lake.H0)
    with pytest.raises(UsageError, match="gold_orders, silver_orders would drop out.*; declare them again"):
        replace(shop, tables=build(feeds)).refresh()
    assert {name: shop.lake.version(name) for name in small_lake.TABLES.tables} == before
    assert without_gold.refresh(small_lake.H0).status == "skipped", "an hour that is published needs no table"
    write_record(shop.lake, TableRecord(dropped=("gold_orders",)))
    assert without_gold.refresh().hour == small_lake.H1


def test_tables_do_not_change_while_an_hour_is_on_its_way(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(settings, list(EVERY.tables))
    monkeypatch.setattr("medallion.pipeline.operations.ledger.applied_hour", lambda *_: "2025-11-30T00")
    with pytest.raises(UsageError, match="2025-11-30T00 is in Bronze and not published yet"):
        table_changes.drop_tables(Run(settings, None, "run"), Driver(settings, report=lambda _: None), "extras")


def test_a_step_of_a_layer_without_tables_is_skipped(settings: Settings) -> None:
    write_record(Lake.of(settings), TableRecord(extras=False))
    outcome = run_step("refresh", Run(settings, None, "run"), Driver(settings, report=lambda _: None), "platinum")
    assert (outcome.status, outcome.message) == ("skipped", "the lake has no platinum tables")


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"extras": true}'])
def test_a_damaged_record_is_named_and_nothing_is_guessed(settings: Settings, text: str) -> None:
    place = Path(settings.lake) / "ops" / "tables.json"
    place.parent.mkdir(parents=True)
    place.write_text(text)
    with pytest.raises(MedallionError, match=r"ops/tables\.json is damaged: restore it, or remove it"):
        tables_of(Lake.of(settings), True)
