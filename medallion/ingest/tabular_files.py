"""Rows of CSV and Parquet files as lines of JSON.

A row of Parquet becomes an object. A row of CSV becomes a list of texts; if the file has a header, a list of the header
and the row, so that each line shows how many values it should have. No value loses anything: decimals become texts,
timestamps ISO texts with microseconds, bytes hexadecimal digits.
"""

import csv
import io
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Any

from medallion.errors import MedallionError, one_line

if TYPE_CHECKING:
    import pyarrow as pa

CSV, PARQUET = ".csv", ".parquet"
GZIP, ZSTD = (".gz", ".gzip"), (".zst", ".zstd")
_OPERATION = "Op"  # the first column of AWS DMS: a first row that begins with it is a header
_MIN_NAMES = 2  # a first row without the key is a header if it has so many declared columns
_NAME = re.compile(r"[^\W\d][\w$#]*")
_BATCH_ROWS = 10_000
_MAX_CELL = 1 << 20
_SHOWN_NAMES = 200  # most characters of column names in a message
_KINDS = {"": "lines of JSON", CSV: "CSV", PARQUET: "Parquet"}


@dataclass(frozen=True)
class Columns:
    """What is known of the columns of CSV and Parquet files, to recognise a header and to require a column.

    declared: the declared columns. keys: the key columns. operation: the column that says whether a row is a deletion;
    None if the format has none.
    """

    declared: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    operation: str | None = None

    def are_names(self, row: Sequence[str]) -> bool:
        """Check whether the first row of a CSV is a header.

        It is if it begins with Op, or if all its cells are names and it has the key; in a format with an operation
        column, two declared columns are enough.
        """
        cells = [cell.casefold() for cell in row]
        if cells[0] == _OPERATION.casefold():
            return True
        if not all(_NAME.fullmatch(cell) for cell in cells):
            return False
        has_key = bool(self.keys) and {*self.keys} <= {*cells}
        return has_key or (self.operation is not None and len({*self.declared} & {*cells}) >= _MIN_NAMES)

    def require_operation(self, names: Sequence[str], shown: str) -> None:
        """Raise MedallionError if the operation column is required and not among the columns of a file."""
        if self.operation is None or self.operation.casefold() in (name.casefold() for name in names):
            return
        actual, expected = ", ".join(names)[:_SHOWN_NAMES], ", ".join((self.operation, *self.declared))
        raise MedallionError(
            f"{shown} has the columns {actual} and no {self.operation}, which tells deletions from other rows: expected"
            f" {expected}; nothing of its hour was landed: have it delivered with {self.operation}, or elsewhere if it"
            " is a full load, then run the hour again"
        )


ANY = Columns()


def csv_lines(stream: IO[bytes], shown: str, columns: Columns = ANY) -> Iterator[bytes]:
    """Yield each row of a CSV file as a line, except a header.

    Raises MedallionError if the file is no CSV in UTF-8, ends within quotes, or its header lacks a required column.
    """
    csv.field_size_limit(_MAX_CELL)
    text = io.TextIOWrapper(stream, encoding="utf-8-sig", errors="strict", newline="")
    beginning = b""  # of each line under a header
    reader = csv.reader(text, strict=True)
    try:
        for number, row in enumerate(reader):
            if not row:
                continue
            if number == 0 and columns.are_names(row):
                columns.require_operation(row, shown)
                beginning = line_under(row)
            else:
                yield beginning + row_line(row)[:-1] + b"]\n" if beginning else row_line(row)
    except (csv.Error, UnicodeDecodeError) as error:
        raise MedallionError(
            f"{shown} is no CSV that can be read, at line {reader.line_num}: {one_line(error, 120)}; nothing of its"
            " hour was landed: have it delivered again, then run the hour again"
        ) from None


def parquet_lines(file: Path, shown: str, columns: Columns = ANY) -> Iterator[bytes]:
    """Yield each row of a Parquet file as a line. Raises as ``parquet_rows`` does."""
    return map(row_line, parquet_rows(file, shown, columns))


def parquet_rows(file: Path, shown: str, columns: Columns = ANY) -> Iterator[dict[str, Any]]:
    """Yield each row of a Parquet file. Raises MedallionError if it cannot be read or lacks a required column."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(file) as parquet:
            columns.require_operation(parquet.schema_arrow.names, shown)
            for batch in parquet.iter_batches(_BATCH_ROWS):
                yield from _rows(batch)
    except (pa.ArrowException, OSError, ValueError, OverflowError, KeyError) as error:
        raise MedallionError(
            f"{shown} is no Parquet file that can be read: {one_line(error, 120)}; nothing of its hour was landed: have"
            " it delivered again, then run the hour again"
        ) from None


def _rows(batch: "pa.RecordBatch") -> Iterator[dict[str, Any]]:
    """Yield the rows of a batch. Raises ValueError if two columns have the same name."""
    names = batch.schema.names
    if len({*names}) != len(names):
        raise ValueError("two of its columns have the same name")
    for row in zip(*map(_values, batch.columns), strict=True):
        yield dict(zip(names, row, strict=True))


def _values(column: "pa.Array") -> list[Any]:
    """Return the values of a column; as texts if Python cannot represent one of its timestamps or dates."""
    import pyarrow as pa

    values: list[Any]
    try:
        values = column.to_pylist(maps_as_pydicts="strict")
    except (ValueError, OverflowError):
        values = column.cast(pa.string()).to_pylist()
    return values


def kind_of(name: str) -> str:
    """Return CSV or PARQUET for such a file, packed or not; empty for a file of lines."""
    path = PurePosixPath(name.lower())
    if path.suffix in GZIP + ZSTD:
        path = path.with_suffix("")
    return path.suffix if path.suffix in (CSV, PARQUET) else ""


def require_one_kind(names: Sequence[str], what: str, remedy: str) -> None:
    """Raise MedallionError if files that are read together are of two kinds, naming one of each.

    what: what the files are, for the message. remedy: what to do.
    """
    firsts = {kind_of(name): name for name in reversed(names)}
    if len(firsts) > 1:
        kinds = " and ".join(f"{_KINDS[kind]}, such as {name}" for kind, name in sorted(firsts.items())[:2])
        raise MedallionError(f"{what} has files of two kinds, {kinds}: {remedy}")


def line_under(names: Sequence[Any]) -> bytes:
    """Return the beginning of each line under a header: all but the cells of the row, brackets and the line end."""
    return row_line([names, []])[: -len(b"[]]\n")]


def row_line(row: Any) -> bytes:
    """Return a row as a line of JSON."""
    return _JSON.encode(row).encode("utf-8", "surrogatepass") + b"\n"


def _text(value: Any) -> str:
    if isinstance(value, datetime):
        return (value.astimezone(UTC) if value.tzinfo else value).isoformat(sep=" ").replace("+00:00", "Z")
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, bytes):
        return value.hex()
    return str(value)


_JSON = json.JSONEncoder(default=_text, ensure_ascii=False)
