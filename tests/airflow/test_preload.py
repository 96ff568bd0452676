"""Tasks are forked from a process that has loaded what takes seconds."""

import subprocess
import sys
from pathlib import Path

import pytest

from medallion.airflow.local import LocalAirflow
from medallion.airflow.ports import free_port
from tests.shop import SHOP


@pytest.mark.slow
def test_task_workers_are_forked_from_a_server_that_has_the_checks_loaded(tmp_path: Path) -> None:
    environment = LocalAirflow(tmp_path, free_port(), SHOP.root).environment
    assert environment["AIRFLOW__SCHEDULER__MP_START_METHOD"] == "forkserver"
    modules = environment["AIRFLOW__SCHEDULER__MP_FORKSERVER_PRELOAD"].split(",")
    code = (
        "import importlib, sys, threading\n"
        "for name in sys.argv[1:]: importlib.import_module(name)\n"
        "print(*sorted(sys.modules))\n"
        "import medallion.pipeline.steps, medallion.inspect.run_summary, medallion.model.proof\n"
        "import medallion.airflow.landing, medallion.checks.docs_queue, medallion.checks.data_docs\n"
        "print(*sorted(sys.modules))\n"
        "assert threading.active_count() == 1, threading.enumerate()\n"
    )
    done = subprocess.run([sys.executable, "-c", code, *modules], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    preloaded, in_task = (set(line.split()) for line in done.stdout.splitlines()[-2:])
    assert {"great_expectations", "duckdb", "deltalake", "sqlglot", "pyspark.sql.connect.session"} <= preloaded
    assert in_task == preloaded, f"each task loads {in_task - preloaded}"
    declared = {name for name in preloaded if name.startswith("spark_jobs")}
    assert not declared, f"a task would have {declared} as they were when the scheduler started"


@pytest.mark.slow
def test_forkserver_loads_its_modules_when_the_scheduler_starts(tmp_path: Path) -> None:
    (tmp_path / "marking.py").write_text("from pathlib import Path\nPath(__file__).with_name('loaded').touch()\n")
    modules = {"AIRFLOW__SCHEDULER__MP_FORKSERVER_PRELOAD": "marking", "PYTHONPATH": str(tmp_path)}
    code = (
        "import sys, time; from pathlib import Path\n"
        "from airflow.utils.process_utils import set_component_mp_start_method\n"
        "from airflow.jobs.job import Job\n"
        "set_component_mp_start_method('scheduler')\n"
        "Job()\n"  # as the scheduler begins
        "deadline = time.monotonic() + 60\n"
        "while not Path(sys.argv[1]).exists() and time.monotonic() < deadline: time.sleep(0.1)\n"
    )
    environment = LocalAirflow(tmp_path / "airflow", free_port(), SHOP.root, modules).environment
    command = [sys.executable, "-c", code, str(tmp_path / "loaded")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "loaded").exists()
