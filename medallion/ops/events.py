"""One row of the event log, as a value and in Arrow."""

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from medallion.ops.event_schema import COLUMNS, Engine, EventType, Status

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass
class Event:
    """One timed step. Grain: run, attempt, event_type, layer, table_name.

    seconds: wall time. cpu_seconds: of the driver and its JVM; None if work overlapped. Rows and bytes come from
    Delta logs, except of checks. details: becomes JSON with error, versions, settings and notes.
    """

    run_id: str
    hour: str | None
    event_type: EventType
    strategy: str
    attempt: int
    layer: str | None = None
    table_name: str | None = None
    engine: Engine = "spark"
    status: Status = "succeeded"
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    seconds: float = 0.0
    cpu_seconds: float | None = None
    rows_in: int | None = None
    rows_out: int | None = None
    bytes_out: int | None = None
    details: dict[str, Any] = field(default_factory=dict)
    event_timestamp: datetime = field(default_factory=lambda: datetime.now(UTC))
    event_id: str = field(default_factory=lambda: str(uuid.uuid4()))


def read_event(row: Mapping[str, Any]) -> Event | None:
    """Return the event in ``row``, which another version may have written; None if it has no valid times.

    Fields that this version does not have are added to its details.
    """
    known = {f.name for f in fields(Event)}
    same_id = str(uuid.uuid5(uuid.NAMESPACE_OID, json.dumps(row, default=str, sort_keys=True)))  # same each time
    defaults = {"run_id": "unknown", "hour": None, "event_type": "unknown", "strategy": "", "attempt": 0}
    values = defaults | {"event_id": same_id} | {name: value for name, value in row.items() if name in known}
    event = Event(**values)
    if not all(isinstance(moment, datetime) and moment.tzinfo for moment in (event.started_at, event.event_timestamp)):
        return None
    if not isinstance(event.details, dict):
        event.details = {"details": event.details}
    if others := {name: value for name, value in row.items() if name not in known}:
        event.details = event.details | {"other_fields": others}
    return event


def fit_table(events: Sequence[Event]) -> bool:
    """Whether the event log can hold all of ``events``."""
    try:
        events_as_arrow(events)
    except (ValueError, TypeError, OverflowError):  # Arrow's errors are ValueErrors and TypeErrors
        return False
    return True


def events_as_arrow(events: Sequence[Event]) -> "pa.Table":
    """Return ``events`` with the columns of the event log, in order."""
    import pyarrow as pa

    rows = [vars(event) | {"details": json.dumps(event.details, default=str)} for event in events]
    return pa.table({name: [row[name] for row in rows] for name in COLUMNS}, schema=_schema())


def _schema() -> "pa.Schema":
    import pyarrow as pa

    types = {
        "STRING": pa.string(),
        "TIMESTAMP": pa.timestamp("us", tz="UTC"),
        "DOUBLE": pa.float64(),
        "BIGINT": pa.int64(),
        "INT": pa.int32(),
    }
    return pa.schema([(name, types[kind]) for name, kind in COLUMNS.items()])


assert set(COLUMNS) == {f.name for f in fields(Event)}, "an event column has no field"
