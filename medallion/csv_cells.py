"""Cells of CSV that no spreadsheet takes for a formula: what the source delivered must not run where it is opened."""

import re
from collections.abc import Iterable
from typing import Any

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
_HARMLESS = re.compile(r"[+-]|[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")  # a sign alone, a number


def plain_cells(row: Iterable[Any]) -> list[Any]:
    """Return the values of a row of CSV, each text that begins like a formula with an apostrophe before it.

    Numbers stay numbers, negative ones too, and a sign alone stays one.
    """
    return [_plain(value) for value in row]


def _plain(value: Any) -> Any:
    if isinstance(value, str) and value.startswith(_FORMULA) and not _HARMLESS.fullmatch(value):
        return f"'{value}"
    return value
