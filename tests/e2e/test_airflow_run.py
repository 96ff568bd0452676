"""An hour through a real Airflow: its scheduler, its API, spark-submit and all."""

import ipaddress
import json
import os
import re
import secrets
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
import pytest
from openlineage.client import event_v2
from playwright.sync_api import Page

from medallion.airflow.local import WARM, LocalAirflow
from medallion.airflow.naming import REFRESH
from medallion.airflow.ports import free_port
from medallion.airflow.processes import Process
from medallion.model.selection import select_tables
from medallion.ops import event_log, releases
from medallion.storage.lake import Lake
from scripts.screenshots import CHROMIUM, browser, fill_in_backfill
from tests.part_of_shop import part_of_shop, some_tables
from tests.unit.lineage_receiver import Received, lineage_service, require_fields

pytestmark = pytest.mark.timeout(1800)
in_browser = pytest.mark.skipif(not Path(CHROMIUM).exists(), reason=f"there is no {CHROMIUM}: apt-get install chromium")

SECRET, CANARY = "AWS_SECRET_ACCESS_KEY", f"canary{secrets.token_hex(16)}"
H0, H1, H2, H3, H4, H5, H6 = (f"2025-11-30T0{number}" for number in range(7))
ASKED = "gold_order_status_summary", "gold_cancellation_impact"
TABLES = some_tables(*ASKED)
ORDER, LATE_ORDER = 900_000_001, 900_000_002
BAD_LINE = json.dumps(
    {
        "insert": {"order_id": ORDER, "user_id": 1, "order_status": "pending", "order_total": "a lot"}
        | dict.fromkeys(("created_at", "updated_at", "ingested_at"), f"{H4}:10:00Z")
    }
)
TASKS = [
    "land_changes",
    *("bronze.apply_changes", "bronze.check", "silver.refresh", "silver.check", "gold.refresh", "gold.check"),
    "publish",
    "validate",
]


@pytest.fixture(scope="module")
def lineage() -> Iterator[tuple[str, Received]]:
    """A lineage service: its address, and what it has got."""
    with lineage_service() as service:
        yield service


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory, lineage: tuple[str, Received]) -> Iterator[LocalAirflow]:
    """An Airflow of its own with a warm Spark, as ``make up`` starts it, over a lake that holds the snapshot of a small
    shop."""
    folder = tmp_path_factory.mktemp("airflow run")  # with a space, as folders may have
    overrides = {"MEDALLION_LAKE": f"{folder}/lake", "MEDALLION_SOURCE": f"{folder}/source", SECRET: CANARY}
    overrides |= {"MEDALLION_EXTRAS": "false", WARM: f"sc://localhost:{free_port()}"}
    overrides["OPENLINEAGE_URL"], _ = lineage
    overrides["MEDALLION_MAX_BAD_LINES"] = "0.5"  # an hour of so small a shop has few orders
    overrides["AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT"] = "20"  # how soon a killed task is missed,
    overrides["AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL"] = "10"  # and one whose scheduler was killed
    project = part_of_shop(folder / "project", *ASKED)
    for kind in ("DAGS", "PLUGINS"):  # tests of DAGs in this process have set those of the shop
        overrides[f"AIRFLOW__CORE__{kind}_FOLDER"] = str(project.root / kind.lower())
    airflow = LocalAirflow(folder / "airflow", free_port(), project.root, overrides)
    medallion = Path(sys.executable).with_name("medallion")
    generate = ("source", "generate", overrides["MEDALLION_SOURCE"], "--days", "2", "--hours", "7", "--scale", "0.05")
    for arguments in (generate, ("load",)):
        subprocess.run([medallion, *arguments], env=airflow.environment | {WARM: ""}, check=True)  # it is not up yet
    with (Path(overrides["MEDALLION_SOURCE"]) / "cdc" / "orders" / f"{H4}.json").open("a") as changes:
        changes.write(BAD_LINE + "\n")
    with airflow.running():
        yield airflow


@pytest.fixture(scope="module")
def lake(airflow: LocalAirflow) -> Lake:
    return Lake(airflow.environment["MEDALLION_LAKE"])


def trigger(airflow: LocalAirflow, run_id: str, hour: str | None, **conf: str) -> str:
    body = {"dag_run_id": run_id, "logical_date": None, "conf": {"hour": hour, **conf}}
    airflow.api.call("POST", f"dags/{REFRESH}/dagRuns", body)
    return f"dags/{REFRESH}/dagRuns/{run_id}"


