"""Customers erased from the shop's own tables, without Spark: the lake is as one that never had them, and stays so."""

import shutil
from pathlib import Path

import pytest

from medallion.ingest.needles import Needles
from medallion.inspect.person import Person
from medallion.inspect.verify_erased import names_of_subjects, traces
from medallion.ops import releases
from medallion.pipeline import erasure
from tests.erasing import customers_with_most, differing, rows, without
from tests.unit.shop_without_spark import Shop, generated
from tests.unit.small_lake import without_session

H0, H1 = "2025-11-30T00", "2025-11-30T01"


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_lake_equals_one_that_never_had_the_customers_also_after_hours_and_restating(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_session(monkeypatch)
    shop = generated(tmp_path / "shop")
    shop.load()
    shop.refresh(H0)
    driver = shop.driver()
    persons = customers_with_most(driver, 3)
    customers = rows(driver, "bronze_customers").to_pylist()
    emails = [row["email"] for row in customers if row["customer_id"] in persons]
    shutil.copytree(shop.root / "source", tmp_path / "never" / "source")
    without(tmp_path / "never" / "source", {*persons})
    never = Shop(tmp_path / "never")
    never.load()
    never.refresh(H0)
    subjects = frozenset(map(str, persons))
    person = Person(subjects, frozenset(names_of_subjects(driver.tables)), Needles.of(emails))
    assert [*traces(shop.lake, driver.tables, person)]
    _, done = erasure.erase(shop.run(None, "erase"), shop.driver(), sorted(subjects))
    assert not done.left
    assert done.rows["bronze_customers"] == len(persons)
    assert [release.hour for release in releases.read_all(shop.lake)] == [H0]

    def is_as_never_had() -> None:
        assert differing(driver, never.driver()) == []
        assert [*traces(shop.lake, driver.tables, person)] == []

    is_as_never_had()
    shop.refresh(H1)
    never.refresh(H1)
    is_as_never_had()
    shop.restate(H1)
    is_as_never_had()
