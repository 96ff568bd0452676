"""The event log: one row per step and table, including failed ones, written and read without a JVM."""

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any

from medallion.errors import HourNotAvailable, HourOutOfOrder, without_data
from medallion.ops.event_schema import COLUMNS, EventRow, EventType
from medallion.ops.events import Event, events_as_arrow
from medallion.ops.waiting_events import WaitingFile, read_waiting, store_unreadable, write_waiting
from medallion.storage import files
from medallion.storage.change_feed import data_file
from medallion.storage.delta_writes import text_column
from medallion.storage.files import Place
from medallion.storage.foreign_commits import UPON, rewritten
from medallion.storage.lake import Lake
from medallion.storage.log_writer import CHECKPOINTS

if TYPE_CHECKING:
    import pyarrow as pa


_LOGGER = logging.getLogger(__name__)


class EventLog:
    """The events of one step: ``write_waiting`` stores them in a file, ``flush`` in the table; both are read."""

    def __init__(self, lake: Lake, *, run_id: str, hour: str | None, strategy: str, attempt: int) -> None:
        self._lake, self._path = lake, lake.event_log
        self.run_id, self._strategy, self.attempt = run_id, strategy, attempt
        self._pending: list[Event] = []
        self.hour = hour

    @property
    def pending(self) -> Sequence[Event]:
        """The events recorded since the last ``write_waiting`` or ``flush``."""
        return tuple(self._pending)

    @contextmanager
    def timed(
        self,
        event_type: EventType,
        layer: str | None = None,
        table: str | None = None,
        *,
        cpu: Callable[[], float] | None = None,
    ) -> Iterator[Event]:
        """Time a step: yield its event to be filled in, and record it as failed if the block raises.

        If an hour is not available or out of order, the step is recorded as skipped rather than failed.

        cpu: a clock of CPU seconds, for steps that have the process to themselves.
        """
        event = Event(self.run_id, self.hour, event_type, self._strategy, self.attempt, layer, table)
        start, cpu_start = time.perf_counter(), cpu() if cpu else 0.0
        try:
            yield event
        except (HourNotAvailable, HourOutOfOrder) as reason:
            event.status = "skipped"
            event.details["note"] = "; ".join(filter(None, (str(reason), event.details.get("note"))))
            raise
        except BaseException as error:
            event.status = "failed"
            event.details["error"] = " ".join(str(error).split())[:2000] or type(error).__name__
            event.details["error_without_data"] = without_data(error)[:2000]
            raise
        finally:
            event.hour = event.hour or self.hour
            event.seconds = event.seconds or time.perf_counter() - start
            event.cpu_seconds = cpu() - cpu_start if cpu else event.cpu_seconds
            event.event_timestamp = datetime.now(UTC)
            self._pending.append(event)

    def add(self, event_type: EventType, layer: str | None, table: str | None, **values: Any) -> None:
        """Record a step that was timed elsewhere; ``values`` are fields of Event."""
        event = Event(self.run_id, self.hour, event_type, self._strategy, self.attempt, layer, table)
        for name, value in values.items():
            setattr(event, name, value)
        self._pending.append(event)

    def write_waiting(self) -> None:
        """Write the recorded events to a file beside the table for the next flush, which costs no commit."""
        if self._pending:
            write_waiting(self._lake.at(self._path).parent, map(vars, self._pending))
            self._pending = []

    def flush(self) -> None:
        """Append the recorded events and those in waiting files, in one commit; without events, there is no commit.

        A failed write does not stop a refresh: the events wait in a file for the next flush.
        """
        try:
            waiting_by_file = _waiting_files(self._lake)
            if rows := [event for waiting in waiting_by_file.values() for event in waiting.events] + self._pending:
                append(self._lake, rows)
        except Exception as error:
            problem = f"the event log {self._path} cannot be written, its rows wait beside it for the next step"
            _LOGGER.warning("%s: %s", problem, error)
            self.write_waiting()
        else:
            self._pending = []
            for file, waiting in waiting_by_file.items():
                if lines := len(waiting.unreadable):
                    _LOGGER.warning(
                        "%d line%s of %s left out: no event that this version can read; stored in %s",
                        *(lines, "s" * (lines > 1), file, store_unreadable(file, waiting.unreadable)),
                    )
                file.unlink(missing_ok=True)


