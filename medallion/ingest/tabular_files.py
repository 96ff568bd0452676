"""Rows of CSV and Parquet files as lines of JSON: a list of texts, or an object where columns have names.

No value loses anything: decimals are texts, moments ISO texts with their microseconds, bytes hexadecimal digits.
"""

import csv
import io
import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import IO, Any

from medallion.errors import MedallionError, one_line

CSV, PARQUET = ".csv", ".parquet"
_OPERATION = "Op"  # names the first column of AWS DMS: a first row with it is one of names
_BATCH_ROWS = 10_000
_MAX_CELL = 1 << 20


def csv_lines(stream: IO[bytes], shown: str) -> Iterator[bytes]:
    """Yield each row of a CSV file as a line.

    Raises MedallionError where it is no CSV in UTF-8, or ends within quotes.
    """
    csv.field_size_limit(_MAX_CELL)
    text = io.TextIOWrapper(stream, encoding="utf-8-sig", errors="strict", newline="")
    names: list[str] | None = None
    reader = csv.reader(text, strict=True)
    try:
        for number, row in enumerate(reader):
            if not row:
                continue
            if number == 0 and row[0].casefold() == _OPERATION.casefold():
                names = row
            elif names is None or len(names) != len(row):  # what does not fit its names is rejected as it is
                yield row_line(row)
            else:
                yield row_line(dict(zip(names, row, strict=True)))
    except (csv.Error, UnicodeDecodeError) as error:
        raise MedallionError(
            f"{shown} is no CSV that can be read, at line {reader.line_num}: {one_line(error, 120)}; nothing of its"
            " hour was landed: have it delivered again, then run the hour again"
        ) from None


def parquet_lines(file: Path, shown: str) -> Iterator[bytes]:
    """Yield each row of a Parquet file as a line. Raises as ``parquet_rows`` does."""
    return map(row_line, parquet_rows(file, shown))


def parquet_rows(file: Path, shown: str) -> Iterator[dict[str, Any]]:
    """Yield each row of a Parquet file. Raises MedallionError where it cannot be read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(file) as parquet:
            for batch in parquet.iter_batches(_BATCH_ROWS):
                yield from batch.to_pylist()
    except (pa.ArrowException, OSError) as error:
        raise MedallionError(
            f"{shown} is no Parquet file that can be read: {one_line(error, 120)}; nothing of its hour was landed: have"
            " it delivered again, then run the hour again"
        ) from None


def kind_of(name: str) -> str:
    """Return CSV or PARQUET for such a file, also a packed one; empty for one of lines."""
    suffixes = [suffix.lower() for suffix in PurePosixPath(name).suffixes[-2:]]
    return next((kind for kind in (CSV, PARQUET) if kind in suffixes), "")


def row_line(row: Any) -> bytes:
    """Return a row as a line of JSON."""
    return json.dumps(row, default=_text, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"


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
