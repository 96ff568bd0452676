"""One writer: a lock on the lake that names its holder, and that no process keeps beyond its death.

The lock is the operating system's (flock), so it goes with the process that holds it, however that ends. Its file says
who holds it. Whoever takes it over first ends what the last holder may have left running: a JVM can outlive the Python
process that commanded it, and must not commit after another has begun.
"""

import fcntl
import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from medallion.errors import MedallionError
from medallion.settings import Settings
from medallion.storage.files import in_bucket
from medallion.storage.lake import Lake

if TYPE_CHECKING:
    import psutil

_NAMELESS = 1.0  # seconds to look again at a lock that names nobody: its holder is about to, or was just asked for


@dataclass
class Holder:
    """Who writes to the lake: one try of one run.

    inode: of the lock's file, for the copy of a lake says nothing of who writes to the copy. processes: process ids
    with their start times (epoch seconds).
    """

    run_id: str
    attempt: int
    doing: str
    inode: int
    host: str = field(default_factory=socket.gethostname)
    since: str = field(default_factory=lambda: f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC")
    processes: dict[int, float] = field(default_factory=dict)

    def __str__(self) -> str:
        pid = next(iter(self.processes), "?")
        return f"{self.doing} of run {self.run_id} (process {pid} on {self.host}, since {self.since})"

    def is_superseded_by(self, other: "Holder") -> bool:
        """Whether ``other`` is a later try of the same work: then the scheduler has given this one up."""
        same = (self.run_id, self.doing, self.host) == (other.run_id, other.doing, other.host)
        return same and self.attempt < other.attempt


class WriterLock:
    """The lock as held. ``watch`` names another process, the JVM, that writes for the holder."""

    def __init__(self, descriptor: int, holder: Holder) -> None:
        self._descriptor, self._holder = descriptor, holder
        self.watch(os.getpid())

    def watch(self, pid: int) -> None:
        """Record ``pid`` as writing for the holder, to be ended should the holder die and leave it behind."""
        import psutil

        self._holder.processes[pid] = psutil.Process(pid).create_time()
        _write(self._descriptor, json.dumps(asdict(self._holder)))


@contextmanager
def writer_lock(
    lake: Lake, run_id: str, attempt: int, doing: str, *, wait: float, report: Callable[[str], None] = print
) -> Iterator[WriterLock]:
    """Hold the lake's lock for the length of the block.

    wait: seconds to wait for another holder, who is named through ``report``. A holder that is an earlier try of the
    same work on this host is ended. Raises MedallionError, naming the holder, when it still works after that time.
    """
    path = _file(lake)
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        me = Holder(run_id, attempt, doing, inode=os.fstat(descriptor).st_ino)
        _acquire(descriptor, me, wait, report)
        left = _read(descriptor)
        if left is not None and (left.host, left.inode) == (me.host, me.inode):
            _end(left)
        try:
            yield WriterLock(descriptor, me)
        finally:
            _write(descriptor, "")
    finally:
        os.close(descriptor)


def current_writer(lake: Lake) -> Holder | None:
    """Who writes to the lake right now, on this host; None when nobody does."""
    path = _file(lake)
    if not path.exists():
        return None
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _read(descriptor)
    else:
        return None
    finally:
        os.close(descriptor)


def _file(lake: Lake) -> Path:
    """The lock's file: in the lake; for one in a bucket, where this user's state is kept on this machine."""
    if not in_bucket(lake.root):
        return Path(lake.root) / "ops" / "writer.lock"
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    where = f"{Settings.from_environment().s3_endpoint} {lake.root}"
    return state / "medallion" / f"{sha256(where.encode()).hexdigest()[:32]}.lock"


def _acquire(descriptor: int, me: Holder, wait: float, report: Callable[[str], None]) -> None:
    deadline, told = time.monotonic() + wait, False
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            holder = _read(descriptor)
        if holder is not None and holder.is_superseded_by(me):
            report(f"ending {holder}: try {me.attempt} has begun")
            _end(holder)
        elif time.monotonic() >= deadline + (_NAMELESS if holder is None else 0):
            raise MedallionError(
                f"the lake has another writer: {holder or 'it has not said who'}; wait for it, or end it,"
                f" and run this again (MEDALLION_LOCK_WAIT={wait:g} seconds were waited)"
            )
        elif holder is not None and not told:
            told = True
            report(f"waiting for {holder}")
        time.sleep(0.2)


def _read(descriptor: int) -> Holder | None:
    text = os.pread(descriptor, 65536, 0).decode(errors="replace")
    try:
        content = json.loads(text)
        processes = {int(pid): float(start) for pid, start in content.pop("processes").items()}
        return Holder(**content, processes=processes)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None  # empty: it was given back; cut off: its writer is at it right now


def _write(descriptor: int, text: str) -> None:
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, text.encode(), 0)


def _end(holder: Holder) -> None:
    """Kill what is left of ``holder``, and wait until it is gone."""
    import psutil

    left = [process for pid, start in holder.processes.items() if (process := _alive(pid, start))]
    for process in left:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
    _, alive = psutil.wait_procs(left, timeout=30)
    if alive:
        raise MedallionError(f"process {alive[0].pid}, which {holder} left behind, cannot be ended: end it by hand")


def _alive(pid: int, start: float) -> "psutil.Process | None":
    """The process ``pid`` if it is still the one that started then: ids are used again."""
    import psutil

    if pid == os.getpid():
        return None
    try:
        process = psutil.Process(pid)
        same = abs(process.create_time() - start) < 0.5 and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return None
    return process if same else None
