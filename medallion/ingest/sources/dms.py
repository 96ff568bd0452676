"""Change files of AWS DMS with Amazon S3 as target: CSV or Parquet whose first column, Op, is I, U or D.

As its documentation defines them (docs.aws.amazon.com/dms, "Using Amazon S3 as a target"). In a CSV without names of
columns these are the declared ones in their order, after Op and, where one is written, the time of the commit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from medallion.ingest.json_lines import parse_line
from medallion.ingest.sources import NOTHING, Change, NoRecord, Unfit
from medallion.ingest.value_decoders import Forms, value_decoder
from medallion.model.column_types import Scalar
from medallion.model.table import Feed

OPERATION = "Op"
_NULL = "NULL"  # in a CSV, unless CsvNullValue says otherwise: then text is empty
_OPERATIONS = {"I": False, "U": False, "D": True}
_NAMES_WANTED = "set AddColumnName=true at the endpoint, so that columns are found by name"
_MOMENT = value_decoder(Scalar("TIMESTAMP"), "", lambda _: None)


def reader(feed: Feed) -> "_Reader":
    """Return a reader of one file of ``feed``."""
    return _Reader(feed)


class _Reader:
    expected = "rows whose first column, Op, is I, U or D"
    ignored_prefix: str | None = None

    def __init__(self, feed: Feed) -> None:
        self.forms = replace(Forms.of(feed.delivery), texts=True)
        self._columns = [column.name for column in feed.columns]
        self._texts = {column.name for column in feed.columns if column.type == "STRING"}

    def read(self, raw: bytes) -> Sequence[Change]:
        record = parse_line(raw)
        if isinstance(record, dict):
            operation, row = self._by_name(record)
        elif isinstance(record, list) and len(record) == 2 and all(isinstance(cells, list) for cells in record):
            operation, row = self._by_name(_under_names(*record))
            row = self._with_nulls(row)
        elif isinstance(record, list):
            operation, row = self._by_place(record)
            row = self._with_nulls(row)
        else:
            raise NoRecord("not a row")
        if not isinstance(operation, str) or operation not in _OPERATIONS:
            raise NoRecord(f"Op {str(operation)[:40]!r} is none of I, U and D")
        return (Change(_OPERATIONS[operation], row, NOTHING, None),)

    def position(self) -> None:
        return None  # files are in the order of their names, which are times

    def notes(self) -> list[str]:
        return []

    def _by_name(self, record: Mapping[str, Any]) -> tuple[Any, Mapping[str, Any]]:
        """Return operation and row of a line with names: Op, also in other letters as some tools write it."""
        named = "Op" if "Op" in record else next((name for name in record if name.casefold() == "op"), None)
        if named is None:
            return "I", record
        if named != "Op" and "op" in self._columns:
            raise Unfit(f"{named} may be the operation or the column op: set IncludeOpForFullLoad=true at the endpoint")
        return record[named], {name: value for name, value in record.items() if name != named}

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
        return (cells[0] if beside else "I"), dict(zip(self._columns, cells[beside:], strict=True))

    def _with_nulls(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return a row of a CSV with null where its text says so: an empty text is one in columns of text alone."""
        return {
            name: None if value == _NULL or (value == "" and name.casefold() not in self._texts) else value
            for name, value in row.items()
        }


def _under_names(names: list[Any], cells: list[Any]) -> dict[str, Any]:
    """Return the row of a line of a CSV with names. Raises Unfit for one of another width."""
    if len(cells) != len(names):
        raise Unfit(f"has {len(cells)} values, and its file names {len(names)} columns")
    if not all(isinstance(name, str) for name in names):
        raise NoRecord("not a row")
    if len({*names}) != len(names):
        raise Unfit("a column appears twice")
    return dict(zip(names, cells, strict=True))


def _is_moment(text: Any) -> bool:
    try:
        _MOMENT(text)
    except (ValueError, TypeError):
        return False
    return True