def _waiting_files(lake: Lake) -> dict[Place, WaitingFile]:
    """Return the waiting files beside the event log."""
    return read_waiting(lake.at(lake.event_log).parent)


def append(lake: Lake, events: Sequence[Event]) -> None:
    """Append ``events`` to the event log of ``lake``; the table is created if it does not exist."""
    from deltalake import CommitProperties, write_deltalake

    path, options = lake.event_log, lake.storage_options
    delta = lake.open(path)
    if delta is None:
        rows = events_as_arrow(events)
        write_deltalake(path, rows, mode="append", name="event_log", configuration=CHECKPOINTS, storage_options=options)
        return
    if note := rewritten("event_log", lake.at(path), delta, is_shared=True):
        _LOGGER.warning("%s", note)
        about = Event("event_log", None, "maintain", "", 1, table_name="event_log", engine="delta-rs", status="warned")
        about.details = {"note": note}
        events = [*events, about]
    # No fencing number: a process records what it did even after losing its lease.
    commit = CommitProperties(custom_metadata={UPON: str(delta.version())})
    write_deltalake(delta, events_as_arrow(events), mode="append", commit_properties=commit)


RECENT = timedelta(days=7)  # how far status, pages and alerts look back from the newest event
MAX_RECENT_ROWS = 50_000  # about how many rows they read at most; a week of hours has a fifth of that


def read(
    lake: Lake, since: datetime | timedelta | None = None, columns: Sequence[str] = tuple(COLUMNS), **equal: str | None
) -> list[EventRow]:
    """Read event rows in order of time; an empty list if nothing has been written.

    A row that was written twice because of a crash is returned once.

    Args:
        lake: The lake.
        since: Only events that ended at this time or later. A timedelta is counted back from the newest event in the
            table, so that an idle lake still shows its last runs; only the newest files are then read, with about
            MAX_RECENT_ROWS rows.
        columns: The columns to return; event_id and event_timestamp are always added.
        equal: Filters column = value; None for no filter.
    """
    path = lake.event_log
    wanted = [name for name in COLUMNS if name in {*columns, "event_id", "event_timestamp"}]
    known = {name: value for name, value in equal.items() if value is not None}
    waiting_rows = [vars(event) for waiting in _waiting_files(lake).values() for event in waiting.events]
    # The table is read after the waiting files, because a flush may move these into the table in the meantime.
    rows = _in_table(lake, path, since, known, wanted)
    earliest = since if isinstance(since, datetime) else datetime.min.replace(tzinfo=UTC)
    for row in waiting_rows:
        if all(row[name] == value for name, value in known.items()) and row["event_timestamp"] >= earliest:
            rows.append(EventRow.of({name: row[name] for name in wanted}))
    rows.sort(key=lambda row: row.event_timestamp)
    return [*{row.event_id: row for row in rows}.values()]


