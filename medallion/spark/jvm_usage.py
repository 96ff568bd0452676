"""How full a JVM is: compiled code, classes, heap, threads and open files, each with its limit.

The figures of a JVM of this user are read by process id, through the attach socket that the JDK's tools use. This works
for the driver of this process and for a warm Spark, without an agent, a port or a JDK on the machine.
"""

import os
import re
import resource
import signal
import socket
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import gettempdir

import psutil

from medallion.errors import MedallionError

COLLECT_SHARE = 0.5  # share of the heap in use above which a garbage collection is worth its time
MAX_SHARE = 0.8  # share of a limit above which a JVM is short of it, and a warm Spark is restarted between two hours

FIGURES = {
    "code_cache": "Code that the JVM has compiled",
    "class_space": "Classes that it has loaded",
    "metaspace": "The same with all that belongs to them; without a limit, unless one was set",
    "heap": "Objects that are in use",
    "threads": "Threads of the process",
    "open_files": "Files and connections that it has open",
}

_ANSWER_SECONDS = 30.0  # a JVM on a busy machine answers late


@dataclass(frozen=True)
class Usage:
    """How much of one resource is in use, in bytes or as a count, and its limit; None if it has no limit."""

    used: int
    limit: int | None

    @property
    def share(self) -> float:
        """The share of the limit that is in use; 0 if there is no limit."""
        return self.used / self.limit if self.limit else 0.0


class Unasked(MedallionError):
    """A JVM returned no figures: it has exited, belongs to another user, or lets no tool attach."""


def jvm_usage(pid: int) -> dict[str, Usage]:
    """Return the values of FIGURES for the JVM with this process id.

    A heap that looks full is garbage-collected first, because unreachable objects do not count as in use.

    Raises Unasked if the JVM returns no figures.
    """
    try:
        heap = _heap(pid)
        if heap["heap"].share > COLLECT_SHARE:
            _ask(pid, "GC.run")
            heap = _heap(pid)
        return {"code_cache": _code_cache(_ask(pid, "Compiler.codecache")), **heap, **_process(pid)}
    except (OSError, psutil.Error, KeyError) as error:
        raise Unasked(f"the JVM with process id {pid} gives no figures: {error}") from error


def as_details(usage: Mapping[str, Usage]) -> dict[str, dict[str, int | None]]:
    """Return the figures in the form of an event's details."""
    return {name: {"used": value.used, "limit": value.limit} for name, value in usage.items()}


def of_details(details: Mapping[str, Mapping[str, int | None]]) -> dict[str, Usage]:
    """Return the figures from an event's details."""
    return {name: Usage(value["used"] or 0, value["limit"]) for name, value in details.items()}


def fullest(usages: Iterable[Mapping[str, Usage]]) -> dict[str, Usage]:
    """Return each figure at its fullest among several JVMs, or among several readings of one JVM."""
    most: dict[str, Usage] = {}
    for usage in usages:
        for name, value in usage.items():
            if name not in most or (value.share, value.used) > (most[name].share, most[name].used):
                most[name] = value
    return most


def shortage(usage: Mapping[str, Usage], share: float | None = None) -> str:
    """Say which figures exceed ``share`` of their limit (MAX_SHARE by default); empty if none does."""
    share = MAX_SHARE if share is None else share
    return ", ".join(
        f"{name.replace('_', ' ')} {shown(name, value)}" for name, value in usage.items() if value.share > share
    )


def shown(name: str, usage: Usage) -> str:
    """Format a figure for people, such as ``130 of 512 MB (25%)``."""
    unit, divisor = ("", 1) if name in {"threads", "open_files"} else (" MB", 1 << 20)
    if usage.limit is None:
        return f"{usage.used // divisor:,}{unit}, no limit"
    return f"{usage.used // divisor:,} of {usage.limit // divisor:,}{unit} ({usage.share:.0%})"


