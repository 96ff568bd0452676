"""A standalone cluster of a master and two workers: the same rows as on a laptop, and with one of them killed."""

import re
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from medallion.model.registry import registry
from medallion.ops import event_log
from medallion.spark.java import java_home
from medallion.spark.session import spark_home
from medallion.storage.lake import origin_of
from tests.faults.faults import start
from tests.faults.world import HOURS, World, differing, make_world

H0, H1, _ = HOURS


@dataclass
class Cluster:
    """The processes of a cluster, and the address of its master."""

    master: str
    workers: list[subprocess.Popen[bytes]]

    def executors(self) -> list[psutil.Process]:
        """The JVMs that workers have started for a driver."""
        return [jvm for worker in self.workers if worker.poll() is None for jvm in jvms_of(worker)]

    def kill_a_worker(self) -> None:
        """kill -9 of a worker and of the executor that it runs."""
        worker = self.workers.pop()
        executors = jvms_of(worker)
        worker.kill()
        for executor in executors:
            executor.kill()
        assert executors, "it was at work"
        worker.wait()


def jvms_of(worker: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """Those that a worker has started, and nothing that its start-up script left behind."""
    return [child for child in psutil.Process(worker.pid).children() if child.name() == "java"]


def daemon(folder: Path, name: str, *words: str) -> subprocess.Popen[bytes]:
    """A process of the cluster that knows nothing of the project: not its folder, nor its Python."""
    folder.mkdir()
    command = [str(spark_home() / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *words]
    environment = {"PATH": "/usr/bin:/bin", "JAVA_HOME": str(java_home()), "SPARK_LOCAL_IP": "127.0.0.1"}
    environment |= {"SPARK_HOME": str(spark_home()), "SPARK_DAEMON_MEMORY": "256m", "SPARK_NO_DAEMONIZE": "1"}
    with open(folder / "log", "w") as log:
        return subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)


def said(folder: Path, pattern: str) -> str:
    """What a process says in its log, once it does."""
    wait_for(lambda: re.search(pattern, (folder / "log").read_text()) is not None)
    found = re.search(pattern, (folder / "log").read_text())
    assert found is not None
    return found[1]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Ports are the ones that are free; all on loopback."""
    root = tmp_path_factory.mktemp("cluster")
    loopback = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
    processes = [daemon(root / "master", "master.Master", *loopback)]
    made = Cluster(said(root / "master", r"Starting Spark master at (spark://\S+)"), [])
    for name in ("one", "two"):
        means = ("--cores", "1", "--memory", "1g", "--work-dir", str(root / name / "work"))
        made.workers.append(daemon(root / name, "worker.Worker", *loopback, *means, made.master))
        processes.append(made.workers[-1])
    for name in ("one", "two"):
        said(root / name, "(Successfully registered with master)")
    yield made
    for process in processes:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def shop(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> World:
    """All tables, and what two hours make of them on a laptop."""
    return make_world(tmp_path_factory.mktemp("shop") / "world", spark, registry(), hours=[H0, H1])


def test_two_hours_on_a_cluster_with_a_worker_killed_in_the_second_have_the_same_rows(
    shop: World, cluster: Cluster, tmp_path: Path
) -> None:
    """Executors are given a Python that is not there: what they run must be Spark's own, and Delta's by its JARs."""
    world = shop.copy(tmp_path / "world", strategy="incremental")
    process = start(
        world,
        H0,
        until=H1,
        MEDALLION_SPARK_MASTER=cluster.master,
        MEDALLION_EXECUTOR_MEMORY="600m",
        PYSPARK_PYTHON="/nowhere/python",
    )
    try:
        wait_for(lambda: process.poll() is not None or silver_of(world, H1))
        assert len(cluster.executors()) == 2
        cluster.kill_a_worker()
        output, _ = process.communicate(timeout=300)
    finally:
        process.kill()
    assert process.returncode == 0, output
    assert differing(world, H1) == []
    (row,) = event_log.read(world.lake, event_type="session", hour=H0)
    assert (row["details"]["master"], row["details"]["cores"]) == (cluster.master, 2)


def silver_of(world: World, hour: str) -> bool:
    """Whether the first table of Silver is at ``hour``: the others are being computed, and all of Gold is to come."""
    silver = (world.lake.open(world.lake.path(table.name)) for table in world.tables.layer("silver"))
    return any(origin_of(table).get("hour") == hour for table in silver)


def wait_for(what: Callable[[], bool]) -> None:
    """Wait until it holds."""
    deadline = time.monotonic() + 240
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.05)
