"""Reading change files: each line becomes a typed change or a rejected line with its reason.

The schema is the declared one, never inferred, and no value is silently turned into another: a line that does not
fit is rejected whole. Streams in batches that are bounded in rows and in bytes, so memory does not grow with the file.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.parquet as pq

from medallion.errors import MedallionError
from medallion.hours import ONE_HOUR, parse_hour
from medallion.ingest.arrow_types import arrow_type
from medallion.ingest.change_lines import MAX_LINE, has_hole, is_too_long, read_lines
from medallion.ingest.refused_file import refused_file
from medallion.ingest.value_decoders import value_decoder
from medallion.model.table import EARLIEST, Feed
from medallion.storage.files import Place, in_arrow

LINE, DELETED = "_line", "_deleted"  # beside a change's own columns: its line in the file, and whether it deletes
_BATCH_ROWS, _BATCH_BYTES = 10_000, 8 << 20  # a line in Python takes many times the bytes that it has in the file
_MAX_REJECTED_BYTES = 64 << 20  # rejected lines are held in memory, each with its reason
_REJECTED_LINE_BYTES = 512
_MAX_UNKNOWN_COLUMNS = 1_000  # so many names are told apart
_MAX_USUAL = 100
_MAX_NAME = 80  # characters of a name that is shown
_MIN_INSERTS = 100  # of so many inserts, one at least should have each column; a delete may hold its key alone


@dataclass
class Decoded:
    """The content of one change file: line counts, rejected lines, and columns other than declared.

    records: lines that are an object with either insert or delete, whether its row fits or not.
    rejected: (line number, reason, the line as it came). unknown: columns that are not declared, which are left out,
    with the number of lines that have them; names are escaped and cut to 80 characters. more_unknown: whether there
    are still more of them. absent: declared columns that none of many inserts has. bytes: of all changes in memory.
    """

    lines: int = 0
    records: int = 0
    changes: int = 0
    rejected: list[tuple[int, str, str]] = field(default_factory=list)
    unknown: Counter[str] = field(default_factory=Counter)
    more_unknown: bool = False
    absent: list[str] = field(default_factory=list)
    bytes: int = 0


class _Unfit(ValueError):
    """A line is rejected; the message is the reason."""


class _NoRecord(_Unfit):
    """A line is rejected that is no record at all."""


def change_schema(feed: Feed) -> pa.Schema:
    """Return the schema of decoded changes: line number, deletion flag, then the feed's columns, all nullable."""
    own = [pa.field(c.name, arrow_type(c)) for c in feed.columns]
    return pa.schema([pa.field(LINE, pa.int64(), False), pa.field(DELETED, pa.bool_(), False), *own])


def decode_file(
    path: Place, feed: Feed, hour: str, target: Place, corrected: Mapping[int, str] | None = None
) -> Decoded:
    """Decode the NDJSON file of ``hour`` at ``path`` into typed changes in the Parquet file ``target``, in order.

    corrected: line number -> the line that is read in its place. Raises MedallionError when the file was cut off in the
    middle of a line, or a part of it was never written: nothing of it can be trusted then.
    """
    result, schema, columns, inserts = Decoded(), change_schema(feed), _ColumnCounts(feed), 0

    def refuse(what: str, number: int, raw: bytes) -> MedallionError:
        return refused_file(feed, hour, path, what, (number, raw))

    target.parent.mkdir(parents=True, exist_ok=True)
    name, at = in_arrow(target)
    with pq.ParquetWriter(name, schema, filesystem=at) as writer:
        for rows in _batches(path, _line_decoder(feed, hour, columns), corrected or {}, result, refuse):
            batch = _record_batch(rows, schema)
            result.changes += len(batch)
            inserts += sum(not deleted for _, deleted, *_ in rows)
            result.bytes += batch.nbytes
            writer.write_batch(batch)
    result.unknown, result.more_unknown = columns.unknown, columns.more_unknown
    result.absent = sorted(columns.known - columns.seen) if inserts >= _MIN_INSERTS else []
    return result


def _batches(
    path: Place,
    decode: Callable[[bytes], tuple[Any, ...]],
    corrected: Mapping[int, str],
    result: Decoded,
    refuse: Callable[[str, int, bytes], MedallionError],
) -> Iterator[list[tuple[Any, ...]]]:
    """Yield changes in batches that fit into memory; count lines and rejected lines in ``result``."""
    rows: list[tuple[Any, ...]] = []
    size = rejected = 0
    for number, raw, complete in read_lines(path):
        result.lines += 1
        if number in corrected:
            raw, complete = corrected[number].encode("utf-8", "surrogatepass"), True
        try:
            rows.append((number, *decode(raw)))
            size += len(raw)
            result.records += 1
        except _Unfit as unfit:
            if has_hole(raw, complete):
                raise refuse(f"has NUL bytes in line {number}: a part was never written", number, raw) from None
            if not complete and not _is_json(raw):
                raise refuse(f"is cut off in the middle of line {number}", number, raw) from None
            result.records += not isinstance(unfit, _NoRecord)
            result.rejected.append((number, str(unfit), raw.decode("utf-8", "backslashreplace")[:MAX_LINE]))
            rejected += len(raw) + _REJECTED_LINE_BYTES
            if rejected > _MAX_REJECTED_BYTES:
                what = f"has more than {_MAX_REJECTED_BYTES >> 20} MB of bad lines up to line {number}"
                raise refuse(what, number, raw) from None
        if len(rows) >= _BATCH_ROWS or size >= _BATCH_BYTES:
            yield rows
            rows, size = [], 0
    yield rows


