"""Change events of Debezium as JSON: the envelope, with its schema or without, or flattened by ExtractNewRecordState.

As its documentation defines them (debezium.io, the connectors' "data change events" and "New Record State Extraction").
How a moment or a decimal is written is known from the schema of the record; without one, from medallion.toml.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

from medallion.ingest.change_lines import is_too_long
from medallion.ingest.json_lines import parse_line, parse_text
from medallion.ingest.sources import NOTHING, Change, NoRecord, RecordForms, RefusedRecord, Unfit
from medallion.ingest.value_decoders import Forms
from medallion.model.table import Feed

# In the place of a value that did not change and that the database did not write to its log; of bytes, in Base64.
_UNAVAILABLE = ("__debezium_unavailable_value", "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==")
_PLACEHOLDER, _PLACEHOLDER_BASE64 = (text.encode() for text in _UNAVAILABLE)
_UPSERTS = frozenset("cru")
_TRUNCATES = (
    "truncates the table (op t) and so names no row",
    "have the rows deleted one by one in its place, or load a new lake from a snapshot that was taken since",
)
_MOMENTS = {
    "io.debezium.time.Timestamp": "milliseconds",
    "org.apache.kafka.connect.data.Timestamp": "milliseconds",
    "io.debezium.time.MicroTimestamp": "microseconds",
    "io.debezium.time.NanoTimestamp": "nanoseconds",
}
_DATES = ("io.debezium.time.Date", "org.apache.kafka.connect.data.Date")
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_VARIABLE_DECIMAL = "io.debezium.data.VariableScaleDecimal"
_POSITIONS = (  # in the log of PostgreSQL, MySQL, SQL Server, Oracle; else the time of the change
    ("lsn",),
    ("file", "pos", "row"),
    ("commit_lsn", "change_lsn", "event_serial_no"),
    ("scn",),
    ("ts_ns",),
    ("ts_us",),
    ("ts_ms",),
)
_MAX_SCHEMAS = 100  # of a file, that are remembered
_PAYLOAD = b'"payload":'


def reader(feed: Feed) -> "_Reader":
    """Return a reader of one file of ``feed``."""
    return _Reader(feed)


class _Reader:
    expected = 'change events such as {"before": null, "after": {...}, "op": "c"} or {..., "__deleted": "false"}'
    ignored_prefix = "__"

    def __init__(self, feed: Feed) -> None:
        delivery = feed.delivery
        self.forms = replace(Forms.of(delivery), dates=True, variable_scale=True)
        self._keys, self._table, self._topic = feed.keys, delivery.table, feed.topic
        self._schemas = _Schemas(Forms.of(delivery))
        self._source: Mapping[str, Any] = {}
        self._is_flat = self._after_deletion = False
        self._lost = 0  # deletions that name no row

    def read(self, raw: bytes) -> Sequence[Change]:
        event, forms = self._schemas.payload(raw)
        if event is None:
            return self._tombstone()
        if not isinstance(event, dict):
            raise NoRecord("not a change event of Debezium")
        has_unavailable = _PLACEHOLDER in raw or _PLACEHOLDER_BASE64 in raw
        operation = event.get("op")
        if isinstance(operation, str) and ("after" in event or "before" in event or operation in "tm"):
            return self._envelope(operation, event, forms, has_unavailable=has_unavailable)
        return self._flat(event, forms, has_unavailable=has_unavailable)

    def position(self) -> tuple[Any, ...] | None:
        source = self._source
        for names in _POSITIONS:
            if source.get(names[0]) is not None:
                return (names[0], *(_comparable(source.get(name)) for name in names))
        return None

    def notes(self) -> list[str]:
        if not (self._is_flat and self._lost):
            return []
        return [
            f"{self._lost} tombstones stand for deletions that name no row, and were passed over: set"
            " delete.tombstone.handling.mode=rewrite where ExtractNewRecordState is configured"
        ]

    def _tombstone(self) -> Sequence[Change]:
        """Pass over a record without content: the deletion before it names the row, unless that was dropped."""
        self._lost += not self._after_deletion
        self._after_deletion = False
        return ()

    def _envelope(
        self, operation: str, event: Mapping[str, Any], forms: RecordForms | None, *, has_unavailable: bool
    ) -> Sequence[Change]:
        source = event.get("source")
        self._source = source if isinstance(source, dict) else {}
        if operation == "m":  # a message that a program wrote to the log: no row changes
            return ()
        self._require_table(self._source.get("table"))
        before, after = event.get("before"), event.get("after")
        self._after_deletion = operation == "d"
        if operation == "t":
            raise RefusedRecord(*_TRUNCATES)
        if operation == "d":
            if not isinstance(before, dict):
                raise Unfit("op d has no before, so no row is named: set REPLICA IDENTITY where the table has no key")
            return (Change(True, _available(before) if has_unavailable else before, NOTHING, forms),)
        if operation not in _UPSERTS:
            raise NoRecord(f"op {operation[:40]!r} is none of c, r, u, d, t and m")
        if not isinstance(after, dict):
            raise Unfit(f"op {operation} has no after, so no row is known")
        changed = self._upsert(after, forms, has_unavailable=has_unavailable)
        if operation == "u" and isinstance(before, dict) and self._has_other_key(before, after):
            return (Change(True, _available(before), NOTHING, forms), changed)
        return (changed,)

    def _flat(self, row: Mapping[str, Any], forms: RecordForms | None, *, has_unavailable: bool) -> Sequence[Change]:
        if len(row) == 1 and row.keys() <= {"insert", "delete", "update"}:
            raise NoRecord("a record of format insert_delete, not of debezium")
        if "ddl" in row or "databaseName" in row or row.get("status") in ("BEGIN", "END"):
            raise NoRecord("a change of a schema or a mark of a transaction, not a change event of a table")
        self._is_flat = True
        self._source = {
            "lsn": row.get("__lsn", row.get("__source_lsn")),
            "file": row.get("__file", row.get("__source_file")),
            "pos": row.get("__pos", row.get("__source_pos")),
            "row": row.get("__row", row.get("__source_row")),
            "ts_ms": row.get("__source_ts_ms", row.get("__ts_ms")),
        }
        self._require_table(row.get("__table", row.get("__source_table")))
        operation, marked = row.get("__op"), row.get("__deleted")
        if operation == "t":
            raise RefusedRecord(*_TRUNCATES)
        deleted = operation == "d" or marked is True or marked == "true"
        self._after_deletion = deleted
        if deleted:
            return (Change(True, _available(row) if has_unavailable else row, NOTHING, forms),)
        return (self._upsert(row, forms, has_unavailable=has_unavailable),)

    def _upsert(self, row: Mapping[str, Any], forms: RecordForms | None, *, has_unavailable: bool) -> Change:
        """Return the change to ``row``, whose values that were not in the database's log stay as they are."""
        if not has_unavailable:
            return Change(False, row, NOTHING, forms)
        available = _available(row)
        return Change(False, available, frozenset(name.casefold() for name in row.keys() - available.keys()), forms)

    def _has_other_key(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
        """Check whether the key changed. The image of before may lack columns, or have them null."""
        for key in self._keys:
            old = before[key] if key in before else _value(before, key)
            if old is not None and old != (after[key] if key in after else _value(after, key)):
                return True
        return False

    def _require_table(self, table: Any) -> None:
        """Reject a change of another table than the feed's, where medallion.toml says which one is."""
        if self._table is not None and isinstance(table, str) and not fnmatchcase(table, self._table):
            raise Unfit(f"a change of the table {table[:80]}, and {self._topic} is fed from {self._table}")


def _available(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if not _is_unavailable(value)}


def _is_unavailable(value: Any) -> bool:
    if isinstance(value, list | dict):  # of lists and maps it is the only element
        return len(value) == 1 and next(iter(value)) in _UNAVAILABLE
    return isinstance(value, str) and value in _UNAVAILABLE


def _value(row: Mapping[str, Any], key: str) -> Any:
    """Return the value of a key that a row has in other letters, None where it lacks it."""
    return next((value for name, value in row.items() if name.casefold() == key), None)


def _comparable(value: Any) -> tuple[int, Any]:
    """Return a part of a position so that it compares: as a number where it is one, also as text."""
    if isinstance(value, str) and not value.isdecimal():
        return (1, value)
    return (0, int(value) if isinstance(value, str | int) else 0)


class _Schemas:
    """The schemas of a file's records, each read once: nearly all records begin with the same bytes."""

    def __init__(self, forms: Forms) -> None:
        self._plain = replace(forms, decimals="text")
        self._known: dict[bytes, RecordForms | None] = {}
        self._last = b""

    def payload(self, raw: bytes) -> tuple[Any, RecordForms | None]:
        """Return what a record says, without its schema, and what the schema says of the columns."""
        if self._last and not raw.startswith(self._last):
            self._last = next((beginning for beginning in self._known if raw.startswith(beginning)), self._last)
        if self._last and raw.startswith(self._last) and not is_too_long(raw):
            rest = raw.rstrip()
            if rest.endswith(b"}") and (event := _parse_rest(rest[len(self._last) : -1])) is not _UNREAD:
                return event, self._known[self._last]
        record = parse_line(raw)
        if not isinstance(record, dict) or "payload" not in record or not record.keys() <= {"schema", "payload"}:
            return record, None
        forms = self._forms_of(record.get("schema"))
        self._remember(raw, record, forms)
        return record["payload"], forms

    def _remember(self, raw: bytes, record: Mapping[str, Any], forms: RecordForms | None) -> None:
        """Remember the bytes before the payload, where they are the schema and nothing else."""
        at = raw.find(_PAYLOAD)
        while at >= 0:
            beginning = raw[: at + len(_PAYLOAD)]
            try:
                is_whole = parse_text((beginning + b"0}").decode()) == {**record, "payload": 0}
            except (ValueError, RecursionError):
                is_whole = False
            if is_whole and len(self._known) < _MAX_SCHEMAS:
                self._known[beginning] = forms
                self._last = beginning
                return
            at = raw.find(_PAYLOAD, at + 1)

    def _forms_of(self, schema: Any) -> RecordForms | None:
        """Read the forms of columns from a schema of Kafka Connect: of an envelope, or of a flattened record."""
        if not isinstance(schema, dict) or not isinstance(schema.get("fields"), list):
            return None
        fields = [field for field in schema["fields"] if isinstance(field, dict)]
        by_name = {field.get("field"): field for field in fields}
        row = by_name.get("after") or by_name.get("before")
        if isinstance(row, dict) and isinstance(row.get("fields"), list):
            fields = [field for field in row["fields"] if isinstance(field, dict)]
        return RecordForms({str(field.get("field")): _form_of(field, self._plain) for field in fields})


_UNREAD = object()


def _parse_rest(raw: bytes) -> Any:
    try:
        return parse_text(raw.decode("utf-8", "surrogatepass"))
    except Unfit:
        raise
    except (ValueError, RecursionError, ArithmeticError):
        return _UNREAD  # the whole line says why


def _form_of(field: Mapping[str, Any], plain: Forms) -> Forms:
    """Return how a field of a schema writes its values; of an array, how its elements are written.

    plain: of a field whose schema says no more than its type.
    """
    while field.get("type") == "array" and isinstance(field.get("items"), dict):
        field = field["items"]
    name = field.get("name")
    if name in _MOMENTS:
        return Forms(moments=_MOMENTS[name])
    if name in _DATES:
        return Forms(moments="days", dates=True)
    if name == _DECIMAL:
        parameters = field.get("parameters")
        scale = str(parameters.get("scale", "")) if isinstance(parameters, dict) else ""
        digits = int(scale) if scale.removeprefix("-").isdecimal() and len(scale) < 5 else None
        return Forms(decimals="precise", scale=digits)
    return replace(plain, variable_scale=name == _VARIABLE_DECIMAL)
