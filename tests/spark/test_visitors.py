"""Another Delta writer between two hours of the shop: rows as computed, or the hour refused (F39, F40)."""

from pathlib import Path
from typing import Any

import pytest

from demo.generate import generate
from medallion.model.table import Table
from medallion.ops import event_log, releases
from medallion.pipeline import adoption, operations
from medallion.pipeline.driver import Driver
from medallion.pipeline.run import Run
from medallion.storage.foreign_commits import ChangedByOthers
from tests.part_of_shop import some_tables
from tests.spark.conftest import driver_of

HOURS = [f"2025-11-30T{hour:02}" for hour in range(5)]
# What somebody does to which table; silver_products and gold_order_status_summary are small, the others are not.
ACTS = {
    "silver_orders_enriched": ["UPDATE {t} SET order_total = 1 WHERE order_id % 3 = 0"],
    "silver_order_items_enriched": ["DELETE FROM {t} WHERE order_item_id % 3 = 0"],
    "silver_customers": ["ALTER TABLE {t} ADD COLUMN nickname STRING"],
    "silver_inventory_current": ["UPDATE {t} SET product_id = -product_id"],
    "gold_order_status_summary": ["DELETE FROM {t}"],
}
FEATURES = {
    "bronze_orders": ["ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"],
    "bronze_order_items": ["ALTER TABLE {t} CLUSTER BY (order_item_id)"],
    "bronze_clickstream_events": ["ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableRowTracking' = 'true')"],
    "bronze_suppliers": ["ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true')"],
    "bronze_customers": ["ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"],
    "silver_orders_enriched": ["ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"],
    "silver_order_items_enriched": ["ALTER TABLE {t} CLUSTER BY (order_item_id)"],
    "silver_customers": ["ALTER TABLE {t} SET TBLPROPERTIES ('delta.checkpointPolicy' = 'v2')"],
    "silver_products": ["ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')"],
    "gold_order_status_summary": ["ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableRowTracking' = 'true')"],
}


@pytest.fixture(scope="module")
def driver(spark: Any, tmp_path_factory: pytest.TempPathFactory, small_inputs_keep_state: None) -> Driver:
    """Over a shop with the tables of both and one that reads them, after its first hour, with aggregate state."""
    root = tmp_path_factory.mktemp("visited")
    generate(root / "source", days=2, hours=len(HOURS), scale=0.05, seed=1)
    made = driver_of(root, spark)
    made.tables = some_tables(*ACTS, *FEATURES, "gold_cancellation_impact")
    operations.load(Run(made.settings, None, "load"), made)
    refresh(made, HOURS[0])
    return made


def refresh(driver: Driver, hour: str, strategy: str = "incremental") -> None:
    operations.refresh_hour(Run(driver.settings, hour, f"{strategy} {hour}", strategy=strategy), driver)


def visit(spark: Any, driver: Driver, acts: dict[str, list[str]]) -> None:
    for table, statements in acts.items():
        for statement in statements:
            spark.sql(statement.format(t=f"delta.`{driver.lake.path(table)}`"))


def differing(spark: Any, driver: Driver) -> list[str]:
    """Tables whose rows or columns are not exactly those that their query gives."""
    wrong = []
    for table in (table for table in driver.tables if isinstance(table, Table)):
        frames = {name: spark.read.format("delta").load(driver.lake.path(name)) for name in table.inputs}
        wanted = spark.sql(table.query, **frames).toArrow()
        found = spark.read.format("delta").load(driver.lake.path(table.name)).toArrow()
        if found.column_names != wanted.column_names or texts(found) != texts(wanted):
            wrong.append(table.name)
    return wrong


def texts(rows: Any) -> list[str]:
    return sorted(repr(tuple(row.values())) for row in rows.to_pylist())


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_computed_tables_are_recomputed_in_both_strategies_when_somebody_changed_them(
    spark: Any, driver: Driver
) -> None:
    states = [
        path for path in Path(str(driver.lake.aggregate_states)).iterdir() if "silver_inventory_current" in str(path)
    ]
    for hour, strategy in ((HOURS[1], "incremental"), (HOURS[2], "full")):
        before = releases.require_release(driver.lake, None)
        visit(spark, driver, ACTS)
        for path in states:
            spark.sql(f"DELETE FROM delta.`{path}`")
        refresh(driver, hour, strategy)
        assert differing(spark, driver) == [], strategy
        assert before.hour == HOURS[HOURS.index(hour) - 1]
        rows = [row for row in event_log.read(driver.lake, hour=hour, event_type="refresh") if row.status == "warned"]
        assert {row.table_name for row in rows} >= set(ACTS), strategy
        notes = {row.table_name: row.details["note"] for row in rows}
        assert "recomputed, as somebody else changed it: version " in notes["silver_orders_enriched"]
        assert "(UPDATE at 20" in notes["silver_orders_enriched"]
        assert "Apache-Spark/4.2.0 Delta-Lake/" in notes["silver_orders_enriched"]


@pytest.mark.timeout(1800)
def test_bronze_is_refused_and_discarded_when_spark_restored_it(spark: Any, driver: Driver) -> None:
    path = driver.lake.path("bronze_orders")
    before = driver.lake.opened(path)
    kept = texts(before.to_pyarrow_table())
    spark.sql(f"RESTORE TABLE delta.`{path}` TO VERSION AS OF 1")
    with pytest.raises(ChangedByOthers, match=rf"bronze_orders .* version {before.version() + 1} \(RESTORE at"):
        refresh(driver, HOURS[HOURS.index(releases.require_release(driver.lake, None).hour or "") + 1])
    adoption.discard(Run(driver.settings, None, "discard"), driver, "bronze_orders")
    assert texts(driver.lake.opened(path).to_pyarrow_table()) == kept


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_hour_goes_on_by_spark_when_somebody_switched_features_on(spark: Any, driver: Driver) -> None:
    visit(spark, driver, FEATURES)
    for hour, strategy in ((HOURS[3], "incremental"), (HOURS[4], "full")):
        refresh(driver, hour, strategy)
        assert releases.require_release(driver.lake, None).hour == hour
        assert differing(spark, driver) == [], strategy
        rows = event_log.read(driver.lake, hour=hour)
        notes = " ".join(str(row.details.get("note")) for row in rows)
        assert "deletionVectors" not in notes, "which this process reads and writes"
        for name in ("clustering", "columnMapping", "rowTracking", "inCommitTimestamp"):
            assert f"somebody switched on {name}" in notes or f", {name}" in notes, name
