"""One writer: a lock that ends with its process, on this machine, and a lease in the lake, across machines.

The lock is the operating system's (flock): it goes with the process that holds it, however that ends. Its file says
who holds it. Whoever takes it next first ends what the last holder may have left running: a JVM can outlive the Python
process that commanded it, and must not commit after another has begun. The lease (medallion/ops/lease.py) keeps out
the writers of other machines, which flock does not see, and gives each holder its fencing number.
"""

import fcntl
import json
import logging
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medallion.errors import MedallionError
from medallion.ops import lease
from medallion.storage import fence
from medallion.storage.files import in_bucket
from medallion.storage.lake import Lake

if TYPE_CHECKING:
    import psutil

_UNNAMED_SECONDS = 1.0  # to look again at a lock that names nobody: its holder is about to write, or has just ended
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


_LOGGER = logging.getLogger(__name__)


@dataclass
class Holder:
    """Who writes to the lake: one try of one run.

    lock: the lock file by machine and inode: who holds the same file's flock knows that this holder is dead; in the
    copy of a lake it says nothing. processes: process ids with their start times (epoch seconds).
    """

    run_id: str
    attempt: int
    doing: str
    lock: str
    host: str = field(default_factory=lambda: socket.gethostname())
    since: str = field(default_factory=lambda: f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC")
    processes: dict[int, float] = field(default_factory=dict)

    @classmethod
    def parse(cls, content: Mapping[str, Any]) -> "Holder":
        """A holder from its JSON. Raises KeyError, TypeError, ValueError or AttributeError for anything else."""
        processes = {int(pid): float(start) for pid, start in content["processes"].items()}
        return cls(**{**content, "processes": processes})

    def __str__(self) -> str:
        pid = next(iter(self.processes), "?")
        return f"{self.doing} of run {self.run_id} (process {pid} on {self.host}, since {self.since})"

    def is_superseded_by(self, other: "Holder") -> bool:
        """Whether ``other`` is a later try of the same work: then the scheduler has given this one up."""
        return (self.run_id, self.doing) == (other.run_id, other.doing) and self.attempt < other.attempt


class WriterLock:
    """The lock as held. ``watch`` names another process, the JVM, that writes for the holder."""

    def __init__(self, descriptor: int, holder: Holder) -> None:
        self._descriptor, self._holder = descriptor, holder
        self.watch(os.getpid())

    def watch(self, pid: int) -> None:
        """Record ``pid`` as writing for the holder, to be ended should the holder die or lose its lease."""
        import psutil

        self._holder.processes[pid] = psutil.Process(pid).create_time()
        _write(self._descriptor, json.dumps(asdict(self._holder)))


@contextmanager
def writer_lock(
    lake: Lake, run_id: str, attempt: int, doing: str, *, wait: float, report: Callable[[str], None] = _LOGGER.info
) -> Iterator[WriterLock]:
    """Hold the lake's lock and its lease for the length of the block; commits in it carry the lease's number.

    wait: seconds to wait for another holder, who is named through ``report``. A holder that is an earlier try of the
    same work is ended: on this machine at once, on another one when its lease ends. Raises MedallionError, naming the
    holder, when it still works after that time.
    """
    path = lock_file(lake)
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        me, deadline = Holder(run_id, attempt, doing, lock=_identity(descriptor)), time.monotonic() + wait
        _acquire(descriptor, me, deadline, wait, report)
        left = _read(descriptor)
        if left is not None and left.lock == me.lock:
            _end(left)
        try:
            lock = WriterLock(descriptor, me)
            held = _acquire_lease(lake, me, deadline, wait, report)
            try:
                with fence.holding(held):
                    yield lock
            finally:
                held.give_back()
        finally:
            _write(descriptor, "")
    finally:
        os.close(descriptor)


def current_writer(lake: Lake) -> Holder | None:
    """Who writes to the lake right now, on this machine or another; None when nobody does."""
    path, here = lock_file(lake), ""
    descriptor = None
    with suppress(FileNotFoundError, PermissionError):  # of another account: the lease says who writes
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    if descriptor is not None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _read(descriptor)
        finally:
            here = _identity(descriptor)
            os.close(descriptor)
    content = lease.current_holder(lake)
    return None if content is None or content["lock"] == here else Holder.parse(content)


def lock_file(lake: Lake) -> Path:
    """The lock's file: in the lake; for one in a bucket, where this user's state is kept on this machine."""
    if not in_bucket(lake.root):
        return Path(lake.root) / "ops" / "writer.lock"
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    where = f"{lake.access.endpoint} {lake.root}"
    return state / "medallion" / f"{sha256(where.encode()).hexdigest()[:32]}.lock"


def _identity(descriptor: int) -> str:
    """The lock file that is open at ``descriptor``, told apart from every other one on any machine."""
    status = os.fstat(descriptor)
    return f"{machine_id()}:{status.st_dev}:{status.st_ino}"


def machine_id() -> str:
    """This machine since its last start; containers on it share its kernel, and so its locks."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return socket.gethostname()


def _acquire(descriptor: int, me: Holder, deadline: float, wait: float, report: Callable[[str], None]) -> None:
    """Take the lock of this machine."""
    waiting = False
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            holder = _read(descriptor)
        if holder is not None and holder.lock == me.lock and holder.is_superseded_by(me):
            report(f"ending {holder}: try {me.attempt} has begun")
            _end(holder)
        elif time.monotonic() >= deadline + (_UNNAMED_SECONDS if holder is None else 0):
            raise _occupied_error(holder, wait)
        elif holder is not None and not waiting:
            waiting = True
            report(f"waiting for {holder}")
        time.sleep(0.2)


def _acquire_lease(lake: Lake, me: Holder, deadline: float, wait: float, report: Callable[[str], None]) -> lease.Lease:
    """Take the lease, once the holder of this machine's lock has nobody left to wait for here."""
    waiting = False
    while True:
        taken = lease.acquire(
            lake,
            asdict(me),
            str(me),
            may_take=lambda other: other["lock"] == me.lock,
            revokes=lambda other: Holder.parse(other).is_superseded_by(me),
            lost=lambda: _end(me),
        )
        if isinstance(taken, lease.Lease):
            return taken
        holder = Holder.parse(taken)
        if time.monotonic() >= deadline:
            raise _occupied_error(holder, wait)
        if not waiting:
            waiting = True
            report(f"waiting for {holder}, whose lease ends at most {lease.TTL_SECONDS:.0f} seconds after it stops")
        time.sleep(lease.TTL_SECONDS / 60)


def _occupied_error(holder: Holder | None, wait: float) -> MedallionError:
    return MedallionError(
        f"another writer holds the lake: {holder or 'holder unknown'}; wait for it or stop it, then run this again"
        f" (waited {wait:g} seconds, MEDALLION_LOCK_WAIT)"
    )


def _read(descriptor: int) -> Holder | None:
    text = os.pread(descriptor, 65536, 0).decode(errors="replace")
    try:
        return Holder.parse(json.loads(text))
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
        raise MedallionError(f"process {alive[0].pid}, which {holder} left behind, does not end: stop it by hand")


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
