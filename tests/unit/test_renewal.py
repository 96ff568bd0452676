"""A JVM that is short of something is replaced between two hours; tests/faults/test_warm.py does it with real ones."""

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from medallion.errors import MedallionError
from medallion.pipeline import driver as driver_module
from medallion.pipeline.driver import Driver
from medallion.settings import Settings
from medallion.spark import renewal

WARM = Settings(spark_connect="sc://localhost:15002")


@pytest.fixture
def warm(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """What happens to a warm Spark that is short of something, as a step attaches to it."""

    def of(*, kept: bool = True, others: bool = False, refused: int = 0) -> list[str]:
        seen: list[str] = []
        answers = iter([True, *[False] * refused, True])

        def attach(_: Settings) -> Any:
            if not next(answers):
                raise MedallionError("no Spark answers")
            seen.append("attached")
            return SimpleNamespace(stop=lambda: seen.append("left"))

        monkeypatch.setattr(renewal, "spark_session", attach)
        monkeypatch.setattr(renewal, "jvm_of", lambda _: 7)
        monkeypatch.setattr(renewal, "shortage_of", lambda _: "heap 9 of 10 MB (90%)")
        monkeypatch.setattr(renewal, "_is_kept", lambda _: kept)
        monkeypatch.setattr(renewal, "_has_others", lambda *_: others)
        monkeypatch.setattr(renewal, "_end", lambda process: seen.append(f"ended {process}"))
        _, short = renewal.attached(WARM)
        return [*seen, short]

    return of


def test_short_warm_spark_is_ended_and_the_step_attaches_to_the_next_one_once_it_listens(warm: Any) -> None:
    replaced = ["attached", "left", "ended 7", "attached", "heap 9 of 10 MB (90%)"]
    assert warm() == replaced
    assert warm(refused=3) == replaced


def test_short_warm_spark_is_left_alone_while_others_work_with_it_or_nobody_would_start_the_next(warm: Any) -> None:
    assert warm(others=True) == ["attached", ""]
    assert warm(kept=False) == ["attached", ""]


_LISTEN = """
import socket
server, kept = socket.create_server(("127.0.0.1", 0)), []
print(server.getsockname()[1], flush=True)
while True:
    kept.append(server.accept()[0])
    kept[-1].sendall(b"1")
"""
_CONNECT = """
import socket, sys
connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
connection.recv(1)
print("accepted", flush=True)
input()
"""


@contextmanager
def process_of(code: str, *arguments: str) -> Iterator[tuple[int, str]]:
    """A process that runs `code` until the block ends: its id and the first line that it prints."""
    command = [sys.executable, "-c", code, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.pid, process.stdout.readline()
        finally:
            process.kill()


def test_connection_of_another_process_is_told_from_an_own_one() -> None:
    with process_of(_LISTEN) as (server, port), socket.create_connection(("127.0.0.1", int(port))) as own:
        assert own.recv(1), "accepted"
        assert not renewal._has_others(server, int(port))
        with process_of(_CONNECT, port) as (_, accepted):
            assert accepted
            assert renewal._has_others(server, int(port))


def test_driver_leaves_its_jvm_between_two_hours_only_when_that_is_short_and_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ended, short = list[str](), ["", "threads 90 of 100 (90%)"]
    monkeypatch.setattr(driver_module, "shortage_of", lambda _: short[-1])
    monkeypatch.setattr(driver_module, "has_own_jvm", lambda: own)
    monkeypatch.setattr(driver_module, "end_jvm", lambda: ended.append("ended"))
    driver = Driver(Settings(lake=str(tmp_path)), report=ended.append)
    own = False
    driver.renew_if_short()
    assert ended == [], "spark-submit started it"
    own = True
    driver.renew_if_short()
    assert ended == ["Spark's JVM is short of threads 90 of 100 (90%): the next hour has another one", "ended"]
    short.append("")
    driver.renew_if_short()
    assert len(ended) == 2
