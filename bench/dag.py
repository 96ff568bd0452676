"""An hour as a run of the DAG, from trigger to release: with a JVM for each task that needs Spark, and with a warm one.

Run it as ``medallion bench dag --days 90 --work FOLDER --out OUT``: a real Airflow for each of the two, over a copy of
the same lake, refreshes the same hours, in full and then incrementally. Rows must be equal at the end. OUT/dag.json has
the seconds, OUT/report.html shows them, beside those of medallion bench where OUT has any.
"""

import json
import shutil
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from bench import report
from bench.machine import commit, machine
from bench.plan import FIRST_HOUR, Plan
from bench.proof import differing
from bench.sources import prepare
from medallion.airflow.local import DAG_ID, WARM, LocalAirflow, free_port
from medallion.errors import MedallionError
from medallion.hours import hour_from_number, hour_number
from medallion.model.registry import registry
from medallion.ops import event_log
from medallion.settings import Settings
from medallion.storage.files import write_json
from medallion.storage.lake import Lake

MODES = {"a JVM per task": False, "warm Spark": True}
STRATEGIES = ("full", "incremental")
LONGEST = 1800  # seconds of a run


def measure(days: int, warm_up: int, hours: int, work: Path) -> dict[str, Any]:
    """Seconds by phase of each run that counts, as plain values. Raises MedallionError when a run is not green."""
    each = warm_up + hours
    plan = Plan(STRATEGIES, (days,), hours=each * len(STRATEGIES), warm_up=0, catalogue=False)
    ready = prepare(plan, Settings.from_environment(), work, days)
    runs, lakes = [], []
    for mode, warm in MODES.items():
        lake = work / f"dag-{'warm' if warm else 'own'}"
        shutil.rmtree(lake, ignore_errors=True)
        shutil.copytree(ready.lake, lake)
        lakes.append(Lake(str(lake)))
        with _airflow(work, lake, ready.source, warm).running() as airflow:
            for number in range(plan.all_hours):
                run = _run(airflow, lakes[-1], number, STRATEGIES[number // each])
                print(f"{mode}: {json.dumps(run)}", flush=True)
                if number % each >= warm_up:
                    runs.append({"spark": mode, **run})
    cold, attached = lakes
    if wrong := differing(cold, attached, registry()):
        raise MedallionError(f"the two differ in {', '.join(wrong)}: void")
    return {"days": days, "warm_up": warm_up, "commit": commit(), "machine": machine(), "runs": runs}


def _airflow(work: Path, lake: Path, source: str, warm: bool) -> LocalAirflow:
    """An Airflow of its own, with nothing of any other."""
    home = work / "airflow"
    shutil.rmtree(home, ignore_errors=True)
    told = {"MEDALLION_LAKE": str(lake), "MEDALLION_SOURCE": source, "MEDALLION_EXTRAS": "false"}
    told[WARM] = f"sc://localhost:{free_port()}" if warm else ""
    return LocalAirflow(home.resolve(), free_port(), told)


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
    found = event_log.steps_by_phase(lake, run_id)
    steps = {phase: sum(row["seconds"] for row in rows) for phase, rows in found.items()}
    whole, in_tasks = _seconds(run, "queued_at"), sum(_seconds(task, "start_date") for task in tasks)
    phases = {"queue": whole - in_tasks, "start": in_tasks - sum(steps.values()), **steps}
    return {"hour": hour, "strategy": strategy, "seconds": whole, "phases": phases}


def _seconds(told: Mapping[str, Any], begin: str) -> float:
    return (datetime.fromisoformat(told["end_date"]) - datetime.fromisoformat(told[begin])).total_seconds()


def write_report(days: int, hours: int, warm_up: int, work: Path, out: Path) -> None:
    """Measure, and write ``out/dag.json`` and the report beside it."""
    write_json(out / "dag.json", measure(days, warm_up, hours, work.resolve()))
    report.write(out)