class _ColumnCounts:
    """The declared columns that lines of a file have, and a count of lines for each other column."""

    def __init__(self, feed: Feed) -> None:
        self.known = frozenset(column.name for column in feed.columns)
        self.seen: set[str] = set()
        self.unknown: Counter[str] = Counter()
        self.more_unknown = False
        self._fields: set[str] = set()  # of the line, that no STRUCT declares
        self._usual: set[tuple[str, ...]] = set()  # columns of lines seen, where all are declared: most are alike

    def add(self, row: Mapping[str, Any]) -> None:
        """Count the columns of one line."""
        self._fields.clear()
        columns = tuple(row)
        if columns in self._usual:
            return
        self.seen |= row.keys() & self.known
        if row.keys() <= self.known:
            if len(self._usual) < _MAX_USUAL:
                self._usual.add(columns)
            return
        for name in row.keys() - self.known:
            self._count(shown_name(name))

    def note_unknown(self, path: str) -> None:
        """Count a field of a column of the line, once for all its values there."""
        shown = shown_name(path)
        if shown not in self._fields:
            self._fields.add(shown)
            self._count(shown)

    def _count(self, shown: str) -> None:
        if shown in self.unknown or len(self.unknown) < _MAX_UNKNOWN_COLUMNS:
            self.unknown[shown] += 1
        else:
            self.more_unknown = True


def shown_name(name: str) -> str:
    """Make a name from outside printable: escaped, and cut to 80 characters."""
    return repr(name[:_MAX_NAME])[1:-1][:_MAX_NAME]


def why_unfit(feed: Feed, hour: str, raw: str) -> str | None:
    """Return the reason why a line of ``hour`` is rejected; None when it fits."""
    try:
        _line_decoder(feed, hour, _ColumnCounts(feed))(raw.encode("utf-8", "surrogatepass"))
    except _Unfit as unfit:
        return str(unfit)
    return None


def _record_batch(rows: list[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    columns = zip(*rows, strict=True) if rows else ([] for _ in schema)
    arrays = [pa.array(values, f.type) for values, f in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _line_decoder(feed: Feed, hour: str, counts: _ColumnCounts) -> Callable[[bytes], tuple[Any, ...]]:
    """Build the function that turns a line into a change; ``counts`` records the columns of each."""
    require_happened = _event_time_check(feed, hour)
    columns = [(c, value_decoder(c.sql_type, c.name, counts.note_unknown), c.name in feed.keys) for c in feed.columns]

    def decode(raw: bytes) -> tuple[Any, ...]:
        deleted, row = _operation(raw)
        counts.add(row)
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
            except (ValueError, TypeError, ArithmeticError):
                raise _Unfit(f"{column.name}: {_shown_value(value)} is not a {column.type}") from None
        if not deleted:  # what is there goes, whatever it holds
            require_happened(values)
        return (deleted, *values)

    return decode


def _event_time_check(feed: Feed, hour: str) -> Callable[[list[Any]], None]:
    """Build the function that rejects the values of a row that cannot have happened by the end of ``hour``."""
    names = [column.name for column in feed.columns]
    places = [(name, names.index(name)) for name in feed.event_time]
    latest = parse_hour(hour) + ONE_HOUR + feed.max_skew

    def require_happened(values: list[Any]) -> None:
        for name, place in places:
            moment = values[place]
            if moment is None or EARLIEST <= moment <= latest:
                continue
            if moment < EARLIEST:
                raise _Unfit(f"{name}: {moment.isoformat()} is before {EARLIEST.year}")
            raise _Unfit(
                f"{name}: {moment.isoformat()} is later than the end of hour {hour} by more than {feed.max_skew}"
            )

    return require_happened


def _shown_value(value: Any) -> str:
    """Format a value that does not fit for the reason."""
    if isinstance(value, list | dict):  # its text may be deep, and long
        return f"a {'list' if isinstance(value, list) else 'nested object'}"
    return repr(str(value)[:_MAX_NAME])


def _operation(raw: bytes) -> tuple[bool, dict[str, Any]]:
    if is_too_long(raw):
        raise _NoRecord(f"longer than {MAX_LINE} bytes")
    try:
        line = json.loads(_text(raw), parse_float=Decimal, parse_constant=_no_constant, object_pairs_hook=_distinct)
    except _Unfit:
        raise
    except (ValueError, RecursionError, ArithmeticError) as error:
        is_followed = isinstance(error, json.JSONDecodeError) and error.msg == "Extra data"
        raise _NoRecord("more than one record" if is_followed and raw.lstrip()[:1] == b"{" else "not JSON") from None
    if not isinstance(line, dict) or len(line) != 1:
        raise _NoRecord("not an object with either insert or delete")
    ((operation, row),) = line.items()
    if operation not in {"insert", "delete"}:
        raise _NoRecord(f"operation {operation[:40]!r} is neither insert nor delete")
    if not isinstance(row, dict):
        raise _NoRecord(f"{operation} holds no row")
    return operation == "delete", row


def _text(raw: bytes) -> str:
    """A line in UTF-8: of bytes, the parser would guess the encoding of each line anew."""
    return raw.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogatepass")


def _is_json(raw: bytes) -> bool:
    """Check whether a line is JSON from its start to its end, which the first part of a row never is."""
    if is_too_long(raw):
        return False
    try:
        json.loads(_text(raw), parse_int=str, parse_float=str)
    except (ValueError, RecursionError):
        return False
    return True


def _no_constant(name: str) -> NoReturn:
    raise _Unfit(f"{name} is not a JSON number")


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) != len(pairs):
        raise _Unfit("a column appears twice")
    return row
