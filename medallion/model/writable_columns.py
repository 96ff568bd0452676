"""Refuse a query whose columns Spark computes, but Delta cannot write: two of one name, or one without a type."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from sqlglot import exp

from medallion.errors import MedallionError
from medallion.model.parsed_query import parse
from medallion.model.table import Table
from medallion.model.unknown_columns import place_in_module

_VOID = re.compile(r"(?:^|[<:,])void(?:$|[>,])", re.IGNORECASE)


def require_writable_columns(table: Table, columns: Iterable[tuple[str, str]]) -> None:
    """Raise MedallionError if two columns of ``table`` have one name, or one is only ever NULL, without a type.

    columns: those of its query, each with its type in Spark's words. As in Delta, letter case makes no difference. The
    error names module, line and remedy.
    """
    columns = [*columns]
    _require_distinct(table, [name for name, _ in columns])
    for name, kind in columns:
        if _VOID.search(kind):
            line, _ = _place(table, name.lower())
            raise MedallionError(
                f"{place_in_module(table, line)}: {name} has no type, as its value is NULL: write CAST(NULL AS STRING),"
                " or the type that it is to have"
            )


def _require_distinct(table: Table, names: Sequence[str]) -> None:
    counts = {name: count for name, count in Counter(map(str.lower, names)).items() if count > 1}
    if not counts:
        return
    line, is_star = _place(table, next(iter(counts)))
    remedy = "write the columns instead of *" if is_star else "leave one out, or rename it with AS"
    repeated = ", ".join(_in_words(name, count, names) for name, count in counts.items())
    raise MedallionError(f"{place_in_module(table, line)}: its query gives {repeated}: {remedy}")


def _in_words(name: str, count: int, names: Iterable[str]) -> str:
    spellings = dict.fromkeys(column for column in names if column.lower() == name)
    times = "twice" if count == 2 else f"{count} times"
    return f"{' and '.join(spellings)} {times}" if len(spellings) == 1 else f"{name} {times} ({', '.join(spellings)})"


def _place(table: Table, name: str) -> tuple[int | None, bool]:
    """Return the line of the query that gives ``name`` last, if known, and whether that is by ``*``."""
    try:
        items = parse(table.query, table.inputs).selects
    except MedallionError:
        return None, False
    by_name = [item for item in items if item.output_name.lower() == name]
    stars = [item for item in items if item.is_star]
    item = next(reversed(by_name if len(by_name) > 1 else stars or by_name), None)
    lines = [part.meta["line"] for part in item.walk() if "line" in part.meta] if isinstance(item, exp.Expr) else []
    return max(lines, default=None), bool(item is not None and item.is_star)
