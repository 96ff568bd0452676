"""A run in a line, from the event log alone, and the hour that it left unpublished."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from medallion.airflow.runs import describe_redo
from medallion.ingest.unpublished import read_unpublished
from medallion.inspect.run_summary import run_summary
from medallion.model.refresh_method import NO_INPUT_CHANGED
from medallion.ops import releases
from medallion.ops.check_records import CheckRecord, write_check_record
from medallion.ops.event_log import EventLog
from medallion.ops.red_hours import VALIDATION, UnpublishedHour
from medallion.storage.lake import Lake
from tests.unit.small_lake import TABLES

HOUR = "2025-11-30T04"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(str(tmp_path / "lake"))


def log(lake: Lake, run_id: str = "a_run") -> EventLog:
    return EventLog(lake, run_id=run_id, hour=HOUR, strategy="incremental", attempt=1)


def test_a_run_in_a_line_says_hour_strategy_rows_tables_warnings_and_release(lake: Lake) -> None:
    events = log(lake)
    events.add("apply", "bronze", None, rows_in=1200, rows_out=980)
    events.add("refresh", "silver", "silver_orders_enriched", rows_out=7)
    events.add("refresh", "gold", "gold_inventory_risk", status="skipped")
    events.add("check", "silver", None, status="warned", details={"note": "1 of 66 expectations failed"})
    events.add("publish", None, None, details={"release_id": 5})
    events.flush()
    assert run_summary(lake, "a_run") == (
        "2025-11-30T04, incremental: 980 rows of Bronze changed by 1,200 lines; 1 of 2 tables written; release 5;"
        " warnings: check silver: 1 of 66 expectations failed"
    )


def test_a_run_of_unchanged_tables_says_that_nothing_was_to_do(lake: Lake) -> None:
    events = log(lake)
    for table in ("silver_orders", "gold_daily_orders"):
        events.add("refresh", table.partition("_")[0], table, status="skipped", details={"note": NO_INPUT_CHANGED})
    events.add("publish", None, None, status="skipped", details={"note": "release 5 names these versions already"})
    events.flush()
    redone = describe_redo({"action": "refresh"}, "silver_orders, gold_daily_orders")
    assert redone + run_summary(lake, "a_run") == (
        "selected silver_orders, gold_daily_orders at the published hour; 2025-11-30T04, incremental: nothing to do, as"
        " no input of 2 tables has changed; release 5 names these versions already; no warnings"
    )


def test_a_step_that_was_tried_again_counts_as_it_ended(lake: Lake) -> None:
    first = log(lake)
    first.add("apply", "bronze", None, status="warned", rows_in=1, rows_out=1, details={"note": "a bad line"})
    first.flush()
    again = log(lake)
    again.add("apply", "bronze", None, rows_in=2, rows_out=2)
    again.flush()
    assert run_summary(lake, "a_run") == "2 rows of Bronze changed by 2 lines; no warnings"


def publish(lake: Lake, *hours: str | None) -> None:
    release = None
    for hour in hours:
        contents = releases.Contents({})
        release = releases.publish(lake, after=release, hour=hour, run_id="r", strategy="full", contents=contents)


def judge(lake: Lake, layer: str, status: str) -> None:
    moment = datetime(2025, 11, 30, tzinfo=UTC)
    write_check_record(lake, CheckRecord(layer, HOUR, "a_run", 1, moment, status, "a.html", {}))


def unpublished(lake: Lake) -> UnpublishedHour | None:
    return read_unpublished(lake, TABLES, HOUR)


def test_an_hour_that_some_release_has_is_settled_also_after_a_roll_back(lake: Lake) -> None:
    publish(lake, None, HOUR, None)
    assert unpublished(lake) is None


def test_an_hour_whose_last_check_failed_is_red_until_a_check_of_it_passed(lake: Lake) -> None:
    publish(lake, None)
    judge(lake, "bronze", "failed")
    red = unpublished(lake)
    assert red is not None and red.red is not None
    assert red.red.describe() == f"hour {HOUR} is red: bronze check failed; see a.html"
    judge(lake, "bronze", "succeeded")
    assert unpublished(lake) == UnpublishedHour(HOUR, "")


@pytest.mark.parametrize("layer", [VALIDATION, "gold"])
def test_published_hour_is_red_when_its_validation_or_a_later_check_of_it_failed(lake: Lake, layer: str) -> None:
    publish(lake, None, HOUR)
    judge(lake, layer, "failed")
    red = unpublished(lake)
    assert red is not None and red.red is not None and red.red.layer == layer


def test_an_hour_belongs_to_the_run_that_works_on_it_not_to_one_that_looked_at_it(lake: Lake) -> None:
    publish(lake, None)
    events = log(lake)
    events.add("apply", "bronze", None)
    events.flush()
    other = log(lake, "other")
    other.add("land", "bronze", None, status="skipped")
    other.flush()
    assert unpublished(lake) == UnpublishedHour(HOUR, "a_run")
