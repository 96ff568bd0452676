"""Columns that a query names and none of its inputs has: found in its SQL alone, before any engine is started.

Only what is certainly wrong is reported. What this cannot see through, such as a lateral view, is left to Spark.
"""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches

from sqlglot import exp
from sqlglot.optimizer.scope import Scope

from medallion.errors import MedallionError
from medallion.model.parsed_query import Schemas, Unprovable, parse, root_scope, sources_of
from medallion.model.table import Table

Sources = Mapping[str, tuple[str, frozenset[str]]]  # by alias: how messages call it, and its columns


def unknown_columns(table: Table, schemas: Schemas) -> list[str]:
    """Say, a line for each, which columns of no input ``table`` names, with module and line and the nearest name.

    schemas: of every table. Empty too where the query cannot be parsed: Spark says what is wrong with it.
    """
    try:
        tree = parse(table.query, table.inputs)
        scopes = [*root_scope(tree).traverse()]
    except (MedallionError, Unprovable):
        return []
    found = [problem for scope in scopes for problem in _unknown_in(table, scope, schemas)]
    return [*dict.fromkeys(found)]


def _unknown_in(table: Table, scope: Scope, schemas: Schemas) -> Iterator[str]:
    """Yield the problems of one SELECT; none where what it reads has columns that are not known."""
    own = _sources(scope, schemas)
    if not isinstance(scope.expression, exp.Select) or own is None or _has_hidden_names(scope.expression):
        return
    outer: dict[str, tuple[str, frozenset[str]]] = {}
    inner = scope
    while inner.is_subquery and inner.parent is not None:  # it sees what the query around it reads
        inner = inner.parent
        if (around := _sources(inner, schemas)) is None:
            return
        outer = {**around, **outer}
    visible = {**outer, **own}
    aliases = {item.alias.lower() for item in scope.expression.selects if isinstance(item, exp.Alias)}
    for column in scope.columns:
        name, alias = column.name.lower(), column.table.lower()
        if isinstance(column.this, exp.Star) or column.find_ancestor(exp.Lambda):
            continue
        if column.parent_select is not scope.expression:  # of a subquery, which is a scope of its own
            continue
        if not alias and name in aliases:
            continue
        # An alias of no source is a struct, whose fields are not known here.
        read = visible if not alias else {key: visible[key] for key in (alias,) if key in visible}
        if read and not any(name in columns for _, columns in read.values()):
            yield _message(table, column, read)


def _sources(scope: Scope, schemas: Schemas) -> Sources | None:
    """By alias in lower case, what ``scope`` reads; None where the columns of one of them are not known."""
    sources = {}
    for alias, (node, source) in sources_of(scope).items():
        if isinstance(source, Scope):
            columns = schemas.output(source)
        elif isinstance(source, exp.Table) and source.name in schemas.nodes:
            columns = schemas.of(source.name)
        else:
            return None
        if not columns or "" in columns:
            return None
        sources[alias.lower()] = (getattr(node, "name", "") or alias, frozenset(columns))
    return sources


def _has_hidden_names(select: exp.Select) -> bool:
    """Whether something in ``select`` gives columns that are listed nowhere."""
    return any(select.args.get(clause) for clause in ("laterals", "pivots", "match")) or any(
        isinstance(join.this, exp.Lateral | exp.Unnest) for join in select.args.get("joins") or ()
    )


def _message(table: Table, column: exp.Column, read: Sources) -> str:
    known = sorted({name for _, columns in read.values() for name in columns})
    close = get_close_matches(column.name.lower(), known, n=1)
    hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(known[:12])}"
    who = " and ".join(dict.fromkeys(name for name, _ in read.values()))
    has = "has" if len(read) == 1 else "have"
    return f"{_place(table, column)}: {who} {has} no column {column.name}: {hint}"


def _place(table: Table, column: exp.Column) -> str:
    """The module of ``table``, and the line where ``column`` stands in it, if its query stands there as it is."""
    module = f"spark_jobs/{table.layer}/{table.name.removeprefix(table.layer + '_')}.py"
    line = column.this.meta.get("line")
    if table.module is None or line is None:
        return f"{module} ({table.name})"
    before, query, _ = table.module.read_text(encoding="utf-8").partition(table.query)
    return f"{module}, line {before.count(chr(10)) + line}" if query else f"{module} ({table.name})"
