"""Change files of AWS DMS with Amazon S3 as target: CSV or Parquet whose first column, Op, is I, U or D.

Source: its documentation (docs.aws.amazon.com/dms, "Using Amazon S3 as a target"). A CSV without a header has the
declared columns in order, after Op and, if it is written, the time of the commit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from medallion.ingest.change_lines import MAX_LINE
from medallion.ingest.json_lines import parse_line, parse_text
from medallion.ingest.sources import NOTHING, Change, NoRecord, Unfit
from medallion.ingest.tabular_files import line_under
from medallion.ingest.value_decoders import value_decoder
from medallion.ingest.value_forms import Forms
from medallion.model.column_types import Scalar
from medallion.model.table import Feed

OPERATION = "Op"
_NULL = "NULL"  # in a CSV, unless CsvNullValue says otherwise; an empty text is null too, except in STRING columns
_OPERATIONS = {"I": False, "U": False, "D": True}
_NAMES_WANTED = "set AddColumnName=true at the endpoint, so that columns are found by name"
_MOMENT = value_decoder(Scalar("TIMESTAMP"), "", lambda _: None)


def reader(feed: Feed) -> "_Reader":
    """Return a reader of one file of ``feed``."""
    return _Reader(feed)


class _Header(NamedTuple):
    """The header of a CSV, with which each of its lines begins.

    beginning: the bytes of a line up to its cells. names: the columns without Op. operation: the index of Op; None if
    there is none. is_text: for each of ``names``, whether it is a STRING. why_unfit: why no row under the header can be
    read; empty if they can.
    """

    beginning: bytes
    names: list[str]
    operation: int | None
    is_text: list[bool]
    why_unfit: str


class _Reader:
    expected = "rows whose first column, Op, is I, U or D"
    ignored_prefix: str | None = None

    def __init__(self, feed: Feed) -> None:
        self.forms = replace(Forms.of(feed.delivery), texts=True)
        self._columns = [column.name for column in feed.columns]
        self._texts = {column.name for column in feed.columns if column.type == "STRING"}
        self._header: _Header | None = None  # of the last line with one, since nearly all lines have the same

    def read(self, raw: bytes) -> Sequence[Change]:
        header = self._header
        if header is not None and raw.startswith(header.beginning) and len(raw) <= MAX_LINE:
            cells = _cells(raw.rstrip()[len(header.beginning) : -1])
            if cells is not None:
                return (_change(*self._under(header, cells)),)
        record = parse_line(raw)
        if isinstance(record, dict):
            return (_change(*self._by_name(record)),)
        if isinstance(record, list) and len(record) == 2 and all(isinstance(cells, list) for cells in record):
            self._header = self._header_of(record[0])
            return (_change(*self._under(self._header, record[1])),)
        if isinstance(record, list):
            return (_change(*self._by_place(record)),)
        raise NoRecord("not a row")

    def position(self) -> None:
        return None  # files are in the order of their names, which are times

    def notes(self) -> list[str]:
        return []

    def _by_name(self, record: Mapping[str, Any]) -> tuple[Any, Mapping[str, Any]]:
        """Return operation and row of a line with names; Op may have another letter case, as some tools write it."""
        place, why_unfit = self._operation_in([*record])
        if why_unfit:
            raise Unfit(why_unfit)
        if place is None:
            return "I", record
        row = dict(record)
        return row.pop([*record][place]), row

    def _operation_in(self, names: Sequence[Any]) -> tuple[int | None, str]:
        """Return the index of Op among the names, None if there is none, and why it cannot be determined, if so."""
        if OPERATION in names:
            return names.index(OPERATION), ""
        place = next((place for place, name in enumerate(names) if name.casefold() == OPERATION.casefold()), None)
        if place is not None and OPERATION.casefold() in self._columns:
            what = f"{names[place]} may be the operation or the column op"
            return None, f"{what}: set IncludeOpForFullLoad=true at the endpoint"
        return place, ""

    def _header_of(self, names: list[Any]) -> _Header:
        if not all(isinstance(name, str) for name in names):
            raise NoRecord("not a row")
        place, why_unfit = self._operation_in(names)
        if len({*names}) != len(names):
            why_unfit = "a column appears twice"
        others = [name for index, name in enumerate(names) if index != place]
        is_text = [name.casefold() in self._texts for name in others]
        return _Header(line_under(names), others, place, is_text, why_unfit)

    def _under(self, header: _Header, cells: list[Any]) -> tuple[Any, Mapping[str, Any]]:
        """Return operation and row of a line under a header. Raises Unfit if it has another number of values."""
        width = len(header.names) + (header.operation is not None)
        if len(cells) != width:
            raise Unfit(f"has {len(cells)} values, and its file names {width} columns")
        if header.why_unfit:
            raise Unfit(header.why_unfit)
        operation = "I" if header.operation is None else cells.pop(header.operation)
        row = {
            name: None if cell == _NULL or (cell == "" and not is_text) else cell
            for name, cell, is_text in zip(header.names, cells, header.is_text, strict=True)
        }
        return operation, row

    def _by_place(self, cells: list[Any]) -> tuple[Any, Mapping[str, Any]]:
        """Return operation and row of a line without names."""
        beside = len(cells) - len(self._columns)
        if beside not in (0, 1, 2):
            raise Unfit(f"has {len(cells)} values, and {len(self._columns)} columns are declared: {_NAMES_WANTED}")
        if beside == 2 and not _is_moment(cells[1]):
            raise Unfit(f"{str(cells[1])[:40]!r} after Op is not the time of a commit: {_NAMES_WANTED}")
        if beside == 0 and cells[0] in (*_OPERATIONS,) and self._columns[0] in self._texts:
            raise Unfit(f"{cells[0]} may be Op, or the value of {self._columns[0]}: {_NAMES_WANTED}")
        if beside == 0 and [str(cell).casefold() for cell in cells] == self._columns:
            raise NoRecord("names of columns without Op: set IncludeOpForFullLoad=true at the endpoint")
        header = _Header(b"", self._columns, None, [name in self._texts for name in self._columns], "")
        return (cells[0] if beside else "I"), self._under(header, cells[beside:])[1]


def _cells(raw: bytes) -> list[Any] | None:
    """Parse the cells of a row; None if they are no list: parsing the whole line then shows why."""
    try:
        cells = parse_text(raw.decode())
    except (ValueError, RecursionError, ArithmeticError):
        return None
    return cells if isinstance(cells, list) else None


def _change(operation: Any, row: Mapping[str, Any]) -> Change:
    if not isinstance(operation, str) or operation not in _OPERATIONS:
        raise NoRecord(f"Op {str(operation)[:40]!r} is none of I, U and D")
    return Change(_OPERATIONS[operation], row, NOTHING, None)


def _is_moment(text: Any) -> bool:
    try:
        _MOMENT(text)
    except (ValueError, TypeError):
        return False
    return True
