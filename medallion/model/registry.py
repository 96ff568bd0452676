"""The graph of tables, discovered: one module in the folder of a layer is one table.

Imports neither pyspark nor great_expectations, so the DAG file can read the graph in milliseconds.
"""

import importlib
import pkgutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache
from graphlib import CycleError, TopologicalSorter

from medallion.errors import MedallionError, UsageError
from medallion.model.chart import output_columns
from medallion.model.column_types import UnreadableColumn, is_key_type, is_ordered_type
from medallion.model.dropped_rows import split_dropped_rows
from medallion.model.table import LAYERS, ByKey, Feed, Layer, Log, Table

Node = Feed | Log | Table


@dataclass(frozen=True)
class Registry:
    """Every table by name, each after its inputs."""

    tables: Mapping[str, Node]

    def __iter__(self) -> Iterator[Node]:
        return iter(self.tables.values())

    def __getitem__(self, name: str) -> Node:
        try:
            return self.tables[name]
        except KeyError:
            close = get_close_matches(name, self.tables, n=3, cutoff=0.75)
            hint = f"did you mean {' or '.join(close)}?" if close else "medallion tables lists all there are"
            raise UsageError(f"no table is called {name[:80]!r}: {hint}") from None

    def layer(self, layer: Layer) -> tuple[Node, ...]:
        """The tables of one layer, each after its inputs."""
        return tuple(table for table in self if table.layer == layer)

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers that have tables, from the bottom up."""
        return tuple(layer for layer in LAYERS if self.layer(layer))

    @property
    def feeds(self) -> tuple[Feed, ...]:
        """The Bronze tables with the present rows of a source, kept current by a change feed."""
        return tuple(table for table in self if isinstance(table, Feed))

    @property
    def logs(self) -> tuple[Log, ...]:
        """The Bronze tables with every change of a feed."""
        return tuple(table for table in self if isinstance(table, Log))

    def queries(self, layer: Layer) -> tuple[Table, ...]:
        """The computed tables of one layer, each after its inputs."""
        return tuple(table for table in self.layer(layer) if isinstance(table, Table))


@cache
def registry(*, extras: bool = False) -> Registry:
    """Build the registry of the tables that this project declares; medallion.ops.lake_tables says which a lake has.

    Args:
        extras: Whether with those that are declared extra.

    Raises:
        MedallionError: As for build.
    """
    return build(table for table in _discover() if extras or not table.extra)


def build(tables: Iterable[Node]) -> Registry:
    """Build a registry of ``tables`` in dependency order.

    Raises:
        MedallionError: A docstring is missing, a column cannot be read, an input is unknown or of a layer that the
            table may not read, a chart is of unknown columns, or there is a cycle. The module is named.
    """
    by_name = {table.name: table for table in tables}
    by_name |= {table.name: _with_feed(table, by_name) for table in by_name.values() if isinstance(table, Log)}
    for table in by_name.values():
        where = _module(table)
        if not table.doc:
            raise MedallionError(f"{where} has no docstring: say what the table holds and what one row is")
        if isinstance(table, Feed):
            _require_columns(where, table)
        _require_keys(where, table)
        _require_event_time(where, table)
        _require_chart(where, table)
        for name in table.inputs:
            if name not in by_name:
                raise MedallionError(f"{where} reads {name}, which is no table: there are {', '.join(sorted(by_name))}")
            if not _may_read(table.layer, by_name[name].layer):
                raise MedallionError(f"{where} reads {name}: a {table.layer} table may not read {by_name[name].layer}")
    try:
        order = list(TopologicalSorter({name: by_name[name].inputs for name in sorted(by_name)}).static_order())
    except CycleError as error:
        raise MedallionError(f"the tables {' -> '.join(error.args[1])} read each other in a circle") from None
    return Registry({name: by_name[name] for layer in LAYERS for name in order if by_name[name].layer == layer})


def _require_columns(where: str, feed: Feed) -> None:
    """Refuse columns that cannot be read, or whose type cannot be a key's or cannot be looked up by."""
    try:
        types = {column.name: column.sql_type for column in feed.columns}
    except UnreadableColumn as error:
        raise MedallionError(f"{where}: {error}") from None
    if len(types) < len(feed.columns):
        raise MedallionError(f"{where} declares a column twice")
    if bad := [key for key in feed.keys if key not in types]:
        raise MedallionError(f"{where} declares no column for its key {', '.join(bad)}")
    for name in feed.keys:
        if not is_key_type(types[name]):
            raise MedallionError(
                f"{where} declares its key {name} as {types[name]}: equal values of a key must be the same, so it is a"
                " whole number, a DECIMAL, text, a date, a moment or a BOOLEAN"
            )
    for name in feed.pruned_by:
        if name in types and not is_ordered_type(types[name]):
            raise MedallionError(
                f"{where} is pruned by {name}, a {types[name]}: files tell ranges of numbers, texts, dates and moments"
            )


