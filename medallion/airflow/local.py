"""An Airflow on this machine that only this machine can reach: start it, stop it, call its API."""

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from urllib.parse import urlsplit

from medallion.airflow.local_defaults import default_variables
from medallion.airflow.naming import POOL, REFRESH
from medallion.airflow.ports import free_port, require_free_port
from medallion.airflow.processes import Process, Recorded
from medallion.airflow.rest_api import Api, Refused
from medallion.errors import MedallionError, UsageError
from medallion.loopback import past_proxies
from medallion.project import Project, project_at
from medallion.spark.jars import spark_home
from medallion.spark.java import java_home
from medallion.spark.session import TOKEN_VARIABLE
from medallion.spark.surroundings import ignored, without_another_spark

USER = "admin"
# Without --skip-serve-logs, two of them would serve logs on every network interface; the UI reads logs from disk.
COMPONENTS = {
    "api-server": ("api-server",),
    "scheduler": ("scheduler", "--skip-serve-logs"),
    "dag-processor": ("dag-processor",),
    "triggerer": ("triggerer", "--skip-serve-logs"),
}
WARM = "MEDALLION_SPARK_CONNECT"  # where the warm Spark listens; none is started if it is empty
START_SECONDS = 180
STOP_SECONDS = 20
Report = Callable[[str], None]


