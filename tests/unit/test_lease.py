"""Writers on several machines: the lease in the lake, its fencing number, the holder who comes back too late (F36)."""

import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from medallion.errors import MedallionError
from medallion.ops import lease, releases, writer_lock
from medallion.ops.lease import Lease, acquire, lease_record
from medallion.settings import Settings
from medallion.storage import fence
from medallion.storage.delta_writes import properties
from medallion.storage.fence import LeaseLost
from medallion.storage.lake import Lake
from medallion.storage.s3 import S3Access
from medallion.storage.shared_record import DiskRecord, Entry, SharedRecord
from tests.commits import fencing_number

HOST = """
import sys
from pathlib import Path
import deltalake, pyarrow.dataset  # before there is a lease to lose: a busy machine takes seconds for it
from medallion.ops import lease, writer_lock
from medallion.ops import releases
from medallion.settings import Settings
from medallion.storage.delta_writes import properties
from medallion.storage.lake import Lake
from medallion.storage.s3 import S3Access

access = S3Access.of(Settings.from_environment())
lake, host, folder = Lake(sys.argv[1], access), sys.argv[2], Path(sys.argv[3])
lease.TTL_SECONDS, lease.SAFETY_SECONDS = 16.0, 4.0  # a busy machine stands still for seconds
writer_lock.machine_id = lambda: host
writer_lock.lock_file = lambda lake: folder / f"{host}.lock"
writer_lock.socket.gethostname = lambda: host
attempts = {
    "commit": lambda: properties("{}"),
    "publish": lambda: releases.publish(
        lake, after=releases.latest(lake), hour=None, run_id=host, strategy="full", contents=releases.Contents({})
    ),
}
try:
    with writer_lock.writer_lock(lake, host, 1, "refresh", wait=float(sys.argv[4]), report=lambda _: None):
        print("holding", flush=True)
        for word in sys.stdin:
            try:
                attempts[word.strip()]()
                print("done", flush=True)
            except Exception as error:
                print(f"{type(error).__name__}: {error}", flush=True)
except Exception as error:
    print(f"{type(error).__name__}: {error}", flush=True)
"""


class Host:
    """A process on a machine of its own: it sees the lake, but no lock of another machine."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process

    def says(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def told_to(self, word: str) -> str:
        assert self.process.stdin is not None
        print(word, file=self.process.stdin, flush=True)
        return self.says()


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Callable[..., Host]]:
    started: list[subprocess.Popen[str]] = []

    def start(lake: Lake, name: str, wait: float = 0) -> Host:
        command = [sys.executable, "-c", HOST, lake.root, name, str(tmp_path), str(wait)]
        started.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        return Host(started[-1])

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture(params=["disk", "bucket"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    if request.param == "bucket":
        request.getfixturevalue("lake_bucket")
        return Lake("s3a://lakes/shop", S3Access.of(Settings.from_environment()))
    return Lake(str(tmp_path / "lake"))


@pytest.fixture
def on_disk(tmp_path: Path) -> Lake:
    return Lake(str(tmp_path / "lake"))


def take(
    lake: Lake, name: str, *, dead: str = "", given_up: str = "", lost: Callable[[], None] = lambda: None
) -> Lease | dict[str, Any]:
    taken = acquire(
        lake,
        {"name": name},
        name,
        may_take=lambda other: other["name"] == dead,
        revokes=lambda other: other["name"] == given_up,
        lost=lost,
    )
    return taken if isinstance(taken, Lease) else dict(taken)


@contextmanager
def held(lake: Lake, name: str, **more: Any) -> Iterator[Lease]:
    taken = take(lake, name, **more)
    assert isinstance(taken, Lease), f"{taken} has it"
    try:
        yield taken
    finally:
        taken.give_back()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lease that ends soon; stores tell the time in whole seconds."""
    monkeypatch.setattr(lease, "TTL_SECONDS", 4.0)
    monkeypatch.setattr(lease, "SAFETY_SECONDS", 1.5)


class Reached:
    """The record of a lease, until the network to it is cut."""

    def __init__(self, record: SharedRecord) -> None:
        self.record, self.is_cut = record, False

    def read(self) -> Entry | None:
        self.require_network()
        return self.record.read()

    def swap(self, former: Entry | None, content: Mapping[str, Any]) -> Entry | None:
        self.require_network()
        return self.record.swap(former, content)

    def require_network(self) -> None:
        if self.is_cut:
            raise MedallionError("no network")


class Network:
    """What is between holders and their leases."""

    def __init__(self) -> None:
        self.records: list[Reached] = []

    def connect(self, lake: Lake) -> Reached:
        self.records.append(Reached(lease_record(lake)))
        return self.records[-1]

    def cut(self) -> None:
        """Cut off those who hold a lease now; who comes later reaches it."""
        for record in self.records:
            record.is_cut = True


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> Network:
    made = Network()
    monkeypatch.setattr(lease, "lease_record", made.connect)
    return made


