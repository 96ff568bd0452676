"""A replay or restatement that was cut short goes on when it is asked for again; a refused one leaves no trace."""

from dataclasses import replace
from pathlib import Path

import pytest

from medallion.errors import MedallionError, UsageError
from medallion.ingest import quarantine
from medallion.ingest.apply import record_idle_hour
from medallion.ingest.restatement import read_restatement
from medallion.ops import check_records
from medallion.pipeline import operations, steps
from medallion.pipeline.run import Outcome, Run
from medallion.storage.lake import state_of
from medallion.storage.rewind import require_version_before
from tests.unit.small_lake import H0, H1, H2, H3, Shop
from tests.unit.test_replay import MENDED, ORDERS, with_bad_line

LINES = {2: MENDED}


def replay(shop: Shop, lines: dict[int, str] | None = LINES) -> Outcome:
    return operations.replay(Run(shop.settings, H0, "replay"), shop.driver(), "orders", lines)


def die_in_silver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the next refresh of a layer end with its process."""
    refresh = steps.run_step

    def run_step(name: str, *about: object) -> Outcome:
        if name == "refresh":
            monkeypatch.setattr(steps, "run_step", refresh)
            raise RuntimeError("killed")
        return refresh(name, *about)  # type: ignore[arg-type]

    monkeypatch.setattr(steps, "run_step", run_step)


def test_replay_killed_in_silver_succeeds_when_repeated(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    with_bad_line(shop)
    die_in_silver(monkeypatch)
    with pytest.raises(RuntimeError, match="killed"):
        replay(shop)
    assert quarantine.read_rejected(shop.lake, ORDERS) == [], "its line is in Bronze by now"
    replay(shop)
    assert shop.published()[7] == "mended"
    assert read_restatement(shop.lake) is None
    with pytest.raises(UsageError, match="quarantine has no line of orders"):
        replay(shop)


def test_repeated_replay_refuses_lines_that_the_first_one_did_not_have(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_bad_line(shop)
    die_in_silver(monkeypatch)
    with pytest.raises(RuntimeError, match="killed"):
        replay(shop)
    with pytest.raises(UsageError, match="quarantine has no line of orders"):
        replay(shop, {2: MENDED.replace("mended", "another")})


def test_refused_replay_records_no_corrected_line(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    with_bad_line(shop)

    def refuse(*_: object) -> int:
        raise MedallionError("maintenance or an erasure removed it")

    monkeypatch.setattr(operations, "require_version_before", refuse)
    with pytest.raises(MedallionError, match="maintenance or an erasure removed it"):
        replay(shop)
    assert not list(shop.lake.corrections.rglob("*.json"))
    assert len(quarantine.read_rejected(shop.lake, ORDERS)) == 1


def hours_applied(shop: Shop, monkeypatch: pytest.MonkeyPatch, *, dies_at: str = "") -> list[str]:
    """Note the hours that are applied; at one of them the process ends first."""
    step, applied = steps.run_step, list[str]()

    def run_step(name: str, run: Run, *about: object) -> Outcome:
        if name == "apply":
            if run.hour == dies_at:
                raise RuntimeError("killed")
            applied.append(run.required_hour)
        return step(name, run, *about)  # type: ignore[arg-type]

    monkeypatch.setattr(operations, "run_step", run_step)
    return applied


@pytest.mark.slow
@pytest.mark.parametrize(("run_id", "applied"), [("restate", [H2]), ("another", [H0, H1, H2])])
def test_restatement_goes_on_in_its_own_run_and_begins_again_in_another(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, run_id: str, applied: list[str]
) -> None:
    for number, hour in enumerate((H0, H1, H2)):
        shop.put(hour, {number: "old"})
        shop.refresh()
    run = Run(shop.settings, H0, "restate")
    with monkeypatch.context() as first:
        hours_applied(shop, first, dies_at=H2)
        with pytest.raises(RuntimeError, match="killed"):
            operations.restate(run, shop.driver())
    shop.put(H0, {0: "new"})
    again = hours_applied(shop, monkeypatch)
    operations.restate(replace(run, run_id=run_id), shop.driver())
    assert again == applied
    assert shop.published() == {0: "old" if run_id == "restate" else "new", 1: "old", 2: "old"}
    assert read_restatement(shop.lake) is None


def test_hour_is_restated_from_the_version_that_a_release_keeps_of_the_same_rows(shop: Shop) -> None:
    path = shop.lake.path("bronze_orders")
    for hour in (H0, H1):
        shop.put(hour, {int(hour[-1]): hour})
        shop.refresh()
    kept = shop.lake.opened(path)
    merged = shop.lake.opened(path)
    merged.optimize.compact()
    assert merged.version() == kept.version() + 1, "maintenance merged the files of two hours"
    replaced = set(merged.file_uris()) - set(kept.file_uris())
    shop.put(H2, {2: H2})
    shop.refresh()
    for file in replaced:
        Path(file).unlink()  # as vacuum does, of a version that no kept release names
    assert require_version_before(shop.lake, "bronze_orders", H2) == kept.version()
    record_idle_hour(state_of(shop.lake.opened(path)), H3)
    assert require_version_before(shop.lake, "bronze_orders", H2) == kept.version()
    for file in kept.file_uris():
        Path(file).unlink(missing_ok=True)
    with pytest.raises(MedallionError, match="maintenance or an erasure removed it"):
        require_version_before(shop.lake, "bronze_orders", H2)


def test_damaged_record_of_a_check_is_replaced_by_the_next_check(shop: Shop) -> None:
    record = Path(shop.lake.root, "ops", "checks", "silver.json")
    assert check_records.read_check_record(shop.lake, "silver")
    record.write_text("")
    assert check_records.read_check_record(shop.lake, "silver") is None
    shop.put(H0, {0: H0})
    shop.refresh()
    assert check_records.read_check_record(shop.lake, "silver")


def test_damaged_record_of_a_restatement_is_named(shop: Shop) -> None:
    Path(shop.lake.ops("restatement.json")).write_text("{")
    shop.put(H0, {0: H0})
    with pytest.raises(MedallionError, match=r"ops/restatement\.json is damaged: Expecting"):
        shop.refresh()
