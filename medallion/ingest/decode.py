"""Reading change files: each line becomes a typed change or a rejected line with its reason.

The schema is the declared one, never inferred, and no value is silently turned into another: a line that does not
fit is rejected whole. Streams in batches, so memory does not grow with the file.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.parquet as pq

from medallion.errors import MedallionError
from medallion.model.table import Column, Feed
from medallion.storage.files import Place, in_arrow

LINE, DELETED = "_line", "_deleted"  # beside a change's own columns: its line in the file, and whether it deletes
_BATCH = 50_000
_MAX_LINE = 1 << 20
_MAX_KEPT_BACK = 64 << 20  # they are held in memory
_TELLING = 100  # of so many lines, one at least should have each column
_TIMESTAMP = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})?"
)
Decoder = Callable[[Any], Any]


@dataclass
class Decoded:
    """What one change file held: counts of its lines, the lines that were rejected, and how its columns drifted.

    rejected: (line number, reason, the line as it came). unknown: columns that are not declared, which are left out,
    with the number of lines that have them. absent: declared columns that no line has.
    """

    lines: int = 0
    changes: int = 0
    rejected: list[tuple[int, str, str]] = field(default_factory=list)
    unknown: Counter[str] = field(default_factory=Counter)
    absent: list[str] = field(default_factory=list)


class _Unfit(ValueError):
    """This line cannot be taken; the message is the reason."""


def arrow_type(column: Column) -> pa.DataType:
    """The Arrow type of a declared column."""
    if column.type.startswith("DECIMAL"):
        return pa.decimal128(*_precision(column.type))
    return {
        "BIGINT": pa.int64(),
        "INT": pa.int32(),
        "STRING": pa.string(),
        "BOOLEAN": pa.bool_(),
        "DATE": pa.date32(),
        "TIMESTAMP": pa.timestamp("us", tz="UTC"),
    }[column.type]


def change_schema(feed: Feed) -> pa.Schema:
    """The columns of decoded changes: line number, deletion flag, then the feed's own, all nullable but the first."""
    own = [pa.field(c.name, arrow_type(c)) for c in feed.columns]
    return pa.schema([pa.field(LINE, pa.int64(), False), pa.field(DELETED, pa.bool_(), False), *own])


def decode_file(path: Place, feed: Feed, target: Place, mended: Mapping[int, str] | None = None) -> Decoded:
    """Decode the NDJSON file at ``path`` into typed changes in the Parquet file ``target``, in the order of lines.

    mended: line number -> what is read in its place. Raises MedallionError when the file was cut off in the middle of
    a line: nothing of it can be trusted then.
    """
    result, schema = Decoded(), change_schema(feed)
    known = {column.name for column in feed.columns}
    seen: Counter[str] = Counter()
    decode = _line_decoder(feed, seen)
    target.parent.mkdir(parents=True, exist_ok=True)
    name, at = in_arrow(target)
    with pq.ParquetWriter(name, schema, filesystem=at) as writer:
        batch: list[tuple[Any, ...]] = []
        kept_back = 0
        for number, raw, complete in _lines(path):
            result.lines += 1
            if mended and number in mended:
                raw, complete = mended[number].encode(), True
            try:
                batch.append((number, *decode(raw)))
                result.changes += 1
            except _Unfit as unfit:
                if not complete:
                    raise MedallionError(
                        f"{path} is cut off in the middle of line {number}: nothing of it was applied;"
                        " have it delivered again, then run the hour again"
                    ) from None
                result.rejected.append((number, str(unfit), raw.decode("utf-8", "backslashreplace")[:_MAX_LINE]))
                kept_back += len(raw)
                if kept_back > _MAX_KEPT_BACK:
                    raise MedallionError(
                        f"{path}: more than {_MAX_KEPT_BACK >> 20} MB of bad lines up to line {number}: nothing of it"
                        f" was applied; the first is line {result.rejected[0][0]}: {result.rejected[0][1]}"
                    ) from None
            if len(batch) >= _BATCH:
                writer.write_batch(_record_batch(batch, schema))
                batch = []
        writer.write_batch(_record_batch(batch, schema))
    result.unknown = Counter({name: count for name, count in seen.items() if name not in known})
    result.absent = sorted(known - set(seen)) if result.changes >= _TELLING else []
    return result


def why_unfit(feed: Feed, raw: str) -> str | None:
    """The reason why a line cannot be taken; None when it can."""
    try:
        _line_decoder(feed, Counter())(raw.encode("utf-8", "surrogatepass"))
    except _Unfit as unfit:
        return str(unfit)
    return None


