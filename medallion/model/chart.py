"""How the rows of a table are drawn on the page of results: a value beside its query."""

import re
from dataclasses import dataclass
from typing import Literal

_QUOTED = re.compile(r"""--[^\n]*|/\*.*?\*/|'[^']*'|"[^"]*\"""", re.DOTALL)
_PART = re.compile(r"[()]|,|\*|`[^`]+`|[A-Za-z_]\w*")
_ENDS_THE_LIST = frozenset({"FROM", "UNION", "EXCEPT", "INTERSECT", "MINUS"})


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
    """The columns that ``query`` gives, by its first SELECT outside of parentheses; None where that does not tell.

    Reads words, not SQL: parsing it costs more than the whole registry, which each parse of the DAG file builds.
    """
    names: list[str] = []
    depth, last, listing = 0, "", False
    for part in _PART.findall(_QUOTED.sub("", query)):
        word = part.upper()
        if part in "()":
            depth += 1 if part == "(" else -1
        elif depth or not listing:
            listing = listing or (not depth and word == "SELECT")
        elif part == "*" and not last:
            return None
        elif part == ",":
            names.append(last)
            last = ""
        elif word in _ENDS_THE_LIST and last.upper() != "DISTINCT":  # IS DISTINCT FROM ends nothing
            break
        elif part != "*":
            last = part.strip("`")
    names.append(last)
    return tuple(names) if all(names) else None
