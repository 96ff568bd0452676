"""A whole hour in one session: landed, applied, refreshed, checked, published; again; and after a red gate."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from medallion.errors import CheckFailed, UsageError
from medallion.ingest.decode import decode_file
from medallion.inspect.lake_difference import differing
from medallion.model.table import Table
from medallion.ops import event_log, releases
from medallion.pipeline import operations
from medallion.pipeline.driver import Driver
from medallion.pipeline.run import Run
from medallion.pipeline.steps import run_step
from medallion.project import Project
from medallion.storage.lake import Lake
from tests.shop import registry

H0, H1, H2 = "2025-11-30T00", "2025-11-30T01", "2025-11-30T02"


@pytest.fixture(scope="module")
def driver(refreshed_shop: Path, copied_shop: Callable[[Path], Driver], small_inputs_keep_state: None) -> Driver:
    """Over a shop after its first hour."""
    return copied_shop(refreshed_shop)


def rows(lake: Lake, table: str, version: int | None = None) -> list[dict[str, Any]]:
    delta = lake.open(lake.path(table), version)
    assert delta is not None
    found: list[dict[str, Any]] = delta.to_pyarrow_table().to_pylist()
    return found


def test_bronze_is_the_snapshot_with_the_hours_lines_applied_in_order(driver: Driver, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    for feed in registry().feeds:
        (key,) = feed.keys
        model = {row[key]: row for row in rows(driver.lake, feed.name, version=1)}
        landed = Path(driver.settings.source, "cdc", feed.topic, f"{H0}.json")
        if landed.exists():
            decode_file(landed, feed, H0, tmp_path / feed.name)
            for change in pq.read_table(tmp_path / feed.name).to_pylist():
                del change["_line"]
                if change.pop("_deleted"):
                    model.pop(change[key], None)
                else:
                    model[change[key]] = change
        release = releases.latest(driver.lake)
        assert release is not None
        assert {row[key]: row for row in rows(driver.lake, feed.name, release.versions[feed.name])} == model


def test_every_table_is_released_with_the_hour(driver: Driver) -> None:
    release = releases.latest(driver.lake)
    assert release is not None and release.hour == H0
    assert set(release.versions) == {table.name for table in registry()}


def test_every_step_and_table_is_one_row_of_the_event_log(driver: Driver) -> None:
    log = event_log.read(driver.lake, run_id="first")
    found = {(row.event_type, row.layer, row.table_name) for row in log}
    wanted: set[tuple[str, str | None, str | None]] = {
        ("land", "bronze", None),
        ("publish", None, None),
        ("validate", None, None),
    }
    for table in registry():
        work = "apply" if table.layer == "bronze" else "refresh"
        wanted |= {(kind, table.layer, name) for kind in (work, "check") for name in (table.name, None)}
    assert found == wanted
    assert len(log) == len(wanted), "one row each"
    assert {row.hour for row in log} == {H0}
    assert {row.strategy for row in log} == {"full"}


def test_the_layers_seconds_explain_the_whole(driver: Driver) -> None:
    log = [row for row in event_log.read(driver.lake, run_id="first") if row.table_name is None]
    whole = (max(row.event_timestamp for row in log) - min(row.started_at for row in log)).total_seconds()
    assert 0.9 * whole <= sum(row.seconds for row in log) <= whole * 1.01


def test_rows_in_the_event_log_are_the_rows_in_the_table(driver: Driver) -> None:
    for row in event_log.read(driver.lake, run_id="first", event_type="refresh"):
        if row.table_name:
            assert row.rows_out == len(rows(driver.lake, row.table_name, row.details["version"]))


def test_an_hour_that_is_published_is_skipped(driver: Driver) -> None:
    versions = {table.name: driver.lake.version(table.name) for table in registry()}
    assert operations.refresh_hour(Run(driver.settings, H0, "again"), driver).status == "skipped"
    assert versions == {table.name: driver.lake.version(table.name) for table in registry()}


def test_computing_an_hour_twice_gives_the_same_rows(driver: Driver) -> None:
    def everything() -> dict[str, list[str]]:
        return {t.name: sorted(map(str, rows(driver.lake, t.name))) for t in registry() if t.layer != "bronze"}

    before = everything()
    for layer in ("silver", "gold"):
        run_step("refresh", Run(driver.settings, H0, "twice"), driver, layer)
    assert everything() == before


def test_a_lake_that_is_loaded_is_not_loaded_over(driver: Driver) -> None:
    with pytest.raises(UsageError, match="loaded already"):
        operations.load(Run(driver.settings, None, "load"), driver)


def test_a_red_gate_stops_the_layers_above_and_the_release_stays(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    from medallion.expect import vocabulary

    broken = {"silver_customers": (vocabulary.at_least("customer_id", 10**12),)}
    monkeypatch.setattr(Project, "suite", lambda _, layer: broken if layer == "silver" else {})
    before, gold = releases.latest(driver.lake), driver.lake.version("gold_inventory_risk")
    with pytest.raises(CheckFailed, match=r"customer_id is at least 1000000000000.*nothing after it.*\.html"):
        operations.refresh_hour(Run(driver.settings, H1, "red"), driver)
    assert releases.latest(driver.lake) == before
    assert driver.lake.version("gold_inventory_risk") == gold
    failed = event_log.read(driver.lake, run_id="red", status="failed")
    assert {(row.event_type, row.layer) for row in failed} == {("check", "silver")}
    report = Path(next(row.details["report"] for row in failed if row.details.get("report")))
    assert "customer_id is at least 1000000000000" in report.read_text()
    assert json.loads(report.with_suffix(".json").read_text())["status"] == "failed"

    monkeypatch.undo()
    assert operations.refresh_hour(Run(driver.settings, H1, "mended"), driver).hour == H1
    after = releases.latest(driver.lake)
    assert after is not None and after.hour == H1


def test_an_incremental_hour_gives_the_rows_of_a_full_one_and_says_how(
    driver: Driver, spark: Any, tmp_path: Path
) -> None:
    other = Driver(driver.settings.replace(lake=str(tmp_path / "full")), report=lambda _: None)
    shutil.copytree(driver.lake.root, other.lake.root)
    other.use(spark)
    operations.refresh_hour(Run(other.settings, H2, "in full"), other)
    operations.refresh_hour(Run(driver.settings, H2, "in part", strategy="incremental"), driver)
    assert differing(other.lake, driver.lake, registry()) == []
    release = releases.latest(driver.lake)
    assert release is not None and (release.hour, release.strategy) == (H2, "incremental")
    done = {row.table_name: row for row in event_log.read(driver.lake, run_id="in part", event_type="refresh")}
    for table in registry():
        if isinstance(table, Table):
            row = done[table.name]
            assert row.strategy == ("incremental" if table.is_incremental else "full"), row.details
