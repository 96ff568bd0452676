"""How a source is written: a Delta table per snapshot, NDJSON per hour of changes. The same rows give the same bytes."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_jobs.core.hours import hour_from_number
from spark_jobs.core.table import Feed

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

HOUR = 3_600_000_000  # microseconds, the unit of every moment here
NEVER = int(np.iinfo(np.int64).max)

_ROWS_PER_FILE = 1_000_000
_ROWS_PER_GROUP = 250_000

_ARROW_TYPES = {
    "BIGINT": pa.int64(),
    "INT": pa.int32(),
    "STRING": pa.string(),
    "BOOLEAN": pa.bool_(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us", "UTC"),
}
_DELTA_TYPES = {"BIGINT": "long", "INT": "integer"}  # any other is the SQL type in lower case


def arrow_schema(feed: Feed) -> pa.Schema:
    """The declared columns of ``feed`` in Arrow's types, NOT NULL as not nullable."""
    return pa.schema([pa.field(c.name, _arrow_type(c.type), nullable=not c.required) for c in feed.columns])


def table_of(feed: Feed, columns: Mapping[str, Any]) -> pa.Table:
    """The rows of ``feed`` that ``columns``, arrays of NumPy or Arrow, hold.

    A DECIMAL is given as integers in units of its last digit, a TIMESTAMP as microseconds and a DATE as days
    since 1970.
    """
    schema = arrow_schema(feed)
    return pa.table([_cast(pa.array(columns[field.name]), field.type) for field in schema], schema=schema)


def _arrow_type(sql: str) -> pa.DataType:
    if decimal := re.fullmatch(r"DECIMAL\((\d+),\s*(\d+)\)", sql):
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    return _ARROW_TYPES[sql]


