"""Erasing customers of the shop: by either strategy, the lake is as one that never had them."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from medallion.ingest.needles import Needles
from medallion.inspect.person_search import Person
from medallion.inspect.verify_erased import names_of_subjects, traces
from medallion.ops import releases
from medallion.pipeline import erasure, operations
from medallion.pipeline.driver import Driver
from medallion.pipeline.run import Run
from tests.erasing import customers_with_most, differing, rows, without
from tests.spark.conftest import driver_of

H0, H1, H2 = (f"2025-11-30T{n:02}" for n in range(3))


def refresh(driver: Driver, hour: str, strategy: str) -> None:
    operations.refresh_hour(Run(driver.settings, hour, f"refresh-{hour}", strategy=strategy), driver)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_lake_equals_one_that_never_had_the_customers_whatever_the_strategy(
    spark: Any, refreshed_shop: Path, copied_shop: Callable[[Path], Driver], tmp_path: Path
) -> None:
    lakes = {strategy: copied_shop(refreshed_shop) for strategy in ("full", "incremental")}
    persons = customers_with_most(lakes["full"], 3)
    emails = [
        row["email"] for row in rows(lakes["full"], "bronze_customers").to_pylist() if row["customer_id"] in persons
    ]
    shutil.copytree(refreshed_shop / "source", tmp_path / "source")
    without(tmp_path / "source", {*persons})
    never = driver_of(tmp_path, spark)
    operations.load(Run(never.settings, None, "load"), never)
    refresh(never, H0, "full")
    person = Person(frozenset(map(str, persons)), frozenset(names_of_subjects(never.tables)), Needles.of(emails))
    for strategy, driver in lakes.items():
        outcome, done = erasure.erase(
            Run(driver.settings, None, "erase", strategy=strategy), driver, [*map(str, persons)]
        )
        assert not done.left, outcome.message
        assert done.rows["bronze_customers"] == 3
        assert [*traces(driver.lake, driver.tables, person)] == []
        assert differing(driver, never) == []
        (release,) = releases.read_all(driver.lake)
        assert release.hour == H0
    for hour in (H1, H2):
        refresh(never, hour, "full")
        for strategy, driver in lakes.items():
            refresh(driver, hour, strategy)
            assert differing(driver, never) == []
    for driver in lakes.values():  # and nothing of them comes back
        operations.restate(Run(driver.settings, H1, "restate", strategy="incremental"), driver)
        assert differing(driver, never) == []
        assert [*traces(driver.lake, driver.tables, person)] == []