def test_fencing_number_grows_with_each_holder(lake: Lake) -> None:
    numbers = []
    for name in "abc":
        with held(lake, name) as holder:
            numbers.append(holder.number)
    assert numbers == [1, 2, 3]


@pytest.mark.slow
def test_lease_is_refused_while_another_machine_renews_it(lake: Lake, quick: None) -> None:
    with held(lake, "first") as holder:
        end = time.monotonic() + 1.3 * lease.TTL_SECONDS
        while time.monotonic() < end:
            assert take(lake, "second") == {"name": "first"}
            time.sleep(0.3)
        holder.require()
    with held(lake, "second") as holder:
        assert holder.number == 2


def test_dead_holder_of_this_machine_is_replaced_at_once(lake: Lake, network: Network) -> None:
    with held(lake, "first"):
        network.cut()
        with held(lake, "second", dead="first") as holder:
            assert holder.number == 2


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_frozen_machine_can_neither_commit_nor_publish_when_it_comes_back(
    lake: Lake, host: Callable[..., Host]
) -> None:
    first = host(lake, "first")
    assert first.says() == "holding"
    assert first.told_to("publish") == "done"
    os.kill(first.process.pid, signal.SIGSTOP)
    second = host(lake, "second", wait=60)
    assert second.says() == "holding"
    os.kill(first.process.pid, signal.SIGCONT)
    assert first.told_to("commit").startswith("LeaseLost: this run has lost writer lease 1")
    assert first.told_to("publish").startswith("LeaseLost: ")
    assert second.told_to("commit") == "done"
    assert second.told_to("publish") == "done"
    assert [(release.run_id, release.fence) for release in releases.read_all(lake)] == [("first", 1), ("second", 2)]


def test_second_machine_names_the_writer_of_the_first(lake: Lake, host: Callable[..., Host]) -> None:
    first = host(lake, "first")
    assert first.says() == "holding"
    assert "another writer holds the lake: refresh of run first (process" in host(lake, "second").says()
    writer = writer_lock.current_writer(lake)
    assert writer is not None and (writer.run_id, writer.host) == ("first", "first")


@pytest.mark.slow
def test_holder_without_network_stops_before_its_lease_ends(lake: Lake, quick: None, network: Network) -> None:
    stopped = threading.Event()
    with held(lake, "first", lost=stopped.set) as holder, fence.holding(holder):
        network.cut()
        assert stopped.wait(timeout=lease.TTL_SECONDS)
        assert take(lake, "second") == {"name": "first"}, "nobody else may write before it has stopped"
        with pytest.raises(LeaseLost, match="could not be renewed for"):
            properties("{}")


def test_publishing_asks_the_store_whether_the_lease_is_held(lake: Lake) -> None:
    with held(lake, "first") as overtaken, held(lake, "second", dead="first"), fence.holding(overtaken):
        overtaken.require()  # by the clock all is well
        with pytest.raises(LeaseLost, match="second took it over"):
            releases.publish(
                lake, after=None, hour=None, run_id="first", strategy="full", contents=releases.Contents({})
            )
    assert releases.latest(lake) is None


def test_release_of_a_lower_number_is_refused_whatever_its_writer_believes(on_disk: Lake) -> None:
    class Believes:
        number = 6

        def require(self) -> None:
            """All is well."""

        confirm = require

    def publish(run_id: str) -> releases.Release:
        after = releases.latest(on_disk)
        return releases.publish(
            on_disk, after=after, hour=None, run_id=run_id, strategy="full", contents=releases.Contents({})
        )

    believer = Believes()
    believer.number = 7
    with fence.holding(believer):
        assert publish("new").fence == 7
    with fence.holding(Believes()), pytest.raises(LeaseLost, match="published under writer lease 7, this run has 6"):
        publish("old")
    with pytest.raises(LeaseLost, match="this run has none"):
        publish("without a lease")


@pytest.mark.slow
def test_later_try_on_another_machine_stops_the_earlier_one(lake: Lake, quick: None) -> None:
    stopped = threading.Event()
    with held(lake, "try 1", lost=stopped.set) as given_up:
        assert take(lake, "try 2", given_up="try 1") == {"name": "try 1"}
        assert stopped.wait(timeout=2 * lease.TTL_SECONDS)
        with pytest.raises(LeaseLost, match="try 2 took it over"):
            given_up.require()
        deadline = time.monotonic() + 3 * lease.TTL_SECONDS
        while not isinstance(taken := take(lake, "try 2"), Lease):
            assert time.monotonic() < deadline
            time.sleep(0.2)
        assert taken.number == 2
        taken.give_back()


@pytest.mark.slow
def test_lost_lease_ends_the_processes_that_write_for_its_holder(on_disk: Lake, quick: None, network: Network) -> None:
    with (
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as child,
        writer_lock.writer_lock(on_disk, "run", 1, "refresh", wait=0) as lock,
    ):
        lock.watch(child.pid)
        network.cut()
        child.wait(timeout=2 * lease.TTL_SECONDS)  # raises while it runs


