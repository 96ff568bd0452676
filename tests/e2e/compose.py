"""The containers, for real: image built, stack started, one hour through its scheduler on its Spark cluster, and every
row of Silver and Gold compared with what this machine alone makes of the same source.

    python -m tests.e2e.compose                                 with public images
    python -m tests.e2e.compose --base-image NAME --substitutes   where they cannot be pulled

Substitutes for PostgreSQL and the S3 store are built from tests/e2e/containers, on an image of yours that has apt,
Python 3.11 and its venv module: one made by debootstrap will do. Not collected by pytest: it needs a Docker engine.
"""

import argparse
import csv
import io
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from medallion.airflow.local import USER
from medallion.airflow.naming import REFRESH
from medallion.airflow.ports import free_port
from medallion.airflow.rest_api import Api, Refused
from medallion.errors import MedallionError
from medallion.loopback import go_past_proxies
from tests.shop import registry

ROOT = Path(__file__).resolve().parents[2]
CONTAINERS = ROOT / "tests" / "e2e" / "containers"
HOUR, NEXT, LAST = (f"2025-11-30T0{number}" for number in range(3))
SCALE = "0.05"
IMAGE = "medallion:e2e"
PHASES = ("build", "up", "run", "compare", "dags", "inspect", "restore", "down")
OURS = ("spark-master", "spark-worker", "api-server", "scheduler", "dag-processor", "triggerer", "postgres", "s3")


