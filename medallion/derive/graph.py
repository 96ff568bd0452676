"""The graph while methods are derived: what it tells about one table, from which its method is chosen."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from medallion.derive.kept import kept_relations
from medallion.derive.keys import Identifiers, Keys, keys_of
from medallion.derive.newest import newest_of
from medallion.derive.parts import Parts, parts_of, rest_groups
from medallion.derive.sources import Sources, sources_of
from medallion.errors import MedallionError
from medallion.model.methods import Additive, ByKey, Kept, Method
from medallion.model.plan import Unprovable
from medallion.model.proof import Prover
from medallion.model.proof_additive import Reading, prove_additive
from medallion.model.table import Node, Table


@dataclass(frozen=True)
class Demand:
    """What an upsert by some key would do for the readers of a table.

    readers: how many of them could add up changes without grouping an input again. parts: how many parts all readers
    would keep in total.
    """

    readers: int = 0
    parts: int = 0


class Graph:
    """The tables of a graph. nodes: by name; those before the table at hand have their method."""

    def __init__(self, nodes: Mapping[str, Node], prover: Prover) -> None:
        self.nodes = nodes
        self._prover = prover
        self._sources: dict[str, Sources] = {}
        self._identifiers = Identifiers(nodes, self.sources)

    def sources(self, table: Table) -> Sources:
        """Return what the query of a table copies and compares."""
        if table.name not in self._sources:
            self._sources[table.name] = sources_of(self._prover.plan_of(table))
        return self._sources[table.name]

    def keys(self, table: Table) -> Keys:
        """Return the keys that a table can be upserted by."""
        return keys_of(table, self.sources(table), self._prover, self._identifiers)

    def parts(self, table: Table, nodes: Mapping[str, Node] | None = None) -> Parts:
        """Return the parts of a table that add up; nodes: the graph with another method of an input, to try it."""
        reading = self._reading(table, nodes or self.nodes)
        return parts_of(self._prover.plan_of(table), reading, self.read_whole(table))

    def _reading(self, table: Table, nodes: Mapping[str, Node]) -> Reading:
        """Return what a proof needs to know about the inputs of a table."""
        inputs = {name: self._prover.columns_of(name) for name in table.inputs}
        return Reading(nodes, inputs, self._prover.ask)

    def read_whole(self, table: Table) -> frozenset[str]:
        """Return the inputs of which each refresh computes all rows, so that reading them whole costs no more.

        Empty if the policy of ``table`` ignores cost.
        """
        if table.refresh != "auto":
            return frozenset()
        inputs = {name: self.nodes[name] for name in table.inputs}
        return frozenset(
            name
            for name, node in inputs.items()
            if isinstance(node, Table) and node.method is not None and not isinstance(node.method, ByKey)
        )

    def demand(self, table: Table, method: ByKey) -> Demand:
        """Return what the readers of ``table`` could add up if it were refreshed by this key."""
        nodes, demand = {**self.nodes, table.name: replace(table, method=method)}, Demand()
        for reader in self.nodes.values():
            if not isinstance(reader, Table) or table.name not in reader.inputs or reader.refresh == "full":
                continue
            try:
                parts = self.parts(reader, nodes)
                is_whole = bool(parts.names) and self.rest_groups(reader, parts) is None
            except (MedallionError, Unprovable):  # reported when the reader itself is derived
                continue
            demand = Demand(demand.readers + is_whole, demand.parts + len(parts.names))
        return demand

    def newest(self, table: Table) -> tuple[Method | None, str]:
        """Return the method that reads only the newest rows of an input, or why none does."""
        return newest_of(table, self._prover)

    def rest_groups(self, table: Table, parts: Parts) -> str | None:
        """Return an input that would be grouped as a whole each time in spite of ``parts``; None if there is none."""
        return rest_groups(self._prover.plan_of(table), parts.names, self.read_whole(table))

    def kept(self, table: Table) -> tuple[Kept | None, str]:
        """Return the relations of a table's query whose state to keep if no other method is right, or why none."""
        return kept_relations(table, self._reading(table, self.nodes), self._identifiers)

    def prove_parts(self, table: Table, method: Additive) -> None:
        """Raise Unprovable unless the parts of ``method`` add up."""
        plan = self._prover.plan_of(table)
        prove_additive(replace(table, method=method), method, plan, self._reading(table, self.nodes))
