"""The proofs for the tables that a process refreshes: from refresh.lock, or by the Spark of this process."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from medallion.derive.derivation import derive
from medallion.model.methods import Full
from medallion.model.plan import Analyser, Analysis, Column, NoPlans, declared_columns
from medallion.model.proof import Prover, prove
from medallion.model.proven import Proof
from medallion.model.registry import Registry
from medallion.model.table import Node, Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def with_derived(
    tables: Registry, session: "Callable[[], SparkSession]", known: Mapping[str, Proof]
) -> tuple[Registry, dict[str, str]]:
    """Derive the method of each table whose current definition is not proven in refresh.lock.

    Args:
        tables: The graph, with the methods in the lock.
        session: Returns the Spark session; called only if something has changed.
        known: The proofs in the lock, by key.

    Returns:
        The graph with the methods, and the reason by table that has none.
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
    """Return the tables without a method, or without a proof for their current definition; Spark is not needed."""
    changed: set[str] = set()
    for table in tables:
        if isinstance(table, Table) and (
            table.method is None or changed & {*table.inputs} or not prover.is_known(table)
        ):
            changed.add(table.name)
    return frozenset(changed)


def _analyser(session: "Callable[[], SparkSession]") -> Analyser:
    def analyse(
        query: str, inputs: Mapping[str, tuple[Column, ...]], /, *, same_as: str = "", optimize: bool = False
    ) -> Analysis:
        from medallion.spark.plans import analyser

        return analyser(session())(query, inputs, same_as=same_as, optimize=optimize)

    return analyse


def proofs_of(
    tables: Iterable[Table],
    nodes: Mapping[str, Node],
    session: "Callable[[], SparkSession]",
    known: Mapping[str, Proof],
) -> dict[str, Proof]:
    """Prove ``tables``: from refresh.lock, else in the Spark session.

    known: the proofs in refresh.lock. session: returns the session; called only if a proof is missing.

    Returns:
        The proof by table; with a Spark Connect server, which does not expose plans, one that says why it is unproven.

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
    """Return the proof for a full recompute, which needs only the declared columns of feeds."""
    inputs = {name: declared_columns(node) for name in table.inputs if not isinstance(node := nodes[name], Table)}
    return Proof(table.name, "", table.fingerprint, table.refresh_method, (), inputs, unproven=reason)
