"""medallion explain: how a table is refreshed, why, and why not otherwise."""

from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import click

from medallion.cli.common import AS_OBJECT, current_lake, print_json, print_lines, settings
from medallion.errors import MedallionError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from medallion.derive.explain import Explanation
    from medallion.model.registry import Registry
    from medallion.model.table import Table


@click.command()
@click.argument("table", required=False)
@click.option(
    "--sql",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Explain the query in this file, which is in no table yet: inputs as {silver_customers}.",
)
@AS_OBJECT
def explain(table: str | None, file: Path | None, form: str) -> None:
    """Explain how TABLE is refreshed: what a change touches, what is kept, and why nothing else is done.

    The answer for an unchanged table is in refresh.lock; for any other, Spark analyses queries without running them.
    """
    from dataclasses import replace

    from medallion.project import find_project

    if (table is None) == (file is None):
        raise UsageError("name a table, or a file with a query: medallion explain TABLE, medallion explain --sql FILE")
    every = find_project(or_checkout=False).registry(extras=True)
    explanation = _of_file(every, file) if file is not None else _with_personal(every, _of_table(every, str(table)))
    explanation = replace(explanation, small=_small(explanation.table.inputs))
    if form == "json":
        print_json(explanation.as_json())
    else:
        print_lines(explanation.lines())


def _of_table(tables: "Registry", name: str) -> "Explanation":
    from medallion.model.refresh_lock import NAME, read_lock
    from medallion.model.table import Table
    from medallion.project import find_project

    table = tables[name]
    if not isinstance(table, Table):
        raise UsageError(f"{name} is fed by a source, and not computed: {table.refresh_method}")
    entry = read_lock(find_project(or_checkout=False).root / NAME).entry_of(tables, name)
    if entry is None:
        return _derived(tables, name)
    from medallion.derive.explain import Explanation

    return Explanation(table, entry.reason, entry.refused, tables.tables, _costs(name), needs=entry.proof.needs)


def _with_personal(tables: "Registry", explanation: "Explanation") -> "Explanation":
    from dataclasses import replace

    from medallion.inspect.personal_columns import personal_columns

    personal = {
        personal_column.column: sorted(f"{origin.table}.{origin.column}" for origin in origins)
        for personal_column, origins in personal_columns(tables).items()
        if personal_column.table == explanation.table.name
    }
    return replace(explanation, personal=dict(sorted(personal.items())))


def _of_file(tables: "Registry", file: Path) -> "Explanation":
    from dataclasses import replace

    from medallion.model.table import Table

    name = f"{file.stem}_query" if file.stem in tables.tables else file.stem
    try:
        query, layer = file.read_text(encoding="utf-8"), tables.declared_layers[-1]
        table = Table(keys=(), query=query, name=name, layer=layer, module=file)
        unknown = [name for name in table.inputs if name not in tables.tables]
    except UnicodeDecodeError:
        raise UsageError(f"{file} is no text in UTF-8") from None
    except ValueError as error:  # an unclosed brace
        example = next((table.name for table in tables if table.inputs), tables.feeds[0].name)
        raise UsageError(f"{file}: {error}; inputs stand in braces, as {{{example}}}") from None
    if unknown:
        raise UsageError(f"{file} reads {unknown[0]}, which is no table; medallion tables lists all there are")
    return _derived(replace(tables, tables={**tables.tables, table.name: table}), table.name)


def _derived(tables: "Registry", name: str) -> "Explanation":
    from medallion.derive.derivation import derive
    from medallion.derive.explain import Explanation
    from medallion.model.proof import prove
    from medallion.spark.plans import analyse_here

    analyse = partial(analyse_here, settings().replace(spark_connect=None))
    derivations = derive(tables.tables, analyse)
    if error := derivations.errors.get(name):
        raise error
    derivation, table = derivations.by_table[name], _as_table(derivations.nodes[name])
    needs = prove([table], derivations.nodes, analyse)[name].needs
    return Explanation(table, derivation.reason, derivation.refused, derivations.nodes, _costs(name), needs=needs)


def _as_table(node: object) -> "Table":
    from medallion.model.table import Table

    assert isinstance(node, Table)
    return node


def _small(names: "Iterable[str]") -> frozenset[str]:
    """Return the tables in the lake that are too small for state to be kept; none if there is no lake."""
    from medallion.refresh.additive import MIN_STATE_INPUT_BYTES
    from medallion.storage.lake import state_of

    try:
        lake = current_lake()
        opened = {name: lake.open(lake.path(name)) for name in names}
    except MedallionError:
        return frozenset()
    return frozenset(name for name, delta in opened.items() if delta and state_of(delta).bytes < MIN_STATE_INPUT_BYTES)


def _costs(name: str) -> dict[str, float]:
    """Return the median seconds of a table's recent refreshes by strategy; empty if there is no lake."""
    from medallion.refresh.cost import RecentCosts

    try:
        known = RecentCosts(current_lake()).of(name)
    except MedallionError:
        return {}
    incremental = median(spent for _, spent in known.incremental) if known.incremental else None
    seconds = {"incremental": incremental, "full": known.full_seconds}
    return {strategy: spent for strategy, spent in seconds.items() if spent is not None}
