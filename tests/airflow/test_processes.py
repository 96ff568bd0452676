"""The processes of a local Airflow: told apart from others by their start, and ended with what they started."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from medallion.airflow.processes import Process, Recorded

# Starts a child that ignores SIGTERM and outlives it, and says so.
LEADER = """
import signal, subprocess, sys, time
code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
child.stdout.readline()
print("up", flush=True)
time.sleep(600)
"""


@pytest.fixture
def leader() -> Iterator["subprocess.Popen[bytes]"]:
    started = subprocess.Popen([sys.executable, "-c", LEADER], stdout=subprocess.PIPE, start_new_session=True)
    assert started.stdout is not None
    started.stdout.readline()
    yield started
    Process.of(started.pid).send_to_all(signal.SIGKILL)
    started.kill()
    started.wait()


def wait_until(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not reached() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert reached()


def test_processes_that_a_leader_started_end_with_its_session(leader: "subprocess.Popen[bytes]") -> None:
    process = Process.of(leader.pid)
    assert process.alive and len(process.members()) == 2
    process.send(signal.SIGTERM)
    leader.wait()
    assert not process.alive
    recorded = Recorded(8080, {"scheduler": process})
    assert recorded.running == [process], "its child goes on"
    process.send_to_all(signal.SIGKILL)
    wait_until(lambda: not recorded.running)


def test_process_that_has_another_start_is_left_alone(leader: "subprocess.Popen[bytes]") -> None:
    process = Process.of(leader.pid)
    other = replace(process, started=process.started - 60)
    assert not other.alive and other.members() == []
    other.send(signal.SIGKILL)
    other.send_to_all(signal.SIGKILL)
    assert process.alive


def test_process_that_has_ended_is_not_alive() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""], start_new_session=True)
    ended.wait()
    assert not Process.of(ended.pid).alive and Process.of(ended.pid).members() == []
