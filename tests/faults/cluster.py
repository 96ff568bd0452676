"""A standalone cluster of a master and two workers, and an S3 server: processes of this machine, on loopback alone."""

import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import psutil

from medallion.spark.jars import spark_home
from medallion.spark.java import java_home
from tests.jvm import TEST_JVM_OPTIONS
from tests.s3_server import run_s3_server


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
    folder.mkdir(parents=True)
    command = [str(spark_home() / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *words]
    environment = {"PATH": "/usr/bin:/bin", "JAVA_HOME": str(java_home()), "SPARK_LOCAL_IP": "127.0.0.1"}
    environment |= {"SPARK_HOME": str(spark_home()), "SPARK_DAEMON_MEMORY": "256m", "SPARK_NO_DAEMONIZE": "1"}
    environment |= {"JAVA_TOOL_OPTIONS": TEST_JVM_OPTIONS}  # of executors too
    with open(folder / "log", "w") as log:
        return subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)


def said(folder: Path, pattern: str) -> str:
    """What a process says in its log, once it does."""
    wait_for(lambda: re.search(pattern, (folder / "log").read_text()) is not None)
    found = re.search(pattern, (folder / "log").read_text())
    assert found is not None
    return found[1]


@contextmanager
def cluster_in(root: Path, cores: int = 1, memory: str = "1g", workers: int = 2) -> Iterator[Cluster]:
    """Ports are the ones that are free. cores, memory: of each worker."""
    names = [f"worker-{number}" for number in range(workers)]
    loopback = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
    processes = [daemon(root / "master", "master.Master", *loopback)]
    try:
        made = Cluster(said(root / "master", r"Starting Spark master at (spark://\S+)"), [])
        for name in names:
            means = ("--cores", str(cores), "--memory", memory, "--work-dir", str(root / name / "work"))
            made.workers.append(daemon(root / name, "worker.Worker", *loopback, *means, made.master))
            processes.append(made.workers[-1])
        for name in names:
            said(root / name, "(Successfully registered with master)")
        yield made
    finally:
        for process in processes:
            process.kill()
            process.wait()


@contextmanager
def s3_server() -> Iterator[str]:
    """An S3 server with an empty bucket, to which this process's environment leads; what is in the bucket is named
    after the URI that is yielded. Where the environment leads to a server already, it is that one."""
    import boto3

    with ExitStack() as stack:
        if "MEDALLION_S3_ENDPOINT" not in os.environ:
            os.environ |= {
                "AWS_ACCESS_KEY_ID": "somebody",
                "AWS_SECRET_ACCESS_KEY": "a secret",
                "MEDALLION_S3_ENDPOINT": stack.enter_context(run_s3_server()),
                "MEDALLION_S3_REGION": "us-east-1",
            }
        address, region = os.environ["MEDALLION_S3_ENDPOINT"], os.environ.get("MEDALLION_S3_REGION", "us-east-1")
        bucket = f"lakes-{uuid4().hex[:8]}"
        boto3.client("s3", endpoint_url=address, region_name=region).create_bucket(Bucket=bucket)
        yield f"s3a://{bucket}"


def wait_for(what: Callable[[], bool]) -> None:
    """Wait until it holds."""
    deadline = time.monotonic() + 240
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.05)
