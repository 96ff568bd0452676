"""Lay SQL out for reading: what a query says, without what only passes it on."""

import re
from collections.abc import Iterable

import sqlglot
from sqlglot import exp

WIDTH = 88  # characters
_CLAUSES = frozenset({"SELECT", "SELECT DISTINCT", "WHERE", "GROUP BY", "ORDER BY", "HAVING", "LIMIT"})


def sql_lines(sql: str) -> list[str]:
    """Return SQL as one reads it: in lines, inputs without braces, and without what only renames a relation."""
    try:
        tree = sqlglot.parse_one(re.sub(r"\{(\w+)\}", r"\1", sql), dialect="spark")
    except sqlglot.errors.ParseError:
        return [sql]
    for cte in [*tree.find_all(exp.CTE)]:
        if _is_all_of(cte.this, cte.alias):
            cte.pop()
    if (first := tree.args.get("with_")) and not first.expressions:
        first.pop()
    elif first and _is_all_of(tree, first.expressions[-1].alias):
        last = first.expressions[-1].pop().this
        if first.expressions:
            last.set("with_", first)
        tree = last
    for alias in [*tree.find_all(exp.Alias)]:
        if isinstance(alias.this, exp.Column) and alias.this.sql() == alias.alias:
            alias.replace(alias.this)
    return _filled(tree.sql(dialect="spark", pretty=True).splitlines())


def _is_all_of(query: exp.Expr, name: str) -> bool:
    return query.sql(dialect="spark").rpartition(") ")[2].split() == ["SELECT", "*", "FROM", name]


def _filled(lines: Iterable[str]) -> list[str]:
    """Put items of a list, and a clause of one line, together on lines of up to WIDTH characters."""
    items = list[str]()
    for line in lines:
        if items and items[-1].endswith(",") and _indent(items[-1]) == _indent(line) and _fits(items[-1], line):
            items[-1] += f" {line.strip()}"
        else:
            items.append(line)
    filled = list[str]()
    for number, line in enumerate(items):
        is_last = number + 1 == len(items) or _indent(items[number + 1]) < _indent(line)
        opens = filled and filled[-1].strip() in _CLAUSES and _indent(filled[-1]) < _indent(line)
        if opens and is_last and _fits(filled[-1], line):
            filled[-1] += f" {line.strip()}"
        else:
            filled.append(line)
    return filled


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _fits(line: str, further: str) -> bool:
    return len(line) + 1 + len(further.strip()) <= WIDTH