def _require_keys(where: str, table: Node) -> None:
    """Refuse keys that cannot identify a row, or that a refresh cannot follow."""
    if isinstance(table, Feed) and (null := [c.name for c in table.columns if c.name in table.keys and not c.required]):
        raise MedallionError(f"{where} declares its key {', '.join(null)} as nullable: write NOT NULL")
    by = table.incremental if isinstance(table, Table) else None
    if isinstance(by, ByKey) and not isinstance(by.column, str):
        raise MedallionError(
            f"{where} is refreshed by {by.column!r}, but a refresh by key follows one column: name the one of its keys"
            " with the most values; the rows with that value are computed again together"
        )


def _require_event_time(where: str, table: Node) -> None:
    """Refuse an event time that is no column with a moment."""
    types = {column.name: column.type for column in table.columns} if isinstance(table, Feed) else {}
    for name in table.event_time if isinstance(table, Feed) else ():
        if types.get(name) != "TIMESTAMP":
            raise MedallionError(f"{where} declares the event time {name}, which is no TIMESTAMP column of its schema")


def _require_chart(where: str, table: Node) -> None:
    """Refuse a chart of columns that the query does not give."""
    if not isinstance(table, Table) or table.chart is None:
        return
    columns = output_columns(table.query)
    if columns is not None and (unknown := [name for name in table.chart.columns if name not in columns]):
        raise MedallionError(f"{where} draws {', '.join(unknown)}, which its query does not give: {', '.join(columns)}")


def _with_feed(log: Log, by_name: Mapping[str, Node]) -> Log:
    feed = by_name.get(log.of)
    if not isinstance(feed, Feed):
        raise MedallionError(f"{_module(log)} is the log of {log.of}, which is no change feed")
    return replace(log, feed=feed)


def _may_read(reader: Layer, read: Layer) -> bool:
    """Bronze reads none; Silver itself and Bronze; those above themselves and what is below, but never Bronze."""
    lowest = "bronze" if reader == "silver" else "silver"
    return reader != "bronze" and LAYERS.index(lowest) <= LAYERS.index(read) <= LAYERS.index(reader)


def _module(table: Node) -> str:
    return f"spark_jobs/{table.layer}/{table.name.removeprefix(table.layer + '_')}.py"


def _discover() -> Iterator[Node]:
    for layer in LAYERS:
        package = importlib.import_module(f"spark_jobs.{layer}")
        for info in pkgutil.iter_modules(package.__path__):
            module = importlib.import_module(f"{package.__name__}.{info.name}")
            declared = getattr(module, "TABLE", None)
            if not isinstance(declared, Feed | Log if layer == "bronze" else Table):
                raise MedallionError(f"spark_jobs/{layer}/{info.name}.py declares no TABLE for layer {layer}")
            doc = (module.__doc__ or "").strip()
            table = replace(declared, name=f"{layer}_{info.name}", layer=layer, doc=doc)
            yield from split_dropped_rows(table) if isinstance(table, Table) else (table,)
