"""``{"insert": {row}}``, ``{"delete": {row}}`` and ``{"update": {key and changed columns}}``, or lists of them.

Source: the JSON format of Feldera (docs.feldera.com/formats/json). An update of a row that does not exist is rejected;
columns that it does not name keep their values.
"""

from collections.abc import Sequence
from typing import Any

from medallion.ingest.json_lines import parse_line
from medallion.ingest.sources import MISSING, NOTHING, Change, NoRecord
from medallion.ingest.value_forms import Forms
from medallion.model.table import Feed

_OPERATIONS = ("insert", "delete", "update")


def reader(feed: Feed) -> "_Reader":
    """Return a reader of one file of ``feed``."""
    return _Reader(feed)


class _Reader:
    expected = 'objects such as {"insert": {...}} or {"delete": {...}}'
    ignored_prefix: str | None = None

    def __init__(self, feed: Feed) -> None:
        self.forms = Forms.of(feed.delivery)

    def read(self, raw: bytes) -> Sequence[Change]:
        record = parse_line(raw)
        if isinstance(record, list) and record and all(isinstance(item, dict) for item in record):
            return [_change(item) for item in record]
        return (_change(record),)

    def position(self) -> None:
        return None  # only the order of lines is known

    def notes(self) -> list[str]:
        return []


def _change(record: Any) -> Change:
    if not isinstance(record, dict) or len(record) != 1:
        hint = ""
        if isinstance(record, dict) and ("op" in record or "payload" in record or "__op" in record):
            hint = "; it looks like one of Debezium: see source.format in medallion.toml"
        raise NoRecord(f"not an object with either insert or delete{hint}")
    ((operation, row),) = record.items()
    if operation not in _OPERATIONS:
        raise NoRecord(f"operation {operation[:40]!r} is neither insert nor delete")
    if not isinstance(row, dict):
        raise NoRecord(f"{operation} holds no row")
    return Change(operation == "delete", row, MISSING if operation == "update" else NOTHING)
