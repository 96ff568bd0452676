"""The pages over the lake: what they show, what they leave out, and what they say when there is nothing."""

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from medallion.cli.common import new_run_id
from medallion.ingest.restatement import Restatement
from medallion.inspect.hour_history import HourMark, goes_with_clock, hour_history
from medallion.inspect.status import LakeStatus, TableStatus
from medallion.model.table import Feed
from medallion.ops.check_records import Failure
from medallion.ops.event_log import append
from medallion.ops.events import Event
from medallion.ops.red_hours import RedHour, UnpublishedHour
from medallion.ops.releases import Release
from medallion.ops.writer_lock import Holder
from medallion.storage.lake import Lake
from medallion.ui.lineage import lineage_graph
from medallion.ui.reports import report_file, report_of_task, reports_page
from medallion.ui.standing import AtWork, Standing, _at_work
from medallion.ui.status import status_page
from medallion.ui.timings import run_page, timings_page
from tests.shop import registry

BEGAN = datetime(2025, 12, 1, tzinfo=UTC)


def step(run: str, kind: str, layer: str | None = None, table: str | None = None, **values: Any) -> Event:
    number = int(run.rsplit("-", 1)[-1])
    hour = f"2025-11-30T{number % 24:02}"
    began = BEGAN + timedelta(hours=number)
    known: dict[str, Any] = {"started_at": began, "event_timestamp": began + timedelta(seconds=1), "seconds": 1.0}
    return Event(run, hour, kind, "full", 1, layer, table, **(known | values))


def whole_run(run: str, strategy: str = "full", gold: str = "succeeded") -> list[Event]:
    check = {"details": {"report": f"lake/reports/validation/h/{run}.html"}}
    steps = [
        step(run, "land", "bronze"),
        step(run, "apply", "bronze", rows_out=4000),
        step(run, "check", "bronze", **check),
        step(run, "refresh", "silver", "silver_customers", seconds=2.5),
        step(run, "refresh", "silver"),
        step(run, "check", "silver", **check),
        step(run, "refresh", "gold"),
        step(run, "check", "gold", status=gold, **check),
    ]
    if gold != "failed":
        steps.append(step(run, "publish"))
    for event in steps:
        event.strategy = strategy
    return steps


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(str(tmp_path / "lake"))


def log(lake: Lake, *events: Event) -> Lake:
    append(lake, events)
    return lake


def text(page: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<(style|script)>.*?</\1>|<[^>]+>", " ", page, flags=re.DOTALL))


def test_a_lake_without_runs_says_what_to_do(lake: Lake) -> None:
    assert "trigger hourly_refresh" in reports_page(lake)
    assert "trigger hourly_refresh" in timings_page(lake)
    assert "has nothing of this run" in run_page(lake, "x")
    assert "run medallion load" in status_page(Standing(LakeStatus("x")), registry())


def test_red_runs_come_first_and_then_the_newest(lake: Lake) -> None:
    log(lake, *whole_run("r-1"), *whole_run("r-2", gold="failed"), *whole_run("r-3"))
    assert re.findall(r">(r-\d)</a>", reports_page(lake)) == ["r-2", "r-3", "r-1"]


def test_a_layer_that_a_run_did_not_reach_is_not_checked(lake: Lake) -> None:
    log(lake, *whole_run("r-1")[:4])
    page = text(reports_page(lake))
    assert re.search(r"r-1 2025-12-01 01:00 succeeded not checked not checked", page)


def test_each_status_leads_to_its_report(lake: Lake) -> None:
    page = reports_page(log(lake, *whole_run("r-1")))
    assert page.count('href="reports/file/h/r-1.html"') == 3


def test_data_docs_are_one_click_away_where_they_were_built(lake: Lake) -> None:
    assert "Data Docs" not in reports_page(log(lake, *whole_run("r-1")))
    (lake.reports / "gx" / "site").mkdir(parents=True)
    (lake.reports / "gx" / "site" / "index.html").write_text("docs")
    assert 'href="reports/file/gx/site/index.html">Data Docs' in reports_page(lake)


def test_the_report_of_a_task_is_that_of_its_layer(lake: Lake) -> None:
    log(lake, *whole_run("r-1"))
    report = lake.reports / "h" / "r-1.html"
    report.parent.mkdir(parents=True)
    report.write_text("report")
    assert report_of_task(lake, "r-1", "silver.check") == report.resolve()
    assert report_of_task(lake, "r-1", "silver.refresh") is None
    assert report_of_task(lake, "r-2", "silver.check") is None


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "h/../../secret", "link", "h", "nothing.html", "..", ""])
def test_only_files_of_the_report_folder_are_served(lake: Lake, name: str) -> None:
    (lake.reports / "h").mkdir(parents=True)
    (lake.reports.parent / "secret").write_text("secret")
    (lake.reports / "link").symlink_to(lake.reports.parent / "secret")
    (lake.reports / "h" / "r.html").write_text("report")
    assert report_file(lake, "h/r.html") is not None
    assert report_file(lake, name) is None


