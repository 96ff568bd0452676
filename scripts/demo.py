"""The demonstration: a shop's data, a lakehouse, three hours refreshed by a real scheduler; again for three more.

One hour is refreshed in full, the next ones incrementally, on the same warm Spark, until one of them is steady: the
first builds state, which later ones use. The summary shows them side by side, and what a month of each would cost.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote
from typing import Any

from demo.broken_hour import mend_hour
from medallion.airflow.local import WARM, LocalAirflow, where
from medallion.airflow.naming import REFRESH
from medallion.cli.common import print_lines
from medallion.errors import MedallionError
from medallion.ingest.ledger import applied_hour
from medallion.ingest.listing import change_files
from medallion.ingest.never_applied import warn_of_never_applied
from medallion.ingest.restatement import Restatement, read_restatement
from medallion.ingest.source import open_source
from medallion.ingest.unpublished import find_unpublished
from medallion.model.refresh_method import read_state_work
from medallion.ops import event_log, releases
from medallion.ops.lake_tables import tables_of
from medallion.ops.red_hours import UnpublishedHour
from medallion.project import find_project
from medallion.settings import Settings
from medallion.storage.lake import Lake
from scripts.demo_summary import Shown, print_comparison

DAYS = 30  # of history: long enough that a full refresh plainly costs more
MAX_INCREMENTAL = 4  # hours in which one is steady
RUNS = f"dags/{REFRESH}/dagRuns"


def main() -> None:
    airflow = LocalAirflow.of_project(find_project())
    settings = find_project().settings(airflow.environment)
    lake = Lake.of(settings)
    airflow.require_ports()
    if "://" not in settings.source and not Path(settings.source).exists():
        say(f"making the demo shop in {settings.source}")
        medallion(airflow, "source", "generate", settings.source, "--days", str(DAYS), "--hours", "24")
    airflow.up(say)
    if releases.latest(lake) is None:
        say(f"loading the snapshot into {settings.lake}")
        medallion(airflow, "load")
    wait_for_runs(airflow)
    hours = next_hours(settings, lake)
    if not hours:
        longer = f"medallion source generate {quote(settings.source)} --hours {len(source_hours(settings)) + 24}"
        say(f"the source has no further hour; .venv/bin/{longer} adds a day to the demo shop")
        return
    # The scheduler would fail a run to say so, and the first run that a newcomer sees would be red.
    warn_of_never_applied(lake, "demo", hours)
    airflow.unpause()
    runs = refresh_until_steady(airflow, lake, hours, "warm" if airflow.environment.get(WARM) else "JVM per task")
    medallion(airflow, "status")
    print_comparison(lake, runs, settings.currency)
    print_lines(
        [
            f"results   {airflow.url}/plugin/medallion-results",
            f"reports   {lake.root}/reports/validation",
            *where(airflow, ".venv/bin/medallion").splitlines(),
            "next      make demo-red: an hour whose check fails, and how to recover from it",
        ]
    )


def show_failed_check() -> None:
    """Break the next hour, refresh it, and say what there is to see and how to recover."""
    airflow, settings, lake = _running_demo()
    unpublished, applied = _unpublished(lake)
    if unpublished is not None and unpublished.red is not None:
        raise MedallionError(f"{unpublished.red.headline} already: make demo-heal, then come back")
    if unpublished is not None:
        raise MedallionError(f"hour {applied} is not published: trigger hourly_refresh without an hour, then come back")
    hour = next((hour for hour in source_hours(settings) if hour > (applied or "")), None)
    if hour is None:
        raise MedallionError("the source has no further hour: run make demo, and do what it says")
    run_id = run_id_of(hour)
    say(f"hour {hour} now deletes every supplier, as a faulty system would")
    medallion(airflow, "source", "break", settings.source, "--hour", hour)
    try:
        refresh(airflow, {"hour": hour, "strategy": "incremental"}, run_id)
    except MedallionError:
        print_failed_check(airflow, lake, run_id, hour)
    else:
        raise MedallionError(f"hour {hour} passed its checks: {airflow.url}")


def print_failed_check(airflow: LocalAirflow, lake: Lake, run_id: str, hour: str) -> None:
    """Print what failed in a run, where its report is, what readers have, and how to recover."""
    checks = [row for row in event_log.read(lake, run_id=run_id, event_type="check") if row.status == "failed"]
    failed = next((row.details for row in checks if row.table_name is None), None)
    release = releases.latest(lake)
    if failed is None or release is None:
        raise MedallionError(f"run {run_id} failed, but not at a check: {airflow.url}/dags/{REFRESH}/runs/{run_id}")
    results = f"{airflow.url}/plugin/medallion-results"
    print_lines(
        [
            f"failed    {failed['note']}",
            f"run       {airflow.url}/dags/{REFRESH}/runs/{run_id}",
            f"report    {failed['report']}",
            f"readers   keep release {release.release_id} of hour {release.hour}: {results}",
            "refused   medallion refresh of a later hour: nothing is applied on top of a red one",
            f"recover   make demo-heal: takes the deletions back at the source, and restates hour {hour}",
        ]
    )


def recover() -> None:
    """Mend the broken hour at the source, and restate it from the form, as a person would."""
    airflow, settings, lake = _running_demo()
    first = first_to_restate(_unpublished(lake)[0], read_restatement(lake))
    if first is None:
        say("no hour is red: nothing to heal")
        return
    for hour in source_hours(settings):
        if hour >= first and (removed := mend_hour(Path(settings.source), hour)):
            say(f"{removed:,} deletions of hour {hour} are taken back at the source")
    asked = {"hour": first, "confirmation": first, "action": "restate", "strategy": "full"}
    refresh(airflow, asked, run_id_of(first))
    release = releases.require_release(lake, None)
    results = f"{airflow.url}/plugin/medallion-results"
    print_lines([f"readers   have release {release.release_id} of hour {release.hour}: {results}"])


def _unpublished(lake: Lake) -> tuple[UnpublishedHour | None, str | None]:
    """Return the newest hour of Bronze with its state if it is unpublished or red, and the hour in any case."""
    tables = tables_of(lake)
    applied = applied_hour(lake, tables)
    return find_unpublished(lake, tables, applied, read_restatement(lake)), applied


def first_to_restate(unpublished: UnpublishedHour | None, restated: Restatement | None) -> str | None:
    """Return the first red hour, or the first hour of an interrupted restatement; None without either."""
    if unpublished is not None and unpublished.red is not None:
        return unpublished.red.hour
    return restated.hour if restated else None


def _running_demo() -> tuple[LocalAirflow, Settings, Lake]:
    airflow = LocalAirflow.of_project(find_project())
    settings = find_project().settings(airflow.environment)
    lake = Lake.of(settings)
    if releases.latest(lake) is None:
        raise MedallionError("there is no demo yet: make demo first")
    airflow.up(say)
    airflow.unpause()
    wait_for_runs(airflow)
    return airflow, settings, lake


def refresh_until_steady(airflow: LocalAirflow, lake: Lake, hours: Sequence[str], spark: str) -> list[Shown]:
    """Refresh one of ``hours`` in full, then others incrementally until one of them built no state."""
    runs: list[Shown] = []
    for hour, strategy in zip(hours, ("full", *["incremental"] * MAX_INCREMENTAL), strict=False):
        say(f"hour {hour}, {strategy}")
        run = refresh(airflow, {"hour": hour, "strategy": strategy, "spark": "as set"}, run_id_of(hour))
        rows = event_log.read(lake, run_id=run["dag_run_id"])
        work = next(filter(None, (read_state_work(row.details) for row in rows)), None)
        runs.append(Shown(f"{strategy}, {work or spark}", hour, run, is_setup=work is not None))
        say(f"hour {hour} was: {runs[-1].name}")
        if strategy == "incremental" and work is None:
            break
    return runs


def next_hours(settings: Settings, lake: Lake) -> list[str]:
    """Return the hours that the source has after the hour of the newest release."""
    release = releases.latest(lake)
    published = release.hour if release and release.hour else ""
    return [hour for hour in source_hours(settings) if hour > published]


def source_hours(settings: Settings) -> list[str]:
    """Return the hours that the source has, in order."""
    return list(change_files(open_source(settings), find_project().registry().feeds).hours)


def wait_for_runs(airflow: LocalAirflow) -> None:
    """Wait until no run of the DAG is queued or running: a run of an interrupted demo still publishes its hour."""
    reported_ids: set[str] = set()
    while runs := airflow.api.call("GET", f"{RUNS}?state=running&state=queued")["dag_runs"]:
        airflow.require_running()
        for run in runs:
            if run["dag_run_id"] not in reported_ids:
                reported_ids.add(run["dag_run_id"])
                say(f"waiting for run {run['dag_run_id']}, which is still on its way")
        time.sleep(1)


def run_id_of(hour: str) -> str:
    """Name a run of the demo for ``hour``."""
    return f"demo__{hour}__{datetime.now(UTC):%H%M%S}"


def refresh(airflow: LocalAirflow, conf: dict[str, str], run_id: str) -> dict[str, Any]:
    """Trigger a run with these params and report its tasks as they end. Raises MedallionError if one fails."""
    airflow.api.call("POST", RUNS, {"dag_run_id": run_id, "logical_date": None, "conf": conf})
    reported: set[tuple[str, int, str]] = set()
    while True:
        airflow.require_running()
        run: dict[str, Any] = airflow.api.call("GET", f"{RUNS}/{run_id}")
        tasks = airflow.api.call("GET", f"{RUNS}/{run_id}/taskInstances?order_by=start_date")["task_instances"]
        for task in tasks:
            name, state = task["task_id"], task["state"]
            news = (name, task["try_number"], state)
            if state in ("success", "failed", "up_for_retry", "skipped") and news not in reported:
                reported.add(news)
                say(f"  {name:<22} {state:<12} {task['duration'] or 0:6.1f} s")
        if run["state"] == "success":
            return run
        if run["state"] == "failed":
            raise MedallionError(explained(airflow, run_id, tasks))
        time.sleep(1)


def explained(airflow: LocalAirflow, run_id: str, tasks: list[dict[str, Any]]) -> str:
    """Return which task of the run failed, and the end of its log."""
    task = next(task for task in tasks if task["state"] == "failed")
    path = f"{RUNS}/{run_id}/taskInstances/{task['task_id']}/logs/{task['try_number']}?full_content=true"
    lines = []
    for entry in airflow.api.call("GET", path)["content"]:
        lines.append(entry["event"])
        lines += [f"{error['exc_type']}: {error['exc_value']}" for error in entry.get("error_detail") or ()]
    log = [line for line in lines if not line.startswith("::")]
    return "\n".join([f"task {task['task_id']} failed; the end of its log:", *log[-15:], f"all of it: {airflow.url}"])


def medallion(airflow: LocalAirflow, *arguments: str) -> None:
    command = Path(sys.executable).with_name("medallion")
    if subprocess.run([command, *arguments], env=airflow.environment).returncode != 0:
        raise MedallionError(f"medallion {arguments[0]} failed: see above, mend and run again")


def say(what: str) -> None:
    print_lines([f"demo: {what}"])


if __name__ == "__main__":
    ways = {"": main, "red": show_failed_check, "heal": recover}
    parser = argparse.ArgumentParser(prog="python -m scripts.demo", description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("what", nargs="?", choices=[*ways], default="", help="make an hour red, or heal it  [the demo]")
    try:
        ways[parser.parse_args().what]()
    except MedallionError as error:
        sys.exit(f"demo: {error}")
    except KeyboardInterrupt:
        sys.exit("demo: interrupted; make demo goes on from here, make down stops Airflow")
