"""How each expectation fared, check by check, in the terminal and on its page."""

from pathlib import Path
from typing import Any

from medallion.checks.volumes import ROW_COUNT_IN_HISTORY
from medallion.inspect.check_history import trends
from medallion.ops.event_log import EventLog
from medallion.storage.lake import Lake
from medallion.ui.expectations import TALL, expectations_page


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


def test_expectation_on_a_whole_table_that_failed_is_broken_though_no_row_is(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    log = EventLog(lake, run_id="run", hour="2025-11-30T00", strategy="full", attempt=1)
    verdict = {"status": "failed", "severity": "critical", "passed": 0, "failed": 0}
    fine = {"status": "succeeded", "severity": "critical", "passed": 9, "failed": 0}
    log.add("check", "gold", "gold_a", details={"expectations": {"fine": fine, "the table is not empty": verdict}})
    log.flush()
    assert [(trend.expectation, trend.counts, trend.is_broken) for trend in trends(lake)] == [
        ("the table is not empty", "x", True),
        ("fine", "0", False),
    ]


def test_an_earlier_hour_is_shown_as_its_checks_found_it(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    for hour, failed in (("2025-11-30T00", 4), ("2025-11-30T01", 0), ("2025-11-30T02", 1)):
        checked(lake, hour, promise=failed)
    (found,) = trends(lake, hour="2025-11-30T01")
    assert (found.last.hour, found.last.status, found.counts) == ("2025-11-30T01", "succeeded", "4 0")
    assert trends(lake, hour="2025-11-30T07") == [], "an hour without a check"


def test_tables_stand_in_the_order_of_the_lineage_after_those_that_failed(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    log = EventLog(lake, run_id="run", hour="2025-11-30T00", strategy="full", attempt=1)
    fine = {"status": "succeeded", "severity": "critical", "passed": 9, "failed": 0}
    worse = {"status": "warned", "severity": "warning", "passed": 9, "failed": 1}
    for table, verdict in (
        *(("gold_inventory_risk", fine), ("silver_products", fine), ("gold_order_status_summary", worse)),
        ("bronze_orders", fine),
    ):
        log.add("check", table.partition("_")[0], table, details={"expectations": {"promise": verdict}})
    log.flush()
    tables = [trend.table for trend in trends(lake)]
    assert tables == ["gold_order_status_summary", "bronze_orders", "silver_products", "gold_inventory_risk"]


def test_check_that_had_nothing_to_compare_with_is_not_called_passed(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    log = EventLog(lake, run_id="run", hour="2025-11-30T00", strategy="full", attempt=1)
    grows = {"status": "succeeded", "severity": "warning", "passed": 0, "failed": 0}
    told = {"row count grows as in its own history": grows | {"observed": "0 rows; not compared: 3 of 7 are known"}}
    log.add("check", "gold", "gold_a", details={"expectations": told})
    log.flush()
    page = expectations_page(lake, table="gold_a")
    assert '<b class="status not-compared">not compared</b>' in page and '"status succeeded"' not in page


def test_tables_that_passed_are_one_list_and_each_is_shown_on_demand(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    checked(lake, "2025-11-30T00", fine=0, other=0)
    assert "all 2 passed" in expectations_page(lake) and "Expectations of gold_a" not in expectations_page(lake)
    assert "Expectations of gold_a" in expectations_page(lake, table="gold_a")


def test_an_expectation_on_a_table_as_a_whole_has_no_failed_records(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    log = EventLog(lake, run_id="run", hour="2025-11-30T00", strategy="full", attempt=1)
    verdict = {"status": "failed", "severity": "critical", "passed": 0, "failed": 0}
    log.add("check", "gold", "gold_a", status="failed", details={"expectations": {"the table is not empty": verdict}})
    log.flush()
    (found,) = trends(lake)
    assert (found.last.failed_records, found.last.passed_records) == (None, None)
    assert "2025-11-30T00: the table as a whole failed" in expectations_page(lake)


def test_the_page_has_a_bar_for_each_check(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    assert "Nothing has been checked yet" in expectations_page(lake)
    checked(lake, "2025-11-30T00", **{"a <promise>": 4})
    checked(lake, "2025-11-30T01", **{"a <promise>": None})
    shown = expectations_page(lake)
    assert "a &lt;promise&gt;" in shown
    assert "2025-11-30T00: 4 of 10 records failed" in shown
    assert "2025-11-30T01: no verdict" in shown
    assert "1 of 1 did not pass" in shown


def test_expectation_on_a_whole_table_has_a_full_bar_when_it_failed(tmp_path: Path) -> None:
    log = EventLog(Lake(str(tmp_path)), run_id="run", hour="2025-11-30T00", strategy="full", attempt=1)
    verdict = {"status": "failed", "severity": "critical", "passed": 0, "failed": 0}
    log.add("check", "gold", "gold_a", status="failed", details={"expectations": {"the table is not empty": verdict}})
    log.flush()
    assert f'class="failed" x="0" y="0" width="5" height="{TALL}"' in expectations_page(Lake(str(tmp_path)))


def counted(lake: Lake, observed: str, status: str = "succeeded") -> None:
    """A check of a table and of those rows that it drops."""
    log = EventLog(lake, run_id="run", hour="2025-11-30T08", strategy="full", attempt=1)
    grows: dict[str, Any] = {"status": "succeeded", "severity": "warning", "passed": 1800, "failed": 0}
    bound = {"row count within 50% or 500 rows of the last release": grows}
    grown = {ROW_COUNT_IN_HISTORY: grows | {"observed": "1,800 rows"}}
    log.add("check", "silver", "silver_a", rows_in=1800, details={"expectations": grown | bound})
    drop = {"status": status, "severity": "warning", "passed": 1800, "failed": 180, "observed": observed}
    told = {"expectations": {"x: rows are dropped": drop}}
    log.add("check", "silver", "quarantine_silver_a", rows_in=180, status=status, details=told)
    log.flush()


def test_rows_dropped_by_design_are_shown_as_their_check_judged_them(tmp_path: Path) -> None:
    counted(Lake(str(tmp_path / "even")), "180 dropped (9.1 % of silver_a)")
    shown = expectations_page(Lake(str(tmp_path / "even")))
    assert "180 dropped (9.1 % of silver_a)" in shown and "0 warned" in shown
    jump = "900 dropped (33.3 % of silver_a), a jump from the usual 9.1 %"
    counted(Lake(str(tmp_path / "jump")), jump, "warned")
    shown = expectations_page(Lake(str(tmp_path / "jump")))
    assert jump in shown and "1 warned" in shown


def test_the_declared_bound_of_a_row_count_is_shown_beside_it(tmp_path: Path) -> None:
    counted(Lake(str(tmp_path)), "180 dropped (9.1 % of silver_a)")
    assert "1,800 rows; declared: row count within 50% or 500 rows of the last release" in expectations_page(
        Lake(str(tmp_path)), table="silver_a"
    )


def test_groups_can_be_narrowed_by_status_table_and_layer(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    checked(lake, "2025-11-30T00", promise=4)
    counted(lake, "180 dropped (9.1 % of silver_a)")
    assert 'id="gold_a"' in expectations_page(lake, status="warned")
    assert 'id="silver_a"' not in expectations_page(lake, status="warned")
    assert 'id="gold_a"' not in expectations_page(lake, layer="silver")
    assert 'id="silver_a"' in expectations_page(lake, table="silver_a")
    assert "No table is like that" in expectations_page(lake, table="silver_b")
