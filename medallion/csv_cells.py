"""CSV cells that no spreadsheet interprets as a formula: source values must not execute when the file is opened."""

import re
from collections.abc import Iterable
from typing import Any

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
_HARMLESS = re.compile(r"[+-]|[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")  # a sign alone, a number


def plain_cells(row: Iterable[Any]) -> list[Any]:
    """Return the values of a CSV row, with an apostrophe before each text that begins like a formula.

    Numbers, including negative ones, and a lone sign are left unchanged.
    """
    return [_plain(value) for value in row]


def _plain(value: Any) -> Any:
    if isinstance(value, str) and value.startswith(_FORMULA) and not _HARMLESS.fullmatch(value):
        return f"'{value}"
    return value
