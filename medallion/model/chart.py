"""How the rows of a table are drawn on the page of results: a value beside its query."""

import re
from dataclasses import dataclass
from typing import Literal

_QUOTED = re.compile(r"--[^\n]*|'[^']*'")
_PART = re.compile(r"[()]|,|\*|[A-Za-z_]\w*")


@dataclass(frozen=True)
class Chart:
    """A picture of a table.

    kind: ``line`` draws ``y`` along ``x``, ``bars`` has a bar per value of ``x``, ``extremes`` the largest
    and the smallest ``y``. Rows with one value of ``x`` are added up; without ``y`` they are counted. first: the
    column by which the rows beside the picture are chosen, smallest first, or largest first as ``-column``.
    """

    kind: Literal["line", "bars", "extremes"]
    x: str
    y: tuple[str, ...] = ()
    first: str | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column that it names."""
        return (self.x, *self.y, *([self.first.removeprefix("-")] if self.first else []))


def output_columns(query: str) -> tuple[str, ...] | None:
    """The columns that ``query`` gives, by its last SELECT outside of parentheses; None where a star stands for some.

    Reads words, not SQL: parsing it costs more than the whole registry, which each parse of the DAG file builds.
    """
    names: list[str] = []
    depth, last, listing = 0, "", False
    for part in _PART.findall(_QUOTED.sub("", query)):
        word = part.upper()
        if part in "()":
            depth += 1 if part == "(" else -1
        elif depth:
            continue
        elif word in ("SELECT", "DISTINCT"):
            names, last, listing = [], "", True
        elif listing and part == "*" and not last:
            return None
        elif listing and part != "*":
            if part == "," or word == "FROM":
                names.append(last)
                last, listing = "", word != "FROM"
            else:
                last = part
    return tuple(names)
