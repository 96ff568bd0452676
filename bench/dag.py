"""An hour as a run of the DAG, from trigger to release: with a JVM for each task that needs Spark, and with a warm one.

Run it as ``python -m bench.dag --days 90 --work FOLDER --out OUT``: a real Airflow for each of the two, over a copy of
the same lake, refreshes the same hours, in full and then incrementally. Rows must be equal at the end. OUT/dag.json has
the seconds, OUT/report.html shows them, beside those of medallion bench where OUT has any.
"""

import argparse
import json
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from bench import report
from bench.contest import FIRST_HOUR, _load, _with_changes, commit, machine
from bench.proof import differing
from scripts.local_airflow import DAG_ID, WARM, LocalAirflow, free_port
from spark_jobs.core import events, releases
from spark_jobs.core.errors import MedallionError
from spark_jobs.core.files import write_json
from spark_jobs.core.hours import hour_from_number, hour_number
from spark_jobs.core.lake import Lake
from spark_jobs.core.registry import registry
from spark_jobs.core.settings import Settings
from spark_jobs.source.generate import generate

MODES = {"a JVM per task": False, "warm Spark": True}
STRATEGIES = ("full", "incremental")
LONGEST = 1800  # seconds of a run


def measure(days: int, warm_up: int, hours: int, work: Path) -> dict[str, Any]:
    """Seconds by phase of each run that counts, as plain values. Raises MedallionError when a run is not green."""
    settings = Settings.from_environment()
    source = work / f"source-{days}"
    every = (warm_up + hours) * len(STRATEGIES)
    generate(source, days=days, hours=every + 1, scale=1, seed=0)
    loaded = replace(settings, lake=str(work / f"loaded-{days}"), source=str(source))
    if releases.latest(Lake(loaded.lake)) is None:
        _load(loaded)
    changed = _with_changes(source, 1, every, catalogue=False)
    runs, lakes = [], []
    for mode, warm in MODES.items():
        lake = work / f"dag-{'warm' if warm else 'own'}"
        shutil.rmtree(lake, ignore_errors=True)
        shutil.copytree(loaded.lake, lake)
        lakes.append(Lake(str(lake)))
        with _airflow(work, lake, changed, warm) as airflow:
            for number in range(every):
                place = number % (warm_up + hours)
                run = _run(airflow, lakes[-1], number, STRATEGIES[number // (warm_up + hours)])
                print(f"{mode}: {json.dumps(run)}", flush=True)
                if place >= warm_up:
                    runs.append({"spark": mode, **run})
    if wrong := differing(*lakes, registry()):
        raise MedallionError(f"the two differ in {', '.join(wrong)}: void")
    return {"days": days, "warm_up": warm_up, "commit": commit(), "machine": machine(), "runs": runs}


@contextmanager
def _airflow(work: Path, lake: Path, source: Path, warm: bool) -> Iterator[LocalAirflow]:
    """An Airflow of its own, with nothing of any other; gone when the block ends."""
    home = work / "airflow"
    shutil.rmtree(home, ignore_errors=True)
    told = {"MEDALLION_LAKE": str(lake), "MEDALLION_SOURCE": str(source), "MEDALLION_EXTRAS": "false"}
    told[WARM] = f"sc://localhost:{free_port()}" if warm else ""
    airflow = LocalAirflow(home.resolve(), free_port(), told)
    try:
        airflow.up()
        airflow.api.call("PATCH", f"dags/{DAG_ID}?update_mask=is_paused", {"is_paused": False})
        yield airflow
    finally:
        airflow.down()


def _run(airflow: LocalAirflow, lake: Lake, number: int, strategy: str) -> dict[str, Any]:
    """One hour by the DAG; where its seconds went, phase by phase."""
    hour, run_id = hour_from_number(hour_number(FIRST_HOUR) + number), f"bench-{number}"
    body = {"dag_run_id": run_id, "logical_date": None, "conf": {"hour": hour, "strategy": strategy}}
    airflow.api.call("POST", f"dags/{DAG_ID}/dagRuns", body)
    path, deadline = f"dags/{DAG_ID}/dagRuns/{run_id}", time.monotonic() + LONGEST
    while (run := airflow.api.call("GET", path))["state"] not in {"success", "failed"}:
        airflow.require_running()
        if time.monotonic() > deadline:
            raise MedallionError(f"{run_id} of hour {hour} has not ended after {LONGEST} s")
        time.sleep(1)
    if run["state"] == "failed":
        raise MedallionError(f"{run_id} of hour {hour} failed: see the logs in {airflow.home}")
    tasks = airflow.api.call("GET", f"{path}/taskInstances")["task_instances"]
    steps = _steps(lake, run_id)
    whole, in_tasks = _seconds(run, "queued_at"), sum(_seconds(task, "start_date") for task in tasks)
    phases = {"queue": whole - in_tasks, "start": in_tasks - sum(steps.values()), **steps}
    return {"hour": hour, "strategy": strategy, "seconds": whole, "phases": phases}


def _steps(lake: Lake, run_id: str) -> dict[str, float]:
    """By phase, the seconds that the steps of a run themselves report."""
    found: dict[str, float] = {}
    for row in events.read(lake, run_id=run_id):
        if row["table_name"] is None:
            found[events.phase_of(row)] = found.get(events.phase_of(row), 0.0) + row["seconds"]
    return found


def _seconds(told: Mapping[str, Any], begin: str) -> float:
    return (datetime.fromisoformat(told["end_date"]) - datetime.fromisoformat(told[begin])).total_seconds()


def main() -> None:
    """Measure it, and write both files."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.dag", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--days", type=int, default=90, help="of history (90)")
    parser.add_argument("--hours", type=int, default=3, help="that count, of each strategy (3)")
    parser.add_argument("--warm-up", type=int, default=3, help="before those (3)")
    parser.add_argument("--work", type=Path, required=True, help="for the lakes, and for Airflow")
    parser.add_argument("--out", type=Path, default=Path("bench-report"), help="for dag.json and report.html")
    given = parser.parse_args()
    found = measure(given.days, given.warm_up, given.hours, given.work.resolve())
    write_json(given.out / "dag.json", found)
    report.write(given.out)
    print(f"rows equal; the report is {given.out / 'report.html'}")


if __name__ == "__main__":
    main()
