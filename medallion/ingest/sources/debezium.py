"""Change events of Debezium as JSON: the envelope, with its schema or without, or flattened by ExtractNewRecordState.

Source: its documentation (debezium.io, the connectors' "data change events" and "New Record State Extraction"). The
schema of a record states how timestamps and decimals are written; without a schema, medallion.toml does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

from medallion.ingest.connect_schemas import ConnectSchemas
from medallion.ingest.sources import NOTHING, Change, NoRecord, RecordForms, RefusedRecord, Unfit
from medallion.ingest.value_forms import Forms
from medallion.model.table import Feed

# Placeholder of a value that did not change and that the database did not write to its log; for bytes, in Base64.
_UNAVAILABLE = ("__debezium_unavailable_value", "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==")
_PLACEHOLDER, _PLACEHOLDER_BASE64 = (text.encode() for text in _UNAVAILABLE)
_UPSERTS = ("c", "r", "u")
_TRUNCATES = (
    "truncates the table (op t) and so names no row",
    "have the rows deleted one by one in its place, or load a new lake from a snapshot that was taken since",
)
_POSITIONS = (  # in the log of PostgreSQL, MySQL, SQL Server, Oracle; else the time of the change
    ("lsn",),
    ("file", "pos", "row"),
    ("commit_lsn", "change_lsn", "event_serial_no"),
    ("scn",),
    ("ts_ns",),
    ("ts_us",),
    ("ts_ms",),
)
_ENVELOPE = frozenset({"before", "after", "source", "op", "ts_ms", "ts_us", "ts_ns", "transaction", "message"})
_MARKS = frozenset({"__op", "__deleted"})  # fields of a flattened record
_DELETED = {None: False, False: False, "false": False, True: True, "true": True}
_MAX_DIGITS = 40  # most digits of a number in a position


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
        self._schemas = ConnectSchemas(Forms.of(delivery))
        self._source: Mapping[str, Any] = {}
        self._is_flat = self._after_deletion = False
        self._lost = 0  # tombstones of deletions that no record names

    def read(self, raw: bytes) -> Sequence[Change]:
        event, forms = self._schemas.payload(raw)
        if event is None:
            return self._tombstone()
        if not isinstance(event, dict):
            raise NoRecord("not a change event of Debezium")
        has_unavailable = _PLACEHOLDER in raw or _PLACEHOLDER_BASE64 in raw
        operation = event.get("op")
        if isinstance(operation, str) and self._is_envelope(event):
            return self._envelope(operation, event, forms, has_unavailable=has_unavailable)
        return self._flat(event, forms, has_unavailable=has_unavailable)

    def _is_envelope(self, event: Mapping[str, Any]) -> bool:
        """Check whether an event with ``op`` is an envelope, rather than a row of a table with a column of that name.

        Raises Unfit if it could be both.
        """
        if event.keys() <= _ENVELOPE and ("before" in event or "after" in event):  # nearly always
            return True
        if not _MARKS.isdisjoint(event):
            return False
        has_images = any(isinstance(event.get(name), dict) for name in ("before", "after", "source"))
        if not self._names_row(event):
            return has_images or "before" in event or "after" in event
        if has_images:
            raise Unfit("has the key of a row beside op: set add.fields=op where ExtractNewRecordState is configured")
        return False

    def _names_row(self, event: Mapping[str, Any]) -> bool:
        """Check whether an event has all key columns, and some column that an envelope does not have."""
        names = {name.casefold() for name in event.keys() - _ENVELOPE}
        return all(key in names or (key in _ENVELOPE and key in event) for key in self._keys) and bool(names)

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
        """Skip a record without content: the deletion before it names the row, unless that record was dropped."""
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
        if has_unavailable and isinstance(before, dict):
            after = _filled(after, before)
        changed = self._upsert(after, forms, has_unavailable=has_unavailable)
        if operation == "u" and isinstance(before, dict) and self._has_other_key(before, after):
            return (Change(True, _available(before), NOTHING, forms), changed._replace(moves=True))
        return (changed,)

    def _flat(self, row: Mapping[str, Any], forms: RecordForms | None, *, has_unavailable: bool) -> Sequence[Change]:
        if len(row) == 1 and row.keys() <= {"insert", "delete", "update"}:
            raise NoRecord("a record of format insert_delete, not of debezium")
        is_mark = "ddl" in row or "databaseName" in row or row.get("status") in ("BEGIN", "END")
        if is_mark and not self._names_row(row):
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
        if not (operation is None or operation in (*_UPSERTS, "d")):
            raise NoRecord(f"__op {str(operation)[:40]!r} is none of c, r, u, d and t")
        if not isinstance(marked, str | bool | None) or marked not in _DELETED:
            raise NoRecord(f"__deleted {str(marked)[:40]!r} is neither true nor false")
        deleted = operation == "d" or _DELETED[marked]
        self._after_deletion = deleted
        if deleted:
            return (Change(True, _available(row) if has_unavailable else row, NOTHING, forms),)
        return (self._upsert(row, forms, has_unavailable=has_unavailable),)

    def _upsert(self, row: Mapping[str, Any], forms: RecordForms | None, *, has_unavailable: bool) -> Change:
        """Return the change to ``row``; values that the database did not log keep their value in the table."""
        if not has_unavailable:
            return Change(False, row, NOTHING, forms)
        available = _available(row)
        kept_names = frozenset(name.casefold() for name in row.keys() - available.keys())
        return Change(False, available, kept_names or NOTHING, forms)

    def _has_other_key(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
        """Check whether the key changed; ``before`` may lack columns, or have null in them."""
        for key in self._keys:
            old = before[key] if key in before else _value(before, key)
            if old is not None and old != (after[key] if key in after else _value(after, key)):
                return True
        return False

    def _require_table(self, table: Any) -> None:
        """Raise Unfit for a change of another table than the feed's, if medallion.toml names the table."""
        if self._table is not None and isinstance(table, str) and not fnmatchcase(table, self._table):
            raise Unfit(f"a change of the table {table[:80]}, and {self._topic} is fed from {self._table}")


def _available(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if not _is_unavailable(value)}


def _filled(after: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``after`` with values that were not logged taken from ``before``, where they are not null."""
    known = {name: value for name, value in _available(before).items() if value is not None}
    return {name: known.get(name, value) if _is_unavailable(value) else value for name, value in after.items()}


def _is_unavailable(value: Any) -> bool:
    if isinstance(value, list | dict):  # in lists and maps, the placeholder is the only element
        return len(value) == 1 and next(iter(value)) in _UNAVAILABLE
    return isinstance(value, str) and value in _UNAVAILABLE


def _value(row: Mapping[str, Any], key: str) -> Any:
    """Return the value of a key whose column has another letter case in the row; None if the row lacks it."""
    return next((value for name, value in row.items() if name.casefold() == key), None)


def _comparable(value: Any) -> tuple[int, Any]:
    """Return a part of a position in comparable form: as a number if it is one, even if written as text."""
    if isinstance(value, str) and not (value.isdecimal() and len(value) <= _MAX_DIGITS):
        return (1, value)
    return (0, int(value) if isinstance(value, str | int) else 0)