@dataclass(frozen=True)
class LocalAirflow:
    """An Airflow with all its state under ``home``, and its API and UI on ``port`` of the loopback interface.

    project: the root of the project whose DAGs it runs. overrides: environment variables that replace the defaults and
    those of this process.
    """

    home: Path
    port: int
    project: Path
    overrides: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_project(cls, project: Project) -> "LocalAirflow":
        """Return the Airflow of a project, with a warm Spark unless MEDALLION_SPARK_CONNECT is set but empty.

        Raises UsageError if MEDALLION_AIRFLOW_PORT is not a port number.
        """
        given = project.environment(os.environ)
        text = given.get("MEDALLION_AIRFLOW_PORT", "8080")
        if not (text.isdecimal() and 0 < int(text) < 65536):
            raise UsageError(f"MEDALLION_AIRFLOW_PORT={text!r} cannot be used: give a port, such as 8080")
        chosen = cls(project.root / ".airflow", int(text), project.root)
        recorded = chosen._read_recorded()
        if not recorded.running:
            # A random free port: two clones that start at once would both find a fixed port free.
            return replace(chosen, overrides={WARM: given.get(WARM, f"sc://localhost:{free_port()}")})
        spark = given.get(WARM, recorded.spark)
        return replace(chosen, port=recorded.port, overrides={WARM: spark})

    @property
    def url(self) -> str:
        """The address of the UI."""
        return f"http://localhost:{self.port}"

    @cached_property
    def api(self) -> Api:
        """The REST API, as the admin user."""
        return Api(f"http://127.0.0.1:{self.port}", USER, self.password)

    @property
    def password(self) -> str:
        """The admin's password, generated when Airflow first starts."""
        return str(json.loads(self._passwords.read_text())[USER])

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment of every Airflow process; variables that are set replace the defaults."""
        fixed = {
            "AIRFLOW_HOME": str(self.home),
            "MEDALLION_PROJECT": str(self.project),
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(self._passwords),
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{self.port}/execution/",
            "AIRFLOW__API__HOST": "127.0.0.1",
            "AIRFLOW__API__PORT": str(self.port),
            "AIRFLOW__API__BASE_URL": self.url,
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),  # has spark-submit
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_HOME": str(spark_home()),
            "JAVA_HOME": str(java_home()),
        }
        given = project_at(self.project).environment(without_another_spark(os.environ))
        variables = (
            default_variables(self.home, self.project, USER)
            | given
            | past_proxies(given)
            | fixed
            | dict(self.overrides)
        )
        if variables.get(WARM) and not variables.get(TOKEN_VARIABLE):
            variables[TOKEN_VARIABLE] = self._draw(self.home / "spark-token", secrets.token_hex(16))
        return variables

    @property
    def _components(self) -> dict[str, list[str]]:
        """Return the components by name, each with the arguments of its Python process."""
        airflow = {name: ["-m", "airflow", *command] for name, command in COMPONENTS.items()}
        warm = {"spark": ["-m", "medallion", "spark-server"]}
        return airflow | (warm if self.environment.get(WARM) else {})

    def up(self, report: Report = print) -> None:
        """Start Airflow unless it is running, and wait until it has parsed the DAG.

        Raises MedallionError, with the last lines of the log, if it does not become ready.
        """
        if not self._read_recorded().has_all(self._components):
            self.down()
            self.require_ports()
            self.home.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._migrate(report)
            if others := ignored(os.environ, self.environment):
                report(others)
            report("starting Airflow")
            self._start_all()
        self._wait_until_ready()
        with suppress(Refused):  # if the pool exists, it keeps the slots that somebody chose
            self.api.call("POST", "pools", {"name": POOL, "slots": 1, "description": "writes to the lake"})

    def require_ports(self) -> None:
        """Raise MedallionError if something else listens on the ports of Airflow. Checks nothing while Airflow runs."""
        if not self._read_recorded().running:
            require_free_port(self.port, "MEDALLION_AIRFLOW_PORT")
            if spark := self.environment.get(WARM):
                require_free_port(urlsplit(spark).port or 0, WARM)

    @contextmanager
    def running(self) -> "Iterator[LocalAirflow]":
        """Run Airflow, with the hourly DAG unpaused, until the block ends."""
        try:
            self.up()
            self.unpause()
            yield self
        finally:
            self.down()

    def unpause(self, dag_id: str = REFRESH) -> None:
        """Unpause a DAG, so that its runs start, including scheduled ones."""
        self.api.call("PATCH", f"dags/{dag_id}?update_mask=is_paused", {"is_paused": False})

    def down(self) -> bool:
        """Stop every process that ``up`` started, and their children. Return whether any was running."""
        recorded = self._read_recorded()
        running = recorded.running
        for process in running:
            process.send(signal.SIGTERM)
        deadline = time.monotonic() + STOP_SECONDS
        while recorded.running and time.monotonic() < deadline:
            time.sleep(0.2)
        for process in recorded.running:  # a scheduler would wait for its tasks, however long they take
            process.send_to_all(signal.SIGKILL)
        self._state.unlink(missing_ok=True)
        return bool(running)

    def _start_all(self) -> None:
        self._draw_password()  # otherwise Airflow generates one and prints it into a log
        processes: dict[str, Process] = {}
        for name, arguments in self._components.items():
            with open(self._log(name), "w") as log:
                started = subprocess.Popen(
                    [sys.executable, *arguments],
                    cwd=self.project,
                    env=self.environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            processes[name] = Process.of(started.pid)
            self._state.write_text(json.dumps(asdict(Recorded(self.port, processes, self.environment.get(WARM, "")))))

    def _draw_password(self) -> None:
        self._draw(self._passwords, json.dumps({USER: secrets.token_urlsafe(12)}))

    def _draw(self, file: Path, secret: str) -> str:
        """Return the secret in ``file``, which only this user can read; write ``secret`` if the file is missing."""
        if not file.exists():
            self.home.mkdir(mode=0o700, parents=True, exist_ok=True)
            with open(os.open(file, os.O_CREAT | os.O_WRONLY, 0o600), "w") as stream:
                stream.write(secret)
        return file.read_text()

    def _migrate(self, report: Report) -> None:
        done = self.home / "migrated"
        if done.exists() and done.read_text() == version("apache-airflow"):
            return
        report("making Airflow's database")
        with open(self._log("migrate"), "w") as log:
            command = [sys.executable, "-m", "airflow", "db", "migrate"]
            if subprocess.run(command, env=self.environment, stdout=log, stderr=subprocess.STDOUT).returncode != 0:
                raise MedallionError(f"Airflow's database could not be made:\n{self._tail('migrate')}")
        done.write_text(version("apache-airflow"))

    def require_running(self) -> None:
        """Raise MedallionError, with the last lines of its log, if a component has ended."""
        for name, process in self._read_recorded().processes.items():
            if not process.alive:
                raise MedallionError(f"Airflow's {name} has ended; the end of its log:\n{self._tail(name)}")

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not self._ready():
            self.require_running()
            if time.monotonic() > deadline:
                for error in self._import_errors():
                    raise MedallionError(f"Airflow cannot read the DAG:\n{error}")
                raise MedallionError(f"Airflow is not ready after {START_SECONDS} s: see {self._log('*')}")
            time.sleep(0.5)

    def _ready(self) -> bool:
        try:
            health = self.api.call("GET", "monitor/health")
            if any(part["status"] != "healthy" for part in health.values()):
                return False
            self.api.call("GET", f"dags/{REFRESH}")
        except MedallionError:
            return False
        return True

    def _import_errors(self) -> Iterator[str]:
        try:
            errors = self.api.call("GET", "importErrors")["import_errors"]
        except MedallionError:
            return
        yield from (error["stack_trace"] for error in errors)

    def _read_recorded(self) -> Recorded:
        if not self._state.exists():
            return Recorded(self.port, {})
        state = json.loads(self._state.read_text())
        processes = {name: Process(**values) for name, values in state["processes"].items()}
        return Recorded(state["port"], processes, state.get("spark", ""))

    @property
    def _state(self) -> Path:
        return self.home / "processes.json"

    @property
    def _passwords(self) -> Path:
        return self.home / "passwords.json"

    def _log(self, name: str) -> Path:
        folder = self.home / "process-logs"
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f"{name}.log"

    def _tail(self, name: str) -> str:
        return "\n".join(self._log(name).read_text(errors="replace").splitlines()[-15:])


def where(airflow: LocalAirflow, command: str = "medallion") -> str:
    """Return the address, login and commands of an Airflow, in a few lines. command: how a shell calls this package."""
    return (
        f"Airflow   {airflow.url}\n"
        f"login     {USER}, password {airflow.password} (kept in {airflow.home}/passwords.json)\n"
        f"commands  {command} airflow run, such as {command} airflow run backfill create --help\n"
        f"stop it   {command} airflow down"
    )
