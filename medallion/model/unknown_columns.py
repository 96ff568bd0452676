"""Find columns that a query names and none of its inputs has, from its SQL alone, before any engine is started.

Only certain errors are reported. Constructs that cannot be resolved here, such as a lateral view, are left to Spark.
"""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING

from sqlglot import exp
from sqlglot.optimizer.scope import Scope

from medallion.errors import MedallionError
from medallion.model.parsed_query import Schemas, parse, root_scope, sources_of
from medallion.model.plan import UnknownRelation
from medallion.model.table import Table

if TYPE_CHECKING:
    from medallion.model.table import Node

Sources = Mapping[str, tuple[str, frozenset[str]]]  # by alias: the name in messages, and the columns


def unknown_columns(table: Table, schemas: Schemas) -> list[str]:
    """Return a line for each column that ``table`` names and no input has, with module, line and the nearest name.

    schemas: the columns of every table. The result is also empty if the query cannot be parsed; Spark then reports why.
    """
    try:
        tree = parse(table.query, table.inputs)
        scopes = [*root_scope(tree).traverse()]
    except MedallionError:
        return []
    problems = [problem for scope in scopes for problem in _unknown_in(table, scope, schemas)]
    return [*dict.fromkeys(problems)]


def _unknown_in(table: Table, scope: Scope, schemas: Schemas) -> Iterator[str]:
    """Yield the problems of one SELECT; none if it reads something whose columns are unknown."""
    own = _sources(scope, schemas)
    if not isinstance(scope.expression, exp.Select) or own is None or _has_hidden_names(scope.expression):
        return
    outer: dict[str, tuple[str, frozenset[str]]] = {}
    inner = scope
    while inner.is_subquery and inner.parent is not None:  # a subquery can use the columns of the enclosing query
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
        if column.parent_select is not scope.expression:  # it belongs to a subquery, which has its own scope
            continue
        if not alias and name in aliases:
            continue
        # An alias that is not a source is a struct, whose fields are not known here.
        read = visible if not alias else {key: visible[key] for key in (alias,) if key in visible}
        if read and not any(name in columns for _, columns in read.values()):
            yield _message(table, column, read)


def _sources(scope: Scope, schemas: Schemas) -> Sources | None:
    """Return, by lower-case alias, what ``scope`` reads; None if the columns of one source are unknown."""
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
    """Return whether something in ``select`` returns columns that are not listed."""
    return any(select.args.get(clause) for clause in ("laterals", "pivots", "match")) or any(
        isinstance(join.this, exp.Lateral | exp.Unnest) for join in select.args.get("joins") or ()
    )


def _message(table: Table, column: exp.Column, read: Sources) -> str:
    known = sorted({name for _, columns in read.values() for name in columns})
    close = get_close_matches(column.name.lower(), known, n=1)
    hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(known[:12])}"
    who = " and ".join(dict.fromkeys(name for name, _ in read.values()))
    has = "has" if len(read) == 1 else "have"
    return f"{place_in_module(table, column.this.meta.get('line'))}: {who} {has} no column {column.name}: {hint}"


def without_braces(table: Table, found: UnknownRelation, nodes: Mapping[str, "Node"]) -> str:
    """Say where the query of ``table`` reads a name without braces, and what to write instead."""
    name, place = found.name, place_in_module(table, found.line)
    if name.lower() in nodes:
        return f"{place}: it reads {name} without braces: write {{{name.lower()}}}"
    readable = [
        *table.inputs,
        *(node.name for node in nodes.values() if node.inputs and node.name != table.name),
        *nodes,
    ]
    example = next(iter(get_close_matches(name.lower(), readable, n=1) or readable))
    return (
        f"{place}: it reads {name}, which is neither one of its common table expressions nor a table of the project:"
        f" name a table in braces, as in FROM {{{example}}}"
    )


def place_in_module(table: Table, line: int | None) -> str:
    """Return the file of a table's query, and the line in it if it contains the query literally.

    line: of the query, from 1.
    """
    file = file_of(table)
    if table.module is None or line is None:
        return f"{file} ({table.name})"
    before, query, _ = table.module.read_text(encoding="utf-8").partition(table.query)
    return f"{file}, line {before.count(chr(10)) + line}" if query else f"{file} ({table.name})"


def file_of(table: Table) -> str:
    """Return the module of ``table`` within its project; for a query that is in no table, its file as it was named."""
    if table.module is None:
        return f"spark_jobs/{table.layer}/{table.name.removeprefix(table.layer + '_')}.py"
    return f"spark_jobs/{table.layer}/{table.module.name}" if table.module.suffix == ".py" else str(table.module)
