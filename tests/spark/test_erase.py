"""Erasing customers of the shop incrementally on Spark: the lake is as one that never had them.

In full, and over more hours, it is unit/test_erase_shop.
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from medallion.ingest.needles import Needles
from medallion.inspect.person import Person
from medallion.inspect.verify_erased import names_of_subjects, traces
from medallion.ops import releases
from medallion.pipeline import erasure, operations
from medallion.pipeline.driver import Driver
from medallion.pipeline.run import Run
from tests.erasing import customers_with_most, differing, rows, without
from tests.spark.conftest import driver_of

H0, H1 = "2025-11-30T00", "2025-11-30T01"


def refresh(driver: Driver, hour: str, strategy: str) -> None:
    operations.refresh_hour(Run(driver.settings, hour, f"refresh-{hour}", strategy=strategy), driver)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_lake_equals_one_that_never_had_the_customers_also_after_an_hour_and_restating(
    spark: Any, refreshed_shop: Path, copied_shop: Callable[[Path], Driver], tmp_path: Path
) -> None:
    driver = copied_shop(refreshed_shop)
    persons = customers_with_most(driver, 3)
    customers = rows(driver, "bronze_customers").to_pylist()
    emails = [row["email"] for row in customers if row["customer_id"] in persons]
    shutil.copytree(refreshed_shop / "source", tmp_path / "source")
    without(tmp_path / "source", {*persons})
    never = driver_of(tmp_path, spark)
    operations.load(Run(never.settings, None, "load"), never)
    refresh(never, H0, "full")
    person = Person(frozenset(map(str, persons)), frozenset(names_of_subjects(never.tables)), Needles.of(emails))
    run = Run(driver.settings, None, "erase", strategy="incremental")
    outcome, done = erasure.erase(run, driver, [*map(str, persons)])
    assert not done.left, outcome.message
    assert done.rows["bronze_customers"] == 3
    assert [*traces(driver.lake, driver.tables, person)] == []
    assert differing(driver, never) == []
    (release,) = releases.read_all(driver.lake)
    assert release.hour == H0
    refresh(never, H1, "full")
    refresh(driver, H1, "incremental")
    assert differing(driver, never) == []
    operations.restate(Run(driver.settings, H1, "restate", strategy="incremental"), driver)
    assert differing(driver, never) == []
    assert [*traces(driver.lake, driver.tables, person)] == [], "nothing of them comes back"
