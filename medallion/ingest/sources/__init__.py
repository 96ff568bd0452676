"""What records of a change file mean: one module for each format, found by its name.

A format is a module with a function ``reader(feed)`` that returns a Reader for one file of lines. If its change files
are CSV or Parquet, OPERATION names the column that says whether a row is a deletion. To add a format, add its module;
medallion.toml names it.
"""

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Any, NamedTuple, Protocol

from medallion.errors import UsageError
from medallion.ingest.tabular_files import Columns
from medallion.ingest.value_forms import Forms
from medallion.model.table import Feed


class Unfit(ValueError):
    """A line is rejected; the message is the reason."""


class NoRecord(Unfit):
    """A line is rejected because it is no record of the format at all."""


class RefusedRecord(Exception):
    """A record can neither be applied nor left out, so its hour is refused. what: what the record does, as a verb."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(what)
        self.what, self.remedy = what, remedy


class Everything:
    """A container of everything."""

    def __contains__(self, _: object) -> bool:
        return True


TIMES = frozenset({"ts_ns", "ts_us", "ts_ms"})
NOTHING: Container[str] = frozenset()
MISSING: Container[str] = Everything()


@dataclass(frozen=True, eq=False)
class RecordForms:
    """How columns are written in records with one schema. by_name: name in the record -> form."""

    by_name: Mapping[str, Forms]


class Change(NamedTuple):
    """One change of a row.

    deleted: whether the row is deleted. row: its columns as the record names them, with JSON values; a deletion needs
    only the key. kept: declared columns that keep their value in the table if ``row`` has none, so that the row must
    exist; NOTHING if it need not exist and missing columns become null. forms: how the record writes its columns, if it
    states that. moves: whether this is the row that the change before it deletes, under a new key; the values of that
    row are kept.
    """

    deleted: bool
    row: Mapping[str, Any]
    kept: Container[str] = NOTHING
    forms: RecordForms | None = None
    moves: bool = False


class Reader(Protocol):
    """Reads the records of one file, in order."""

    expected: str  # what a record looks like, for messages
    forms: Forms  # how values are written if a record does not state it
    ignored_prefix: str | None  # prefix of names beside the columns of a row, which are ignored; None if there is none

    def read(self, raw: bytes) -> Sequence[Change]:
        """Return the changes that a line makes, in order.

        Raises Unfit for a line that is rejected, RefusedRecord for one because of which the hour is refused.
        """

    def position(self) -> tuple[Any, ...] | None:
        """Return the position of the last record in the log of its database; None if unknown.

        The tuple begins with the kind of position; positions of the same kind can be compared. A kind in TIMES is only
        the time of the change.
        """

    def notes(self) -> list[str]:
        """Return warnings, after all lines are read."""


def known_formats() -> tuple[str, ...]:
    """Return the names of all formats."""
    return tuple(sorted(info.name for info in iter_modules(__path__)))


def reader_of(feed: Feed) -> Reader:
    """Return a reader of the format in which ``feed`` is delivered. Raises UsageError if there is no such format."""
    make: Callable[[Feed], Reader] = _module_of(feed).reader
    return make(feed)


def columns_in_hours(feed: Feed) -> Columns:
    """Return what is known of the columns in a feed's CSV or Parquet change files. Raises UsageError as above."""
    declared = tuple(column.name for column in feed.columns)
    return Columns(declared, feed.keys, getattr(_module_of(feed), "OPERATION", None))


def _module_of(feed: Feed) -> ModuleType:
    require_known_format(feed)
    return import_module(f"{__name__}.{feed.delivery.format}")


def require_known_format(feed: Feed) -> None:
    """Raise UsageError if the format of ``feed`` is not known, naming the most similar one."""
    name = feed.delivery.format
    if name not in known_formats():
        close = get_close_matches(name, known_formats(), n=1)
        hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(known_formats())}"
        raise UsageError(f"medallion.toml: source.format of {feed.topic} is {name}, which is no format: {hint}")
