"""Which columns a column is made from, and which are made from it: read from the SQL of the tables."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from medallion.model.parsed_query import Schemas, parse
from medallion.model.registry import Registry
from medallion.model.table import Feed, Log, Table

Node = Feed | Log | Table


@dataclass(frozen=True, order=True)
class ColumnOf:
    """A column of a table."""

    table: str
    column: str


@dataclass(frozen=True)
class ColumnLineage:
    """By column, the columns that its values are computed from; without any for what counts rows or is a constant."""

    sources: Mapping[ColumnOf, frozenset[ColumnOf]]

    def upstream(self, column: ColumnOf) -> list[ColumnOf]:
        """Every column that ``column`` is made from, the nearest first."""
        return _reach(column, self.sources)

    def downstream(self, column: ColumnOf) -> list[ColumnOf]:
        """Every column that is made from ``column``, the nearest first."""
        readers: dict[ColumnOf, set[ColumnOf]] = {}
        for target, sources in self.sources.items():
            for source in sources:
                readers.setdefault(source, set()).add(target)
        return _reach(column, readers)


def column_lineage(tables: Registry) -> ColumnLineage:
    """The lineage of every column; takes two seconds for a new set of tables."""
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
    for node in nodes:
        if isinstance(node, Table):
            sources |= _sources_of(node, columns)
        elif isinstance(node, Log):
            fed = {column.name.lower() for column in node.fed_by.columns}
            sources |= {
                ColumnOf(node.name, name): frozenset({ColumnOf(node.of, name)} if name in fed else ())
                for name in columns[node.name]
            }
    return ColumnLineage(sources)


def _sources_of(table: Table, columns: Mapping[str, Mapping[str, str]]) -> dict[ColumnOf, frozenset[ColumnOf]]:
    from sqlglot import exp
    from sqlglot.lineage import lineage
    from sqlglot.optimizer.qualify import qualify
    from sqlglot.optimizer.scope import build_scope

    schema: dict[str, Any] = dict(columns)
    tree = parse(table.query, table.inputs).copy()
    tree = qualify(tree, schema=schema, dialect="spark", quote_identifiers=False, validate_qualify_columns=False)
    scope = build_scope(tree)
    sources = {}
    for name in columns[table.name]:
        origin = lineage(name, tree, schema, scope=scope, dialect="spark", trim_selects=False)
        leaves = (leaf for leaf in origin.walk() if not leaf.downstream and isinstance(leaf.source, exp.Table))
        sources[ColumnOf(table.name, name)] = frozenset(
            ColumnOf(leaf.source.name, leaf.name.rsplit(".", 1)[-1].strip('"`')) for leaf in leaves
        )
    return sources


def _reach(start: ColumnOf, edges: Mapping[ColumnOf, Any]) -> list[ColumnOf]:
    reached = dict.fromkeys([start])
    waiting = [start]
    for column in waiting:
        for following in sorted(edges.get(column, ())):
            if following not in reached:
                reached[following] = None
                waiting.append(following)
    return waiting[1:]
