"""Column lineage, upstream and downstream, read from the SQL of the tables."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from medallion.model.parsed_query import Schemas, parse
from medallion.model.registry import Registry
from medallion.model.table import ChangeLog, Node, Table

if TYPE_CHECKING:
    from sqlglot.lineage import Node as Origin


@dataclass(frozen=True, order=True)
class ColumnOf:
    """A column of a table."""

    table: str
    column: str


@dataclass(frozen=True)
class ColumnLineage:
    """Lineage by column.

    sources: the columns that its values are computed from; empty for a count of rows or a constant. copied: those
    sources whose values are visible in it, which are not merely counted, summed or compared. passed_on: the column
    of another table that it passes on unchanged, if it does.
    """

    sources: Mapping[ColumnOf, frozenset[ColumnOf]]
    copied: Mapping[ColumnOf, frozenset[ColumnOf]]
    passed_on: Mapping[ColumnOf, ColumnOf]

    def upstream(self, column: ColumnOf) -> list[ColumnOf]:
        """Return every column that ``column`` is computed from, the nearest first."""
        return _reach(column, self.sources)

    def downstream(self, column: ColumnOf) -> list[ColumnOf]:
        """Return every column that is computed from ``column``, the nearest first."""
        readers: dict[ColumnOf, set[ColumnOf]] = {}
        for target, sources in self.sources.items():
            for source in sources:
                readers.setdefault(source, set()).add(target)
        return _reach(column, readers)


def column_lineage(tables: Registry) -> ColumnLineage:
    """Return the lineage of every column. For a new set of tables this takes about two seconds."""
    nodes = tuple(tables)
    declared = tuple((node.name, node.query if isinstance(node, Table) else str(node.columns)) for node in nodes)
    if declared not in _KNOWN:
        _KNOWN.clear()
        _KNOWN[declared] = _lineage(nodes)
    return _KNOWN[declared]


_KNOWN: dict[tuple[tuple[str, str], ...], ColumnLineage] = {}  # of the newest set of tables


def _lineage(nodes: tuple[Node, ...]) -> ColumnLineage:
    schemas = Schemas({node.name: node for node in nodes})
    columns = {node.name: dict.fromkeys(schemas.of(node.name), "text") for node in nodes}
    sources: dict[ColumnOf, frozenset[ColumnOf]] = {}
    copied: dict[ColumnOf, frozenset[ColumnOf]] = {}
    passed_on: dict[ColumnOf, ColumnOf] = {}
    for node in nodes:
        if isinstance(node, Table):
            for name, origin in _origins_of(node, columns).items():
                sources[ColumnOf(node.name, name)] = frozenset(_leaves(origin, copies_alone=False))
                copied[ColumnOf(node.name, name)] = frozenset(_leaves(origin, copies_alone=True))
                if source := _passed_on(origin):
                    passed_on[ColumnOf(node.name, name)] = source
        elif isinstance(node, ChangeLog):
            fed = {column.name.lower() for column in node.fed_by.columns}
            of_feed = {
                ColumnOf(node.name, name): frozenset({ColumnOf(node.of, name)} if name in fed else ())
                for name in columns[node.name]
            }
            sources, copied = sources | of_feed, copied | of_feed
            passed_on |= {column: source for column, of in of_feed.items() for source in of}
    return ColumnLineage(sources, copied, passed_on)


def _origins_of(table: Table, columns: Mapping[str, Mapping[str, str]]) -> "dict[str, Origin]":
    """Return, by column, the tree of expressions that computes it."""
    from sqlglot.lineage import lineage
    from sqlglot.optimizer.qualify import qualify
    from sqlglot.optimizer.scope import build_scope

    schema: dict[str, Any] = dict(columns)
    tree = parse(table.query, table.inputs).copy()
    tree = qualify(tree, schema=schema, dialect="spark", quote_identifiers=False, validate_qualify_columns=False)
    scope = build_scope(tree)
    return {
        name: lineage(name, tree, schema, scope=scope, dialect="spark", trim_selects=False)
        for name in columns[table.name]
    }


def _leaves(origin: "Origin", *, copies_alone: bool) -> Iterator[ColumnOf]:
    """Yield the table columns that an expression uses; copies_alone: only those whose values are visible in it."""
    from sqlglot import exp

    if not origin.downstream and isinstance(origin.source, exp.Table):
        yield ColumnOf(origin.source.name, origin.name.rsplit(".", 1)[-1].strip('"`'))
    for part in origin.downstream:
        if not copies_alone or _is_copied(origin.expression, part.name.rsplit(".", 1)[-1].strip('"`')):
            yield from _leaves(part, copies_alone=copies_alone)


def _passed_on(origin: "Origin") -> ColumnOf | None:
    """Return the table column that a column passes on, under any name; None if it is computed or has several."""
    from sqlglot import exp

    if not origin.downstream:
        return next(_leaves(origin, copies_alone=True), None)
    if len(origin.downstream) > 1 or not isinstance(origin.expression.unalias(), exp.Column):
        return None
    return _passed_on(origin.downstream[0])


def _is_copied(expression: Any, column: str) -> bool:
    """Return whether values of ``column`` are visible in ``expression``, not merely counted, summed or compared."""
    from sqlglot import exp

    uses = [use for use in expression.find_all(exp.Column) if use.name.lower() == column.lower()]
    return not uses or any(_shows(use, expression) for use in uses)


def _shows(use: Any, whole: Any) -> bool:
    from sqlglot import exp

    hidden = (exp.Count, exp.CountIf, exp.ApproxDistinct, exp.Sum, exp.Avg, exp.Predicate, exp.Stddev, exp.Variance)
    while use is not whole and use.parent is not None:
        if isinstance(use.parent, hidden) or (isinstance(use.parent, exp.Window) and use.arg_key != "this"):
            return False
        use = use.parent
    return True


def _reach(start: ColumnOf, edges: Mapping[ColumnOf, Any]) -> list[ColumnOf]:
    reached = dict.fromkeys([start])
    waiting = [start]
    for column in waiting:
        for following in sorted(edges.get(column, ())):
            if following not in reached:
                reached[following] = None
                waiting.append(following)
    return waiting[1:]
