"""A warm Spark for tests: a Spark Connect server that processes attach to."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psutil

from medallion.airflow.ports import free_port
from medallion.spark.session import TOKEN_VARIABLE
from tests.shop import PROJECT

MEDALLION = [sys.executable, "-m", "medallion"]


@dataclass(frozen=True)
class Warm:
    """A server that runs, and what a process that attaches to it is given."""

    keeper: subprocess.Popen[bytes]
    port: int

    @property
    def attached(self) -> dict[str, str]:
        return {"MEDALLION_SPARK_CONNECT": f"sc://localhost:{self.port}", TOKEN_VARIABLE: "a secret"}

    def jvm(self) -> psutil.Process:
        """The JVM, once it listens."""
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return psutil.Process(self.keeper.pid).children()[0]
            time.sleep(0.2)
        raise AssertionError("the server does not listen")


@contextmanager
def warm_spark() -> Iterator[Warm]:
    """Start a server, and end it."""
    port = free_port()
    told = os.environ | {"MEDALLION_SPARK_CONNECT": f"sc://localhost:{port}", TOKEN_VARIABLE: "a secret"}
    told |= {"MEDALLION_SPARK_MASTER": "local[2]", "MEDALLION_DRIVER_MEMORY": "1g"}
    made = Warm(subprocess.Popen([*MEDALLION, "spark-server"], env=told, cwd=PROJECT), port)
    yield made
    jvm = made.jvm()
    made.keeper.terminate()
    assert made.keeper.wait(timeout=60) == 0
    assert not jvm.is_running(), "the server ends with its keeper"
