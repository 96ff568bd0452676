"""A row of the event log: its columns, their values, and the colours of these values in plots."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Literal, Self, get_args

EventType = Literal[
    "session",
    "land",
    "apply",
    "refresh",
    "check",
    "publish",
    "rollback",
    "validate",
    "maintain",
    "adopt",
    "discard",
    "erase",
    "follow",
    "push",
    "unknown",
]
Status = Literal["succeeded", "warned", "failed", "skipped"]
WORST_FIRST: tuple[Status, ...] = ("failed", "warned", "succeeded")  # without skipped steps
DID_WORK: tuple[Status, ...] = ("succeeded", "warned")
Engine = Literal["spark", "delta-rs", "duckdb", "feldera"]

EVENT_TYPES: dict[EventType, str] = {
    "session": "Start of a Spark session, from the start of its JVM",
    "land": "Copy of the hour's change files",
    "apply": "Decode and merge: one row for Bronze, one per table",
    "refresh": "One row per layer, one per table; tables overlap, so the layer's row is the wall time",
    "check": "One row per layer, one per table, with the failed records of each expectation in `details`",
    "publish": "Writing the release",
    "rollback": "Publishing an earlier release once more; it counts as no run of its hour",
    "validate": "Every table read as it was published, each in `details`",
    "maintain": "Maintenance: one row per table, one for all",
    "adopt": "What somebody else changed in a table taken as a change of ours, each commit in `details`",
    "discard": "A table restored to its last version of ours, what went in `details`",
    "erase": "Persons erased: their rows of Bronze, then the history that had them; `details` names nobody",
    "follow": "`medallion follow`: from the arrival of an hour to its release, each hop in `details`",
    "push": "Changes sent to Feldera, in the benchmark",
    "unknown": "A row that another version wrote without a type",
}
STATUSES: dict[Status, str] = {
    "succeeded": "The step did its work",
    "warned": "It did its work, and `details` has a note for you",
    "failed": "It raised an error, which is in `details`",
    "skipped": "It had nothing to do, and `details` says why",
}
ENGINES: tuple[Engine, ...] = get_args(Engine)

# Colours for plots that can be distinguished on light and dark pages.
_BEFORE_LAYERS = {"session": "#9aa4b2", "land": "#8fb8f5", "apply": "#2f6fde"}
_EXTERNAL = {"push": "#8a3fbf", "compute": "#c07ee8"}  # an engine that receives changes and computes all layers
_LAYER_COLOURS = ("#3b5fb0", "#e2a336", "#1fa7b8", "#b5527f", "#7a8f2a")  # used in turn
_AFTER_LAYERS = {"check": "#2a9d64", "publish": "#7c66c1"}
STATUS_COLOURS: dict[Status, str] = {
    "succeeded": "#2a9d64",
    "warned": "#c98a00",
    "failed": "#e5484d",
    "skipped": "#8b8d98",
}
STRATEGY_COLOURS = {"full": "#2f6fde", "incremental": "#2a9d64"}

# The columns of the table, in order: SQL type, meaning.
DESCRIPTIONS = {
    "event_id": ("STRING", "Identifier of the row"),
    "event_timestamp": ("TIMESTAMP", "End of the step, UTC"),
    "run_id": ("STRING", "Run of the DAG or of a command"),
    "hour": ("STRING", "Hour that was processed, `YYYY-MM-DDTHH`; null for none"),
    "event_type": ("STRING", "Kind of step"),
    "layer": ("STRING", "Layer of the step; null for steps over all"),
    "table_name": ("STRING", "Table; null for a whole layer or step"),
    "engine": ("STRING", "What did the work"),
    "strategy": ("STRING", "`full` or `incremental`; of a table, what it was refreshed with"),
    "status": ("STRING", "How the step ended"),
    "started_at": ("TIMESTAMP", "Start of the step, UTC"),
    "seconds": ("DOUBLE", "Wall time"),
    "cpu_seconds": ("DOUBLE", "CPU time of the driver and its JVM; null where steps overlap"),
    "rows_in": (
        "BIGINT",
        "Rows read: change lines, or all rows of a table's inputs; for an upsert, the changed keys",
    ),
    "rows_out": (
        "BIGINT",
        "Rows of the table after a refresh; for an apply or an upsert, the rows changed",
    ),
    "bytes_out": ("BIGINT", "Bytes, likewise"),
    "attempt": ("INT", "Try of the Airflow task; 1 for a command"),
    "details": ("STRING", "JSON: error, note, refresh method, versions, settings"),
}
COLUMNS = {name: kind for name, (kind, _) in DESCRIPTIONS.items()}


def phases_of(layers: Sequence[str], *, external: bool = False) -> dict[str, str]:
    """Return the phases of an hour in order, each with its colour in plots.

    layers: the layers of the project, from the bottom up; each computed one is a phase. external: whether to include
    the phases of an external engine.
    """
    colours = {layer: _LAYER_COLOURS[place % len(_LAYER_COLOURS)] for place, layer in enumerate(layers[1:])}
    return _BEFORE_LAYERS | (_EXTERNAL if external else {}) | colours | _AFTER_LAYERS


def is_refresh_phase(phase: str) -> bool:
    """Whether a phase of ``phase_of`` is a computed layer, or all of them at once: these depend on the strategy."""
    return phase not in EVENT_TYPES


@dataclass(frozen=True)
class EventRow:
    """One row of the event log, with ``details`` as an object. DESCRIPTIONS has the meaning of each column."""

    event_id: str
    event_timestamp: datetime
    run_id: str
    hour: str | None
    event_type: EventType
    layer: str | None
    table_name: str | None
    engine: Engine
    strategy: str
    status: Status
    started_at: datetime
    seconds: float
    cpu_seconds: float | None
    rows_in: int | None
    rows_out: int | None
    bytes_out: int | None
    attempt: int
    details: Mapping[str, Any]

    @classmethod
    def of(cls, columns: Mapping[str, Any]) -> Self:
        """Return the row with these ``columns``; access to a column that was not read raises AttributeError."""
        row = cls.__new__(cls)
        vars(row).update(columns)
        return row


assert list(COLUMNS) == [field.name for field in fields(EventRow)], "a column of the event log has no field"
