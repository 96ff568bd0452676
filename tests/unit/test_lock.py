"""One writer at a time: who waits, who is named, and what the dead leave behind."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from medallion.errors import MedallionError
from medallion.ops import lease
from medallion.ops.writer_lock import current_writer, writer_lock
from medallion.pipeline.run import Run
from medallion.storage.lake import Lake
from tests.unit.small_lake import Shop, without_spark

HOLD = """
import subprocess, sys, time
from medallion.storage.lake import Lake
from medallion.ops import lease
from medallion.ops.writer_lock import writer_lock
with writer_lock(Lake(sys.argv[1]), sys.argv[2], int(sys.argv[3]), "refresh silver", wait=0) as lock:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
    lock.watch(child.pid)
    print(child.pid, flush=True)
    time.sleep(60)
"""


@contextmanager
def holder(lake: Lake, run_id: str = "first", attempt: int = 1) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Another process that holds the lock, and the process that writes for it."""
    command = [sys.executable, "-c", HOLD, lake.root, run_id, str(attempt)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        try:
            yield process, child
        finally:
            for pid in (process.pid, child):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue


def gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(str(tmp_path))


def test_a_second_writer_stops_and_names_the_first(lake: Lake) -> None:
    told: list[str] = []
    with holder(lake) as (process, _):
        with (
            pytest.raises(MedallionError, match=rf"refresh silver of run first \(process {process.pid} on .*since 20"),
            writer_lock(lake, "second", 1, "apply", wait=0.5, report=told.append),
        ):
            pytest.fail("two writers at once")
        assert process.poll() is None
    assert told and told[0].startswith("waiting for refresh silver of run first")


def test_driver_that_keeps_its_messages_to_itself_still_says_for_whom_it_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_spark(monkeypatch)
    shop, kept, told = Shop(tmp_path), list[str](), list[str]()
    driver = shop.driver()
    driver.settings = shop.settings.replace(lock_wait=1)
    driver.report, driver.report_wait = kept.append, told.append
    with holder(shop.lake), pytest.raises(MedallionError), driver.writing(Run(shop.settings, None, "other"), "refresh"):
        pytest.fail("two writers at once")
    assert told[0].startswith("waiting for refresh silver of run first") and kept == []


@pytest.mark.slow
def test_second_writer_continues_when_the_first_is_done(lake: Lake) -> None:
    with holder(lake) as (process, _):
        start = time.monotonic()
        os.kill(process.pid, signal.SIGTERM)
        with writer_lock(lake, "second", 1, "apply", wait=30):
            assert time.monotonic() - start < 30


@pytest.mark.slow
def test_what_a_dead_writer_left_running_is_ended_before_another_begins(lake: Lake) -> None:
    with holder(lake) as (process, child):
        process.kill()
        process.wait()
        assert not gone(child)
        with writer_lock(lake, "second", 1, "apply", wait=5):
            assert gone(child)


@pytest.mark.slow
def test_a_later_try_of_the_same_work_ends_the_one_that_was_given_up(lake: Lake) -> None:
    with holder(lake, "run", attempt=1) as (process, child), writer_lock(lake, "run", 2, "refresh silver", wait=0):
        assert gone(process.pid)
        assert gone(child)


def test_an_earlier_try_does_not_end_a_later_one(lake: Lake) -> None:
    with holder(lake, "run", attempt=2) as (process, _):
        with (
            pytest.raises(MedallionError, match="another writer"),
            writer_lock(lake, "run", 1, "refresh silver", wait=0),
        ):
            pytest.fail("two writers at once")
        assert process.poll() is None


def test_a_lock_given_back_leaves_nobody_to_be_ended(lake: Lake) -> None:
    with pytest.raises(ZeroDivisionError), writer_lock(lake, "first", 1, "apply", wait=0):
        raise ZeroDivisionError
    assert Path(lake.root, "ops", "writer.lock").read_text() == ""


def test_a_process_id_that_is_used_again_is_left_alone(lake: Lake) -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as stranger:
        path = Path(lake.root, "ops", "writer.lock")
        path.parent.mkdir()
        with writer_lock(lake, "first", 1, "apply", wait=0):
            content = json.loads(path.read_text())
        path.write_text(json.dumps(content | {"processes": {stranger.pid: time.time() - 86_400}}))
        with writer_lock(lake, "second", 1, "apply", wait=0):
            assert stranger.poll() is None
        stranger.kill()


@pytest.mark.slow
def test_writer_of_a_copied_lake_waits_for_the_lease_and_ends_nobody(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "TTL_SECONDS", 4.0)
    monkeypatch.setattr(lease, "SAFETY_SECONDS", 1.5)
    with holder(lake) as (process, child):
        copy = Path(shutil.copytree(Path(lake.root, "ops"), tmp_path / "copy" / "ops")).parent
        with (
            pytest.raises(MedallionError, match="another writer holds the lake: refresh silver of run first"),
            writer_lock(Lake(str(copy)), "second", 1, "apply", wait=0),
        ):
            pytest.fail("the lease has not ended")
        with writer_lock(Lake(str(copy)), "second", 1, "apply", wait=30):
            assert process.poll() is None and not gone(child)


def test_who_writes_now_can_be_asked_without_getting_in_the_way(lake: Lake) -> None:
    assert current_writer(lake) is None
    with writer_lock(lake, "first", 1, "apply", wait=0):
        holder = current_writer(lake)
        assert holder is not None and (holder.run_id, holder.doing) == ("first", "apply")
    assert current_writer(lake) is None
