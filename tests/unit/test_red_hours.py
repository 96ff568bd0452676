"""A red hour is one thing at every door: nothing is applied on top of it, it is named with its lines, and it heals."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from medallion.checks.context import CheckContext
from medallion.checks.result import ExpectationResult
from medallion.cli.sheets import status_sheet
from medallion.errors import CheckFailed, HourOutOfOrder, MedallionError, UsageError
from medallion.ingest.restatement import read_restatement, rewind_bronze
from medallion.ingest.unpublished import read_unpublished
from medallion.inspect.hour_history import hour_history
from medallion.inspect.status import lake_status
from medallion.ops.check_records import Failure
from medallion.ops.red_hours import VALIDATION, RedHour
from medallion.pipeline import operations, publish
from medallion.pipeline.maintain import Retention, maintain
from medallion.pipeline.reprocess import require_published
from medallion.pipeline.rollback import rollback
from medallion.pipeline.run import Run
from tests.shop import graph
from tests.unit.small_lake import H0, H1, H2, H3, Shop

EMPTIED = '{"delete": {"id": 0}}\n'  # every row of the hour before


def red_at(shop: Shop, hour: str = H1) -> None:
    """H0 is published; the hour after takes all rows away, and two more hours wait at the source."""
    shop.put(H0, {0: H0})
    shop.refresh(H0)
    shop.put(hour, EMPTIED)
    with pytest.raises(CheckFailed):
        shop.refresh(hour)


def red_hour(shop: Shop) -> RedHour | None:
    unpublished = read_unpublished(shop.lake, shop.tables, shop.applied)
    return unpublished.red if unpublished else None


def run(shop: Shop, hour: str | None) -> Run:
    return Run(shop.settings, hour, "another")


DOORS: dict[str, Callable[[Shop], object]] = {
    "refresh": lambda shop: shop.refresh(H2),
    "a later hour": lambda shop: shop.refresh(H3),
    "a range": lambda shop: operations.refresh_hours([run(shop, H2), run(shop, H3)], shop.driver()),
    "land": lambda shop: shop.step("land", H2),
    "apply": lambda shop: shop.step("apply", H2),
    "restate": lambda shop: shop.restate(H2),
    "replay": lambda shop: operations.replay(run(shop, H2), shop.driver(), "orders", {1: "{}"}),
    "reprocess": lambda shop: require_published(run(shop, H0), shop.driver()),
}


@pytest.mark.parametrize("door", DOORS)
def test_no_door_goes_on_from_a_red_hour_and_each_names_it_with_its_lines(shop: Shop, door: str) -> None:
    red_at(shop)
    for hour in (H2, H3):
        shop.put(hour, {2: hour})
    before = shop.rows()
    with pytest.raises(MedallionError) as refusal:
        DOORS[door](shop)
    for words in (
        f"hour {H1} is red",
        "bronze_orders",
        f"cdc/orders/{H1}.json: line 1 deletes a row",
        f"--restate {H1}",
    ):
        assert words in str(refusal.value)
    assert (shop.applied, shop.rows(), shop.published(), read_restatement(shop.lake)) == (H1, before, {0: H0}, None)


def test_a_red_hour_is_named_in_status_and_heals_on_the_map_when_it_is_restated(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("medallion.inspect.status.tables_of", lambda *_: shop.tables)
    red_at(shop)
    (mark,) = [mark for mark in hour_history(shop.lake) if mark.hour == H1]
    assert (mark.status, mark.run_id) == ("red", "refresh")
    status = lake_status(shop.settings)
    assert status.red is not None and f"cdc/orders/{H1}.json: line 1 deletes a row" in status.red
    assert status.problems[0] == status.red and status.red in status_sheet(status).title
    shop.put(H1, {1: "mended"})
    shop.restate(H1)
    assert red_hour(shop) is None and shop.published() == {0: H0, 1: "mended"}
    assert [(mark.hour, mark.status) for mark in hour_history(shop.lake)] == [(H0, "published"), (H1, "restated")]


def test_upkeep_keeps_what_a_red_hour_goes_back_to(shop: Shop) -> None:
    for number, hour in enumerate((H0, H1, H2)):
        shop.put(hour, {number: hour})
        shop.refresh(hour)
    shop.put(H1, EMPTIED)
    shop.put(H2, '{"delete": {"id": 2}}\n')
    with pytest.raises(CheckFailed):
        shop.restate(H1)
    maintain(Run(shop.settings, None, "maintain"), shop.driver(), Retention(0, 0))
    for hour in (H1, H2):
        shop.put(hour, {int(hour[-1]): "mended"})
    operations.restate(run(shop, H1), shop.driver())
    assert red_hour(shop) is None and shop.published() == {0: H0, 1: "mended", 2: "mended"}


def test_every_hour_of_a_restatement_is_green_on_the_map_when_it_has_healed_them(shop: Shop) -> None:
    red_at(shop, H2)  # a later hour that follows H0
    shop.put(H1, {1: "late"})
    shop.put(H2, {2: "mended"})
    shop.restate(H1)
    assert [(mark.hour, mark.status) for mark in hour_history(shop.lake)] == [
        (H0, "published"),
        (H1, "published"),
        (H2, "restated"),
    ]


def test_unchecked_hour_is_found_red_before_a_later_one_is_applied(shop: Shop) -> None:
    shop.put(H0, {0: H0})
    shop.refresh(H0)
    shop.put(H1, EMPTIED)
    shop.step("land", H1)
    shop.step("apply", H1)  # and its run ends here
    shop.put(H2, {})
    with pytest.raises(CheckFailed, match=f"cdc/orders/{H1}.json: line 1 deletes a row"):
        shop.refresh(H2)
    red = red_hour(shop)
    assert red is not None and red.headline == f"hour {H1} is red" and shop.applied == H1
    with pytest.raises(UsageError, match=f"hour {H1} is red.*--restate {H1}"):
        shop.restate(H2)
    shop.put(H1, {1: "mended"})
    shop.restate(H1)
    assert red_hour(shop) is None and shop.published() == {0: H0, 1: "mended"}


def test_a_red_hour_is_healed_by_a_plain_refresh_when_the_rule_was_at_fault(shop: Shop) -> None:
    red_at(shop)
    tables = {name: replace(table, may_be_empty=True) for name, table in shop.tables.tables.items()}
    mended = replace(shop, tables=graph(tables))
    assert mended.refresh(H1).status == "succeeded"
    assert red_hour(mended) is None and mended.published() == {}


def test_a_published_hour_whose_validation_failed_is_red_and_a_refresh_of_it_heals(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.put(H0, {0: H0})
    with monkeypatch.context() as broken:
        wrong = {"gold_orders": {"problem": "files of version 2 are missing", "rows": 0}}
        broken.setattr(publish, "validate", lambda *_: wrong)
        with pytest.raises(CheckFailed):
            shop.refresh(H0)
    red = red_hour(shop)
    assert red == RedHour(
        H0, H0, VALIDATION, "refresh", "", (Failure("gold_orders", "", "files of version 2 are missing"),)
    )
    shop.put(H1, {1: H1})
    with pytest.raises(HourOutOfOrder, match="gold_orders: files of version 2 are missing"):
        shop.refresh(H1)
    shop.refresh(H0)
    assert red_hour(shop) is None
    assert shop.refresh(H1).hour == H1


def test_no_layer_is_checked_as_of_another_hour_than_bronze_is_at(shop: Shop) -> None:
    red_at(shop)
    with pytest.raises(MedallionError, match=f"Bronze is at hour {H1}, not at hour {H2}"):
        shop.step("check", H2, "bronze")


def is_not_empty(_: CheckContext, table: str, views: Any) -> list[ExpectationResult]:
    rows = views.rows[table]
    found = {"success": rows > 0 or table == "bronze_items", "observed": f"{rows} rows"}
    return [ExpectationResult("the table is not empty", "ExpectTableRowCountToBeBetween", "critical", **found)]  # type: ignore[arg-type]


def cut_short_at(shop: Shop, hour: str) -> None:
    """Restate from H0, and have it end after ``hour`` is applied."""
    operations.begin_restatement(shop.driver(), H0, "killed")
    for due in (H0, H1, H2):
        shop.step("land", due)
        shop.step("apply", due)
        if due == hour:
            return


@pytest.mark.parametrize("door", ["refresh", "a range", "land", "restate", "resume"])
def test_hour_that_is_found_red_within_a_restatement_is_red_at_every_door_until_it_is_restated(
    shop: Shop, door: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CheckContext, "judge_volumes", is_not_empty)
    monkeypatch.setattr("medallion.inspect.status.tables_of", lambda *_: shop.tables)
    for number, hour in enumerate((H0, H1, H2)):
        shop.put(hour, {number: hour})
        shop.refresh(hour)
    shop.put(H1, EMPTIED)  # and the next hour inserts a row again
    cut_short_at(shop, H1)
    with pytest.raises(CheckFailed):
        shop.refresh(H1)
    resume = {"resume": lambda: operations.restate(run(shop, H0), shop.driver(), resume=True)}
    with pytest.raises(MedallionError) as refusal:
        resume.get(door, lambda: DOORS[door](shop))()
    assert f"to {H1} are red" in str(refusal.value) and f"cdc/orders/{H1}.json: line 1 deletes" in str(refusal.value)
    assert (shop.applied, shop.published()) == (H1, {0: H0, 1: H1, 2: H2})
    status = lake_status(shop.settings)
    assert status.red is not None and status.problems[0] == status.red
    assert not any("was cut short" in problem for problem in status.problems), "which would go on from the red hour"
    shop.put(H1, {1: "mended"})
    shop.restate(H0)
    assert red_hour(shop) is None and shop.published() == {0: H0, 1: "mended", 2: H2}


def gold_is_not_empty(_: CheckContext, table: str, views: Any) -> list[ExpectationResult]:
    rows = views.rows[table]
    found = {"success": rows > 0 or table != "gold_orders", "observed": f"{rows} rows"}
    return [ExpectationResult("the table is not empty", "ExpectTableRowCountToBeBetween", "critical", **found)]  # type: ignore[arg-type]


def test_red_check_of_gold_does_not_stop_the_restatement_that_heals_it(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CheckContext, "judge_volumes", gold_is_not_empty)
    red_at(shop)
    red = red_hour(shop)
    assert red is not None and red.layer == "gold"
    shop.put(H1, {1: "mended"})
    operations.begin_restatement(shop.driver(), H1, "killed")
    rewind_bronze(shop.lake, shop.tables, lambda _: None, [])
    assert shop.applied == H0, "Gold still has the rows of the failed check"
    assert red_hour(shop) is None
    shop.refresh(H1)
    assert red_hour(shop) is None and shop.published() == {1: "mended", 0: H0}
    shop.put(H2, '{"delete": {"id": 0}}\n{"delete": {"id": 1}}\n')
    with pytest.raises(CheckFailed):
        shop.refresh(H2)
    shop.put(H2, {2: H2})
    shop.restate(H2)
    assert red_hour(shop) is None and shop.published() == {0: H0, 1: "mended", 2: H2}


@pytest.mark.parametrize("door", ["refresh", "no hour"])
def test_restatement_that_was_cut_short_after_its_last_hour_is_finished_whatever_had_failed_before(
    shop: Shop, door: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CheckContext, "judge_volumes", gold_is_not_empty)
    monkeypatch.setattr("medallion.inspect.status.tables_of", lambda *_: shop.tables)
    red_at(shop)
    shop.put(H1, {1: "mended"})
    operations.begin_restatement(shop.driver(), H1, "killed")
    shop.step("land", H1)
    shop.step("apply", H1)
    assert (shop.applied, red_hour(shop)) == (H1, None), "Gold still has the rows of the failed check"
    with pytest.raises(MedallionError, match="gold layer is not checked: silver_orders was not refreshed") as refused:
        shop.step("check", H1, "gold")
    assert f"medallion step refresh --layer silver --hour {H1} first" in str(refused.value)
    status = lake_status(shop.settings)
    assert status.red is None
    assert any(f"hour {H1} was cut short" in problem for problem in status.problems)
    shop.refresh(H1 if door == "refresh" else None)
    assert red_hour(shop) is None and shop.published() == {1: "mended", 0: H0}


def test_hour_that_another_run_published_and_went_on_from_ends_without_work_and_without_a_red_hour(shop: Shop) -> None:
    for number, hour in enumerate((H0, H1)):
        shop.put(hour, {number: hour})
        shop.refresh(hour)
    for step, layer in (("refresh", "silver"), ("check", "silver"), ("publish", None), ("validate", None)):
        outcome = shop.step(step, H0, layer)
        assert outcome.status == "skipped", step
    assert f"another run has published hour {H0} and gone on to {H1}" in shop.step("check", H0, "gold").message
    assert red_hour(shop) is None and shop.published() == {0: H0, 1: H1}


def test_validation_after_a_rollback_ends_without_a_verdict(shop: Shop) -> None:
    for number, hour in enumerate((H0, H1)):
        shop.put(hour, {number: hour})
        shop.refresh(hour)
    rollback(run(shop, None), shop.driver(), None)
    outcome = shop.step("validate", H1)
    assert outcome.status == "skipped" and f"of hour {H0} by now: hour {H1} is not validated" in outcome.message
    assert red_hour(shop) is None and shop.published() == {0: H0}


def test_hour_in_bronze_that_nobody_publishes_is_a_problem_with_the_command_that_publishes_it(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("medallion.inspect.status.tables_of", lambda *_: shop.tables)
    for number, hour in enumerate((H0, H1)):
        shop.put(hour, {number: hour})
    shop.refresh(H0)
    assert lake_status(shop.settings).unfinished is None
    shop.step("land", H1)
    shop.step("apply", H1)
    assert lake_status(shop.settings).unfinished is None, "a run may be between two tasks"
    monkeypatch.setattr("medallion.inspect.status.BETWEEN_TASKS", timedelta(0))
    status = lake_status(shop.settings)
    said = f"hour {H1} is in Bronze, and readers do not have it: run medallion refresh --hour {H1}"
    assert status.unfinished is not None and status.unfinished.startswith(said)
    assert status.unfinished in status.problems and status.unfinished in status_sheet(status).title
    assert lake_status(shop.settings, is_at_work=True).unfinished is None, "a run is between two tasks"
    shop.refresh(H1)
    rollback(run(shop, None), shop.driver(), None)
    assert lake_status(shop.settings).unfinished is None, "it was published, and rolled back on purpose"


def test_a_red_hour_is_named_before_what_follows_from_it_when_it_is_published(shop: Shop) -> None:
    red_at(shop)
    shop.step("refresh", H1, "silver")
    with pytest.raises(CheckFailed, match=r"the last bronze check failed: bronze_orders"):
        shop.step("publish", H1)