def test_request_whose_answer_was_lost_counts_as_made(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = type(lease_record(lake))
    swap = kind.swap

    def answer_lost(self: Any, former: Entry | None, content: dict[str, Any]) -> Entry | None:
        swap(self, former, content)
        return None

    monkeypatch.setattr(kind, "swap", answer_lost)
    with held(lake, "first") as holder:
        holder.renew()
        holder.confirm()
        assert holder.number == 1


def test_suspended_machine_knows_by_either_clock(on_disk: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time
    with held(on_disk, "first") as holder:
        holder.require()
        monkeypatch.setattr(lease.time, "time", lambda: now() + 50)
        with pytest.raises(LeaseLost, match="could not be renewed for 50 seconds"):
            holder.require()


def test_number_goes_on_from_the_newest_release_when_the_record_is_gone(lake: Lake) -> None:
    for name in "abc":
        with held(lake, name) as holder, fence.holding(holder):
            releases.publish(
                lake,
                after=releases.latest(lake),
                hour=None,
                run_id=name,
                strategy="full",
                contents=releases.Contents({"x": 1}),
            )
    record = lake.at(lake.ops("lease"))
    shutil.rmtree(record) if isinstance(record, Path) else record.unlink()
    with held(lake, "d") as holder:
        assert holder.number == 4


@pytest.mark.slow
def test_copied_lake_has_the_holder_until_the_lease_ends(on_disk: Lake, tmp_path: Path, quick: None) -> None:
    copy = Lake(str(tmp_path / "copy"))
    with held(on_disk, "first"):
        shutil.copytree(on_disk.root, copy.root)
        assert take(copy, "second") == {"name": "first"}
        time.sleep(1.5 * lease.TTL_SECONDS)  # the other machine renewed it while it was copied
        with held(copy, "second") as holder:
            assert holder.number == 2
        assert take(on_disk, "second") == {"name": "first"}


def test_live_lease_is_refused_when_its_folder_has_another_inode(on_disk: Lake, tmp_path: Path) -> None:
    folder = Path(on_disk.ops("lease"))
    with held(on_disk, "first") as holder:
        before = folder.stat().st_ino
        shutil.copytree(folder, tmp_path / "same content")
        shutil.move(folder, tmp_path / "away")
        shutil.move(tmp_path / "same content", folder)
        assert folder.stat().st_ino != before, "as a share that numbers its files anew"
        assert take(on_disk, "second") == {"name": "first"}
        holder.confirm()


def test_unreadable_state_is_replaced_under_a_higher_number(on_disk: Lake) -> None:
    with held(on_disk, "first"):
        pass
    newest = sorted(Path(on_disk.ops("lease")).iterdir())[-1]
    newest.write_text("")  # as a power failure leaves it
    with held(on_disk, "second") as holder:
        assert holder.number > 1


def test_of_many_writers_one_replaces_a_state(tmp_path: Path) -> None:
    former = DiskRecord(tmp_path).swap(None, {"name": "start"})
    start, won = threading.Barrier(8), list[Entry | None]()

    def swap(number: int) -> None:
        start.wait()
        won.append(DiskRecord(tmp_path).swap(former, {"name": number}))

    threads = [threading.Thread(target=swap, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len([entry for entry in won if entry is not None]) == 1


def test_state_that_is_long_gone_is_not_replaced(tmp_path: Path) -> None:
    record = DiskRecord(tmp_path)
    old = entry = record.swap(None, {})
    for _ in range(40):
        entry = record.swap(entry, {})
    assert len(list(tmp_path.iterdir())) == 20
    assert record.swap(old, {}) is None
    newest = record.read()
    assert newest is not None and newest.number == 41


def test_taking_and_giving_back_costs_three_requests(lake_bucket: Any) -> None:
    lake = Lake("s3a://lakes/shop", S3Access.of(Settings.from_environment()))
    with held(lake, "first"):
        pass
    requests: list[str] = []
    client = lease_record(lake)._client  # type: ignore[attr-defined]
    client.meta.events.register("before-send.s3", lambda request, **_: requests.append(request.method))
    with held(lake, "second"):
        pass
    assert requests == ["GET", "PUT", "PUT"]


def test_commit_carries_the_fencing_number(on_disk: Lake) -> None:
    path = on_disk.path("silver_numbers")
    with held(on_disk, "first") as holder, fence.holding(holder):
        write_deltalake(path, pa.table({"a": [1]}), commit_properties=properties('{"hour": null}'))
        write_deltalake(path, pa.table({"a": [2]}), mode="append", commit_properties=properties())
    assert [fencing_number(commit) for commit in DeltaTable(path).history()] == [1, 1]


def test_a_record_that_cannot_be_written_leaves_no_draft_behind(tmp_path: Path) -> None:
    record = DiskRecord(tmp_path / "lease")
    entry = record.swap(None, {"holder": "a"})
    files = sorted((tmp_path / "lease").iterdir())
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        with pytest.raises(MedallionError, match="lease cannot be written: File too large"):
            record.swap(entry, {"holder": "b"})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert sorted((tmp_path / "lease").iterdir()) == files
