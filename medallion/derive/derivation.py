"""Derive how each table of a graph is refreshed, and why: list candidates, prove them, choose by cost.

Tables are visited in the order of the graph. If several keys are right, the one that lets the most readers keep sums
wins, so a table's method depends on the whole graph.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from medallion.derive.kept import kept_relations
from medallion.derive.keys import Identifiers, Keys, keys_of
from medallion.derive.newest import newest_of
from medallion.derive.parts import Parts, parts_of, rest_groups
from medallion.derive.sources import Sources, sources_of
from medallion.errors import MedallionError
from medallion.model.methods import Additive, ByKey, Full, Kept, Method
from medallion.model.plan import Analyser, Nondeterministic, NoPlans, Unprovable
from medallion.model.proof import Node, Prover
from medallion.model.proof_additive import Reading, prove_additive
from medallion.model.proven import Proof
from medallion.model.refresh_method import RefreshMethod
from medallion.model.table import Table

UPSERT, AGGREGATE, LATEST = RefreshMethod.UPSERT, RefreshMethod.INCREMENTAL_AGGREGATE, RefreshMethod.LATEST_ROWS


@dataclass(frozen=True)
class Derivation:
    """How one table is refreshed.

    method: the chosen method. reason: why it was chosen, in a sentence. refused: by other method, why it was not.
    """

    method: Method
    reason: str
    refused: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Demand:
    """What an upsert by some key would do for the readers of a table.

    readers: how many of them could add up changes without grouping an input again. parts: how many parts all readers
    would keep in total.
    """

    readers: int = 0
    parts: int = 0


@dataclass(frozen=True)
class Derivations:
    """The result for a graph.

    nodes: every table, with its method. by_table: the derivations. errors: by table, why it has none.
    """

    nodes: Mapping[str, Node]
    by_table: Mapping[str, Derivation]
    errors: Mapping[str, MedallionError]


def derive(nodes: Mapping[str, Node], analyse: Analyser, known: Mapping[str, Proof] | None = None) -> Derivations:
    """Derive a method for each table that has none.

    Args:
        nodes: Every table by name, each after its inputs.
        analyse: Returns Spark's plan of a query.
        known: Earlier proofs, by key.

    Raises:
        NoPlans: Spark is not available to analyse a query.
    """
    graph = _Graph(dict(nodes), analyse, known or {})
    for name, node in nodes.items():
        if isinstance(node, Table) and node.method is None and not graph.failed(node):
            try:
                graph.derive(node)
            except NoPlans:
                raise
            except MedallionError as error:
                graph.errors[name] = error
    return Derivations(graph.nodes, graph.derived, graph.errors)


class _Graph:
    """The graph while methods are derived: nodes before the current one have theirs."""

    def __init__(self, nodes: dict[str, Node], analyse: Analyser, known: Mapping[str, Proof]) -> None:
        self.nodes = nodes
        self.derived: dict[str, Derivation] = {}
        self.errors: dict[str, MedallionError] = {}
        self._prover = Prover(nodes, analyse, known)
        self._sources: dict[str, Sources] = {}
        self._identifiers = Identifiers(nodes, self.sources)

    def failed(self, table: Table) -> bool:
        """Whether the method of an upstream table could not be derived."""
        if self.errors.keys() & {*table.inputs}:
            reason = min(self.errors.keys() & {*table.inputs})
            self.errors[table.name] = MedallionError(f"{table.name} waits: {reason}, which it reads, is not right")
        return table.name in self.errors

    def derive(self, table: Table) -> None:
        """Derive the method of one table, whose inputs already have theirs."""
        derivation = self._derivation(table)
        if table.refresh == "incremental strict" and isinstance(derivation.method, Full):
            ways = "; ".join(f"{method}: {reason}" for method, reason in derivation.refused.items())
            raise MedallionError(
                f"{_module(table)} declares refresh='incremental strict', and no way of it is right: {ways}; change the"
                " query, or declare refresh='incremental', which recomputes it in full"
            )
        self.nodes[table.name], self.derived[table.name] = replace(table, method=derivation.method), derivation

    def _derivation(self, table: Table) -> Derivation:
        self._prover.columns_of(table.name)  # a query that Spark cannot analyse is refused under any policy
        try:
            self._prover.prove_answers(table, known=False)
        except Nondeterministic as reason:
            raise MedallionError(f"{table.name} cannot be refreshed: {reason}") from None
        if table.refresh == "full":
            return _full("refresh='full' is declared", {})
        try:
            self._prover.prove_answers(table, known=True)
        except Unprovable as reason:
            return _full(str(reason), dict.fromkeys((UPSERT, AGGREGATE, LATEST), str(reason)))
        return _Choice(table, self).derivation()

    # --- what _Choice reads from the graph

    def sources(self, table: Table) -> Sources:
        if table.name not in self._sources:
            self._sources[table.name] = sources_of(self._prover.plan_of(table))
        return self._sources[table.name]

    def keys(self, table: Table) -> Keys:
        return keys_of(table, self.sources(table), self._prover, self._identifiers)

    def parts(self, table: Table, nodes: Mapping[str, Node] | None = None) -> Parts:
        """Return the parts of a table that add up; nodes: the graph with another method of an input, to try it."""
        reading = self.reading(table, nodes or self.nodes)
        return parts_of(self._prover.plan_of(table), reading, self.read_whole(table))

    def reading(self, table: Table, nodes: Mapping[str, Node]) -> Reading:
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
        return newest_of(table, self._prover)

    def rest_groups(self, table: Table, parts: Parts) -> str | None:
        return rest_groups(self._prover.plan_of(table), parts.names, self.read_whole(table))

    def kept(self, table: Table) -> tuple[Kept | None, str]:
        """Return the relations of a table's query whose state to keep if no other method is right, or why none."""
        return kept_relations(table, self.reading(table, self.nodes), self._identifiers)

    def prove_parts(self, table: Table, method: Additive) -> None:
        plan = self._prover.plan_of(table)
        prove_additive(replace(table, method=method), method, plan, self.reading(table, self.nodes))


