"""The page of what each type of a feed is read from: every form that a source may write is tried with every type."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from medallion.errors import MedallionError
from medallion.ingest.decode import why_unfit
from medallion.ingest.snapshot_columns import match_columns
from medallion.ingest.tabular_files import parquet_rows, row_line
from medallion.model.column_types import SCALARS
from medallion.model.delivery import Delivery
from medallion.model.table import Feed

TYPES = (*SCALARS, "DECIMAL(10,2)", "ARRAY<INT>", "MAP<STRING, INT>", "STRUCT<a: INT>")
HEAD = ("declared", "`insert_delete`", "`debezium`", "`dms`, CSV", "`dms`, Parquet", "`delta`", "snapshot")
RULES = """\
- `DECIMAL` is also read from Debezium's `{"scale", "value"}`. It and moments are exact: a value with a digit more than
  the column has is rejected, never rounded. `FLOAT` and `DOUBLE` take the nearest number that they can hold; NaN and
  infinities are rejected.
- `Decimal`, `Timestamp`, `MicroTimestamp` and `NanoTimestamp` are names in the schema of a record of Kafka Connect,
  also within arrays, maps and structs. Records without schemas need `moments` and `decimals` in
  [`[source]`](project.md#source) where they write numbers and bytes.
- A CSV has no lists, maps and structs: declare `STRING`, and take its JSON apart in Silver.
- The fields of a `STRUCT` may be null or missing; other fields are left out with a warning. Elements of lists and maps
  may be null.
- In a snapshot narrower types are taken as well, and dictionaries, unsigned numbers and large texts of Arrow.
- `VARIANT` is refused when the project is read, as only Spark reads and writes such columns: declare `STRING`, have the
  source write the JSON as text, and take it apart in Silver, such as `GET_JSON_OBJECT(document, '$.colour')`.
- Avro is refused, with the setting of Kafka Connect's S3 sink that gives JSON:
  `format.class=io.confluent.connect.s3.format.json.JsonFormat`."""
HOUR = "2025-11-30T00"
_JSON: dict[str, Any] = {  # what it is called -> a value of it
    "truth": True,
    "whole number": 1,
    "number": 1.5,
    "text of digits": "1.5",
    "text": "x",
    "Base64": "AQID",
    "ISO day": "2025-11-30",
    "ISO moment": "2025-11-30T01:02:03.123456Z",
    "ISO moment without a zone": "2025-11-30 01:02:03",
    "list": [1, None],
    "object": {"a": 1},
}
_CELLS = {
    "`true`, `t`, `1`": "t",
    "digits": "123",
    "digits with a point": "1.5",
    "text": "x",
    "hexadecimal digits": "ff",
    "`2025-11-30`": "2025-11-30",
    "`2025-11-30 01:02:03.123456`": "2025-11-30 01:02:03.123456",
}
_CONNECT: dict[str, tuple[Mapping[str, Any], Any]] = {  # beside JSON: a schema of Kafka Connect, and a value
    "`Decimal` in Base64": ({"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal"}, "AQ=="),
    "`VariableScaleDecimal`": (
        {"type": "struct", "name": "io.debezium.data.VariableScaleDecimal"},
        {"scale": 1, "value": "AQ=="},
    ),
    "`Date`": ({"type": "int32", "name": "io.debezium.time.Date"}, 20_000),
    "`Timestamp`": ({"type": "int64", "name": "io.debezium.time.Timestamp"}, 1_764_464_523_123),
    "`MicroTimestamp`": ({"type": "int64", "name": "io.debezium.time.MicroTimestamp"}, 1_764_464_523_123_456),
    "`NanoTimestamp`": ({"type": "int64", "name": "io.debezium.time.NanoTimestamp"}, 1_764_464_523_123_456_000),
}
_SETTINGS: dict[str, tuple[Delivery, Any]] = {  # without a schema: what the project says, and a value
    '`moments = "microseconds"`': (Delivery(format="debezium", moments="microseconds"), 1_764_464_523_123_456),
    '`decimals = "precise"`': (Delivery(format="debezium", decimals="precise"), "AQ=="),
}
_ARROW: dict[str, tuple[pa.DataType, Any]] = {
    "boolean": (pa.bool_(), True),
    "int8": (pa.int8(), 1),
    "int16": (pa.int16(), 1),
    "int32": (pa.int32(), 1),
    "int64": (pa.int64(), 1),
    "float": (pa.float32(), 1.5),
    "double": (pa.float64(), 1.5),
    "decimal(10,2)": (pa.decimal128(10, 2), Decimal("1.50")),
    "string": (pa.string(), "x"),
    "binary": (pa.binary(), b"\xff"),
    "date": (pa.date32(), date(2025, 11, 30)),
    "timestamp": (pa.timestamp("us", "UTC"), datetime(2025, 11, 30, 1, 2, 3, 123456, UTC)),
    "timestamp_ntz": (pa.timestamp("us"), datetime(2025, 11, 30, 1, 2, 3, 123456, UTC).replace(tzinfo=None)),
    "list": (pa.list_(pa.int32()), [1, None]),
    "map": (pa.map_(pa.string(), pa.int32()), [("a", 1)]),
    "struct": (pa.struct([("a", pa.int32())]), {"a": 1}),
}


_TEXTS = [name for name, value in _JSON.items() if isinstance(value, str)]
_SHORT = ((_TEXTS, "any text"), ([*_CELLS], "any text"), (["int8", "int16", "int32", "int64"], "int8 to int64"))


class _Tables(NamedTuple):
    """Each form of a Parquet column: its type in Arrow, and a row with it as landing writes it down."""

    types: Mapping[str, pa.DataType]
    rows: Mapping[str, dict[str, Any]]


def rows() -> list[tuple[str, ...]]:
    """Return for each type, and each format, the forms that are read."""
    tables = _tables()
    return [(f"`{kind}`", *(_shown(accepted) for accepted in _accepted(kind, tables))) for kind in TYPES]


def _accepted(kind: str, tables: _Tables) -> Iterator[list[str]]:
    """Yield the forms of a type that each format of HEAD reads."""
    yield _taken(kind, "insert_delete", _JSON, lambda value: {"insert": {"id": 1, "c": value}})
    yield [*_taken(kind, "debezium", _JSON, _envelope), *_beyond_json(kind)]
    yield _taken(kind, "dms", _CELLS, lambda cell: [["Op", "id", "c"], ["I", "1", cell]])
    yield _taken(kind, "dms", tables.rows, lambda row: {"Op": "I", **row})
    yield _taken(kind, "delta", tables.rows, lambda row: {"insert": row})
    yield [name for name, own in tables.types.items() if _fits(kind, own)]


def _taken(kind: str, form: str, values: Mapping[str, Any], record: Callable[[Any], Any]) -> list[str]:
    feed = _feed(kind, Delivery(format=form))
    return [name for name, value in values.items() if why_unfit(feed, HOUR, json.dumps(record(value))) is None]


def _beyond_json(kind: str) -> list[str]:
    """Return the forms of change events that take a schema or a setting to be read."""
    plain = _feed(kind, Delivery(format="debezium"))
    tried: list[tuple[str, Feed, Any, Any]] = []
    for name, (schema, value) in _CONNECT.items():
        own = {**schema, "field": "c", "parameters": {"scale": "1"}}
        row = {"type": "struct", "field": "after", "fields": [{"type": "int64", "field": "id"}, own]}
        tried.append((name, plain, {"schema": {"type": "struct", "fields": [row]}, "payload": _envelope(value)}, value))
    for name, (delivery, value) in _SETTINGS.items():
        tried.append((name, _feed(kind, delivery), _envelope(value), value))
    return [
        name
        for name, feed, record, value in tried
        if why_unfit(feed, HOUR, json.dumps(record)) is None
        and why_unfit(plain, HOUR, json.dumps(_envelope(value))) is not None
    ]


def _envelope(value: Any) -> dict[str, Any]:
    return {"before": None, "after": {"id": 1, "c": value}, "op": "c"}


def _tables() -> _Tables:
    types, written = {}, {}
    with TemporaryDirectory(prefix="medallion-") as folder:
        for name, (kind, value) in _ARROW.items():
            file = Path(folder, "part.parquet")
            pq.write_table(pa.table({"id": pa.array([1], pa.int64()), "c": pa.array([value], kind)}), file)
            (row,) = parquet_rows(file, name)
            types[name], written[name] = kind, json.loads(row_line(row))
    return _Tables(types, written)


def _fits(kind: str, own: pa.DataType) -> bool:
    try:
        match_columns(_feed(kind, Delivery()), pa.schema([("id", pa.int64()), ("c", own)]), "")
    except MedallionError:
        return False
    return True


def _feed(kind: str, delivery: Delivery) -> Feed:
    return Feed(name="bronze_things", keys=("id",), schema=f"id BIGINT NOT NULL, c {kind}", delivery=delivery)


def _shown(accepted: Sequence[str]) -> str:
    text = ", ".join(accepted)
    for every, short in _SHORT:
        text = text.replace(", ".join(every), short)
    return text or "none"
