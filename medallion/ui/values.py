"""Format values of tables for readers: ids as they are pasted into SQL, money, and significant decimals."""

from collections.abc import Collection
from datetime import date, datetime
from decimal import Decimal
from math import isfinite
from typing import Any

from medallion.html.templating import in_words

_MONEY = frozenset({"amount", "cost", "margin", "price", "revenue", "spend", "spent", "subtotal", "total", "value"})
_NO_MONEY = frozenset(
    {"count", "days", "hours", "items", "orders", "pct", "quantity", "rate", "ratio", "sold", "stock", "units"}
)
_COARSE, _FINE = 1000, 10


def is_money(column: str, kind: str) -> bool:
    """Check by the words of its name whether a column holds money. A DOUBLE is only an average of money."""
    words = set(column.split("_"))
    return kind.startswith(("DECIMAL", "DOUBLE")) and bool(words & _MONEY) and not words & _NO_MONEY


def is_identifier(column: str, keys: Collection[str] = ()) -> bool:
    """Check whether the numbers of a column are identifiers."""
    return column in keys or column == "id" or column.endswith("_id")


def cell_text(column: str, kind: str, value: Any, keys: Collection[str] = ()) -> str:
    """Return a value of a column as text: an id as it is pasted into SQL, other numbers with significant digits.

    Args:
        column: The name of the column.
        kind: The type of the column, as DuckDB names it; empty if it is unknown.
        value: The value, None for null.
        keys: The keys of the table.
    """
    if isinstance(value, int) and is_identifier(column, keys):
        return str(value)
    if isinstance(value, float | Decimal):
        return amount(value) if is_money(column, kind) else number(float(value))
    return in_words(value)


def amount(value: float | Decimal) -> str:
    """Return an amount of money: two decimals, always."""
    return f"{value:,.2f}"


def number(value: float) -> str:
    """Return a number with three significant digits or more, and without needless decimals."""
    if not isfinite(value):
        return str(value)
    size = abs(value)
    if value == int(value) or size >= _COARSE:
        return f"{value:,.0f}"
    return f"{value:,.1f}" if size >= _FINE else f"{value:,.2f}" if size >= 1 else f"{value:.3g}"


def short(value: float) -> str:
    """Return a number to be read at a glance: 1.23 M for 1,234,567."""
    for unit, word in ((1e9, "bn"), (1e6, "M")):
        if abs(value) >= unit:
            return f"{value / unit:.2f} {word}"
    return f"{value:,.0f}" if abs(value) >= _COARSE or value == int(value) else number(value)


def period(value: Any) -> str:
    """Return the start of a period as a date, and any other value in words."""
    return f"{value:%Y-%m-%d}" if isinstance(value, date) and not isinstance(value, datetime) else in_words(value)
