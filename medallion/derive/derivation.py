"""Derive how each table of a graph is refreshed, and why: list candidates, prove them, choose by cost.

Tables are visited in the order of the graph. If several keys are right, the one that lets the most readers keep sums
wins, so a table's method depends on the whole graph.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from medallion.derive.graph import Demand, Graph
from medallion.derive.parts import Parts
from medallion.errors import MedallionError
from medallion.model.methods import Additive, ByKey, Full, Kept, Method
from medallion.model.plan import Analyser, Nondeterministic, NoPlans, Unprovable
from medallion.model.proof import Prover
from medallion.model.proven import Proof
from medallion.model.refresh_method import RefreshMethod
from medallion.model.table import Node, Table

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
class Derivations:
    """What is derived for a graph.

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
    work = _Work(dict(nodes), analyse, known or {})
    for name, node in nodes.items():
        if isinstance(node, Table) and node.method is None and not work.must_wait(node):
            try:
                work.derive(node)
            except NoPlans:
                raise
            except MedallionError as error:
                work.errors[name] = error
    return Derivations(work.nodes, work.derived, work.errors)


class _Work:
    """The methods derived so far, table after table: the inputs of the current one have theirs."""

    def __init__(self, nodes: dict[str, Node], analyse: Analyser, known: Mapping[str, Proof]) -> None:
        self.nodes = nodes
        self.derived: dict[str, Derivation] = {}
        self.errors: dict[str, MedallionError] = {}
        self._prover = Prover(nodes, analyse, known)
        self._graph = Graph(nodes, self._prover)

    def must_wait(self, table: Table) -> bool:
        """Whether there is no method because an input has none; this is then recorded as the error of ``table``."""
        wrong = self.errors.keys() & {*table.inputs}
        if wrong:
            cause = f"{min(wrong)}, which it reads, cannot be refreshed as it is declared"
            self.errors[table.name] = MedallionError(f"{table.name} waits: {cause}")
        return bool(wrong)

    def derive(self, table: Table) -> None:
        """Derive the method of one table, whose inputs already have theirs."""
        derivation = self._derivation(table)
        if table.refresh == "incremental strict" and isinstance(derivation.method, Full):
            ways = "; ".join(f"{method}: {reason}" for method, reason in derivation.refused.items())
            raise MedallionError(
                f"{_module(table)} declares refresh='incremental strict', and no incremental method is proven right for"
                f" its query: {ways}; change the query, or declare refresh='incremental', which recomputes it in full"
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
        return _Choice(table, self._graph).derivation()


class _Choice:
    """The choice of a method for one table among those proven right."""

    def __init__(self, table: Table, graph: Graph) -> None:
        self._table, self._graph, self._sources = table, graph, graph.sources(table)
        self._refused: dict[str, str] = {}
        self._has_fine_key = True  # whether an upsert's key has few rows per value

    def derivation(self) -> Derivation:
        """Choose by the cost of a change: an incremental aggregate, then latest rows, then an upsert.

        The aggregate comes last if the rows are not groups, or if it would still group an input as a whole each time.
        """
        if not self._table.inputs:
            return _full("its query reads no table", {})
        if self._graph.read_whole(self._table) == {*self._table.inputs}:
            read = " and ".join(self._table.inputs)
            reason = f"each refresh of {read} computes all rows, so following changes would save nothing"
            return _full(reason, dict.fromkeys((AGGREGATE, LATEST, UPSERT), reason))
        ways = {AGGREGATE: self._aggregate(), LATEST: self._latest(), UPSERT: self._upsert()}
        possible = {name: way for name, way in ways.items() if way is not None}
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
        return Derivation(method, f"what a change adds to {_names_in_words(parts.names)} follows from the change alone")

    def _left_over(self, method: Method) -> str | None:
        """Return an input that each refresh would group as a whole in spite of the aggregate state, if there is one."""
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
        """Return the columns by which a change of the input that the query reads first replaces whole groups."""
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
    why = f"what a change adds to what is kept follows from the rows with the {' and '.join(keys)} that it touches"
    whole = [*dict.fromkeys(name for part in method.parts for name in part.whole)]
    return f"{why}; a change of {' or '.join(whole)} rebuilds what is kept" if whole else why


def _names_in_words(names: Mapping[str, object]) -> str:
    return " and ".join(f"`{name}`" for name in names)


def _module(table: Table) -> str:
    return f"spark_jobs/{table.layer}/{table.module.name}" if table.module else table.name
