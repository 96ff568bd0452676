"""The graph of tables: declarations are checked, and each table comes after its inputs.

It imports neither pyspark nor great_expectations, so the DAG file can read the graph in milliseconds.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from medallion.errors import BadDeclaration, UsageError
from medallion.expect.literals import LIST_NAME
from medallion.model.about import require_about
from medallion.model.chart import output_columns
from medallion.model.column_types import UnreadableColumn, is_key_type, is_ordered_type
from medallion.model.dropped_rows import split_dropped_rows
from medallion.model.methods import POLICIES, Method
from medallion.model.personal import require_erasable
from medallion.model.table import BESIDE_A_CHANGE, ChangeLog, Feed, Node, Table

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")  # of a column that Delta keeps statistics of


@dataclass(frozen=True)
class Registry:
    """Every table by name, each after its inputs. declared_layers: the layers of the project, from the bottom up."""

    tables: Mapping[str, Node]
    declared_layers: tuple[str, ...]

    def __iter__(self) -> Iterator[Node]:
        return iter(self.tables.values())

    def __getitem__(self, name: str) -> Node:
        try:
            return self.tables[name]
        except KeyError:
            close = get_close_matches(name, self.tables, n=3, cutoff=0.75)
            hint = f"did you mean {' or '.join(close)}?" if close else "medallion tables lists all there are"
            raise UsageError(f"no table is called {name[:80]!r}: {hint}") from None

    def layer(self, layer: str) -> tuple[Node, ...]:
        """Return the tables of one layer, each after its inputs."""
        return tuple(table for table in self if table.layer == layer)

    @property
    def layers(self) -> tuple[str, ...]:
        """The layers that have tables, from the bottom up."""
        return tuple(layer for layer in self.declared_layers if self.layer(layer))

    @property
    def fed_layer(self) -> str:
        """The layer at the bottom, which the source feeds."""
        return self.declared_layers[0]

    @property
    def result_layers(self) -> tuple[str, ...]:
        """The layers with the results: those above the second, or the second if it is the top one."""
        return self.declared_layers[2:] or self.declared_layers[1:]

    def is_computed(self, layer: str) -> bool:
        """Return whether the tables of ``layer`` are computed by queries over other tables."""
        return layer in self.declared_layers[1:]

    @property
    def feeds(self) -> tuple[Feed, ...]:
        """The tables with the current rows of a source, kept up to date by a change feed."""
        return tuple(table for table in self if isinstance(table, Feed))

    @property
    def logs(self) -> tuple[ChangeLog, ...]:
        """The tables with every change of a feed."""
        return tuple(table for table in self if isinstance(table, ChangeLog))

    def with_methods(self, methods: Mapping[str, Method | None]) -> "Registry":
        """Return the registry with other refresh methods, by table; None for a method that must be derived."""
        nodes = {
            name: replace(node, method=methods[name]) if isinstance(node, Table) and name in methods else node
            for name, node in self.tables.items()
        }
        return replace(self, tables=nodes)

    def queries(self, layer: str) -> tuple[Table, ...]:
        """Return the computed tables of one layer, each after its inputs."""
        return tuple(table for table in self.layer(layer) if isinstance(table, Table))


def build(tables: Iterable[Node], layers: Sequence[str]) -> Registry:
    """Build a registry of ``tables`` in dependency order.

    layers: from the bottom up; the first is fed by a source. Tables of the second may read the first two layers, tables
    above it all layers from the second up to their own.

    Raises:
        BadDeclaration: A name, keys or a docstring are missing or wrong, a column declaration cannot be parsed, an
            input is unknown or in a layer that the table may not read, a chart or a description names an unknown
            column, or there is a cycle. The module is named.
    """
    by_name = {table.name: table for table in tables}
    by_name |= {table.name: _with_feed(table, by_name) for table in by_name.values() if isinstance(table, ChangeLog)}
    for table in by_name.values():
        where = _module(table)
        if not re.fullmatch(r"[a-z][a-z0-9_]*", table.name):
            raise BadDeclaration(f"{where} names the table {table.name}: names are of lower-case letters, digits and _")
        if not table.keys:
            raise BadDeclaration(f"{where} declares no keys: name the columns that identify a row")
        if not table.doc:
            raise BadDeclaration(f"{where} has no docstring: say what the table holds and what one row is")
        if isinstance(table, Feed):
            _require_columns(where, table)
            require_erasable(where, table, by_name)
        _require_keys(where, table)
        _require_values(where, table)
        _require_event_time(where, table)
        _require_chart(where, table)
        require_about(where, table)
        for name in table.inputs:
            if name not in by_name:
                close = get_close_matches(name, by_name, n=1)
                hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(sorted(by_name))}"
                line = _line_with(table, f"{{{name}}}")
                raise BadDeclaration(f"{where}{line} reads {name}, which is no table: {hint}")
            if not _may_read(table.layer, by_name[name].layer, layers):
                raise BadDeclaration(f"{where} reads {name}: a {table.layer} table may not read {by_name[name].layer}")
    try:
        order = list(TopologicalSorter({name: by_name[name].inputs for name in sorted(by_name)}).static_order())
    except CycleError as error:
        raise BadDeclaration(f"the tables {' -> '.join(error.args[1])} read each other in a circle") from None
    in_order = (name for layer in layers for name in order if by_name[name].layer == layer)
    return Registry({name: by_name[name] for name in in_order}, tuple(layers))


def _require_columns(where: str, feed: Feed) -> None:
    """Refuse columns that cannot be parsed, and key or pruning columns whose type is not suitable."""
    try:
        types = {column.name: column.sql_type for column in feed.columns}
    except UnreadableColumn as error:
        raise BadDeclaration(f"{where}: {error}") from None
    if reserved := [name for name in BESIDE_A_CHANGE if name in types]:
        raise BadDeclaration(f"{where} declares {' and '.join(reserved)}, which every change has beside its columns")
    if len(types) < len(feed.columns):
        raise BadDeclaration(f"{where} declares a column twice")
    if bad := [key for key in feed.keys if key not in types]:
        raise BadDeclaration(f"{where} declares no column for its key {', '.join(bad)}")
    for name in feed.keys:
        if not is_key_type(types[name]):
            raise BadDeclaration(
                f"{where} declares its key {name} as {types[name]}: equal values of a key must be the same, so it is a"
                " whole number, a DECIMAL, text, a date, a moment or a BOOLEAN"
            )
    for name in feed.pruned_by:
        if name in types and not is_ordered_type(types[name]):
            raise BadDeclaration(
                f"{where} is pruned by {name}, a {types[name]}: files tell ranges of numbers, texts, dates and moments"
            )


def _require_keys(where: str, table: Node) -> None:
    """Refuse keys that cannot identify a row or whose names Delta cannot take, and an unknown refresh policy.

    ``delta.dataSkippingStatsColumns`` takes letters, digits and underscores; a check of a key names it unquoted.
    """
    if isinstance(table, Feed) and (null := [c.name for c in table.columns if c.name in table.keys and not c.required]):
        raise BadDeclaration(f"{where} declares its key {', '.join(null)} as nullable: write NOT NULL")
    names = (*table.keys, *table.pruned_by) if isinstance(table, Table) else ()
    if odd := [name for name in names if not _NAME.fullmatch(name)]:
        role = "key" if odd[0] in table.keys else "column of pruned_by"
        raise BadDeclaration(
            f"{where} declares its {role} {odd[0]!r}, which Delta cannot keep statistics of: give the column a name of"
            " letters without accents, digits and _, that begins with no digit"
        )
    if isinstance(table, Table) and table.refresh not in POLICIES:
        known = ", ".join(map(repr, POLICIES))
        raise BadDeclaration(f"{where} declares refresh={table.refresh!r}: it is one of {known}")


def _require_values(where: str, table: Node) -> None:
    """Refuse lists of values that are empty or named like tables, and lists that a query uses but that do not exist."""
    if not isinstance(table, Table):
        return
    for name, values in table.values.items():
        if not re.fullmatch(LIST_NAME, name):
            raise BadDeclaration(f"{where} names a list of values {name[:40]}: in capitals, such as ORDER_STATUSES")
        if not values:
            raise BadDeclaration(f"{where} has no value in the list {name}: nothing could be in it")
    if unknown := [name for name in table.inputs if re.fullmatch(LIST_NAME, name)]:
        raise BadDeclaration(f"{where} names {{{unknown[0]}}}, a list that it does not have: add it to values=")


def _require_event_time(where: str, table: Node) -> None:
    """Refuse an event time that is not a TIMESTAMP column."""
    types = {column.name: column.type for column in table.columns} if isinstance(table, Feed) else {}
    for name in table.event_time if isinstance(table, Feed) else ():
        if types.get(name) != "TIMESTAMP":
            raise BadDeclaration(f"{where} declares the event time {name}, which is no TIMESTAMP column of its schema")


def _require_chart(where: str, table: Node) -> None:
    """Refuse a chart of columns that the query does not return."""
    if not isinstance(table, Table) or table.chart is None:
        return
    columns = output_columns(table.query)
    if columns is not None and (unknown := [name for name in table.chart.columns if name not in columns]):
        raise BadDeclaration(f"{where} draws {', '.join(unknown)}, which its query does not give: {', '.join(columns)}")


def _with_feed(log: ChangeLog, by_name: Mapping[str, Node]) -> ChangeLog:
    feed = by_name.get(log.of)
    if not isinstance(feed, Feed):
        raise BadDeclaration(f"{_module(log)} is the log of {log.of}, which is no change feed")
    return replace(log, feed=feed)


def _may_read(reader: str, read: str, layers: Sequence[str]) -> bool:
    """Return whether a layer may read another: the second one itself and the bottom, others the second to their own."""
    place = layers.index(reader)
    return place > 0 and read in layers[min(place, 2) - 1 : place + 1]


def _line_with(table: Node, text: str) -> str:
    """Return which line of a table's module has ``text`` first; empty if none has, as a query may be put together."""
    source = table.module.read_text(encoding="utf-8") if table.module else ""
    return f", line {source[: source.index(text)].count(chr(10)) + 1}," if text in source else ""


def _module(table: Node) -> str:
    return f"spark_jobs/{table.layer}/{table.name.removeprefix(table.layer + '_')}.py"


def as_declared(declared: Node, layer: str, module: Path, doc: str) -> Iterator[Node]:
    """Yield the table that ``module`` declares in ``layer`` and, if it drops rows, the table of dropped rows."""
    table = replace(declared, name=f"{layer}_{module.stem}", layer=layer, module=module, doc=doc.strip())
    yield from split_dropped_rows(replace(table, method=None)) if isinstance(table, Table) else (table,)
