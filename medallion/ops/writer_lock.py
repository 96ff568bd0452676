"""One writer per lake: a lock on this machine that ends with its process, and a lease in the lake across machines.

The lock is the operating system's (flock): it is released when its process ends, however that happens. Its file names
the holder. The next holder first ends what the last one may have left running, because a JVM can outlive the Python
process that started it, and must not commit after another writer has begun. The lease (medallion/ops/lease.py) keeps
out writers of other machines, which flock does not see, and gives each holder its fencing number.
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

# Extra wait for a lock that names nobody: its holder is about to write its name, or has just ended.
_UNNAMED_SECONDS = 1.0
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


_LOGGER = logging.getLogger(__name__)


@dataclass
class Holder:
    """The writer of a lake: one try of one run.

    lock: the lock file by machine and inode. Whoever holds the flock of the same file knows that this holder is dead;
    in the copy of a lake, it means nothing. processes: process ids with their start times (epoch seconds).
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
        """Return a holder from its JSON. Raises KeyError, TypeError, ValueError or AttributeError for anything else."""
        processes = {int(pid): float(start) for pid, start in content["processes"].items()}
        return cls(**{**content, "processes": processes})

    def __str__(self) -> str:
        pid = next(iter(self.processes), "?")
        return f"{self.doing} of run {self.run_id} (process {pid} on {self.host}, since {self.since})"

    def is_superseded_by(self, other: "Holder") -> bool:
        """Whether ``other`` is a later try of the same work, so that the scheduler has given this one up."""
        return (self.run_id, self.doing) == (other.run_id, other.doing) and self.attempt < other.attempt


class WriterLock:
    """The lock of this process. ``watch`` adds another process that writes for it: the JVM."""

    def __init__(self, descriptor: int, holder: Holder) -> None:
        self._descriptor, self._holder = descriptor, holder
        self.watch(os.getpid())

    def watch(self, pid: int) -> None:
        """Record that process ``pid`` writes for the holder; it is ended if the holder dies or loses its lease."""
        import psutil

        self._holder.processes[pid] = psutil.Process(pid).create_time()
        _write(self._descriptor, json.dumps(asdict(self._holder)))


@contextmanager
def writer_lock(
    lake: Lake, run_id: str, attempt: int, doing: str, *, wait: float, report: Callable[[str], None] = _LOGGER.info
) -> Iterator[WriterLock]:
    """Hold the lake's lock and its lease for the block; commits in it have the lease's number.

    wait: seconds to wait for another holder, which ``report`` names. A holder that is an earlier try of the same work
    is not waited for: on this machine it is ended at once, on another machine its lease is revoked and expires. Raises
    MedallionError, naming the holder, if it still holds the lock after that time.
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
    """Return the current writer of the lake, on this machine or another; None if there is none."""
    path, here = lock_file(lake), ""
    descriptor = None
    with suppress(FileNotFoundError, PermissionError):  # another account's: the lease names the writer
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
    """Return the lock file: in the lake, or for a lake in a bucket in this user's state folder on this machine."""
    if not in_bucket(lake.root):
        return Path(lake.root) / "ops" / "writer.lock"
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    where = f"{lake.access.endpoint} {lake.root}"
    return state / "medallion" / f"{sha256(where.encode()).hexdigest()[:32]}.lock"


def _identity(descriptor: int) -> str:
    """Return an identifier of the open lock file that is unique across machines."""
    status = os.fstat(descriptor)
    return f"{machine_id()}:{status.st_dev}:{status.st_ino}"


def machine_id() -> str:
    """Return an identifier of this machine since its last start; containers on it share its kernel, so its locks."""
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
    """Take the lease; the lock of this machine is already held."""
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
        return None  # empty: the lock was released; cut off: its holder is writing it right now


def _write(descriptor: int, text: str) -> None:
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, text.encode(), 0)


def _end(holder: Holder) -> None:
    """Kill the processes of ``holder`` that are still alive, and wait until they have ended."""
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
    """Return the process ``pid`` if it is still the one that started at ``start``, because ids are reused."""
    import psutil

    if pid == os.getpid():
        return None
    try:
        process = psutil.Process(pid)
        same = abs(process.create_time() - start) < 0.5 and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return None
    return process if same else None