def _in_table(
    lake: Lake, path: str, since: datetime | timedelta | None, known: Mapping[str, Any], wanted: Sequence[str]
) -> list[EventRow]:
    """Read the columns ``wanted`` of rows in the table that ended at ``since`` or later and have values ``known``."""
    delta = lake.open(path)
    if delta is None:
        return []
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow.dataset import dataset

    conditions = [
        (text_column(name) if isinstance(value, str) else pc.field(name)) == value for name, value in known.items()
    ]
    least, held = dict(known), pa.table(delta.get_add_actions(flatten=True))
    if isinstance(since, timedelta):
        since, held = _newest(held, since)
    if since is not None:
        conditions.append(pc.field("event_timestamp") >= since)
        least["event_timestamp"] = since - timedelta(milliseconds=1)  # statistics are cut to milliseconds
    folder = lake.at(path)
    places = [files.in_arrow(data_file(folder, name)) for name in files_holding(held, least, known)]
    if not places:
        return []
    # The dataset of delta-rs is slow to build over many files, and each flush adds a small one.
    data = dataset([str(name) for name, _ in places], pa.schema(delta.schema().to_arrow()), "parquet", places[0][1])
    condition = reduce(and_, conditions) if conditions else None
    rows: list[dict[str, Any]] = data.to_table(wanted, filter=condition).to_pylist()
    if "details" in wanted:
        for row in rows:
            row["details"] = json.loads(row["details"] or "{}")
    return [EventRow.of(row) for row in rows]


def _newest(held: "pa.Table", span: timedelta) -> tuple[datetime | None, "pa.Table"]:
    """Return when ``span`` before the newest event begins, and the newest of the files ``held``.

    These have at most MAX_RECENT_ROWS rows, but they are at least one file.
    """
    import pyarrow.compute as pc

    column = "max.event_timestamp"
    newest = pc.max(held[column]).as_py() if column in held.column_names else None
    if newest is None:
        return None, held
    rows, held = 0, held.sort_by([(column, "descending")])
    for place, count in enumerate(held["num_records"].to_pylist()):
        if place and rows + (count or 0) > MAX_RECENT_ROWS:
            return newest - span, held.slice(0, place)
        rows += count or 0
    return newest - span, held


def files_holding(actions: "pa.Table", least: Mapping[str, Any], most: Mapping[str, Any]) -> list[str]:
    """Select the files whose statistics allow values of at least ``least`` and at most ``most``, by column."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for end, reaches, values in (("max", pc.greater_equal, least), ("min", pc.less_equal, most)):
        for name, value in values.items():
            if f"{end}.{name}" in actions.column_names:
                ends = actions[f"{end}.{name}"]
                actions = actions.filter(pc.or_kleene(reaches(ends, pa.scalar(value, ends.type)), pc.is_null(ends)))
    return [str(name) for name in actions["path"].to_pylist()]


def read_if_whole(
    lake: Lake, since: datetime | timedelta | None = None, columns: Sequence[str] = tuple(COLUMNS), **equal: str | None
) -> list[EventRow] | None:
    """Do the same as ``read``, but return None if the event log cannot be read: that must not stop a refresh."""
    try:
        return read(lake, since, columns, **equal)
    except Exception as error:  # whatever is wrong with it
        _LOGGER.warning("the event log cannot be read: %s", error)
        return None


def phase_of(row: EventRow) -> str:
    """Return the phase of a step: the layer of a refresh, else the event type; ``validate`` belongs to ``publish``.

    The refresh of an engine that computes all layers at once has no layer; its phase is ``compute``.
    """
    phase = str((row.layer or "compute") if row.event_type == "refresh" else row.event_type)
    return "publish" if phase == "validate" else phase


def steps_by_phase(lake: Lake, run_id: str) -> dict[str, list[EventRow]]:
    """Return the rows of a run's whole steps, by phase."""
    steps: dict[str, list[EventRow]] = {}
    for row in read(lake, run_id=run_id):
        if row.table_name is None:
            steps.setdefault(phase_of(row), []).append(row)
    return steps


def close_lost_step(lake: Lake, log: EventLog, step: EventType, layer: str | None, error: str) -> bool:
    """Record as failed a step that ended without an event, for example because its process was killed.

    Returns whether a row was written: it is not if the step has recorded its failure itself.
    """
    known = read(lake, run_id=log.run_id, event_type=step, layer=layer)
    if any(row.attempt == log.attempt and row.status == "failed" for row in known):
        return False
    log.add(step, layer, None, status="failed", details={"error": error[:2000]})
    log.flush()
    return True
