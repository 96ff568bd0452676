"""Proves refresh methods with the Spark of the test process, which starts at the first question."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from medallion.derive.derivation import Derivation, derive
from medallion.errors import MedallionError
from medallion.model import proof
from medallion.model.column_types import is_joined_by
from medallion.model.methods import Method
from medallion.model.proven import Proof
from medallion.model.registry import Registry
from medallion.model.table import Table
from medallion.settings import Settings
from medallion.spark.plans import analyse_here


def prove(tables: Iterable[Table], nodes: Mapping[str, proof.Node]) -> dict[str, Proof]:
    """Prove ``tables`` as ``medallion plan`` does, without what was proven before."""
    return proof.prove(tables, nodes, partial(analyse_here, Settings.from_environment()))


def derived(tables: Registry) -> Registry:
    """Return ``tables`` with the methods that are derived for them. Raises MedallionError where one cannot be."""
    found = derive(tables.tables, partial(analyse_here, Settings.from_environment()))
    for error in found.errors.values():
        raise error
    return replace(tables, tables=found.nodes)


def derivation(query: str, nodes: Mapping[str, proof.Node], keys: tuple[str, ...] = ("k",), **more: Any) -> Derivation:
    """What is derived for a table with this query over ``nodes``; more: of its declaration."""
    table = Table(keys=keys, query=query, name="gold_x", layer="gold", doc="Rows.", **more)
    found = derive({**nodes, table.name: table}, partial(analyse_here, Settings.from_environment()))
    for error in found.errors.values():
        raise error
    return found.by_table[table.name]


def refusal(query: str, method: Method | None, nodes: Mapping[str, proof.Node]) -> str:
    """Why a table with this query and refresh method, over ``nodes``, is refused; empty if it is proven."""
    table = Table(keys=("k",), query=query, method=method, name="gold_x", layer="gold")
    try:
        prove([keyed(table, nodes)], nodes)
    except MedallionError as error:
        return str(error)
    return ""


def keyed(table: Table, nodes: Mapping[str, proof.Node]) -> Table:
    """Return ``table`` with the first column that can be its key, for queries of which any key will do."""
    prover = proof.Prover({**nodes, table.name: table}, partial(analyse_here, Settings.from_environment()))
    try:
        columns = prover.columns_of(table.name)
        usable = (name for name, kind, _ in columns if is_joined_by(kind))
        return replace(table, keys=(next(usable, columns[0][0]),))
    except MedallionError:  # Spark does not understand it: so says the proof
        return table
