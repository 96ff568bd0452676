"""What records of a change file mean: a module for each format, found by its name.

A format is a module with a function ``reader(feed)``, which returns a Reader for one file of lines. One whose change
files are tables names in OPERATION the column that says what a row does. To add a format, add its module;
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
from medallion.ingest.value_decoders import Forms
from medallion.model.table import Feed


class Unfit(ValueError):
    """A line is rejected; the message is the reason."""


class NoRecord(Unfit):
    """A line is rejected that is no record of the format at all."""


class RefusedRecord(Exception):
    """A record can neither be applied nor left out: its hour is refused. what: what it does, as a verb."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(what)
        self.what, self.remedy = what, remedy


class Everything:
    """Holds whatever is asked for."""

    def __contains__(self, _: object) -> bool:
        return True


TIMES = frozenset({"ts_ns", "ts_us", "ts_ms"})
NOTHING: Container[str] = frozenset()
MISSING: Container[str] = Everything()


@dataclass(frozen=True, eq=False)
class RecordForms:
    """How records with one schema write their columns. by_name: name in the record -> form."""

    by_name: Mapping[str, Forms]


class Change(NamedTuple):
    """One change of a row.

    deleted: whether the row goes. row: its columns as the record names them, with values of JSON; of a deletion the key
    is enough. kept: the columns, as declared, that keep the value they have where ``row`` has none for them, so that
    the row must exist; NOTHING where it need not, and columns without a value become null. forms: how the record writes
    its columns, where it says so. moves: whether the row is the one that the change before it deletes, under another
    key: that is the row whose values are kept.
    """

    deleted: bool
    row: Mapping[str, Any]
    kept: Container[str] = NOTHING
    forms: RecordForms | None = None
    moves: bool = False


class Reader(Protocol):
    """Reads the records of one file, in order."""

    expected: str  # what a record looks like, for messages
    forms: Forms  # how values are written where a record does not say it
    ignored_prefix: str | None  # begins the names of what stands beside the columns of a row; None where nothing does

    def read(self, raw: bytes) -> Sequence[Change]:
        """Return the changes that a line makes, in order.

        Raises Unfit for a line that is rejected, RefusedRecord for one that refuses the hour.
        """

    def position(self) -> tuple[Any, ...] | None:
        """Return where the last record stood in the log of its database; None if unknown.

        A tuple that begins with what kind of position it is: those of one kind compare with one another. Of TIMES are
        those that only say when the change happened.
        """

    def notes(self) -> list[str]:
        """Return what there is to warn of once all lines are read."""


def known_formats() -> tuple[str, ...]:
    """Return the names of all formats."""
    return tuple(sorted(info.name for info in iter_modules(__path__)))


def reader_of(feed: Feed) -> Reader:
    """Return a reader of the format in which ``feed`` is delivered. Raises UsageError where there is no such format."""
    make: Callable[[Feed], Reader] = _module_of(feed).reader
    return make(feed)


def columns_in_hours(feed: Feed) -> Columns:
    """Return what is known of the columns of a feed's change files that are tables. Raises UsageError as above."""
    declared = tuple(column.name for column in feed.columns)
    return Columns(declared, feed.keys, getattr(_module_of(feed), "OPERATION", None))


def _module_of(feed: Feed) -> ModuleType:
    require_known_format(feed)
    return import_module(f"{__name__}.{feed.delivery.format}")


def require_known_format(feed: Feed) -> None:
    """Raise UsageError where the format of ``feed`` is not known, naming the nearest one."""
    name = feed.delivery.format
    if name not in known_formats():
        close = get_close_matches(name, known_formats(), n=1)
        hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(known_formats())}"
        raise UsageError(f"medallion.toml: source.format of {feed.topic} is {name}, which is no format: {hint}")
