"""A project of one's own, by the wheel alone: made, loaded, refreshed both ways, tested, and run by a real Airflow."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from medallion.airflow.local import USER
from medallion.airflow.ports import free_port
from medallion.airflow.rest_api import Api
from medallion.errors import MedallionError
from tests.shop import PROJECT

UV = (sys.executable, "-m", "uv")
SOURCES = ("medallion", "requirements", "pyproject.toml", "README.md", "LICENSE")


@dataclass(frozen=True)
class Installed:
    """An environment that has the wheel, and nothing of this checkout but Delta's JARs; a folder for a project."""

    python: Path
    folder: Path
    port: int

    def run(self, *words: str, cwd: Path | None = None, code: int = 0) -> str:
        """Run a command of the environment, and return what it printed. Fails with what it said where it exits with
        another code."""
        environment = {
            "PATH": f"{self.python.parent}:/usr/bin:/bin",
            "HOME": str(self.folder),
            "MEDALLION_JARS": str(PROJECT / ".jars"),
            "MEDALLION_DRIVER_MEMORY": "1g",
            "MEDALLION_AIRFLOW_PORT": str(self.port),
            "MEDALLION_SPARK_CONNECT": "",
            **{name: text for name, text in os.environ.items() if name in {"JAVA_HOME", "SSL_CERT_FILE"}},
        }
        done = subprocess.run(words, cwd=cwd or self.project, env=environment, capture_output=True, text=True)
        assert done.returncode == code, f"{words}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
        return done.stderr if code else done.stdout

    @property
    def project(self) -> Path:
        return self.folder / "bikes"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    folder = tmp_path_factory.mktemp("installed")
    (folder / "build").mkdir()
    for name in SOURCES:
        copy = shutil.copytree if (PROJECT / name).is_dir() else shutil.copy2
        copy(PROJECT / name, folder / "build" / name)
    build = (
        *UV,
        "build",
        "--quiet",
        "--wheel",
        "--no-build-isolation",
        "--out-dir",
        str(folder),
        str(folder / "build"),
    )
    subprocess.run(build, check=True)
    (wheel,) = folder.glob("*.whl")
    subprocess.run((*UV, "venv", "--quiet", "--python", sys.executable, str(folder / "venv")), check=True)
    python = folder / "venv" / "bin" / "python"
    wanted = (f"{wheel}[spark,checks,airflow]", "--constraint", str(PROJECT / "requirements-dev.txt"))
    locked = ("--constraint", str(PROJECT / "requirements.txt"))
    subprocess.run((*UV, "pip", "install", "--quiet", "--python", str(python), *wanted, *locked), check=True)
    return Installed(python, folder, free_port())


@pytest.fixture(scope="module")
def bikes(installed: Installed) -> Installed:
    """A new project that was loaded and refreshed incrementally; Airflow refreshes its next hour in full."""
    installed.run("medallion", "init", "bikes", cwd=installed.folder)
    installed.run("medallion", "load")
    installed.run("medallion", "refresh", "--to-hour", "2025-11-30T01", "--strategy", "incremental")
    return installed


def trips(project: Installed) -> int:
    (row,) = json.loads(
        project.run("medallion", "query", "SELECT SUM(trips) AS n FROM gold_daily_trips", "--format", "json")
    )
    return int(row["n"])


@pytest.mark.timeout(900)
def test_a_new_project_is_green_at_once_with_the_wheel_alone(bikes: Installed) -> None:
    where = bikes.run("python", "-c", "import medallion; print(medallion.__file__)").strip()
    assert Path(where).is_relative_to(bikes.folder)
    assert trips(bikes) == 560 + 20
    status = json.loads(bikes.run("medallion", "status", "--format", "json"))
    assert {row["table"] for row in status["tables"]} == {
        *("bronze_stations", "bronze_trips", "silver_trips", "gold_daily_trips"),
    }
    assert "2 passed" in bikes.run("pytest", "-q")


@pytest.mark.long
@pytest.mark.timeout(900)
def test_its_hours_are_measured_both_ways_and_its_lake_stays_as_it_is(bikes: Installed) -> None:
    before = trips(bikes)
    refused = bikes.run("medallion", "compare", code=2)
    assert "needs 4 pending ones, warm-up included, and the source has 1" in refused
    rows = json.loads(bikes.run("medallion", "compare", "--anew", "--hours", "1", "--format", "json"))
    assert [(row["hour"], row["strategy"], row["note"]) for row in rows] == [
        *(("2025-11-30T00", strategy, "warm-up") for strategy in ("full", "incremental")),
        *(("2025-11-30T01", strategy, "") for strategy in ("full", "incremental")),
    ]
    assert all(row["seconds"] > row["refresh_seconds"] > 0 < row["cpu_seconds"] for row in rows)
    assert trips(bikes) == before


def test_the_lock_that_a_new_project_has_is_what_is_derived_and_proven(bikes: Installed) -> None:
    assert "are derived and proven" in bikes.run("medallion", "plan", "--check")


@pytest.fixture
def api(bikes: Installed) -> Iterator[Api]:
    """The REST API of an Airflow with the project's DAGs."""
    try:
        bikes.run("medallion", "airflow", "up")
        passwords = json.loads((bikes.project / ".airflow" / "passwords.json").read_text())
        yield Api(f"http://127.0.0.1:{bikes.port}", USER, passwords[USER])
    finally:
        bikes.run("medallion", "airflow", "down")


@pytest.mark.long
@pytest.mark.timeout(900)
def test_its_dag_refreshes_the_next_hour_in_a_real_airflow(bikes: Installed, api: Api) -> None:
    before = trips(bikes)
    api.call("PATCH", "dags/hourly_refresh?update_mask=is_paused", {"is_paused": False})
    api.call("POST", "dags/hourly_refresh/dagRuns", {"dag_run_id": "first", "logical_date": None})
    until, run = time.monotonic() + 600, {"state": "unknown", "note": None}
    while run["state"] not in {"success", "failed"}:
        assert time.monotonic() < until, run
        time.sleep(2)
        with suppress(MedallionError):  # the machine may be too busy to answer in time
            run = api.call("GET", "dags/hourly_refresh/dagRuns/first")
    assert (run["state"], trips(bikes)) == ("success", before + 10), run["note"]
