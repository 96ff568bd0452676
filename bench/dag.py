"""An hour as a run of the DAG, from trigger to release: with a JVM for each task that needs Spark, and with a warm one.

Run it as ``medallion bench dag --days 90 --work FOLDER --out OUT``: a real Airflow for each of the two, over a copy of
the same lake, refreshes the same hours, in full and then incrementally. Rows must be equal at the end. OUT/dag.json has
the seconds, OUT/report.html shows them, beside those of medallion bench where OUT has any.
"""

import json
import shutil
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from bench import report
from bench.machine import commit, machine
from bench.plan import FIRST_HOUR, Plan
from bench.sources import prepare
from medallion.airflow.local import WARM, LocalAirflow
from medallion.airflow.naming import REFRESH
from medallion.airflow.ports import free_port
from medallion.errors import MedallionError
from medallion.hours import hour_from_number, hour_number
from medallion.inspect.lake_difference import differing
from medallion.ops import event_log
from medallion.project import find_project
from medallion.settings import Settings
from medallion.storage.files import write_json
from medallion.storage.lake import Lake

MODES = {"a JVM per task": False, "warm Spark": True}
STRATEGIES = ("full", "incremental")
LONGEST = 1800  # seconds of a run
TARGETS = {  # seconds from trigger to release, by Spark and strategy
    ("warm Spark", "incremental"): 18.0,
    ("a JVM per task", "incremental"): 35.0,
    ("a JVM per task", "full"): 70.0,
}
TARGET_SWITCH = 1.15  # the first incremental run after a full one, in full ones
TARGET_WAIT = 2.0  # seconds between two tasks


def measure(settings: Settings, days: int, warm_up: int, hours: int, work: Path) -> dict[str, Any]:
    """Seconds by phase of each run that counts, as plain values. Raises MedallionError when a run is not green."""
    each = warm_up + hours
    plan = Plan(STRATEGIES, (days,), hours=each * len(STRATEGIES), warm_up=0, catalogue=False)
    ready = prepare(plan, settings, work, days)
    runs: list[dict[str, Any]] = []
    first: dict[str, float] = {}  # the seconds of the first incremental run, by Spark
    lakes: list[Lake] = []
    for mode, warm in MODES.items():
        lake = work / f"dag-{'warm' if warm else 'own'}"
        shutil.rmtree(lake, ignore_errors=True)
        shutil.copytree(ready.lake, lake)
        lakes.append(Lake(str(lake)))
        with _airflow(work, lake, ready.source, warm).running() as airflow:
            for number in range(plan.all_hours):
                run = _run(airflow, lakes[-1], number, STRATEGIES[number // each])
                print(f"{mode}: {json.dumps(run)}", flush=True)
                if number == each:
                    first[mode] = run["released"]
                if number % each >= warm_up:
                    runs.append({"spark": mode, **run})
    cold, attached = lakes
    if wrong := differing(cold, attached, find_project().registry()):
        raise MedallionError(f"the two differ in {', '.join(wrong)}: void")
    return {"days": days, "warm_up": warm_up, "commit": commit(), "machine": machine(), "runs": runs, "first": first}


def _airflow(work: Path, lake: Path, source: str, warm: bool) -> LocalAirflow:
    """An Airflow of its own, with nothing of any other."""
    home = work / "airflow"
    shutil.rmtree(home, ignore_errors=True)
    environment = {"MEDALLION_LAKE": str(lake), "MEDALLION_SOURCE": source, "MEDALLION_EXTRAS": "false"}
    environment[WARM] = f"sc://localhost:{free_port()}" if warm else ""
    return LocalAirflow(home.resolve(), free_port(), find_project().root, environment)


def _run(airflow: LocalAirflow, lake: Lake, number: int, strategy: str) -> dict[str, Any]:
    """One hour by the DAG; where its seconds went, phase by phase."""
    hour, run_id = hour_from_number(hour_number(FIRST_HOUR) + number), f"bench-{number}"
    body = {"dag_run_id": run_id, "logical_date": None, "conf": {"hour": hour, "strategy": strategy}}
    airflow.api.call("POST", f"dags/{REFRESH}/dagRuns", body)
    path, deadline = f"dags/{REFRESH}/dagRuns/{run_id}", time.monotonic() + LONGEST
    while (run := airflow.api.call("GET", path))["state"] not in {"success", "failed"}:
        airflow.require_running()
        if time.monotonic() > deadline:
            raise MedallionError(f"{run_id} of hour {hour} has not ended after {LONGEST} s")
        time.sleep(1)
    if run["state"] == "failed":
        raise MedallionError(f"{run_id} of hour {hour} failed: see the logs in {airflow.home}")
    tasks = airflow.api.call("GET", f"{path}/taskInstances")["task_instances"]
    steps_by_phase = event_log.steps_by_phase(lake, run_id)
    steps = {phase: sum(row.seconds for row in rows) for phase, rows in steps_by_phase.items()}
    whole, in_tasks = _seconds(run, "queued_at"), sum(_seconds(task, "start_date") for task in tasks)
    publish = next(task for task in tasks if task["task_id"] == "publish")
    released = _between(run["queued_at"], publish["end_date"])
    phases = {"queue": whole - in_tasks, "start": in_tasks - sum(steps.values()), **steps}
    timing = {"hour": hour, "strategy": strategy, "seconds": whole, "released": released, "waits": _waits(tasks)}
    return {**timing, "phases": phases}


def _waits(tasks: Sequence[Mapping[str, Any]]) -> list[float]:
    """The seconds from the end of each task to the start of the next."""
    ran = sorted((task for task in tasks if task["start_date"]), key=lambda task: str(task["start_date"]))
    return [round(_between(a["end_date"], b["start_date"]), 2) for a, b in pairwise(ran)]


def _seconds(task: Mapping[str, Any], begin: str) -> float:
    return _between(task[begin], task["end_date"])


def _between(begin: str, end: str) -> float:
    return (datetime.fromisoformat(end) - datetime.fromisoformat(begin)).total_seconds()


def target_rows(result: Mapping[str, Any]) -> list[tuple[str, float, float]]:
    """What was measured beside its target: a name, the median, the target."""
    by_kind: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for run in result["runs"]:
        by_kind.setdefault((run["spark"], run["strategy"]), []).append(run)
    rows = [
        (f"{strategy}, {spark}, trigger to release, s", median(run["released"] for run in runs), target)
        for (spark, strategy), runs in by_kind.items()
        if (target := TARGETS.get((spark, strategy)))
    ]
    for spark, seconds in result["first"].items():
        full = median(run["released"] for run in by_kind[spark, "full"])
        rows.append((f"first incremental / full, {spark}", seconds / full, TARGET_SWITCH))
    waits = [wait for run in result["runs"] for wait in run["waits"]]
    return [*rows, ("wait between two tasks, s", median(waits), TARGET_WAIT)]


def write_report(settings: Settings, sizes: tuple[int, int, int], work: Path, out: Path) -> None:
    """Measure, write ``out/dag.json`` and the report beside it, and print what was measured beside its targets.

    Args:
        settings: Of the source and of Spark.
        sizes: Days of history, hours that warm up, hours that count.
        work: A folder for the lakes and for Airflow.
        out: The folder of the report.
    """
    result = measure(settings, *sizes, work.resolve())
    write_json(out / "dag.json", result)
    report.write(out)
    print(f"{'median':<60}{'measured':>10}{'target':>10}")
    for name, measured, target in target_rows(result):
        print(f"{name:<60}{measured:>10.2f}{target:>10.2f}")