def _cast(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    if pa.types.is_decimal(wanted):
        values = pc.multiply(values.cast(pa.decimal128(19, 0)), pa.scalar(Decimal(1).scaleb(-wanted.scale)))
    elif pa.types.is_date(wanted):
        values = values.cast(pa.int32())
    return values.cast(wanted)


@dataclass(frozen=True)
class Images:
    """Row images of one table, each current from ``since`` until just before ``until``.

    rows: the declared columns. since, until: one moment per row; ``until`` is NEVER for an image that is neither
    replaced nor deleted. The intervals of one key do not overlap.
    """

    rows: pa.Table
    since: Ints
    until: Ints

    def before(self, moment: int) -> pa.Table:
        """The table as it was just before ``moment``."""
        return self.rows.filter(pa.array((self.since < moment) & (self.until >= moment)))

    def select(self, wanted: Flags) -> "Images":
        """The images for which ``wanted`` holds."""
        return Images(self.rows.filter(pa.array(wanted)), self.since[wanted], self.until[wanted])

    def __add__(self, other: "Images") -> "Images":
        return Images(
            pa.concat_tables([self.rows, other.rows]),
            np.concatenate([self.since, other.since]),
            np.concatenate([self.until, other.until]),
        )


class SnapshotTable:
    """A Delta table with a single commit: rows are appended, ``close`` makes them a table."""

    def __init__(self, folder: Path, feed: Feed, *, identity: str, moment: int) -> None:
        """identity: names the content, so that ids and file names follow from it. moment: when it counts as written."""
        self.rows = 0
        self._folder, self._feed, self._identity, self._millis = folder, feed, identity, moment // 1000
        self._buffer: list[pa.Table] = []
        self._buffered = 0
        self._files: list[dict[str, Any]] = []
        (folder / "_delta_log").mkdir(parents=True)

    def append(self, rows: pa.Table) -> None:
        """Adds ``rows`` to the table."""
        self._buffer.append(rows)
        self._buffered += rows.num_rows
        if self._buffered >= _ROWS_PER_FILE:
            self._write_file()

    def close(self) -> None:
        """Writes the rows still held, and the commit."""
        if self._buffered:
            self._write_file()
        actions = [self._commit_info(), self._protocol(), self._metadata(), *self._files]
        log = self._folder / "_delta_log" / f"{0:020}.json"
        log.write_text("".join(f"{json.dumps(action)}\n" for action in actions), encoding="utf-8")

    def _write_file(self) -> None:
        rows = pa.concat_tables(self._buffer)
        number = len(self._files)
        name = f"part-{number:05}-{uuid5(NAMESPACE_URL, f'{self._identity}/{number}')}.snappy.parquet"
        pq.write_table(rows, self._folder / name, row_group_size=_ROWS_PER_GROUP, store_schema=False)
        self._files.append({"add": self._added(name, rows)})
        self.rows += rows.num_rows
        self._buffer, self._buffered = [], 0

    def _added(self, name: str, rows: pa.Table) -> dict[str, Any]:
        extremes = {key: pc.min_max(rows[key]).as_py() for key in self._feed.keys}
        stats = {
            "numRecords": rows.num_rows,
            "minValues": {key: extreme["min"] for key, extreme in extremes.items()},
            "maxValues": {key: extreme["max"] for key, extreme in extremes.items()},
            "nullCount": dict.fromkeys(self._feed.keys, 0),
        }
        return {
            "path": name,
            "partitionValues": {},
            "size": (self._folder / name).stat().st_size,
            "modificationTime": self._millis,
            "dataChange": True,
            "stats": json.dumps(stats),
        }

    def _commit_info(self) -> dict[str, Any]:
        parameters = {"mode": "ErrorIfExists", "partitionBy": "[]"}
        return {"commitInfo": {"timestamp": self._millis, "operation": "WRITE", "operationParameters": parameters}}

    def _protocol(self) -> dict[str, Any]:
        return {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}

    def _metadata(self) -> dict[str, Any]:
        fields = [
            {
                "name": column.name,
                "type": _DELTA_TYPES.get(column.type, column.type.lower().replace(" ", "")),
                "nullable": not column.required,
                "metadata": {},
            }
            for column in self._feed.columns
        ]
        return {
            "metaData": {
                "id": str(uuid5(NAMESPACE_URL, self._identity)),
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps({"type": "struct", "fields": fields}),
                "partitionColumns": [],
                "configuration": {},
                "createdTime": self._millis,
            }
        }


@dataclass(frozen=True)
class Style:
    """How a source system writes JSON values: its timestamps (unit and strftime format), and decimals as strings or not."""

    unit: str
    format: str
    quoted_decimals: bool = False


class ChangeFiles:
    """The change files of one feed: takes images as they become known, writes the hours that are complete."""

    def __init__(self, folder: Path, feed: Feed, style: Style, *, every_hour: bool) -> None:
        """every_hour: an hour without a change gets an empty file rather than none."""
        self.lines = 0
        self._folder, self._feed, self._style, self._every_hour = folder, feed, style, every_hour
        self._pending: list[Images] = []

    def add(self, images: Images, first: int, end: int) -> None:
        """Keeps the images that start or stop being current at ``first`` or later, and before ``end``."""
        starts = (images.since >= first) & (images.since < end)
        stops = (images.until >= first) & (images.until < end)
        self._pending.append(images.select(starts | stops))

    def write(self, hours: range) -> None:
        """Writes the files of ``hours``, numbered as in core.hours, for which every image must have been added."""
        images, moments, rows, inserted = self._changes(hours.start * HOUR, hours.stop * HOUR)
        lines = _encode(images.rows.take(rows), inserted, self._style)
        borders = np.searchsorted(moments, [hour * HOUR for hour in (*hours, hours.stop)])
        for hour, start, stop in zip(hours, borders, borders[1:], strict=False):
            if stop > start or self._every_hour:
                self._folder.mkdir(parents=True, exist_ok=True)
                text = "".join(lines[start:stop].to_pylist())
                (self._folder / f"{hour_from_number(hour)}.json").write_text(text, encoding="utf-8")
        self.lines += len(lines)

    def _changes(self, start: int, end: int) -> tuple[Images, Ints, Ints, Ints]:
        ...


def _encode(rows: pa.Table, inserted: Ints, style: Style) -> pa.Array:
    """One line of JSON per row: an insert where ``inserted`` is 1, a delete where it is 0."""
    parts: list[Any] = [pa.array(['{"delete": {', '{"insert": {']).take(pa.array(inserted))]
    for position, name in enumerate(rows.column_names):
        parts += [f'{", " if position else ""}"{name}": ', _json_values(rows[name].combine_chunks(), style)]
    return pc.binary_join_element_wise(*parts, "}}\n", "")


def _json_values(values: pa.Array, style: Style) -> pa.Array:
    kind = values.type
    quoted = pa.types.is_string(kind) or pa.types.is_temporal(kind) or pa.types.is_decimal(kind) and style.quoted_decimals
    if pa.types.is_timestamp(kind):
        text = pc.strftime(values.cast(pa.timestamp("us")).cast(pa.timestamp(style.unit)), format=style.format)
    elif pa.types.is_string(kind):
        text = pc.replace_substring(pc.replace_substring(values, "\\", "\\\\"), '"', '\\"')
    else:
        text = values.cast(pa.string())
    if quoted:
        text = pc.binary_join_element_wise('"', text, '"', "")
    return pc.coalesce(text, "null")
