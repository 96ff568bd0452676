"""How a source is written: a Delta table per feed for the snapshot, NDJSON per feed and hour for the changes.

The same rows give the same bytes: nothing here looks at a clock, and every name follows from the content.
"""

import json
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

from medallion.errors import UsageError
from medallion.hours import hour_from_number
from medallion.ingest.arrow_types import arrow_type
from medallion.model.table import Feed
from medallion.project import find_project

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

HOUR = 3_600_000_000  # microseconds, the unit of every moment here
NEVER = int(np.iinfo(np.int64).max)

_ROWS_PER_FILE = 1_000_000
_ROWS_PER_GROUP = 250_000

_DELTA_TYPES = {"BIGINT": "long", "INT": "integer"}  # any other is the SQL type in lower case


def feed(topic: str) -> Feed:
    """The feed whose changes come in the folder ``topic``. Raises UsageError in a project without the shop's tables."""
    for feed in find_project().registry().feeds:
        if feed.topic == topic:
            return feed
    raise UsageError(
        f"no Bronze table takes the changes of {topic!r}: the demo source and the benchmark are of the shop that comes"
        " with this package, and work where its tables are declared"
    )


def arrow_schema(feed: Feed) -> pa.Schema:
    """The declared columns of ``feed`` in Arrow's types, NOT NULL as not nullable."""
    return pa.schema([pa.field(c.name, arrow_type(c), nullable=not c.required) for c in feed.columns])


def table_of(feed: Feed, columns: Mapping[str, Any]) -> pa.Table:
    """The rows of ``feed`` that ``columns``, arrays of NumPy or Arrow, hold.

    A DECIMAL is given as integers in units of its last digit, a TIMESTAMP as microseconds and a DATE as days
    since 1970.
    """
    schema = arrow_schema(feed)
    return pa.table([_cast(columns[field.name], field.type) for field in schema], schema=schema)


def _cast(column: Any, wanted: pa.DataType) -> pa.Array:
    values = column if isinstance(column, pa.Array) else pa.array(column)
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

    @classmethod
    def together(cls, parts: Sequence["Images"]) -> "Images":
        """The images of all ``parts``."""
        return cls(
            pa.concat_tables([part.rows for part in parts]),
            np.concatenate([part.since for part in parts]),
            np.concatenate([part.until for part in parts]),
        )


class SnapshotTable:
    """A Delta table with a single commit: rows are appended, ``close`` makes them a table."""

    def __init__(self, folder: Path, feed: Feed, *, identity: str, written_at: int) -> None:
        """identity: names the content; ids and file names follow from it. written_at: the moment of the commit."""
        self.rows = 0
        self._folder, self._feed, self._identity, self._millis = folder, feed, identity, written_at // 1000
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
        self._files.append({"add": self._add_action(name, rows)})
        self.rows += rows.num_rows
        self._buffer, self._buffered = [], 0

    def _add_action(self, name: str, rows: pa.Table) -> dict[str, Any]:
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
    """How a source system writes JSON.

    unit: the precision of its timestamps. separator: between date and time. zone: after the time. quoted: decimals
    are strings rather than numbers.
    """

    unit: str
    separator: str = "T"
    zone: str = ""
    quoted: bool = False


class ChangeFiles:
    """The change files of one feed: takes images as they become known, writes the hours that are complete."""

    def __init__(self, folder: Path, feed: Feed, style: Style, *, hours: range, every_hour: bool) -> None:
        """hours: those to come, numbered as in medallion.hours. every_hour: one without a change gets an empty file."""
        self.lines = 0
        self._folder, self._feed, self._style, self._every_hour = folder, feed, style, every_hour
        self._start, self._end = hours.start * HOUR, hours.stop * HOUR
        self._pending: list[Images] = []
        folder.mkdir(parents=True)

    def add(self, images: Images) -> None:
        """Takes in images; what they change before the hours to come is not looked at."""
        self._pending.append(images.select(_changing(images, self._start, self._end)))

    def write(self, hours: range) -> None:
        """Writes the files of ``hours``, the next to come: no image added later may change anything in them."""
        images = Images.together(self._pending)
        moments, lines = self._lines(images, hours.stop * HOUR)
        borders = np.searchsorted(moments, [hour * HOUR for hour in (*hours, hours.stop)])
        for hour, first, end in zip(hours, borders[:-1], borders[1:], strict=True):
            if first < end or self._every_hour:
                text = "".join(lines[first:end].to_pylist())
                (self._folder / f"{hour_from_number(hour)}.json").write_text(text, encoding="utf-8")
        self.lines += len(lines)
        self._start = hours.stop * HOUR
        self._pending = [images.select(_changing(images, self._start, self._end))]

    def _lines(self, images: Images, end: int) -> tuple[Ints, pa.Array]:
        """The changes before ``end`` in order: their moments, and their lines."""
        deleted = np.flatnonzero((images.until >= self._start) & (images.until < end))
        inserted = np.flatnonzero((images.since >= self._start) & (images.since < end))
        rows = np.concatenate([deleted, inserted])
        moments = np.concatenate([images.until[deleted], images.since[inserted]])
        is_insert = np.repeat([0, 1], [len(deleted), len(inserted)])
        key = images.rows[self._feed.keys[0]].to_numpy()[rows]
        order = np.lexsort((is_insert, key, moments))  # the old image goes right before the new one
        return moments[order], _encode(images.rows.take(rows[order]), is_insert[order], self._style)


def _changing(images: Images, start: int, end: int) -> Flags:
    """Which images start or stop being current at ``start`` or later, and before ``end``."""
    starting = (images.since >= start) & (images.since < end)
    stopping = (images.until >= start) & (images.until < end)
    return starting | stopping


def _encode(rows: pa.Table, inserted: Ints, style: Style) -> pa.Array:
    """One line of JSON per row: an insert where ``inserted`` is 1, a delete where it is 0."""
    parts: list[Any] = [pa.array(['{"delete": {', '{"insert": {']).take(pa.array(inserted))]
    for position, name in enumerate(rows.column_names):
        parts += [f'{", " if position else ""}"{name}": ', _json_values(rows[name].combine_chunks(), style)]
    return pc.binary_join_element_wise(*parts, "}}\n", "")


def _json_values(values: pa.Array, style: Style) -> pa.Array:
    kind = values.type
    if pa.types.is_timestamp(kind):
        text = values.cast(pa.timestamp("us")).cast(pa.timestamp(style.unit)).cast(pa.string())
        text = pc.replace_substring(text, " ", style.separator)
        text = _quote(text, style.zone)
    elif pa.types.is_string(kind):
        text = _quote(pc.replace_substring(pc.replace_substring(values, "\\", "\\\\"), '"', '\\"'))
    elif pa.types.is_date(kind) or (pa.types.is_decimal(kind) and style.quoted):
        text = _quote(values.cast(pa.string()))
    else:
        text = values.cast(pa.string())
    return pc.coalesce(text, "null")


def _quote(text: pa.Array, suffix: str = "") -> pa.Array:
    return pc.binary_join_element_wise('"', text, f'{suffix}"', "")