def states(airflow: LocalAirflow, run: str) -> dict[str, str]:
    tasks = airflow.api.call("GET", f"{run}/taskInstances")["task_instances"]
    return {task["task_id"]: task["state"] for task in tasks}


def eventually(happened: Callable[[], Any], seconds: float = 600) -> Any:
    deadline = time.monotonic() + seconds
    while not (result := happened()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(1)
    return result


def outcome(airflow: LocalAirflow, run: str) -> tuple[str, dict[str, str]]:
    """How the run ended, and each of its tasks."""
    ended = eventually(lambda: (state := airflow.api.call("GET", run)["state"]) in ("success", "failed") and state)
    return ended, states(airflow, run)


def note(airflow: LocalAirflow, run: str) -> str:
    """What the list of runs says about the run."""
    return str(airflow.api.call("GET", run)["note"])


def test_an_hour_goes_from_the_source_to_a_release(airflow: LocalAirflow, lake: Lake) -> None:
    run = trigger(airflow, "first", H0)
    assert outcome(airflow, run) == ("success", dict.fromkeys(TASKS, "success"))

    release = releases.latest(lake)
    assert release is not None
    assert (release.hour, release.run_id, set(release.versions)) == (H0, "first", set(TABLES.tables))

    said = note(airflow, run)
    for words in (f"{H0}, full: ", "rows of Bronze changed", "tables written", f"release {release.release_id}"):
        assert words in said

    steps = [(e.event_type, e.layer) for e in event_log.read(lake, run_id="first") if e.table_name is None]
    assert sorted(steps, key=str) == sorted(
        [
            ("land", "bronze"),
            *[("session", None)] * 2,
            ("apply", "bronze"),
            ("check", "bronze"),
            ("refresh", "silver"),
            ("check", "silver"),
            ("refresh", "gold"),
            ("check", "gold"),
            ("publish", None),
            ("validate", None),
        ],
        key=str,
    )
    assert {e.hour for e in event_log.read(lake, run_id="first")} == {H0}
    refreshed = {e.table_name for e in event_log.read(lake, run_id="first", event_type="refresh")} - {None}
    assert refreshed == {t.name for t in TABLES if t.layer != "bronze"}


def test_lineage_of_the_hour_goes_from_the_dag_to_the_columns_of_its_tables(
    airflow: LocalAirflow, lake: Lake, lineage: tuple[str, Received]
) -> None:
    _, received = lineage

    def completed(job: str) -> Received:
        return [e for e in list(received) if e["job"]["name"] == job and e["eventType"] == "COMPLETE"]

    def parent(event: dict[str, Any]) -> str:
        return str(event["run"]["facets"]["parent"]["run"]["runId"])

    (task,) = completed(f"{REFRESH}.gold.refresh")
    eventually(lambda: parent(task) in {event["run"]["runId"] for event in completed(REFRESH)}, seconds=60)
    for event in list(received):
        require_fields(event, event_v2.RunEvent, event["job"]["name"])
    tables = completed("gold_order_status_summary.refresh")  # of the load before, too, which was no task
    (table,) = [event for event in tables if parent(event) == task["run"]["runId"]]
    (written,) = table["outputs"]
    assert written["name"] == lake.path("gold_order_status_summary")
    assert "total_revenue" in {field["name"] for field in written["facets"]["schema"]["fields"]}
    (source,) = written["facets"]["columnLineage"]["fields"]["total_revenue"]["inputFields"]
    assert source["name"] == lake.path("silver_orders_enriched")
    assert completed("gold_order_status_summary.check")


@in_browser
def test_a_browser_finds_state_reports_and_timings(airflow: LocalAirflow) -> None:
    run = f"dags/{REFRESH}/runs/first"
    with browser(airflow) as page:
        for path, told in (
            ("plugin/medallion-status", f"{H0}, published"),
            ("plugin/medallion-results", "tables of Gold and above"),
            ("plugin/medallion-runs", "seconds by phase"),
            ("plugin/medallion-reports", "first"),
            ("plugin/medallion-timings", "Seconds of an hour, by step"),
            (f"{run}/plugin/medallion-run", "refresh silver_orders_enriched"),
            (f"{run}/tasks/silver.check/plugin/medallion-report", f"Silver check, {H0}"),
        ):
            page.goto(f"{airflow.url}/{path}")
            page.frame_locator("iframe").get_by_text(told).first.wait_for(timeout=60_000)


def test_its_tables_are_updated_assets(airflow: LocalAirflow) -> None:
    updated = airflow.api.call("GET", "assets/events?limit=100")["asset_events"]
    assert {event["name"] for event in updated} == set(TABLES.tables)


def test_wrong_requests_end_at_once_with_the_reason_as_note_and_hold_up_nobody(
    airflow: LocalAirflow, lake: Lake
) -> None:
    """Those that cannot be right fail, those that leave nothing to do are skipped; none is tried again."""
    before, began = releases.latest(lake), time.monotonic()
    next_hour = f"{datetime.now(UTC):%Y-%m-%dT%H}"
    wrong = {
        "gap": (H3, "failed", f"2 hours ({H1} to {H2}) must come before {H3}: backfill {H1} to {H3}"),
        "done": (H0, "skipped", f"hour {H0} is published already: nothing to do"),
        "absent": ("2025-12-31T00", "skipped", "the source has no change file for hour 2025-12-31T00"),
        "running": (next_hour, "skipped", f"hour {next_hour} has not ended yet"),
        "april": ("2025-04-31T00", "failed", "hour '2025-04-31T00' is not an hour: write YYYY-MM-DDTHH in UTC"),
    }
    runs = {run_id: trigger(airflow, run_id, hour) for run_id, (hour, _, _) in wrong.items()}
    for run_id, (_, state, reason) in wrong.items():
        _, tasks = outcome(airflow, runs[run_id])
        assert tasks["land_changes"] == state, run_id
        assert reason in note(airflow, runs[run_id])
        assert airflow.api.call("GET", f"{runs[run_id]}/taskInstances/land_changes")["try_number"] == 1
    assert time.monotonic() - began < 240, "a failed request was tried again, or waited for"
    assert releases.latest(lake) == before
    (row,) = event_log.read(lake, run_id="absent")
    assert (row.event_type, row.status, row.hour) == ("land", "skipped", "2025-12-31T00")


def test_a_killed_driver_is_in_the_event_log_and_its_task_is_tried_again(airflow: LocalAirflow, lake: Lake) -> None:
    run = trigger(airflow, "killed", None, spark="submit")  # no hour: the next in line
    driver = eventually(lambda: driver_of("killed", "silver"))
    os.kill(driver, signal.SIGKILL)
    eventually(lambda: states(airflow, run)["silver.refresh"] == "up_for_retry")

    def closed() -> list[dict[str, Any]]:  # by a callback, which runs after the task has changed its state
        rows = event_log.read(lake, run_id="killed", event_type="refresh", layer="silver")
        return [row for row in rows if row.table_name is None]

    (row,) = eventually(closed, seconds=120)
    assert (row.status, row.hour, row.attempt) == ("failed", H1, 1)
    assert row.details["error"]


@pytest.mark.long
def test_a_scheduler_killed_with_all_it_runs_goes_on_where_it_was(airflow: LocalAirflow, lake: Lake) -> None:
    run = "dags/hourly_refresh/dagRuns/killed"  # its task is being tried again
    eventually(lambda: states(airflow, run)["silver.check"] == "success")
    eventually(lambda: driver_of("killed", "gold"))
    assert {ip for ip, _ in listening(airflow) if not ipaddress.ip_address(ip).is_loopback} == set()
    recorded = json.loads((airflow.home / "processes.json").read_text())["processes"]["scheduler"]
    scheduler = Process(**recorded)
    scheduler.send_to_all(signal.SIGKILL)
    eventually(lambda: not scheduler.members())
    assert releases.require_release(lake, None).hour == H0, "readers keep what they had"
    airflow.up()


def test_an_hour_goes_green_although_it_was_killed(airflow: LocalAirflow, lake: Lake) -> None:
    assert outcome(airflow, "dags/hourly_refresh/dagRuns/killed") == ("success", dict.fromkeys(TASKS, "success"))
    assert [release.hour for release in releases.read_all(lake)] == [None, H0, H1]
    assert {lake.applied_hour(feed.name) for feed in TABLES.feeds} == {H1}


def backfill(airflow: LocalAirflow, first: str, last: str, reprocess: str) -> subprocess.CompletedProcess[str]:
    dates = ("--from-date", f"{first}:00:00Z", "--to-date", f"{last}:00:00Z", "--reprocess-behavior", reprocess)
    command = [sys.executable, "-m", "airflow", "backfill", "create", "--dag-id", REFRESH, *dates]
    return subprocess.run(command, env=airflow.environment, capture_output=True, text=True)


def hours_of_backfill(airflow: LocalAirflow, number: int) -> list[tuple[str, str, set[str]]]:
    """Once the backfill has ended by itself: its hours in order, and how run and tasks ended."""

    def all_ended() -> bool:
        made = airflow.api.call("GET", f"backfills?dag_id={REFRESH}")["backfills"]
        return len(made) == number and all(one["completed_at"] for one in made)

    eventually(all_ended)
    runs = airflow.api.call("GET", f"dags/{REFRESH}/dagRuns?run_type=backfill&order_by=logical_date")["dag_runs"]
    assert all(run["dag_run_id"].startswith(f"backfill__{run['logical_date'][:13]}") for run in runs)
    tasks = [set(states(airflow, f"dags/{REFRESH}/dagRuns/{run['dag_run_id']}").values()) for run in runs]
    return [(run["logical_date"][:13], run["state"], ended) for run, ended in zip(runs, tasks, strict=True)]


@in_browser
def test_a_backfill_from_the_dialog_takes_its_hours_in_order_and_passes_over_those_published(
    airflow: LocalAirflow, lake: Lake
) -> None:
    with browser(airflow) as page:
        fill_in_backfill(page, airflow, H1, H3)
        page.get_by_text("3 runs will be triggered").wait_for()
        page.locator("#element_strategy").click()
        page.get_by_role("option", name="incremental").click()
        # Without it the dialog sends none for new runs either.
        page.get_by_text("Override parameters on existing runs").click()
        page.get_by_role("button", name="Run Backfill").click()
        page.get_by_text("Backfill in progress").first.wait_for(timeout=60_000)
    assert hours_of_backfill(airflow, 1) == [
        (H1, "success", {"skipped"}),
        (H2, "success", {"success"}),
        (H3, "success", {"success"}),
    ]
    assert [release.hour for release in releases.read_all(lake)] == [None, H0, H1, H2, H3], "in order"
    refreshed = [row for row in event_log.read(lake, event_type="refresh", hour=H3) if row.table_name is None]
    assert {row.strategy for row in refreshed} == {"incremental"}


def reach(airflow: LocalAirflow, lake: Lake, hour: str) -> None:
    """See to it that ``hour`` is published: the test that does so in a browser is skipped where there is none."""
    while (last := releases.require_release(lake, None).hour or "") < hour:
        ended, _ = outcome(airflow, trigger(airflow, f"after_{last or 'load'}", None))
        assert ended == "success"


@pytest.mark.long
def test_a_backfill_that_goes_over_published_hours_again_changes_no_row(airflow: LocalAirflow, lake: Lake) -> None:
    reach(airflow, lake, H3)
    backfills = len(airflow.api.call("GET", f"backfills?dag_id={REFRESH}")["backfills"])
    before = releases.read_all(lake), {table: lake.version(table) for table in TABLES.tables}
    made = backfill(airflow, H1, H3, "completed")
    assert made.returncode == 0, made.stderr
    assert hours_of_backfill(airflow, backfills + 1) == [(hour, "success", {"skipped"}) for hour in (H1, H2, H3)]
    assert (releases.read_all(lake), {table: lake.version(table) for table in TABLES.tables}) == before


@in_browser
def test_the_form_triggers_an_hour_that_goes_green_and_a_note_says_what_is_no_hour(
    airflow: LocalAirflow, lake: Lake
) -> None:
    with browser(airflow) as page:
        submit_form(page, airflow, "yesterday")
        (wrong,) = eventually(lambda: manual_runs(airflow), seconds=60)
        assert outcome(airflow, f"dags/{REFRESH}/dagRuns/{wrong}")[0] == "failed"
        assert "hour 'yesterday' is not an hour" in note(airflow, f"dags/{REFRESH}/dagRuns/{wrong}")
        submit_form(page, airflow, f" {H4} ")
        (run,) = eventually(lambda: set(manual_runs(airflow)) - {wrong}, seconds=60)
        assert outcome(airflow, f"dags/{REFRESH}/dagRuns/{run}") == ("success", dict.fromkeys(TASKS, "success"))
        page.goto(f"{airflow.url}/dags/{REFRESH}/runs/{run}")
        page.get_by_text("Success").first.wait_for(timeout=60_000)
    assert releases.require_release(lake, None).hour == H4


def submit_form(page: Page, airflow: LocalAirflow, hour: str, action: str = "", confirmation: str = "") -> None:
    """Open the DAG's form, fill it in and press its button; on a page of its own, as a refusal lies over the button."""
    page.goto(f"{airflow.url}/dags/{REFRESH}")
    page.get_by_label("Trigger Dag").first.click()
    page.get_by_text("Leave Logical Date as it is").wait_for()
    page.locator("#element_hour").fill(hour)
    if action:
        page.locator("#element_action").click()
        page.get_by_role("option", name=action).click()
        page.locator("#element_confirmation").fill(confirmation)
    page.get_by_role("dialog").get_by_role("button", name="Trigger", exact=True).click()


def manual_runs(airflow: LocalAirflow) -> list[str]:
    """The runs that the form made: those of the tests have names of their own."""
    runs = airflow.api.call("GET", f"dags/{REFRESH}/dagRuns?run_type=manual")["dag_runs"]
    return [run["dag_run_id"] for run in runs if run["dag_run_id"].startswith("manual__")]


@in_browser
def test_rejected_line_is_corrected_on_its_page_and_replayed(airflow: LocalAirflow, lake: Lake) -> None:
    reach(airflow, lake, H4)
    assert ORDER not in orders(lake)
    before = releases.require_release(lake, None).release_id
    with browser(airflow) as page:
        run = correct_and_replay(page, airflow, H4, lambda text: text.replace(r"\"a lot\"", "12.50"))
    assert outcome(airflow, f"dags/replay_quarantine/dagRuns/{run}") == ("success", {"replay": "success"})
    newest = releases.require_release(lake, None)
    assert (newest.hour, newest.release_id, newest.run_id) == (H4, before + 1, run)
    assert str(orders(lake)[ORDER]) == "12.50"


def orders(lake: Lake) -> dict[int, Any]:
    rows = lake.opened(lake.path("bronze_orders")).to_pyarrow_table(columns=["order_id", "order_total"]).to_pylist()
    return {row["order_id"]: row["order_total"] for row in rows}


def correct_and_replay(page: Page, airflow: LocalAirflow, hour: str, correct: Callable[[str], str]) -> str:
    """Correct the rejected orders of an hour on their page and replay them; return the id of the run."""
    page.goto(f"{airflow.url}/medallion/quarantine?feed=orders&hour={hour}")
    lines = page.locator("#corrected")
    lines.fill(correct(lines.input_value()))
    page.get_by_label(f"Restate {hour} and every later hour").check()
    page.get_by_role("button", name="Replay").click()
    page.get_by_role("heading", name="Replay started").wait_for()
    (run,) = airflow.api.call("GET", "dags/replay_quarantine/dagRuns")["dag_runs"]
    return str(run["dag_run_id"])


def test_upkeep_goes_through_the_scheduler(airflow: LocalAirflow, lake: Lake) -> None:
    reach(airflow, lake, H4)
    published = [release.hour for release in releases.read_all(lake)]
    airflow.unpause("daily_maintenance")
    body = {"dag_run_id": "upkeep", "logical_date": None, "conf": {"keep_hours": 0}}
    airflow.api.call("POST", "dags/daily_maintenance/dagRuns", body)
    assert outcome(airflow, "dags/daily_maintenance/dagRuns/upkeep") == ("success", {"maintain": "success"})
    assert [release.hour for release in releases.read_all(lake)] == published[-2:], "the newest two are kept"
    (row,) = [row for row in event_log.read(lake, run_id="upkeep", event_type="maintain") if row.table_name is None]
    assert row.status == "succeeded"


def test_selected_tables_are_refreshed_and_readers_keep_what_they_have(airflow: LocalAirflow, lake: Lake) -> None:
    reach(airflow, lake, H4)
    before, chosen = releases.latest(lake), "+gold_order_status_summary"
    body = {"dag_run_id": "selected", "logical_date": None, "conf": {"hour": H5, "select": chosen}}
    airflow.api.call("POST", f"dags/{REFRESH}/dagRuns", body)
    ended, _ = outcome(airflow, f"dags/{REFRESH}/dagRuns/selected")
    assert ended == "success"
    refreshed = event_log.read(lake, run_id="selected", event_type="refresh")
    names = {name for row in refreshed if (name := row.table_name)}
    assert names == {n for n in select_tables(TABLES, chosen) if TABLES[n].layer != "bronze"}
    assert f"left behind by the selection {chosen}" in note(airflow, f"dags/{REFRESH}/dagRuns/selected")
    assert releases.latest(lake) == before


@in_browser
def test_an_hour_is_restated_from_the_form_once_it_is_confirmed(airflow: LocalAirflow, lake: Lake) -> None:
    reach(airflow, lake, H4)
    if lake.applied_hour("bronze_orders") != H5:  # the test of selected tables left it unpublished
        reach(airflow, lake, H5)
    before, source = releases.require_release(lake, None), Path(airflow.environment["MEDALLION_SOURCE"])
    late = BAD_LINE.replace(str(ORDER), str(LATE_ORDER)).replace('"a lot"', "7.25").replace(H4, H5)
    with (source / "cdc" / "orders" / f"{H5}.json").open("a") as changes:
        changes.write(late + "\n")
    with browser(airflow) as page:
        refused = form_run(page, airflow, H5, "restate", H4)
        assert outcome(airflow, f"dags/{REFRESH}/dagRuns/{refused}")[0] == "failed"
        assert f"restate {H5} was not confirmed" in note(airflow, f"dags/{REFRESH}/dagRuns/{refused}")
        run = form_run(page, airflow, H5, "restate", H5)
    assert outcome(airflow, f"dags/{REFRESH}/dagRuns/{run}") == ("success", dict.fromkeys(TASKS, "success"))
    release = releases.require_release(lake, None)
    assert (release.hour, release.run_id) == (H5, run)
    assert release.release_id > before.release_id, "a run of the schedule may come between, when an hour of ours ends"
    assert str(orders(lake)[LATE_ORDER]) == "7.25"
    said = note(airflow, f"dags/{REFRESH}/dagRuns/{run}")
    assert said.startswith(f"restated from {H5}; ") and f"release {release.release_id}" in said
    assert " changed by 0 lines" not in said


def form_run(page: Page, airflow: LocalAirflow, hour: str, action: str, confirmation: str) -> str:
    """Submit the form; return the id of the run that it made."""
    before = set(manual_runs(airflow))
    submit_form(page, airflow, hour, action, confirmation)
    (run,) = eventually(lambda: set(manual_runs(airflow)) - before, seconds=60)
    return str(run)


def test_a_person_is_erased_by_a_run_that_names_nobody(airflow: LocalAirflow, lake: Lake, tmp_path: Path) -> None:
    reach(airflow, lake, H5)
    bought = lake.opened(lake.path("bronze_orders")).to_pyarrow_table()["user_id"].drop_null()[0].as_py()
    customers = lake.opened(lake.path("bronze_customers")).to_pyarrow_table().to_pylist()
    (email,) = (row["email"] for row in customers if row["customer_id"] == bought)
    (persons := tmp_path / "persons.txt").write_text(f"{bought}\n")
    before = releases.require_release(lake, None)
    airflow.unpause("erase")
    body = {"dag_run_id": "forget", "logical_date": None, "conf": {"subjects_file": str(persons)}}
    airflow.api.call("POST", "dags/erase/dagRuns", body)
    assert outcome(airflow, "dags/erase/dagRuns/forget") == ("success", {"erase": "success"})
    assert note(airflow, "dags/erase/dagRuns/forget").startswith("erased 1 subject: ")
    release = releases.require_release(lake, None)
    assert release.hour == before.hour and release.release_id > before.release_id
    verify = ("erase", "--subject-file", str(persons), "--value", email, "--verify")
    medallion = Path(sys.executable).with_name("medallion")
    done = subprocess.run([medallion, *verify], env=airflow.environment, cwd=airflow.project, capture_output=True)
    assert done.returncode == 0, done.stdout
    named = re.compile(rf'"?(?:customer_id|user_id)"?\W{{1,8}}{bought}\b')
    logs = [file for file in airflow.home.rglob("*.log") if "forget" in str(file)]
    assert logs and not [file for file in logs if email in (text := file.read_text()) or named.search(text)]


def test_an_hour_with_bad_data_goes_red_at_its_gate_and_the_report_says_why(airflow: LocalAirflow, lake: Lake) -> None:
    reach(airflow, lake, H5)
    changes = Path(airflow.environment["MEDALLION_SOURCE"], "cdc", "suppliers", f"{H6}.json")
    ids = (
        lake.opened(lake.path("bronze_suppliers")).to_pyarrow_table(columns=["supplier_id"])["supplier_id"].to_pylist()
    )
    changes.parent.mkdir(exist_ok=True)
    changes.write_text("".join(f'{{"delete": {{"supplier_id": {number}}}}}\n' for number in ids))
    red = outcome(airflow, trigger(airflow, "red", H6))
    ended, tasks = red
    assert ended == "failed"
    reached = {"land_changes": "success", "bronze.apply_changes": "success", "bronze.check": "failed"}
    assert tasks == dict.fromkeys(TASKS, "upstream_failed") | reached
    assert releases.require_release(lake, None).hour == H5, "readers keep what they had"
    assert "bronze check: " in note(airflow, "dags/hourly_refresh/dagRuns/red")
    later = trigger(airflow, "after_red", None)
    ended, _ = outcome(airflow, later)
    assert ended == "failed"
    assert note(airflow, later).startswith(f"waiting: hour {H6} is red: ")
    assert f"trigger hourly_refresh with Hour {H6}" in note(airflow, later)
    if Path(CHROMIUM).exists():
        with browser(airflow) as page:
            page.goto(f"{airflow.url}/dags/{REFRESH}/runs/red/tasks/bronze.check/plugin/medallion-report")
            page.frame_locator("iframe").get_by_text("bronze_suppliers").first.wait_for(timeout=60_000)
            told = page.frame_locator("iframe").locator("body").inner_text()
        assert "failed" in told and "not empty" in told, told
    cleared = {"dry_run": False, "dag_run_id": "red", "task_ids": ["bronze.check"], "include_downstream": True}
    airflow.api.call("POST", f"dags/{REFRESH}/clearTaskInstances", cleared)
    assert outcome(airflow, f"dags/{REFRESH}/dagRuns/red") == red, "the same rows are judged the same"
    assert airflow.api.call("GET", "dags/hourly_refresh/dagRuns/red/taskInstances/bronze.check")["try_number"] == 2


def driver_of(run_id: str, layer: str = "") -> int | None:
    """The JVM that runs a step of ``run_id``."""
    for folder in Path("/proc").iterdir():
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0].endswith(b"java") and b"org.apache.spark.deploy.SparkSubmit" in words and run_id.encode() in words:
            if layer and layer.encode() not in words:
                continue
            return int(folder.name)
    return None


