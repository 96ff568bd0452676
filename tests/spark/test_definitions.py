"""Editing a table: previewed without a write, refused when it is wrong, rebuilt when it is right, retried alone."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from medallion.errors import MedallionError
from medallion.ingest import ledger
from medallion.inspect.preview import Preview
from medallion.inspect.status import lake_status
from medallion.model.table import Table
from medallion.ops import event_log, releases
from medallion.pipeline import operations
from medallion.pipeline.driver import Driver
from medallion.pipeline.reprocess import reprocess
from medallion.pipeline.run import Run
from medallion.refresh.definitions import find_tables_to_rebuild
from tests.shop import graph, registry

H0, H1 = "2025-11-30T00", "2025-11-30T01"
EDITED = "gold_order_status_summary"
COUNTED = "COUNT(user_id) AS unique_customers"
REFUSED = f"{EDITED}: Spark cannot analyse its query"


@pytest.fixture(scope="module")
def driver(refreshed_shop: Path, copied_shop: Callable[[Path], Driver]) -> Driver:
    """A lake of the snapshot and one hour, with some to come."""
    return copied_shop(refreshed_shop)


@pytest.fixture(autouse=True)
def tables_as_declared(driver: Driver) -> Iterator[None]:
    yield
    driver.tables = registry()


def edit(driver: Driver, text: str, instead: str, name: str = EDITED) -> None:
    """Have the project declare the table with another query."""
    table = registry()[name]
    assert isinstance(table, Table) and text in table.query
    edited = replace(table, query=table.query.replace(text, instead))
    driver.tables = graph({**driver.tables.tables, name: edited})


def run(driver: Driver, hour: str | None, run_id: str, select: str = "") -> Run:
    return Run(driver.settings, hour, run_id, select=select)


def customers(driver: Driver) -> dict[str, int]:
    """How many customers readers see by status."""
    release = releases.require_release(driver.lake, None)
    delta = driver.lake.opened(driver.lake.path(EDITED), release.versions[EDITED])
    return {row["order_status"]: row["unique_customers"] for row in delta.to_pyarrow_table().to_pylist()}


def test_preview_shows_the_rows_of_an_edited_query_and_writes_nothing(driver: Driver, spark: Any) -> None:
    before, release = customers(driver), releases.require_release(driver.lake, None)
    versions = {name: driver.lake.version(name) for name in driver.tables.tables}
    first = min(before)
    edit(driver, COUNTED, f"COUNT(user_id) + IF(order_status = '{first}', 5, 0) AS unique_customers")
    edited = driver.tables[EDITED]
    assert isinstance(edited, Table)
    preview = Preview(spark, driver.lake, driver.tables, release, edited)

    shown = preview.rows(1)
    assert len(shown.rows) == 1 and dict(zip(shown.columns, shown.rows[0], strict=True))["unique_customers"] == (
        before[first] + 5
    )
    difference = preview.difference(10)
    assert (difference.inserted, difference.deleted, difference.changed) == (0, 0, 1)
    place = difference.sample.columns.index("unique_customers")
    assert [(row[0], row[place]) for row in difference.sample.rows] == [("-", before[first]), ("+", before[first] + 5)]
    assert {name: driver.lake.version(name) for name in versions} == versions


def test_preview_names_the_input_that_has_not_the_columns_of_its_definition_yet(driver: Driver, spark: Any) -> None:
    name = "silver_orders_enriched"
    edit(driver, "SELECT", "SELECT 1 AS weight,", name)
    reader = Table(
        keys=("weight",), query=f"SELECT weight FROM {{{name}}}", name="gold_weights", layer="gold", doc="W."
    )
    driver.tables = graph({**driver.tables.tables, reader.name: reader})
    preview = Preview(spark, driver.lake, driver.tables, releases.require_release(driver.lake, None), reader)
    with pytest.raises(MedallionError, match=f"the published {name} has no weight yet, as its definition changed: run"):
        preview.rows(1)


def test_an_edited_table_is_rebuilt_at_the_published_hour(driver: Driver) -> None:
    before, release = customers(driver), releases.require_release(driver.lake, None)
    assert reprocess(run(driver, None, "idle"), driver).status == "skipped", "nothing was edited"
    edit(driver, COUNTED, "COUNT(user_id) + 1 AS unique_customers")
    assert [*find_tables_to_rebuild(driver.lake, driver.tables, None)] == [EDITED]

    assert reprocess(run(driver, None, "reprocess"), driver).status == "succeeded"

    after = releases.require_release(driver.lake, None)
    assert (after.hour, after.release_id) == (H0, release.release_id + 1)
    assert customers(driver) == {status: count + 1 for status, count in before.items()}
    others = {name for name, version in after.versions.items() if release.versions[name] != version}
    assert others == {EDITED}
    assert find_tables_to_rebuild(driver.lake, driver.tables, None) == {}


def test_refreshing_the_published_hour_rebuilds_a_table_whose_definition_changed(driver: Driver) -> None:
    # the former test left another definition behind than is declared
    release = releases.require_release(driver.lake, None)
    changed = [row.table for row in lake_status(driver.settings).tables if row.definition_changed]
    assert changed == [EDITED]
    unread = operations.refresh_hour(run(driver, H0, "another", "gold_inventory_risk"), driver)
    assert unread.status == "skipped", "of the tables that are selected nothing changed"
    assert operations.refresh_hour(run(driver, H0, "again", EDITED), driver).status == "succeeded"
    assert releases.require_release(driver.lake, None).release_id == release.release_id + 1
    assert operations.refresh_hour(run(driver, H0, "once more"), driver).status == "skipped"


@pytest.mark.parametrize(
    ("instead", "message"),
    [
        ("COUNT(user_idd) AS unique_customers", "customers has no column user_idd: did you mean user_id?"),
        ("COUNT(user_id) + MONTHS(3) AS unique_customers", f"{REFUSED}: [UNRESOLVED_ROUTINE]"),
        ("COUNT(user_id) + DATE '2025-01-01' + ARRAY(1) AS unique_customers", REFUSED),
    ],
)
def test_a_wrong_query_is_refused_before_anything_is_written(driver: Driver, instead: str, message: str) -> None:
    edit(driver, COUNTED, instead)
    with pytest.raises(MedallionError) as refused:
        operations.refresh_hour(run(driver, H1, "wrong"), driver)
    assert message in str(refused.value)
    assert len(str(refused.value)) < 700 and "Project [" not in str(refused.value)
    assert ledger.applied_hour(driver.lake, driver.tables) == H0
    assert ledger.read_manifest(driver.lake, H1) is None, "nothing has landed"
    failed = [row for row in event_log.read(driver.lake, run_id="wrong") if row.status == "failed"]
    assert {row.table_name for row in failed} == {EDITED}


def test_a_table_that_fails_stops_no_other_and_is_retried_alone(
    driver: Driver, capfd: pytest.CaptureFixture[str]
) -> None:
    edit(driver, COUNTED, "COUNT(CAST(order_status AS INT)) AS unique_customers")
    with pytest.raises(MedallionError) as failed:
        operations.refresh_hour(run(driver, H1, "failing"), driver)
    assert f"{EDITED} could not be computed" in str(failed.value)
    assert f"medallion refresh --select {EDITED}+" in str(failed.value)
    assert len(str(failed.value)) < 900 and "\n" not in str(failed.value)
    assert "at org.apache" not in capfd.readouterr().err
    steps = [row for row in event_log.read(driver.lake, run_id="failing") if row.layer == "gold" and row.table_name]
    assert {row.table_name for row in steps if row.status == "failed"} == {EDITED}
    gold = {table.name for table in driver.tables.layer("gold")}
    assert {row.table_name for row in steps if row.status == "succeeded"} == gold - {EDITED}

    driver.tables = registry()
    operations.refresh_hour(run(driver, None, "retried", f"{EDITED}+"), driver)

    assert releases.require_release(driver.lake, None).hour == H1
    retried = [row for row in event_log.read(driver.lake, run_id="retried") if row.event_type == "refresh"]
    assert {row.table_name for row in retried if row.table_name} == {EDITED}