class Stack:
    """The stack under a project name of its own, its secrets and what the laptop makes under ``work``."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.given = given
        self.work: Path = given.work.resolve()
        self.work.mkdir(parents=True, exist_ok=True)
        self.env = self.work / "env"
        if not self.env.exists():
            run("scripts/make_env", self.env)
            with open(self.env, "a") as env:
                env.write(f"MEDALLION_IMAGE={IMAGE}\nMEDALLION_DEMO_SCALE={SCALE}\n")
                env.write(f"MEDALLION_AIRFLOW_PORT={free_port()}\n")
        self.settings = dict(
            line.split("=", 1) for line in self.env.read_text().splitlines() if not line.startswith("#")
        )
        self.laptop, self.source = self.work / "laptop" / "lake", self.work / "laptop" / "source"
        self.url = f"http://127.0.0.1:{self.settings['MEDALLION_AIRFLOW_PORT']}"

    @property
    def api(self) -> Api:
        """Airflow's, as admin."""
        return Api(self.url, USER, self.settings["AIRFLOW_ADMIN_PASSWORD"])

    def command(self, *words: str) -> list[str]:
        """A command of docker compose on this stack."""
        files = ["-f", str(ROOT / "docker-compose.yml")]
        if self.given.substitutes:
            files += ["-f", str(CONTAINERS / "substitutes.yml")]
        return [*shlex.split(self.given.compose), "-p", "medallion-e2e", "--env-file", str(self.env), *files, *words]

    def compose(self, *words: str, quiet: bool = False) -> str:
        """Run one; what it printed."""
        return run(*self.command(*words), quiet=quiet)

    def build(self) -> None:
        """Our image, and the substitutes."""
        secret = ["--secret", f"id=certificate,src={self.given.certificate}"] if self.given.certificate else []
        base = ["--build-arg", f"BASE_IMAGE={self.given.base_image}"] if self.given.base_image else []
        network = ["--network", self.given.build_network] if self.given.build_network else []
        build = [self.given.docker, "build", *network, *secret]
        run(*build, *base, "-t", IMAGE, ROOT)
        if self.given.substitutes:
            context = self.work / "context"
            shutil.copytree(CONTAINERS, context, dirs_exist_ok=True)
            shutil.copy(ROOT / "requirements-dev.txt", context)
            run(*build, *base, "-t", "medallion-e2e-postgres", "-f", context / "postgres.Dockerfile", context)
            image = ("--build-arg", f"IMAGE={IMAGE}")
            run(*build, *image, "-t", "medallion-e2e-s3", "-f", context / "s3.Dockerfile", context)

    def up(self) -> None:
        """Started in order, until every part is well."""
        self.compose("up", "--detach", "--no-build")
        wait_for("every container to be healthy", lambda: set(self.health().values()) == {"healthy"}, 300)
        wait_for("the DAG to be read", lambda: self.api.call("GET", f"dags/{REFRESH}"), 120)

    def health(self) -> dict[str, str]:
        """By container, how its own check finds it."""
        found = {}
        for service in OURS:
            for container in self.compose("ps", "-q", service, quiet=True).split():
                (state,) = json.loads(run(self.given.docker, "inspect", container, quiet=True))
                found[state["Name"]] = state["State"].get("Health", {}).get("Status", "no check")
        return found

    def run(self) -> None:
        """One hour, triggered as a user would, to its end."""
        self.api.call("PATCH", f"dags/{REFRESH}?update_mask=is_paused", {"is_paused": False})
        body = {"dag_run_id": "e2e", "logical_date": None, "conf": {"hour": HOUR}}
        with suppress(Refused):  # it is there, from a try of before
            self.api.call("POST", f"dags/{REFRESH}/dagRuns", body)
        path = f"dags/{REFRESH}/dagRuns/e2e"
        wait_for("the run to end", lambda: self.api.call("GET", path)["state"] in {"success", "failed"}, 330)
        tasks = self.api.call("GET", f"{path}/taskInstances")["task_instances"]
        states = {task["task_id"]: (task["state"], task["duration"]) for task in tasks}
        say(json.dumps(states, indent=1))
        require(self.api.call("GET", path)["state"] == "success", "the run is green")
        told = self.medallion("events", "--run", "e2e", "--format", "json")
        sessions = [row for row in json.loads(told) if row["event_type"] == "session"]
        where = {(row["details"]["master"], row["details"]["cores"]) for row in sessions}
        require(where == {("spark://spark-master:7077", 2)}, f"Silver and Gold ran on the cluster: {where}")

    def medallion(self, *words: str) -> str:
        """The command, in the scheduler's container."""
        return self.compose("exec", "-T", "scheduler", "medallion", *words, quiet=True)

    def compare(self) -> None:
        """Every row, with those of this machine alone."""
        if not (self.laptop / "ops" / "releases").exists():
            shutil.rmtree(self.laptop.parent, ignore_errors=True)
            size = ("--days", "7", "--hours", "24", "--scale", SCALE, "--seed", "0")
            self.here("source", "generate", str(self.source), *size)
            self.here("load")
            self.here("refresh", "--hour", HOUR)
        self.require_same_rows(self.medallion, "as on this machine")

    def restore(self) -> None:
        """A backup of the lake, unpacked elsewhere, goes on there with the next hour; Airflow's database is dumped."""
        restored = self.work / "restored"
        shutil.rmtree(restored, ignore_errors=True)
        restored.mkdir()
        with open(self.work / "lake.tar", "wb") as backup:
            command = self.command("exec", "-T", "scheduler", "tar", "--create", "--directory", "/data/lake", ".")
            subprocess.run(command, stdout=backup, check=True)
        run("tar", "--extract", "--file", self.work / "lake.tar", "--directory", restored)
        for hour in (NEXT, LAST):  # of the first there is nothing left to do where refresh_on_arrival took it
            self.here("refresh", "--hour", hour, lake=restored)
            self.here("refresh", "--hour", hour)
        self.require_same_rows(lambda *words: self.here(*words, lake=restored, quiet=True), "restored and refreshed")
        dump = self.compose("exec", "-T", "postgres", "pg_dump", "--username=airflow", "airflow", quiet=True)
        require("COPY public.dag_run " in dump, f"Airflow's database is dumped: {len(dump):,} characters")

    def require_same_rows(self, medallion: Callable[..., str], what: str) -> None:
        """That the lake behind that command has the rows of this machine's."""
        for layer in ("silver", "gold"):
            for table in registry().layer(layer):
                query = ("query", f"SELECT * FROM {table.name} ORDER BY ALL", "--format", "csv")
                here, there = rows_of(self.here(*query, quiet=True)), rows_of(medallion(*query))
                require(here == there and len(here) > 1, f"{table.name}: {len(there) - 1:,} rows, {what}")

    def here(self, *words: str, lake: Path | None = None, quiet: bool = False) -> str:
        """The command on this machine, on a lake of its own."""
        environment = os.environ | {"MEDALLION_LAKE": str(lake or self.laptop), "MEDALLION_SOURCE": str(self.source)}
        environment |= {"MEDALLION_SPARK_MASTER": "local[2]", "MEDALLION_DRIVER_MEMORY": "2g"}
        medallion = (sys.executable, "-m", "medallion")
        return run(*medallion, *words, environment=environment, quiet=quiet)

    def dags(self) -> None:
        """Every other DAG: the hour that has arrived is refreshed unasked, by the triggerer; the rest is triggered."""
        self.unpause("refresh_on_arrival")
        arrived = f"arrival__{NEXT}"
        wait_for("the hour that has arrived to be refreshed", lambda: self.ended(REFRESH, arrived), 600)
        self.api.call("PATCH", "dags/refresh_on_arrival?update_mask=is_paused", {"is_paused": True})
        require(self.ended(REFRESH, arrived) == "success", f"refresh_on_arrival: {NEXT} is published")
        for dag_id, state in (
            ("daily_maintenance", "success"),
            ("declarative_refresh", "success"),
            ("hourly_self_check", "failed"),  # the demo's hours are of 2025, and stale
        ):
            self.unpause(dag_id)
            with suppress(Refused):
                body = {"dag_run_id": "e2e", "logical_date": None, "conf": {}}
                self.api.call("POST", f"dags/{dag_id}/dagRuns", body)
            wait_for(f"{dag_id} to end", partial(self.ended, dag_id, "e2e"), 600)
            require(self.ended(dag_id, "e2e") == state, f"{dag_id} ended as {state}")

    def unpause(self, dag_id: str) -> None:
        """Let the runs of a DAG start."""
        self.api.call("PATCH", f"dags/{dag_id}?update_mask=is_paused", {"is_paused": False})

    def ended(self, dag_id: str, prefix: str) -> str | None:
        """How the run whose id begins so has ended; None while it has not."""
        runs = self.api.call("GET", f"dags/{dag_id}/dagRuns?limit=100")["dag_runs"]
        states = [run["state"] for run in runs if run["dag_run_id"].startswith(prefix)]
        return states[0] if states and states[0] in ("success", "failed") else None

    def inspect(self) -> None:
        """Who may get in, and as whom things run."""
        for service in OURS:
            user = self.compose("exec", "-T", service, "id", "-u", quiet=True).strip()
            require(user != "0", f"{service} runs as user {user}")
        for container in self.compose("ps", "-q", quiet=True).split():
            (state,) = json.loads(run(self.given.docker, "inspect", container, quiet=True))
            bindings = [b["HostIp"] for found in (state["HostConfig"]["PortBindings"] or {}).values() for b in found]
            require(set(bindings) <= {"127.0.0.1"}, f"{state['Name']} is published on {bindings or 'nothing'}")
        try:
            urllib.request.urlopen(f"{self.url}/api/v2/dags")
            require(False, "nobody gets in without the password")
        except urllib.error.HTTPError as refused:
            require(refused.code == 401, "nobody gets in without the password")
        require(set(self.health().values()) == {"healthy"}, f"all are well: {self.health()}")
        logs = self.compose("logs", "--no-color", quiet=True)
        drawn = {name: value for name, value in self.settings.items() if not name.startswith("MEDALLION_")}
        require(not [name for name, value in drawn.items() if value in logs], "no secret is in a log")

    def down(self) -> None:
        """Nothing is left, but for images and what the laptop made."""
        self.compose("down", "--volumes", "--timeout", "20")


