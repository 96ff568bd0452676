"""Which former check the check of an incremental hour goes on from: the last one that passed and was published."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from medallion.checks import checkpoint
from medallion.checks.by_change import Basis
from medallion.ingest.restatement import Restatement, write_restatement
from medallion.ops.check_records import CheckedTable, Proof, read_check_record, write_check_record
from medallion.pipeline.run import Run
from medallion.pipeline.steps import run_step
from tests.unit.small_lake import H0, H1, Shop, load, passed, without_spark

PROVEN = {"silver_orders": {"a promise": Proof("2025-11-30T00:00:00+00:00")}}


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Shop, list[Basis | None]]:
    """A shop with one published hour, and the basis of each check that runs from now on."""
    without_spark(monkeypatch)
    shop, seen = load(tmp_path), []
    shop.put(H0, {0: "a"})
    shop.refresh(H0)
    record = read_check_record(shop.lake, "silver")
    assert record is not None
    write_check_record(shop.lake, replace(record, proofs=PROVEN))

    def noted(*args: Any, **named: Any) -> Any:
        seen.append(named["context"].basis)
        return passed(*args, **named)

    monkeypatch.setattr(checkpoint, "run_checkpoint", noted)
    return shop, seen


def check(shop: Shop, strategy: str = "incremental", hours: float = 24.0, hour: str = H0) -> None:
    settings = shop.settings.model_copy(update={"whole_check_hours": hours})
    driver = shop.driver()
    driver.settings = settings
    run_step("check", Run(settings, hour, "run", strategy=strategy), driver, "silver")


def test_incremental_hour_continues_from_the_last_check_and_a_full_hour_does_not(
    asked: tuple[Shop, list[Basis | None]],
) -> None:
    shop, seen = asked
    check(shop)
    check(shop, "full")
    check(shop, hours=0)

    basis, *others = seen
    assert basis is not None
    assert basis.proofs == PROVEN
    release = shop.lake.version("silver_orders")
    assert isinstance(basis.tables["silver_orders"], CheckedTable)
    assert basis.tables["silver_orders"].version == release
    assert others == [None, None]


def failed(shop: Shop) -> None:
    record = read_check_record(shop.lake, "silver")
    assert record is not None
    write_check_record(shop.lake, replace(record, status="failed"))


def being_restated(shop: Shop) -> None:
    write_restatement(shop.lake, Restatement(H0, H0, hours=(H0,)))


@pytest.mark.parametrize("spoil", [failed, being_restated])
def test_check_is_no_basis_for_the_next_when(
    asked: tuple[Shop, list[Basis | None]], spoil: Callable[[Shop], None]
) -> None:
    shop, seen = asked
    spoil(shop)
    check(shop)

    assert seen == [None]


def test_check_of_unpublished_versions_is_no_basis_for_the_next(
    asked: tuple[Shop, list[Basis | None]],
) -> None:
    shop, seen = asked
    shop.put(H1, {1: "b"})
    shop.refresh(H1)
    shop.roll_back()
    seen.clear()
    check(shop, hour=H1)

    (basis,) = seen
    assert basis is not None
    assert "silver_orders" not in basis.tables