def _heap(pid: int) -> dict[str, Usage]:
    """Return heap and class figures. The class space has a limit even where metaspace has none."""
    flags = dict(re.findall(r"-XX:(\w+)=(\d+)", _ask(pid, "VM.flags")))
    most = flags.get("MaxMetaspaceSize")
    heap, usages = 0, {}
    for line in _ask(pid, "GC.heap_info").splitlines():
        numbers = {word: int(number) * 1024 for word, number in re.findall(r"(used|reserved) (\d+)K", line)}
        if line.lstrip().startswith("Metaspace"):
            usages["metaspace"] = Usage(numbers["used"], int(most) if most else None)
        elif line.lstrip().startswith("class space"):
            usages["class_space"] = Usage(numbers["used"], numbers["reserved"])
        else:
            heap += numbers.get("used", 0)
    return usages | {"heap": Usage(heap, int(flags["MaxHeapSize"]))}


def _code_cache(answer: str) -> Usage:
    """Return the sum of the code cache's segments, because code that does not fit in one goes to another."""
    parts = [(int(used), int(size)) for size, used in re.findall(r"size=(\d+)Kb used=(\d+)Kb", answer)]
    return Usage(sum(used for used, _ in parts) * 1024, sum(size for _, size in parts) * 1024)


def _process(pid: int) -> dict[str, Usage]:
    process = psutil.Process(pid)
    files = _limit(process, "RLIMIT_NOFILE")
    threads = min(filter(None, (_limit(process, "RLIMIT_NPROC"), *_machine_threads())), default=None)
    return {"threads": Usage(process.num_threads(), threads), "open_files": Usage(process.num_fds(), files)}


def _limit(process: psutil.Process, name: str) -> int | None:
    """Return a limit of a process; where only this process can be queried, its limit, which the other inherited."""
    number = getattr(resource, name)
    ask = getattr(process, "rlimit", None)
    soft, hard = ask(number) if ask else resource.getrlimit(number)
    value = soft if ask else hard  # a JVM raises its soft limit to the hard one
    return None if value in {resource.RLIM_INFINITY, -1} else int(value)


def _machine_threads() -> Iterator[int]:
    """Yield the numbers of threads that the kernel and the control group allow."""
    for place in (Path("/proc/sys/kernel/threads-max"), Path("/sys/fs/cgroup/pids.max")):
        with suppress(OSError, ValueError):
            yield int(place.read_text())


def _ask(pid: int, command: str) -> str:
    """Return the output of a jcmd command in a JVM. Raises OSError if the command fails."""
    with _attached(pid) as connection:
        connection.sendall(b"1\0jcmd\0" + command.encode() + b"\0\0\0")
        parts = []
        while part := connection.recv(1 << 16):
            parts.append(part)
    code, _, text = b"".join(parts).decode(errors="replace").partition("\n")
    if code != "0":
        raise OSError(f"{command} is refused: {text.strip()[:200]}")
    return text


@contextmanager
def _attached(pid: int) -> Iterator[socket.socket]:
    folder = Path("/tmp" if sys.platform == "linux" else gettempdir())  # noqa: S108 (where every JVM has it)
    place = folder / f".java_pid{pid}"
    if not place.exists():
        _open_door(pid, folder / f".attach_pid{pid}", place)
    if place.stat().st_uid != os.getuid():
        raise PermissionError(f"{place} belongs to another user")
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_ANSWER_SECONDS)
        connection.connect(str(place))
        yield connection


def _open_door(pid: int, request: Path, place: Path) -> None:
    """Make the JVM listen: on SIGQUIT it looks for ``request``. SIGQUIT kills any process that does not expect it."""
    if not _expects_quit(pid):
        raise OSError("it is not a JVM that lets tools attach")
    request.touch(0o600)
    try:
        os.kill(pid, signal.SIGQUIT)
        deadline = time.monotonic() + _ANSWER_SECONDS
        while not place.exists():
            if time.monotonic() > deadline:
                raise TimeoutError("it does not let tools attach")
            time.sleep(0.01)
    finally:
        request.unlink(missing_ok=True)


def _expects_quit(pid: int) -> bool:
    """Return whether a process is a JVM and catches SIGQUIT, as far as the system shows."""
    if psutil.Process(pid).name() != "java":
        return False
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:  # not Linux
        return True
    caught = re.search(r"^SigCgt:\s*([0-9a-f]+)", status, re.MULTILINE)
    return caught is not None and bool(int(caught[1], 16) >> (signal.SIGQUIT - 1) & 1)