def rows_of(text: str) -> list[list[str]]:
    """The rows of a CSV, with their header."""
    return list(csv.reader(io.StringIO(text)))


def wait_for(what: str, ready: Any, seconds: float) -> None:
    """Wait until it is ready; errors of ours mean that it is not yet."""
    began = time.monotonic()
    while True:
        try:
            if ready():
                break
        except (MedallionError, OSError):
            pass
        if time.monotonic() > began + seconds:
            raise SystemExit(f"waited {seconds:.0f} s for {what}")
        time.sleep(2)
    say(f"waited {time.monotonic() - began:.0f} s for {what}")


def require(holds: bool, what: str) -> None:
    """Say it, and end when it does not hold."""
    say(f"{'ok ' if holds else 'NOT'} {what}")
    if not holds:
        raise SystemExit(1)


def run(*command: str | Path, quiet: bool = False, environment: dict[str, str] | None = None) -> str:
    """Run it; what it printed. quiet: not shown as well."""
    words = [str(word) for word in command]
    if not quiet:
        say(f"$ {shlex.join(words)}")
    made = (environment or dict(os.environ)) | {"DOCKER_BUILDKIT": "1"}
    done = subprocess.run(words, cwd=ROOT, env=made, stdout=subprocess.PIPE if quiet else None, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{shlex.join(words)} failed: {done.stdout or 'see above'}")
    return done.stdout or ""


def say(what: str) -> None:
    """A line of the log."""
    print(f"{datetime.now(UTC):%H:%M:%S} {what}", flush=True)


def main() -> None:
    """Run the phases that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("phases", nargs="*", choices=("all", *PHASES), default="all", help="all by default")
    parser.add_argument("--base-image", help="the base of our image, where it is not the public one")
    parser.add_argument("--substitutes", action="store_true", help="build stand-ins for PostgreSQL and the S3 store")
    parser.add_argument("--certificate", type=Path, help="of a registry of your own, for the build alone")
    parser.add_argument("--build-network", help="such as host, where builds reach the registry by that alone")
    parser.add_argument("--docker", default="docker")
    parser.add_argument("--compose", default="docker compose", help="or docker-compose, 1.29 and newer")
    parser.add_argument("--work", type=Path, default=Path("/tmp/medallion-e2e"))
    given = parser.parse_args()
    go_past_proxies()
    stack = Stack(given)
    for phase in PHASES if "all" in given.phases else given.phases:
        say(f"--- {phase}")
        getattr(stack, phase)()
    say("done")


if __name__ == "__main__":
    main()
