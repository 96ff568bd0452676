"""Choose the data files of a table that are worth reading, by the bounds of a column in the log."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
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
    has_null = len(known) < len(values)  # minimum and maximum do not say which files contain nulls

    def may_match(least: Any, most: Any) -> bool:
        place = bisect_left(known, least)
        return has_null or (place < len(known) and bool(known[place] <= most))

    return FileFilter(column, may_match)
