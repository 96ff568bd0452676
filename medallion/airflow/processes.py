"""The processes of an Airflow on this machine, each the leader of a session, as recorded in a file."""

import os
import signal
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

import psutil

_SAME_START_SECONDS = 0.5  # two readings of the same start time differ by less


@dataclass(frozen=True)
class Process:
    """A process that leads its own session: processes that it starts stay in the session even when the leader ends.

    started: its start time in seconds since the epoch, because process ids are reused.
    """

    pid: int
    started: float

    @classmethod
    def of(cls, pid: int) -> "Process":
        """Return the process that runs as ``pid`` now; if there is none, the result is not alive."""
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
        """Return the running processes of its session, itself included."""
        with suppress(psutil.NoSuchProcess):
            if not self._is(psutil.Process(self.pid)):
                return []  # the id was reused, which can only happen once the session is empty
        return [*self._running_members()]

    def _running_members(self) -> Iterator[psutil.Process]:
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):  # it has ended meanwhile, or belongs to another user
                if os.getsid(process.pid) == self.pid and process.status() != psutil.STATUS_ZOMBIE:
                    yield process

    def send(self, what: signal.Signals) -> None:
        """Signal the process itself."""
        if self.alive:
            with suppress(psutil.NoSuchProcess):  # it has ended meanwhile
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
        """The processes that run, or whose children still run."""
        return [process for process in self.processes.values() if process.members()]

    def has_all(self, components: Collection[str]) -> bool:
        """Check whether exactly these components were started, and all of them run."""
        return set(self.processes) == set(components) and all(process.alive for process in self.processes.values())