def test_everything_listens_on_loopback_alone(airflow: LocalAirflow) -> None:
    assert airflow.port in {port for _, port in listening(airflow)}
    assert {ip for ip, _ in listening(airflow) if not ipaddress.ip_address(ip).is_loopback} == set()


def listening(airflow: LocalAirflow) -> set[tuple[str, int]]:
    """The addresses on which Airflow, its tasks and their drivers accept connections."""
    recorded = json.loads((airflow.home / "processes.json").read_text())["processes"].values()
    ours = {member.pid for process in recorded for member in Process(**process).members()}
    found = [c.laddr for c in psutil.net_connections("tcp") if c.status == psutil.CONN_LISTEN and c.pid in ours]
    return {(address.ip.removeprefix("::ffff:"), address.port) for address in found}


def test_nobody_gets_in_without_the_password(airflow: LocalAirflow) -> None:
    assert airflow.password not in ("", "admin", "airflow", "medallion")
    kept = airflow.home / "passwords.json"
    assert kept.stat().st_mode & 0o077 == 0
    for path in ("dags", "dags/hourly_refresh/dagRuns", "connections", "variables"):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"http://127.0.0.1:{airflow.port}/api/v2/{path}")
        assert refused.value.code == 401
    for path in ("status", "reports", "reports/file/index.html", "timings", "run?run_id=first"):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"http://127.0.0.1:{airflow.port}/medallion/{path}")
        assert refused.value.code == 401


def test_no_secret_is_left_in_a_log_a_report_or_the_lake(airflow: LocalAirflow, lake: Lake) -> None:
    """Last, after runs that went well, were skipped and were killed."""
    searched = 0
    for file in [*airflow.home.rglob("*"), *Path(lake.root).rglob("*")]:
        if not file.is_file() or file.name == "passwords.json":
            continue
        content, searched = file.read_bytes(), searched + 1
        assert CANARY.encode() not in content, file
        assert airflow.password.encode() not in content, file
    assert searched > 100