class _Choice:
    """Choose a method for one table among those proven right."""

    def __init__(self, table: Table, graph: _Graph) -> None:
        self._table, self._graph, self._sources = table, graph, graph.sources(table)
        self._refused: dict[str, str] = {}
        self._has_fine_key = True  # whether an upsert's key has few rows per value

    def derivation(self) -> Derivation:
        """Choose by the cost of a change: an incremental aggregate, then latest rows, then an upsert.

        The aggregate comes last if the rows are not groups, or if it would still group an input as a whole each time.
        """
        if not self._table.inputs:
            return _full("its query reads no table", {})
        ways = {AGGREGATE: self._aggregate(), LATEST: self._latest(), UPSERT: self._upsert()}
        possible = {name: way for name, way in ways.items() if way is not None}
        if self._graph.read_whole(self._table) == {*self._table.inputs}:
            reason = "all rows of what it reads are computed each time, so that reading them again costs as little"
            return _full(reason, self._refused | dict.fromkeys(possible, reason))
        order = [AGGREGATE, LATEST, UPSERT]
        if not self._sources.is_grouped or (AGGREGATE in possible and self._left_over(possible[AGGREGATE].method)):
            order = [LATEST, UPSERT, AGGREGATE]
        for name in order:
            if (chosen := possible.pop(name, None)) is not None:
                if name == UPSERT and not self._has_fine_key and (kept := self._kept()) is not None:
                    return replace(kept, refused=self._refused | _dearer([UPSERT], than=AGGREGATE))
                return replace(chosen, refused=self._refused | _dearer(possible, than=name))
        if (kept := self._kept()) is not None:
            return replace(kept, refused=self._refused)
        return _full("no other way is proven right", self._refused)

    def _kept(self) -> Derivation | None:
        method, why = self._graph.kept(self._table)
        if method is None:
            self._refused[AGGREGATE] = why
            return None
        self._refused.pop(AGGREGATE, None)
        return Derivation(method, _reason_to_keep(method))

    def _aggregate(self) -> Derivation | None:
        parts = self._graph.parts(self._table)
        if not parts.names:
            self._refused[AGGREGATE] = parts.reason()
            return None
        method = Additive(tuple(parts.names))
        try:
            self._graph.prove_parts(self._table, method)
        except Unprovable as reason:
            self._refused[AGGREGATE] = str(reason)
            return None
        return Derivation(method, f"what a change adds to {_listed(parts.names)} follows from the change alone")

    def _left_over(self, method: Method) -> str | None:
        """Return an input that would still be grouped as a whole each time in spite of the kept state, if any."""
        assert isinstance(method, Additive)
        return self._graph.rest_groups(self._table, Parts(dict.fromkeys(method.parts, frozenset())))

    def _latest(self) -> Derivation | None:
        method, reason = self._graph.newest(self._table)
        if method is None:
            self._refused[LATEST] = reason
            return None
        return Derivation(method, "no older rows matter to any reading of that input")

    def _upsert(self) -> Derivation | None:
        keys = self._graph.keys(self._table)
        self._has_fine_key = keys.is_fine
        if not keys.methods:
            self._refused[UPSERT] = keys.refused
            return None
        demands = {method.column: Demand() for method in keys.methods}
        if len(keys.methods) > 1:
            demands = {method.column: self._graph.demand(self._table, method) for method in keys.methods}
        driving = self._driving_keys()

        def cost(method: ByKey) -> tuple[int, int, bool, bool]:
            is_own = tuple(key.lower() for key in self._table.keys) == (method.column.lower(),)
            demand = demands[method.column]
            return -demand.readers, demand.parts, driving.isdisjoint(method.columns.items()), not is_own

        method = min(keys.methods, key=cost)
        why = f"rows with one {method.column} follow from the rows of its inputs with that value"
        if demands[method.column] != max(demands.values(), key=lambda demand: (-demand.readers, demand.parts)):
            why += ", and what its readers add up needs whole rows of it"
        elif len(keys.methods) > 1 and not driving.isdisjoint(method.columns.items()):
            why += f", by which {self._sources.first} changes too"
        return Derivation(method, why)

    def _driving_keys(self) -> frozenset[tuple[str, str]]:
        """Return the columns by which changes of the first input replace whole groups of rows."""
        first = self._sources.first
        node = self._graph.nodes[first] if first else None
        if node is None:
            return frozenset()
        if isinstance(node, Table) and isinstance(node.method, ByKey):
            return frozenset({(node.name, node.method.column)})
        return frozenset({(node.name, node.keys[0])}) if len(node.keys) == 1 else frozenset()


def _dearer(names: Iterable[str], *, than: str) -> dict[str, str]:
    return dict.fromkeys(names, f"it is right too, and costs more than the {than} as a rule")


def _full(reason: str, refused: Mapping[str, str]) -> Derivation:
    return Derivation(Full(reason), reason, refused)


def _reason_to_keep(method: Kept) -> str:
    keys = [*dict.fromkeys(part.by.column for part in method.parts if part.by)]
    if not keys:
        return "what a change adds to what is kept follows from the rows that changed alone"
    return f"what a change adds to what is kept follows from the rows with the {' and '.join(keys)} that it touches"


def _listed(names: Mapping[str, object]) -> str:
    return " and ".join(f"`{name}`" for name in names)


def _module(table: Table) -> str:
    return f"spark_jobs/{table.layer}/{table.module.name}" if table.module else table.name
