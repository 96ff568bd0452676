"""How each expectation fared, check by check, in the terminal and on its page."""

from pathlib import Path
from typing import Any

from medallion.inspect.check_history import trends
from medallion.inspect.volumes import volume_of
from medallion.ops.event_log import EventLog
from medallion.storage.lake import Lake
from medallion.ui.expectations import expectations_page


def checked(lake: Lake, hour: str, **failed: int | None) -> None:
    """A check of gold_a, with the rows out of ten that broke each promise; None: there was no verdict."""
    log = EventLog(lake, run_id=f"run {hour}", hour=hour, strategy="full", attempt=1)
    told: dict[str, Any] = {}
    for name, count in failed.items():
        status = "failed" if count is None else "warned" if count else "succeeded"
        passed = None if count is None else 10 - count
        told[name] = {"status": status, "severity": "warning", "passed": passed, "failed": count}
    log.add("check", "gold", "gold_a", details={"version": 1, "expectations": told})
    log.add("check", "gold", None, details={"note": "whole"})
    log.flush()


def test_what_is_broken_now_comes_first_and_then_what_was(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    checked(lake, "2025-11-30T00", fine=0, once=3, now=0, gone=5)
    checked(lake, "2025-11-30T01", fine=0, once=0, now=2)
    found = trends(lake)
    assert [(one.expectation, one.counts, one.last.status) for one in found] == [
        ("now", "0 2", "warned"),
        ("once", "3 0", "succeeded"),
        ("fine", "0 0", "succeeded"),
    ], "a promise that its table no longer makes is not told"
    assert (found[0].last.passed, found[0].last.failed) == (8, 2)
    assert [one.counts for one in trends(lake, last=1)] == ["2", "0", "0"]
    assert trends(lake, "gold_b") == []


def test_the_page_has_a_bar_for_each_check(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    assert "Nothing has been checked yet" in expectations_page(lake)
    checked(lake, "2025-11-30T00", **{"a <promise>": 4})
    checked(lake, "2025-11-30T01", **{"a <promise>": None})
    shown = expectations_page(lake)
    assert "a &lt;promise&gt;" in shown
    assert "2025-11-30T00: 4 of 10 rows" in shown
    assert "2025-11-30T01: no verdict" in shown
    assert "1 expectations, 1 not met" in shown


def counted(lake: Lake, hours: int, kept: int, dropped: list[int]) -> None:
    """So many checks of a table of ``kept`` rows more each hour, and of those that it drops."""
    for hour in range(hours):
        log = EventLog(lake, run_id=f"run {hour}", hour=f"2025-11-30T{hour:02}", strategy="full", attempt=1)
        met = {"never null": {"status": "succeeded", "severity": "critical", "passed": 1, "failed": 0}}
        left_out = {"x: rows are dropped": {"status": "warned", "severity": "warning", "passed": 0, "failed": 1}}
        log.add("check", "silver", "silver_a", rows_in=kept * (hour + 10), details={"expectations": met})
        told = {"expectations": left_out}
        log.add("check", "silver", "quarantine_silver_a", rows_in=dropped[hour], status="warned", details=told)
        log.flush()


def test_rows_dropped_by_design_are_fine_until_their_share_jumps(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path / "even"))
    counted(lake, 9, 100, [10 * (hour + 10) + hour % 2 for hour in range(9)])
    shown = expectations_page(lake)
    assert "ok, 180 dropped (9.1 % of silver_a)" in shown and "0 warned" in shown
    jumping = Lake(str(tmp_path / "jump"))
    counted(jumping, 9, 100, [10 * (hour + 10) + hour % 2 for hour in range(8)] + [900])
    assert "900 dropped (33.3 % of silver_a): the share jumped from its history" in expectations_page(jumping)


def test_a_number_of_rows_that_jumps_from_its_own_growth_is_told() -> None:
    even = {f"{hour:02}": 1000 + 10 * hour for hour in range(12)}
    assert not volume_of("t", even).is_jump
    jump = volume_of("t", even | {"12": 2000})
    assert jump.is_jump and round(jump.expected or 0) == 1120
    assert not volume_of("t", dict(list(even.items())[:4]) | {"12": 2000}).is_jump, "too short a history"


def test_groups_can_be_narrowed_by_status_table_and_layer(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    checked(lake, "2025-11-30T00", promise=4)
    counted(lake, 2, 100, [1, 1])
    assert 'id="gold_a"' in expectations_page(lake, status="warned")
    assert 'id="silver_a"' not in expectations_page(lake, status="warned")
    assert 'id="gold_a"' not in expectations_page(lake, layer="silver")
    assert 'id="silver_a"' in expectations_page(lake, table="silver_a")
    assert "No table is like that" in expectations_page(lake, table="silver_b")
