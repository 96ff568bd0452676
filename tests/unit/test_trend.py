"""How each expectation fared, check by check, in the terminal and on its page."""

from pathlib import Path
from typing import Any

from medallion.inspect.check_history import trends
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
    assert "1 expectations, 1 of them not kept" in shown
