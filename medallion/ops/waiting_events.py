"""Files beside the event log with events for the next flush, which may be written and read by different versions."""

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from time import time_ns
from typing import Any

from medallion.ops.events import Event, fit_table, read_event
from medallion.storage import files
from medallion.storage.files import Place


@dataclass
class WaitingFile:
    """The content of one waiting file: events, and lines that this version cannot read as events."""

    events: list[Event] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)


def write_waiting(folder: Place, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write ``rows`` to a new file in ``folder`` atomically, one JSON object per line."""
    text = "".join(f"{json.dumps(row, default=_encode)}\n" for row in rows)
    files.write_text(folder / f"event_log.{time_ns()}.waiting", text)


def read_waiting(folder: Place) -> dict[Place, WaitingFile]:
    """Read the waiting files in ``folder``, in the order in which they were written."""
    read: dict[Place, WaitingFile] = {}
    for file in files.glob(folder, "event_log.*.waiting"):
        with suppress(FileNotFoundError):  # another flush has just stored its events
            content = file.read_bytes().decode("utf-8", "backslashreplace")
            read[file] = _read_lines([line for line in content.split("\n") if line.strip()])
    return read


def _read_lines(lines: Sequence[str]) -> WaitingFile:
    """Separate events that the table can hold from other lines; usually one check of all events together is enough."""
    rows = [_parse(line) for line in lines]
    events = [None if row is None else read_event(row) for row in rows]
    fits_together = fit_table([event for event in events if event is not None])
    read = WaitingFile()
    for line, event in zip(lines, events, strict=True):
        if event is not None and (fits_together or fit_table([event])):
            read.events.append(event)
        else:
            read.unreadable.append(line)
    return read


def store_unreadable(file: Place, lines: Iterable[str]) -> Place:
    """Store the unreadable ``lines`` of a waiting file beside it, and return that file, which no flush reads."""
    aside = file.with_suffix(".unreadable")
    files.write_text(aside, "".join(f"{line}\n" for line in lines))
    return aside


def _parse(line: str) -> dict[str, Any] | None:
    try:
        row = json.loads(line, object_hook=_decode)
    except (ValueError, TypeError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def _encode(value: Any) -> Any:
    return {"moment": value.isoformat()} if isinstance(value, datetime) else str(value)


def _decode(value: dict[str, Any]) -> Any:
    return datetime.fromisoformat(value["moment"]) if set(value) == {"moment"} else value