def test_what_comes_from_the_log_is_escaped(lake: Lake) -> None:
    evil = "<script>alert(1)</script>-1"
    log(lake, *whole_run(evil), step(evil, "check", "gold", status="failed", details={"error": "<img src=x>"}))
    for page in (reports_page(lake), run_page(lake, evil), timings_page(lake, since='"><script>')):
        assert page.count("<script") == 1  # ours
        assert "<img" not in page


def test_timings_can_be_narrowed_to_hours_and_a_strategy(lake: Lake) -> None:
    log(lake, *whole_run("r-1"), *whole_run("r-2", "incremental"), *whole_run("r-3"))
    everything = timings_page(lake)
    assert all(hour in everything for hour in ("11-30T01", "11-30T02", "11-30T03"))
    assert "11-30T01" not in timings_page(lake, since="2025-11-30T02").split("</form>")[1]
    assert "11-30T03" not in timings_page(lake, until="2025-11-30T02").split("</form>")[1]
    narrowed = timings_page(lake, strategy="incremental").split("</form>")[1]
    assert "11-30T02" in narrowed and "11-30T01" not in narrowed
    assert "No hour was published in this range" in timings_page(lake, since="2026-01-01T00")


def test_timings_mark_set_up_runs_and_leave_them_out_of_medians(lake: Lake) -> None:
    def run(name: str, seconds: float, **details: Any) -> list[Event]:
        events = whole_run(name, "incremental")
        for event in events:
            if event.table_name:
                event.seconds, event.details = seconds, details
        return events

    log(lake, *run("r-1", 987.0, built_state=True), *run("r-2", 3.0))
    page = timings_page(lake)
    hours, tables, changes = page.split("<h2>")[1:]
    assert hours.count("set-up") == 2 and "set-up" in changes, "in the plot and in its table"
    assert "3.00" in tables and "987" not in tables


def test_runs_of_some_tables_are_no_points_of_rows_against_seconds(lake: Lake) -> None:
    selected = [event for event in whole_run("r-1") if event.event_type != "publish"]
    log(lake, *selected, *whole_run("r-2"))
    points = timings_page(lake).split("<h2>")[3]
    assert points.count("<tr>") == 2, "the head, and the run that published"


def test_the_colour_of_a_run_is_what_happened_and_the_filter_what_was_asked_for(lake: Lake) -> None:
    recomputed = whole_run("r-1", "incremental")
    for event in recomputed:
        if event.table_name:
            event.strategy = "full"
    log(lake, *recomputed)
    changes = timings_page(lake, strategy="incremental").split("<h2>")[3]
    assert "full" in changes and "incremental" not in changes
    assert "No hour was published in this range" in timings_page(lake, strategy="full")


def test_a_run_shows_each_step_and_table_with_what_went_wrong(lake: Lake) -> None:
    log(lake, *whole_run("r-1"), step("r-1", "check", "gold", status="failed", details={"error": "rows are missing"}))
    page = text(run_page(lake, "r-1"))
    assert "refresh silver_customers succeeded 2.50" in page
    assert "check gold failed 1.00 rows are missing" in page


def test_the_steps_of_a_run_of_airflow_lead_to_their_tasks(lake: Lake) -> None:
    command = new_run_id("refresh")
    log(lake, *whole_run("mine-1"), Event(command, "2025-11-30T02", "publish", "full", 1))
    page = run_page(lake, "mine-1")  # by the API a run may have any name
    assert 'href="../dags/hourly_refresh/runs/mine-1/tasks/silver.check"' in page
    assert 'href="../dags/hourly_refresh/runs/mine-1"' in page
    assert "This run in Airflow" not in run_page(lake, command)


def test_a_long_history_draws_no_more_than_fits_on_a_page(lake: Lake) -> None:
    log(lake, *(event for number in range(600) for event in whole_run(f"r-{number}")))
    page = timings_page(lake)
    assert page.count("<rect") + page.count("<path") < 2000


