"""Change files of AWS DMS with Amazon S3 as target: CSV or Parquet whose first column, Op, is I, U or D.

As its documentation defines them (docs.aws.amazon.com/dms, "Using Amazon S3 as a target"). In a CSV without names of
columns these are the declared ones in their order, after Op and, where one is written, the time of the commit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from medallion.ingest.json_lines import parse_line
from medallion.ingest.sources import NOTHING, Change, NoRecord, Unfit
from medallion.ingest.value_decoders import Forms
from medallion.model.table import Feed

_NULL = "NULL"  # in a CSV, unless CsvNullValue says otherwise: then text is empty
_OPERATIONS = {"I": False, "U": False, "D": True}


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
        if isinstance(record, list):
            operation, row = self._by_place(record)
        elif isinstance(record, dict):
            operation, row = record.get("Op", "I"), {name: value for name, value in record.items() if name != "Op"}
        else:
            raise NoRecord("not a row")
        if operation not in _OPERATIONS:
            raise NoRecord(f"Op {str(operation)[:40]!r} is none of I, U and D")
        return (Change(_OPERATIONS[operation], self._with_nulls(row), NOTHING, None),)

    def position(self) -> None:
        return None  # files are in the order of their names, which are times

    def notes(self) -> list[str]:
        return []

    def _by_place(self, cells: list[Any]) -> tuple[Any, Mapping[str, Any]]:
        """Return operation and row of a line without names."""
        beside = len(cells) - len(self._columns)
        if beside not in (0, 1, 2):
            raise Unfit(
                f"has {len(cells)} values, and {len(self._columns)} columns are declared: set AddColumnName=true at the"
                " endpoint, so that columns are found by name"
            )
        return (cells[0] if beside else "I"), dict(zip(self._columns, cells[beside:], strict=True))

    def _with_nulls(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return a row with null where the text says so: an empty text is one in columns of text alone."""
        return {
            name: None if value == _NULL or (value == "" and name.casefold() not in self._texts) else value
            for name, value in row.items()
        }
