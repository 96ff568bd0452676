"""How a table is drawn on the results page: a plain value in its declaration."""

import re
from dataclasses import dataclass
from typing import Literal

_QUOTED = re.compile(r"""--[^\n]*|/\*.*?\*/|'[^']*'|"[^"]*\"""", re.DOTALL)
_PART = re.compile(r"[()]|,|\*|`[^`]+`|[A-Za-z_]\w*")
_ENDS_THE_LIST = frozenset({"FROM", "UNION", "EXCEPT", "INTERSECT", "MINUS"})


@dataclass(frozen=True)
class Chart:
    """A chart of a table.

    kind: ``line`` draws ``y`` along ``x``, ``bars`` has a bar per value of ``x``, ``extremes`` has the largest and the
    smallest ``y``. Rows with the same ``x`` are summed; without ``y`` they are counted. first: the column that orders
    the sample rows beside the chart, smallest first, or largest first if given as ``-column``.
    """

    kind: Literal["line", "bars", "extremes"]
    x: str
    y: tuple[str, ...] = ()
    first: str | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column that the chart names."""
        return (self.x, *self.y, *([self.first.removeprefix("-")] if self.first else []))


def output_columns(query: str) -> tuple[str, ...] | None:
    """Return the output columns of ``query`` from its first SELECT outside parentheses; None if that is not enough.

    It scans words instead of parsing SQL: parsing costs more than building the whole registry, which every parse of the
    DAG file does.
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
        elif word in _ENDS_THE_LIST and last.upper() != "DISTINCT":  # IS DISTINCT FROM does not end the list
            break
        elif part != "*":
            last = part.strip("`")
    names.append(last)
    return tuple(names) if all(names) else None