def found(problems: Sequence[str] = (), **changed: Any) -> LakeStatus:
    plain = TableStatus("x", rows=1, version=1, published=1, hour="2025-11-30T00", age_hours=1.0, check="succeeded")
    plain = replace(plain, mode="full recompute", last_seconds=1.25, **changed)
    release = Release(7, "2025-11-30T00", "r", "full", BEGAN, {})
    tables = [replace(plain, table=table.name) for table in registry()]
    return LakeStatus("x", release=release, tables=tables, problems=problems)


def test_the_state_of_the_lakehouse_names_what_is_wrong() -> None:
    assert "Nothing is red." in status_page(Standing(found()), registry())
    wrong = found([f"table {n} is stale" for n in range(12)], stale=True)
    page = text(status_page(Standing(wrong), registry()))
    assert "table 0 is stale" in page and "and 4 more" in page and "Nothing is red." not in page


def test_lag_is_counted_from_the_newest_hour_of_the_source_and_not_from_the_clock() -> None:
    page = text(status_page(Standing(found(), "2025-11-30T00"), registry()))
    assert "Up to date with the source : 2025-11-30T00 is its newest hour" in page.replace("source:", "source :")
    assert "2025-11-30T00 0 h" in page
    behind = text(status_page(Standing(found(), "2025-11-30T00", ["2025-11-30T01", "2025-11-30T05"]), registry()))
    assert "2 hours of the source are pending, 2025-11-30T01 to 2025-11-30T05" in behind
    assert "2025-11-30T00 5 h" in behind
    one = text(status_page(Standing(found(), "2025-11-30T00", ["2025-11-30T01"]), registry()))
    assert "Hour 2025-11-30T01 of the source is pending" in one


def test_hours_that_are_being_restated_are_not_pending() -> None:
    restated = replace(found(), restatement=Restatement("2025-11-30T05", "2025-11-30T05", hours=("2025-11-30T05",)))
    pending = ["2025-11-30T05", "2025-11-30T06"]
    page = text(status_page(Standing(restated, "2025-11-30T04", pending), registry()))
    assert "Hour 2025-11-30T06 of the source is pending" in page
    page = text(status_page(Standing(restated, "2025-11-30T04", pending[:1]), registry()))
    assert "of the source" not in page and "Up to date" not in page


def test_the_run_that_blocks_later_hours_is_named_with_the_way_out() -> None:
    hour = "2025-11-30T00"
    red = RedHour(hour, hour, "bronze", "manual__1", "", (Failure("bronze_orders", "is filled", "0 rows", "orders"),))
    page = status_page(Standing(found(), hour, blocked=UnpublishedHour(hour, "manual__1", red)), registry())
    assert "Hour 2025-11-30T00 is red, and later hours wait." in text(page)
    assert "bronze check failed: bronze_orders: is filled: 0 rows; orders" in text(page)
    assert f"medallion refresh --restate {hour}" in text(page)
    assert 'href="../dags/hourly_refresh/runs/manual__1"' in page
    assert "its validation report" not in page
    assert "Nothing is red." not in page


def test_the_check_that_blocks_later_hours_leads_to_its_report() -> None:
    hour = "2025-11-30T00"
    report = "/lake/reports/validation/2025-11-30T00/gold-manual__1-1.html"
    blocked = UnpublishedHour(hour, "manual__1", RedHour(hour, hour, "gold", "manual__1", report))
    page = status_page(Standing(found(), "2025-11-30T00", blocked=blocked), registry())
    assert 'href="reports/file/2025-11-30T00/gold-manual__1-1.html"' in page
    assert "/lake/reports" not in page


def test_each_hour_is_published_restated_red_skipped_pending_or_missing(lake: Lake) -> None:
    def at(hour: int, run: str, kind: str, **values: Any) -> Event:
        return Event(run, f"2025-11-30T{hour:02}", kind, "full", 1, **values)

    log(
        lake,
        *(at(0, "r-0", "publish"), at(1, "r-1", "publish"), at(1, "r-9", "publish")),
        *(at(2, "r-2", "refresh"), at(2, "r-2", "check", layer="gold", status="failed")),
        *(at(3, "r-3", "land", status="skipped"), at(5, "r-5", "check", layer="gold", status="failed")),
        *(at(5, "r-5", "check", layer="gold"), at(5, "r-5", "publish")),
        *(at(0, "back-1", "publish", details={"rolled_back_to": 1}),),
    )
    marks = hour_history(lake, ["2025-11-30T06"])
    assert [(mark.hour[-2:], mark.status) for mark in marks] == [
        *(("00", "published"), ("01", "reprocessed"), ("02", "red"), ("03", "skipped"), ("04", "missing")),
        *(("05", "published"), ("06", "pending")),
    ]
    page = status_page(Standing(found(), hours=marks), registry())
    assert 'aria-label="2025-11-30T02: red"' in page and 'href="run?run_id=r-2"' in page


