"""The processes of an Airflow on this machine, each the leader of a session, and their record in a file."""

import os
import signal
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

import psutil

_SAME_START_SECONDS = 0.5  # two readings of the start of one process differ by less


@dataclass(frozen=True)
class Process:
    """A process that leads a session of its own: what it starts stays in it, whatever becomes of the leader.

    started: its start in seconds since the epoch, for process ids are used again.
    """

    pid: int
    started: float

    @classmethod
    def of(cls, pid: int) -> "Process":
        """Return the process that runs as ``pid`` now; one that has ended already is not alive."""
        try:
            return cls(pid, psutil.Process(pid).create_time())
        except psutil.NoSuchProcess:
            return cls(pid, 0.0)

    @property
    def alive(self) -> bool:
        """Check whether the process still runs."""
        with suppress(psutil.NoSuchProcess):
            now = psutil.Process(self.pid)
            return self._is(now) and now.status() != psutil.STATUS_ZOMBIE
        return False

    def members(self) -> list[psutil.Process]:
        """Return the processes of its session that run, itself included."""
        with suppress(psutil.NoSuchProcess):
            if not self._is(psutil.Process(self.pid)):
                return []  # the id belongs to another by now, which it could not while the session had a member
        return [*self._running_members()]

    def _running_members(self) -> Iterator[psutil.Process]:
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):  # it has ended meanwhile, or is of somebody else
                if os.getsid(process.pid) == self.pid and process.status() != psutil.STATUS_ZOMBIE:
                    yield process

    def send(self, what: signal.Signals) -> None:
        """Signal the process itself."""
        if self.alive:
            with suppress(psutil.NoSuchProcess):  # it was faster
                psutil.Process(self.pid).send_signal(what)

    def send_to_all(self, what: signal.Signals) -> None:
        """Signal its whole session."""
        for process in self.members():
            with suppress(psutil.NoSuchProcess):
                process.send_signal(what)

    def _is(self, now: psutil.Process) -> bool:
        return bool(abs(now.create_time() - self.started) < _SAME_START_SECONDS)


@dataclass(frozen=True)
class Recorded:
    """The processes that ``up`` started, as recorded in a file. spark: where the warm Spark among them listens."""

    port: int
    processes: Mapping[str, Process]
    spark: str = ""

    @property
    def running(self) -> list[Process]:
        """Those that run, or left something running."""
        return [process for process in self.processes.values() if process.members()]

    def has_all(self, components: Collection[str]) -> bool:
        """Whether these run, and no others."""
        return set(self.processes) == set(components) and all(process.alive for process in self.processes.values())
