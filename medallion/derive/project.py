"""What refresh.lock says of a project, and what it should say."""

from collections.abc import Mapping

from medallion.derive.derivation import Derivations, derive
from medallion.model.definition import definition_keys
from medallion.model.proof import VERSION, Analyser, prove, spark_version
from medallion.model.proven import Proof
from medallion.model.refresh_lock import Entry, Lock, graph_key, lock_text
from medallion.model.registry import Registry
from medallion.model.table import Table

DERIVATION = 1  # version of the rules by which methods are derived


def graph_of(tables: Registry) -> str:
    """What the methods of ``tables`` are derived from."""
    return graph_key(tables, (str(DERIVATION), str(VERSION), spark_version()))


def entries_of(
    tables: Registry, analyse: Analyser, known: Mapping[str, Proof] | None = None, lock: Lock | None = None
) -> tuple[Entry, ...]:
    """Derive and prove how each table is refreshed.

    Args:
        tables: The graph. Tables that have a method keep it.
        analyse: What Spark says of a query.
        known: Proofs of before, by fingerprint.
        lock: What says why the tables that have a method have it.

    Raises:
        MedallionError: A query is not right, or a strict policy cannot be kept.
    """
    derived = derive(tables.tables, analyse, known)
    for error in derived.errors.values():
        raise error
    names = [name for name, node in derived.nodes.items() if isinstance(node, Table)]
    return tuple(entry_of(derived, name, analyse, known or {}, lock or Lock()) for name in names)


def entry_of(derived: Derivations, name: str, analyse: Analyser, known: Mapping[str, Proof], lock: Lock) -> Entry:
    """The entry of one table. Raises MedallionError where its method could give other rows than its query."""
    table = derived.nodes[name]
    if error := derived.errors.get(name):
        raise error
    assert isinstance(table, Table)
    assert table.method is not None, "it is derived"
    found, former = derived.by_table.get(name), lock.entries.get(name)
    reason = found.reason if found else former.reason if former else ""
    refused = found.refused if found else former.refused if former else {}
    proof = prove([table], derived.nodes, analyse, known)[name]
    return Entry(name, definition_keys(derived.nodes)[name], table.refresh, table.method, reason, refused, proof)


def text_of(tables: Registry, analyse: Analyser, known: Mapping[str, Proof] | None = None) -> str:
    """The text that refresh.lock should have. Raises as ``entries_of`` does."""
    unlocked = tables.with_methods(dict.fromkeys(tables.tables))
    return lock_text(graph_of(unlocked), entries_of(unlocked, analyse, known))