def _lines(path: Place) -> Iterator[tuple[int, bytes, bool]]:
    """Each line that is not blank: its number from 1, its bytes, and whether a line end closed it."""
    with path.open("rb") as stream:
        number = 0
        while raw := stream.readline(_MAX_LINE + 1):
            number += 1
            complete = raw.endswith(b"\n")
            while not raw.endswith(b"\n") and (rest := stream.readline(_MAX_LINE)):
                complete = rest.endswith(b"\n")  # too long to be taken: skipped to its end, reported by its start
                if complete:
                    break
            if number == 1:
                raw = raw.removeprefix(b"\xef\xbb\xbf")
            if raw.strip():
                yield number, raw, complete


def _record_batch(rows: list[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    columns = zip(*rows, strict=True) if rows else ([] for _ in schema)
    arrays = [pa.array(values, f.type) for values, f in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _line_decoder(feed: Feed, seen: Counter[str]) -> Callable[[bytes], tuple[Any, ...]]:
    """What turns a line into a change; ``seen`` counts the columns of lines."""
    columns = [(c, _decoder(c), c.name in feed.keys) for c in feed.columns]

    def decode(raw: bytes) -> tuple[Any, ...]:
        deleted, row = _operation(raw)
        seen.update(row.keys())
        values: list[Any] = []
        for column, convert, is_key in columns:
            value = row.get(column.name)
            if value is None:
                if column.required and (is_key or not deleted):
                    raise _Unfit(f"{column.name} is null but must have a value")
                values.append(None)
                continue
            try:
                values.append(convert(value))
            except (ValueError, TypeError, OverflowError, InvalidOperation):
                raise _Unfit(f"{column.name}: {str(value)[:80]!r} is not a {column.type}") from None
        return (deleted, *values)

    return decode


def _operation(raw: bytes) -> tuple[bool, dict[str, Any]]:
    if len(raw) > _MAX_LINE:
        raise _Unfit(f"longer than {_MAX_LINE} bytes")
    try:
        line = json.loads(raw, parse_float=Decimal, parse_constant=_no_constant, object_pairs_hook=_distinct)
    except _Unfit:
        raise
    except (ValueError, RecursionError, InvalidOperation):
        raise _Unfit("not JSON") from None
    if not isinstance(line, dict) or len(line) != 1:
        raise _Unfit("not an object with either insert or delete")
    ((operation, row),) = line.items()
    if operation not in {"insert", "delete"}:
        raise _Unfit(f"operation {operation[:40]!r} is neither insert nor delete")
    if not isinstance(row, dict):
        raise _Unfit(f"{operation} holds no row")
    return operation == "delete", row


def _no_constant(name: str) -> NoReturn:
    raise _Unfit(f"{name} is not a JSON number")


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) != len(pairs):
        raise _Unfit("the same column stands there twice")
    return row


def _decoder(column: Column) -> Decoder:
    if column.type.startswith("DECIMAL"):
        return _decimal(*_precision(column.type))
    return {
        "BIGINT": _integer(64),
        "INT": _integer(32),
        "STRING": _string,
        "BOOLEAN": _boolean,
        "DATE": _date,
        "TIMESTAMP": _timestamp,
    }[column.type]


def _precision(sql_type: str) -> tuple[int, int]:
    precision, scale = re.findall(r"\d+", sql_type)
    return int(precision), int(scale)


def _integer(bits: int) -> Decoder:
    limit = 1 << (bits - 1)

    def decode(value: Any) -> int:
        if type(value) is not int or not -limit <= value < limit:
            raise ValueError
        return value

    return decode


def _decimal(precision: int, scale: int) -> Decoder:
    step, limit = Decimal(1).scaleb(-scale), Decimal(10) ** (precision - scale)

    def decode(value: Any) -> Decimal:
        if isinstance(value, bool) or not isinstance(value, int | Decimal | str):
            raise TypeError
        number = Decimal(value)
        if not number.is_finite() or abs(number) >= limit:
            raise ValueError
        fitted = number.quantize(step)
        if fitted != number:  # a digit would be lost
            raise ValueError
        return fitted

    return decode


def _string(value: Any) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise TypeError
    value.encode()  # a lone surrogate is no text
    return value


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _date(value: Any) -> date:
    if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", value):
        raise ValueError
    return date.fromisoformat(value)


def _timestamp(value: Any) -> datetime:
    if not _TIMESTAMP.fullmatch(value):
        raise ValueError
    moment = datetime.fromisoformat(value)
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
