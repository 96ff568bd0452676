"""Choose the data files of a table that are worth reading, by the bounds of a column in the log."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from medallion.storage.lake import TableState


@dataclass(frozen=True)
class FileFilter:
    """Selects the files of a table that are worth reading.

    ``may_match`` gets the minimum and maximum of ``column`` in a file. Files without these statistics are read.
    """

    column: str
    may_match: Callable[[Any, Any], bool]

    def selects(self, state: TableState) -> Iterable[bool]:
        """Return, for each file of ``state``, whether to read it."""
        unknown = [None] * state.files
        ends = (state.actions.get(f"{end}.{self.column}", unknown) for end in ("min", "max"))
        return (least is None or most is None or self.may_match(least, most) for least, most in zip(*ends, strict=True))


def files_with(column: str, values: Sequence[Any]) -> FileFilter:
    """Return the filter for files that may contain one of ``values`` (sorted, nulls last) in ``column``."""

    known = [value for value in values if value is not None]
    # Minimum and maximum do not say which files contain nulls. They are cut to milliseconds for timestamps.
    reads_all = len(known) < len(values) or not all(map(_has_exact_bounds, known))

    def may_match(least: Any, most: Any) -> bool:
        if reads_all:
            return True
        place = bisect_left(known, least)
        if place == len(known):
            return False
        # The maximum of texts may be cut short: a value that begins with it may be smaller than the real one.
        return bool(known[place] <= most) or (isinstance(most, str) and known[place].startswith(most))

    return FileFilter(column, may_match)


def _has_exact_bounds(value: Any) -> bool:
    return isinstance(value, int | str) or (isinstance(value, date) and not isinstance(value, datetime))
