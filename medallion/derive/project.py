"""Compute what refresh.lock of a project should contain."""

from collections.abc import Mapping

from medallion.derive.derivation import derive
from medallion.model.definition import definition_keys
from medallion.model.plan import Analyser
from medallion.model.proof import VERSION, prove, spark_version
from medallion.model.proven import Proof
from medallion.model.refresh_lock import Entry, graph_key, lock_text
from medallion.model.registry import Registry
from medallion.model.table import Table

DERIVATION = 4  # version of the rules by which methods are derived


def graph_of(tables: Registry) -> str:
    """Return the fingerprint of everything that the methods of ``tables`` are derived from."""
    return graph_key(tables, (str(DERIVATION), str(VERSION), spark_version()))


def text_of(tables: Registry, analyse: Analyser, known: Mapping[str, Proof] | None = None) -> str:
    """Return the text that refresh.lock should have: the method of each table, derived again and proven.

    Args:
        tables: The graph; methods that its tables already have are ignored.
        analyse: Returns Spark's plan of a query.
        known: Earlier proofs, by key.

    Raises:
        MedallionError: A query is invalid, or no method satisfies ``incremental strict``.
    """
    unlocked = tables.with_methods(dict.fromkeys(tables.tables))
    derived = derive(unlocked.tables, analyse, known)
    for error in derived.errors.values():
        raise error
    keys = definition_keys(derived.nodes)
    entries = []
    for name, derivation in derived.by_table.items():
        table = derived.nodes[name]
        assert isinstance(table, Table)
        proof = prove([table], derived.nodes, analyse, known)[name]
        entries.append(
            Entry(name, keys[name], table.refresh, derivation.method, derivation.reason, derivation.refused, proof)
        )
    return lock_text(graph_of(unlocked), entries)