def test_map_opens_the_run_that_published_an_hour_not_one_that_had_nothing_to_do(lake: Lake) -> None:
    log(
        lake,
        Event("r-0", "2025-11-30T00", "publish", "full", 1),
        Event("later", "2025-11-30T00", "land", "full", 1, status="skipped"),
        Event("later", "2025-11-30T00", "publish", "full", 1, status="skipped"),
    )
    assert [(mark.status, mark.run_id) for mark in hour_history(lake)] == [("published", "r-0")]


def test_an_hour_asked_for_by_mistake_does_not_stretch_the_map_of_hours(lake: Lake) -> None:
    log(
        lake,
        Event("r-0", "2025-11-30T00", "publish", "full", 1),
        Event("typo", "2026-11-20T00", "land", "full", 1, status="skipped"),
        Event("typo-2", "2027-11-20T00", "land", "full", 1, status="failed"),
    )
    assert [mark.hour for mark in hour_history(lake)] == ["2025-11-30T00"]


def test_each_hour_that_a_restatement_passed_is_restated_and_running_until_its_run_ends(lake: Lake) -> None:
    def at(hour: int, run: str, kind: str, **values: Any) -> Event:
        return Event(run, f"2025-11-30T{hour:02}", kind, "full", 1, **values)

    log(
        lake,
        *(at(0, "r-0", "apply"), at(0, "r-0", "publish"), at(1, "r-1", "apply"), at(1, "r-1", "publish")),
        *(at(0, "again", "apply"), at(1, "again", "apply"), at(1, "again", "apply", status="skipped")),
    )
    marks = hour_history(lake, running=["again"])
    assert [mark.status for mark in marks] == ["running", "running"]
    assert [mark.status for mark in hour_history(lake)] == ["restated", "restated"]
    at_work = AtWork("again", "2025-11-30T01", None)
    page = text(status_page(Standing(found(), hours=marks, at_work=at_work), registry()))
    assert "Run again is at work on hour 2025-11-30T01 now (between two tasks)." in page
    log(lake, at(1, "again", "publish"))
    assert [mark.status for mark in hour_history(lake, running=["again"])] == ["running", "restated"]


def test_writer_is_at_work_on_its_own_hour_though_the_run_of_a_later_one_has_begun() -> None:
    hours = [HourMark("2025-11-30T00", "running", "writes"), HourMark("2025-11-30T01", "running", "was-refused")]
    writer = Holder("writes", 1, "apply", "", since="now")
    assert _at_work(writer, hours) == AtWork("writes", "2025-11-30T00", "apply, since now")
    assert _at_work(replace(writer, run_id="maintains"), hours) == AtWork("maintains", None, "apply, since now")
    assert _at_work(None, hours) == AtWork("was-refused", "2025-11-30T01", None)
    assert _at_work(None, []) is None


def test_a_lake_goes_with_the_clock_when_its_hours_were_published_soon_after_they_ended() -> None:
    def release(published_at: datetime) -> Release:
        return Release(1, "2025-11-30T00", "r", "full", published_at, {})

    assert goes_with_clock([release(datetime(2025, 11, 30, 1, 20, tzinfo=UTC))])
    assert not goes_with_clock([release(datetime(2026, 11, 23, tzinfo=UTC))])


def test_lineage_stands_from_left_to_right_and_has_every_edge() -> None:
    graph = lineage_graph(registry(), {})
    x = {box.name: box.x for box in graph.boxes}
    assert set(x) == {table.name for table in registry()}
    edges = [(name, table.name) for table in registry() if not isinstance(table, Feed) for name in table.inputs]
    assert [(edge.start.name, edge.end.name) for edge in graph.edges] == edges
    assert all(x[name] < x[reader] for name, reader in edges)
    assert all(7 * len(box.name) < box.width for box in graph.boxes)  # a letter is 7 pixels wide at most


def test_the_page_of_the_lakehouse_draws_stale_tables_dashed_and_leads_to_each() -> None:
    page = status_page(Standing(found(stale=True)), registry())
    assert page.count('class="succeeded stale"') == len([*registry()])
    assert all(f'href="table?name={table.name}"' in page for table in registry())
