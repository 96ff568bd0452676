"""The state of the lake compared with its source: which hours are pending, and what blocks the next one."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from medallion.counts import counted
from medallion.errors import MedallionError
from medallion.hours import ONE_HOUR, parse_hour
from medallion.inspect.hour_history import HourMark, hour_history
from medallion.inspect.status import LakeStatus, lake_status
from medallion.ops.red_hours import UnpublishedHour
from medallion.ops.writer_lock import Holder, current_writer
from medallion.pipeline.turns import read_line
from medallion.settings import Settings
from medallion.storage.lake import Lake


@dataclass(frozen=True)
class AtWork:
    """A run that is at work now.

    hour: None if it is not known. step: what it holds the writer lock for, and since when; None between two tasks.
    """

    run_id: str
    hour: str | None
    step: str | None


@dataclass(frozen=True)
class Standing:
    """The state of the lake compared with its source.

    status: the status of the lake; tables are stale only in a lake that is refreshed in real time. Before the first
    release there is nothing else. pending: hours that the source has and the lake lacks. blocked: the hour that later
    hours wait for. source_error: why the source could not be listed. hours: the outcome of each hour. at_work: the run
    that is at work now.
    """

    status: LakeStatus
    applied: str | None = None
    pending: Sequence[str] = ()
    blocked: UnpublishedHour | None = None
    source_error: str | None = None
    hours: Sequence[HourMark] = ()
    at_work: AtWork | None = None

    @property
    def newest(self) -> str | None:
        """The newest hour that the source or the lake has."""
        return self.pending[-1] if self.pending else self.applied

    @property
    def waiting(self) -> str:
        """Which hours of the source nobody has applied, in words; those being restated are not among them."""
        restated = self.status.restatement.hours if self.status.restatement else ()
        hours = [hour for hour in self.pending if hour not in restated]
        if len(hours) <= 1:
            return f"hour {hours[0]} of the source is pending" if hours else ""
        return f"{counted(len(hours), 'hour')} of the source are pending, {hours[0]} to {hours[-1]}"

    def lag_hours(self, hour: str | None) -> float | None:
        """Return by how many hours ``hour`` is behind the newest hour."""
        if hour is None or self.newest is None:
            return None
        return max(0.0, (parse_hour(self.newest) - parse_hour(hour)) / ONE_HOUR)


def read_standing(settings: Settings, running: Collection[str] = ()) -> Standing:
    """Read the state of the lake from its logs and one listing of the source. A failed listing raises no error.

    running: the ids of the runs that are known to be running; the holder of the writer lock is added to them.
    """
    lake = Lake.of(settings)
    line, error = None, None
    try:
        line = read_line(settings)
    except MedallionError as failure:
        error = str(failure)
    pending = line.pending if line else ()
    writer = current_writer(lake)
    hours = hour_history(lake, pending, {*running, *([writer.run_id] if writer else [])})
    at_work = _at_work(writer, hours)
    status = lake_status(settings, is_at_work=at_work is not None)
    if status.release is None:
        return Standing(status)
    applied, blocked = (line.applied, line.unpublished) if line else (status.release.hour, None)
    return Standing(status, applied, pending, blocked, error, hours, at_work)


def _at_work(writer: Holder | None, hours: Sequence[HourMark]) -> AtWork | None:
    """Return the run that is at work now: the writer, else the run of the newest hour that is running.

    A run that waits for its turn has done no step, so it does not count.
    """
    running = [mark for mark in reversed(hours) if mark.status == "running"]
    if writer is None:
        return AtWork(str(running[0].run_id), running[0].hour, None) if running else None
    hour = next((mark.hour for mark in running if mark.run_id == writer.run_id), None)
    return AtWork(writer.run_id, hour, f"{writer.doing}, since {writer.since}")
