"""Lay out rows for people in the width of their terminal, without ever cutting a value.

Columns that do not fit are left out, the least important first, and named below the rows. If the remaining columns do
not fit either, or if no column may be left out, each row becomes a block with one line per column.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from textwrap import wrap
from typing import Any

import click
from rich.cells import cell_len, chop_cells

GAP = "  "
NOTE_INDENT = "    "
_COLOURS = {"succeeded": "green", "warned": "yellow", "failed": "red", "skipped": "bright_black"}


@dataclass(frozen=True)
class Column:
    """A column of a sheet.

    rank: 0 for a column that is always shown; of the others, the highest rank is left out first. note: whether its
    values, which may be long, get their own lines below the row.
    """

    name: str
    rank: int = 0
    note: bool = False


@dataclass(frozen=True)
class Sheet:
    """Rows with as many values as there are columns; title and footer are lines above and below them."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]]
    title: Sequence[str] = ()
    footer: Sequence[str] = ()


def render(sheet: Sheet, width: int | None) -> Iterator[str]:
    """Yield the lines of a sheet, at most ``width`` cells wide; None means no limit."""
    for line in sheet.title:
        yield from _fold(line, width)
    columns = [place for place, column in enumerate(sheet.columns) if not column.note]
    shown = _columns_that_fit(sheet, columns, width)
    yield from _table(sheet, shown, width) if shown else _blocks(sheet, width)
    if left_out := [sheet.columns[place].name for place in columns if shown and place not in shown]:
        yield from _fold(f"not shown for want of width: {', '.join(left_out)} (--wide shows them)", width)
    for line in sheet.footer:
        yield from _fold(line, width)


def wrap_line(line: str, width: int | None) -> list[str]:
    """Break a line of text between words, at most ``width`` cells wide; the lines that follow are indented further."""
    indent = " " * (len(line) - len(line.lstrip()))
    return _fold(line, width, indent + NOTE_INDENT)


def text_of(value: Any) -> str:
    """Return a value as text for people: a null as a dash, thousands separated, control characters escaped."""
    if value is None or value == "":
        return "-"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    text = str(value)
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _columns_that_fit(sheet: Sheet, columns: Sequence[int], width: int | None) -> list[int]:
    """Return the columns to show side by side; none if the rows must become blocks."""
    shown = [*columns]
    while width is not None and sum(_width(sheet, place) for place in shown) + len(GAP) * (len(shown) - 1) > width:
        least = max(reversed(shown), key=lambda place: sheet.columns[place].rank)
        if sheet.columns[least].rank == 0:
            return []
        shown.remove(least)
    return shown


def _width(sheet: Sheet, place: int) -> int:
    return max(cell_len(sheet.columns[place].name), *(cell_len(text_of(row[place])) for row in sheet.rows), 0)


def _table(sheet: Sheet, shown: Sequence[int], width: int | None) -> Iterator[str]:
    """Yield the lines of a table, with numbers aligned to the right and the notes of each row below it."""
    widths = {place: _width(sheet, place) for place in shown}
    to_right = {place: _is_number(sheet, place) for place in shown}

    def line(texts: Sequence[str], **style: Any) -> str:
        cells = []
        for place, text in zip(shown, texts, strict=True):
            blank = " " * (widths[place] - cell_len(text))
            styled = click.style(text, **(style or {"fg": _COLOURS.get(text)}))
            cells.append(blank + styled if to_right[place] else styled + blank)
        return GAP.join(cells).rstrip()

    yield line([sheet.columns[place].name for place in shown], bold=True)
    yield GAP.join("─" * widths[place] for place in shown)
    for row in sheet.rows:
        yield line([text_of(row[place]) for place in shown])
        for place, column in enumerate(sheet.columns):
            if column.note and row[place] not in (None, ""):
                room = None if width is None else width - len(NOTE_INDENT)
                for part in _fold(f"{column.name}: {text_of(row[place])}", room):
                    yield click.style(NOTE_INDENT + part, dim=True)


def _blocks(sheet: Sheet, width: int | None) -> Iterator[str]:
    """Yield a block of lines per row: the name of each column, and its value."""
    longest = max(cell_len(column.name) for column in sheet.columns)
    for number, row in enumerate(sheet.rows, start=1):
        yield click.style(f"── row {number} ──", bold=True)
        for column, value in zip(sheet.columns, row, strict=True):
            if not column.note or value not in (None, ""):
                room = None if width is None else max(width - longest - len(GAP), 20)
                first, *more = _fold(text_of(value), room)
                yield column.name + " " * (longest - cell_len(column.name)) + GAP + first
                yield from (" " * longest + GAP + part for part in more)


def _is_number(sheet: Sheet, place: int) -> bool:
    values = [row[place] for row in sheet.rows if row[place] is not None]
    return bool(values) and all(isinstance(value, int | float | Decimal) for value in values)


def _fold(text: str, width: int | None, indent: str = "") -> list[str]:
    """Break a line between words, and within a word that is too long; ``indent`` begins all but the first."""
    if width is None or cell_len(text) <= width:
        return [text]
    parts = wrap(text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return [piece for part in parts for piece in chop_cells(part, width)]
