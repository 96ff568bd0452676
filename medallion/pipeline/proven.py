"""What is proven of the tables that a process refreshes: from refresh.lock, or by the Spark of this process."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from medallion.derive.derivation import derive
from medallion.model.methods import Full
from medallion.model.plan import Analyser, Analysis, Column, NoPlans, declared_columns
from medallion.model.proof import Node, Prover, prove
from medallion.model.proven import Proof
from medallion.model.registry import Registry
from medallion.model.table import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def with_derived(
    tables: Registry, session: "Callable[[], SparkSession]", known: Mapping[str, Proof]
) -> tuple[Registry, dict[str, str]]:
    """Derive the method of each table for which refresh.lock has none that is proven as the table is now.

    Args:
        tables: The graph, with the methods that the lock has.
        session: The Spark that is asked, only where something has changed.
        known: What the lock has proven, by fingerprint.

    Returns:
        The graph with all methods, and by table why it has none.
    """
    changed = _changed(tables, Prover(tables.tables, _analyser(session), known))
    if not changed:
        return tables, {}
    try:
        derived = derive(tables.with_methods(dict.fromkeys(changed)).tables, _analyser(session), known)
    except NoPlans as reason:
        return tables.with_methods(dict.fromkeys(changed, Full(str(reason)))), {}
    return replace(tables, tables=derived.nodes), {name: str(error) for name, error in derived.errors.items()}


def _changed(tables: Registry, prover: Prover) -> frozenset[str]:
    """The tables whose method is not known, or not proven as they are now; Spark is not asked for it."""
    changed: set[str] = set()
    for table in tables:
        if isinstance(table, Table) and (
            table.method is None or changed & {*table.inputs} or not prover.is_known(table)
        ):
            changed.add(table.name)
    return frozenset(changed)


def _analyser(session: "Callable[[], SparkSession]") -> Analyser:
    def analyse(query: str, inputs: Mapping[str, tuple[Column, ...]], /, *, same_as: str = "") -> Analysis:
        from medallion.spark.plans import analyser

        return analyser(session())(query, inputs, same_as=same_as)

    return analyse


def proofs_of(
    tables: Iterable[Table],
    nodes: Mapping[str, Node],
    session: "Callable[[], SparkSession]",
    known: Mapping[str, Proof],
) -> dict[str, Proof]:
    """Prove ``tables``, those that refresh.lock does not have in ``session``, which is asked for only then.

    known: what refresh.lock has.

    Returns:
        By table, what is proven; why nothing is, where only a Spark Connect server could tell.

    Raises:
        MedallionError: A refresh method could give other rows than its query.
    """
    analyse = _analyser(session)
    proofs: dict[str, Proof] = {}
    for table in tables:
        try:
            proofs |= prove([table], nodes, analyse, known)
        except NoPlans as reason:
            proofs[table.name] = _unproven(table, nodes, str(reason))
    return proofs


def _unproven(table: Table, nodes: Mapping[str, Node], reason: str) -> Proof:
    """What a full recompute goes by: the declared columns of feeds."""
    inputs = {name: declared_columns(node) for name in table.inputs if not isinstance(node := nodes[name], Table)}
    return Proof(table.name, "", table.fingerprint, table.refresh_method, (), inputs, unproven=reason)
