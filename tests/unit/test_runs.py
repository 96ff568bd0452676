"""Runs in figures, and full beside incremental."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from medallion.inspect.run_history import compare_costs, run_history
from medallion.model.refresh_method import StateWork
from medallion.ops import event_log
from medallion.ops.event_log import append
from medallion.ops.events import Event
from medallion.storage.lake import Lake
from medallion.ui.runs import runs_page
from medallion.ui.timings import timings_page


def run(number: int, strategy: str, seconds: float, note: str = "") -> list[Event]:
    def step(kind: str, layer: str | None = None, table: str | None = None, **values: Any) -> Event:
        return Event("r", f"2025-11-30T{number:02}", kind, strategy, 1, layer, table, **values)

    return [
        step("land", "bronze", seconds=0.5, cpu_seconds=0.25),
        step("apply", "bronze", rows_in=10, rows_out=7, seconds=1.0, cpu_seconds=1.0),
        step("refresh", "silver", "silver_orders", details={"note": note}),
        step("refresh", "silver", "silver_customers", status="skipped"),
        step("refresh", "silver", seconds=seconds, cpu_seconds=2 * seconds),
        step("check", "silver", status="warned", seconds=1.0),
        step("publish", seconds=0.5, details={"release_id": number + 1}),
    ]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(str(tmp_path / "lake"))
    built = "rebuilt aggregate state for `days`: none existed"
    hours = [run(0, "full", 10.0), run(1, "full", 14.0), run(2, "incremental", 20.0, built), run(3, "incremental", 2.0)]
    append(lake, [event for events in hours for event in events])
    return lake


def test_a_run_of_several_hours_has_figures_for_each(lake: Lake) -> None:
    newest, *_, oldest = run_history(event_log.read(lake))
    assert (newest.hour, newest.strategy, newest.status) == ("2025-11-30T03", "incremental", "warned")
    assert (newest.rows_in, newest.rows_changed, newest.tables, newest.warnings) == (10, 7, (1, 2), 1)
    assert (newest.release_id, newest.refresh_seconds, newest.state_work) == (4, 2.0, None)
    assert newest.cpu_hours == pytest.approx((0.25 + 1.0 + 4.0) / 3600)
    assert oldest.hour == "2025-11-30T00"


def test_full_is_estimated_where_it_was_not_run_and_set_up_is_marked(lake: Lake) -> None:
    costs = compare_costs(run_history(event_log.read(lake)))
    assert [(cost.full, cost.estimate, cost.incremental, cost.state_work) for cost in costs] == [
        *((10.0, None, None, None), (14.0, None, None, None)),
        *((None, 12.0, 20.0, StateWork.SET_UP), (None, 12.0, 2.0, None)),
    ]


def test_the_page_prices_each_run_and_can_be_narrowed(lake: Lake) -> None:
    page = runs_page(lake, since="2025-11-30T03", price=3600.0)
    assert "5.2500" in page  # CPU seconds, as a core-hour costs as many units as it has seconds
    assert "2025-11-30T02" not in page
    assert "incremental, set-up" in runs_page(lake)
    assert "No hour was refreshed there" in runs_page(lake, since="2026-01-01T00")


def test_every_jvm_of_a_run_counts_where_each_task_starts_its_own(lake: Lake) -> None:
    started = [datetime(2025, 11, 30, 4, minute, tzinfo=UTC) for minute in range(3)]
    sessions = [Event("r", "2025-11-30T03", "session", "incremental", 1, started_at=at, seconds=3.0) for at in started]
    append(lake, sessions)
    newest, *_ = run_history(event_log.read(lake))
    assert newest.seconds["session"] == 9.0


def test_run_at_work_is_running_until_it_has_a_release(lake: Lake) -> None:
    append(lake, [Event("now", "2025-11-30T04", "apply", "full", 1, "bronze")])
    page = runs_page(lake, since="2025-11-30T03", running=["now", "r"])
    assert page.count('class="status running"') == 1
    assert 'class="status running"' not in runs_page(lake, since="2025-11-30T03")


def test_an_erasure_is_shown_as_such_and_counts_in_no_comparison_or_median(lake: Lake) -> None:
    pages = [timings_page(lake)]
    costs = compare_costs(run_history(event_log.read(lake)))
    hour = "2025-11-30T03"

    def step(kind: str, layer: str | None = None, table: str | None = None, **values: Any) -> Event:
        return Event("erasing", hour, kind, "incremental", 1, layer, table, **values)

    append(
        lake,
        [
            step("erase", "bronze"),
            step("refresh", "silver", "silver_orders", seconds=777.0),
            step("refresh", "silver", seconds=777.0),
            step("publish", details={"release_id": 9}),
        ],
    )
    runs = run_history(event_log.read(lake))
    assert [(run.strategy, run.release_id) for run in runs if run.hour == hour] == [("erase", 9), ("incremental", 4)]
    assert compare_costs(runs) == costs
    pages.append(timings_page(lake))
    assert "777" not in pages[1] and pages[0] == pages[1]
    assert ">erase<" in runs_page(lake)


def test_warnings_of_a_run_are_the_expectations_that_warned_and_the_other_steps(lake: Lake) -> None:
    told = {"expectations": {name: {"status": name[:-2]} for name in ("warned 1", "warned 2", "failed 1", "failed 2")}}

    def step(kind: str, table: str | None = None, **values: Any) -> Event:
        return Event("red", "2025-11-30T09", kind, "full", 1, "silver", table, **values)

    append(
        lake,
        [
            step("apply", status="warned"),
            step("check", "silver_orders", status="failed", details=told),
            step("check", status="failed"),
        ],
    )
    assert run_history(event_log.read(lake))[0].warnings == 3
