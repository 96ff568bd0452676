"""What is proven of the tables that a process refreshes: from refresh.lock, or by the Spark of this process."""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from medallion.model.plan import Analysis, Column, NoPlans, declared_columns
from medallion.model.proof import Node, prove
from medallion.model.proven import Proof
from medallion.model.table import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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

    def analyse(query: str, inputs: Mapping[str, tuple[Column, ...]]) -> Analysis:
        from medallion.spark.plans import analyser

        return analyser(session())(query, inputs)

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
