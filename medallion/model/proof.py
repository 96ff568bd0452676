"""Prove that the refresh method of each table is right for its query, or refuse it with the reason.

Spark analyses the query over empty frames of the declared columns; the proofs read this analysis and resolve nothing
themselves. The result of a proof is a value that the refresh uses. Databricks offers a similar explanation for
materialized views (EXPLAIN CREATE MATERIALIZED VIEW), in similar words. A method that cannot be proven is refused, even
if it might be right.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import sha256
from importlib.metadata import version

from medallion.errors import MedallionError
from medallion.model.column_types import is_joined_by
from medallion.model.columns_read import columns_read
from medallion.model.dependencies import Dependencies
from medallion.model.determinism import prove_aggregates, prove_functions
from medallion.model.kept_text import inputs_of, state_text
from medallion.model.methods import Additive, ByKey, Kept, Recent
from medallion.model.needed_rows import needed_rows
from medallion.model.needs import Needs
from medallion.model.parsed_query import Schemas
from medallion.model.plan import (
    Analyser,
    Analysis,
    Column,
    NoPlans,
    Plan,
    UnknownRelation,
    Unprovable,
    declared_columns,
)
from medallion.model.plan_json import read_plan
from medallion.model.proof_additive import Reading, prove_additive
from medallion.model.proof_by_key import prove_by_key
from medallion.model.proof_kept import prove_kept
from medallion.model.proof_order import prove_order
from medallion.model.proof_recent import prove_recent
from medallion.model.proven import Proof
from medallion.model.table import Node, Table
from medallion.model.unknown_columns import place_in_module, unknown_columns, without_braces
from medallion.model.writable_columns import require_writable_columns

VERSION = 9  # version of the proofs; what another version proved is proven again
_POSITION = re.compile(r"\(line (\d+), pos \d+\)|\bline (\d+) pos \d+")  # how Spark names a place in a query


def prove(
    tables: Iterable[Table],
    nodes: Mapping[str, Node],
    analyse: Analyser,
    known: Mapping[str, Proof] | None = None,
) -> dict[str, Proof]:
    """Prove that the refresh method of each table returns the rows of its query.

    Args:
        tables: The tables to prove.
        nodes: Every table by name, for the columns of inputs.
        analyse: Analyses a query with Spark.
        known: Earlier proofs by key, for which Spark is not needed.

    Returns:
        The proofs by table.

    Raises:
        MedallionError: The refresh method of a table could return other rows; table, construct and remedy are named.
    """
    prover = Prover(nodes, analyse, known or {})
    return {table.name: prover.prove(table) for table in tables}


@dataclass(frozen=True)
class Prover:
    """Proves tables of one graph. known: earlier proofs by key; tables that they cover are not analysed again."""

    nodes: Mapping[str, Node]
    analyse: Analyser
    known: Mapping[str, Proof] = field(default_factory=dict)
    _columns: dict[str, tuple[Column, ...]] = field(default_factory=dict)
    _plans: dict[str, Plan] = field(default_factory=dict)

    def prove(self, table: Table) -> Proof:
        """Prove one table. Raises MedallionError as ``prove`` does."""
        inputs = {name: self.columns_of(name) for name in table.inputs}
        key = self._proof_key(table, inputs)
        if key not in _PROVEN:
            _PROVEN[key] = self.known.get(key) or self._prove(table, inputs, key)
        else:
            _PROVEN[key] = _PROVEN.pop(key)  # move it to the end, as the last one proven
        _require_writable(table, _PROVEN[key].columns)
        return _PROVEN[key]

    def is_known(self, table: Table) -> bool:
        """Return whether the method of ``table`` was proven before; its inputs must be known."""
        return self._proof_key(table, {name: self.columns_of(name) for name in table.inputs}) in self.known

    def plan_of(self, table: Table) -> Plan:
        """Return the query of ``table`` as analysed by Spark."""
        if table.query not in self._plans:
            inputs = {name: self.columns_of(name) for name in table.inputs}
            self._plans[table.query] = read_plan(self._analysis(table, inputs))
        return self._plans[table.query]

    def columns_of(self, name: str) -> tuple[Column, ...]:
        """Return the columns of a table: declared, or the output of its query."""
        if name not in self._columns:
            node = self.nodes[name]
            if isinstance(node, Table):
                self._columns[name] = self._output_of(node)
            else:
                self._columns[name] = declared_columns(node)
        return self._columns[name]

    def _output_of(self, table: Table) -> tuple[Column, ...]:
        inputs = {name: self.columns_of(name) for name in table.inputs}
        proof = self.known.get(self._proof_key(table, inputs))
        columns = proof.columns if proof else self._analysis(table, inputs).columns
        _require_writable(table, columns)
        return columns

    def _proof_key(self, table: Table, inputs: Mapping[str, tuple[Column, ...]]) -> str:
        keys = {name: [*self.nodes[name].keys, self._method_of(name)] for name in table.inputs}
        method = repr(table.method)
        identity = [VERSION, spark_version(), table.name, table.fingerprint, method, [*table.keys], keys, inputs]
        return sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]

    def _method_of(self, name: str) -> str:
        """Return how an input is refreshed, which determines which of its rows a change contains completely."""
        node = self.nodes[name]
        return node.refresh_method if isinstance(node, Table) else ""

    def ask(
        self, query: str, inputs: Mapping[str, tuple[Column, ...]], /, *, same_as: str = "", optimize: bool = False
    ) -> Analysis:
        """Return Spark's analysis of a query; each query is analysed only once per process."""
        key = (query, same_as, json.dumps(inputs, sort_keys=True), optimize)
        if key not in _ANALYSED:
            _ANALYSED[key] = self.analyse(query, inputs, same_as=same_as, optimize=optimize)
        return _ANALYSED[key]

    def _analysis(self, table: Table, inputs: Mapping[str, tuple[Column, ...]]) -> Analysis:
        try:
            return self.ask(table.query, inputs)
        except NoPlans:
            raise
        except UnknownRelation as error:
            raise MedallionError(without_braces(table, error, self.nodes)) from None
        except MedallionError as error:
            if unknown := unknown_columns(table, Schemas(self.nodes)):
                raise MedallionError("; ".join(unknown)) from None
            reason = _POSITION.sub(lambda match: f"({place_in_module(table, int(match[1] or match[2]))})", str(error))
            raise MedallionError(f"{table.name}: {reason}") from None

    def _prove(self, table: Table, inputs: Mapping[str, tuple[Column, ...]], fingerprint: str) -> Proof:
        analysis = self._analysis(table, inputs)
        try:
            restricted = self._proven(table, inputs, self.plan_of(table))
        except Unprovable as reason:
            raise MedallionError(f"{table.name} cannot be refreshed by {table.refresh_method}: {reason}") from None
        given = [name for name, *_ in analysis.columns]
        if absent := [key for key in table.keys if key not in given]:
            raise MedallionError(
                f"{table.name}: its query gives no column {', '.join(absent)}, its key; it gives {', '.join(given)}"
            )
        for name, kind, _ in analysis.columns:
            if name in table.keys and not is_joined_by(kind):
                raise MedallionError(f"{table.name}: its key {name} is {kind}, by which no engine can join")
        return Proof(
            table.name,
            fingerprint,
            table.fingerprint,
            table.refresh_method,
            analysis.columns,
            inputs,
            restricted,
            reads=self._reads(table, inputs),
            needs=self._needs(table, inputs),
        )

    def _reads(
        self, table: Table, inputs: Mapping[str, tuple[Column, ...]]
    ) -> dict[str, Mapping[str, tuple[str, ...]]]:
        """Return the columns that the query uses, and those that what is kept of it uses."""
        states = _states_by_key(table)
        plans = {name: read_plan(self._with_optimized(query, inputs)) for name, query in states.items()}
        return {"": columns_read(self.plan_of(table)), **{name: columns_read(plan) for name, plan in plans.items()}}

    def _needs(self, table: Table, inputs: Mapping[str, tuple[Column, ...]]) -> dict[str, Needs]:
        """Return what each query that is computed for some keys needs of its inputs."""
        queries = {"": table.query} if isinstance(table.method, ByKey) else _states_by_key(table)
        needs = {}
        for name, query in queries.items():
            analysis = self._with_optimized(query, inputs)
            if analysis.optimized:
                optimized = read_plan(replace(analysis, plan=analysis.optimized))
                needs[name] = needed_rows(optimized.root, analysis.reads, _only_read(query, inputs))
        return needs

    def _with_optimized(self, query: str, inputs: Mapping[str, tuple[Column, ...]]) -> Analysis:
        return self.ask(query, _only_read(query, inputs), optimize=True)

    def _proven(self, table: Table, inputs: Mapping[str, tuple[Column, ...]], plan: Plan) -> dict[str, str]:
        known = table.is_incremental
        prove_functions(plan, table.query, known=known)
        restricted: dict[str, str] = {}
        match table.method:
            case ByKey() as method:
                restricted = prove_by_key(method, plan, inputs)
            case Additive() as method:
                prove_additive(table, method, plan, Reading(self.nodes, inputs, self.ask))
            case Kept() as method:
                prove_kept(table, method, Reading(self.nodes, inputs, self.ask))
            case Recent() as method:
                prove_recent(table, method, plan, inputs)
        self._prove_answers(table, plan, known=known)
        return restricted

    def _prove_answers(self, table: Table, plan: Plan, *, known: bool) -> None:
        prove_aggregates(plan, known=known)
        prove_order(plan, Dependencies(plan, {name: self.nodes[name].keys for name in table.inputs}))

    def prove_answers(self, table: Table, *, known: bool) -> None:
        """Raise Nondeterministic if the query may return different rows when it is run again.

        known: whether to raise Unprovable too, for a function or an aggregate that no incremental method supports.
        """
        plan = self.plan_of(table)
        prove_functions(plan, table.query, known=known)
        self._prove_answers(table, plan, known=known)


def _states_by_key(table: Table) -> dict[str, str]:
    """Return the SQL of each state that is followed by a key, by its kept relation."""
    parts = table.method.parts if isinstance(table.method, Kept) else ()
    return {part.name: state_text(part) for part in parts if part.by is not None}


def _require_writable(table: Table, columns: Iterable[Column]) -> None:
    require_writable_columns(table, ((name, kind) for name, kind, _ in columns))


def _only_read(query: str, inputs: Mapping[str, tuple[Column, ...]]) -> dict[str, tuple[Column, ...]]:
    return {name: inputs[name] for name in inputs_of(query)}


def proven_before(table: Table) -> Proof | None:
    """Return the last proof of this process for a table with this name, query and refresh method; None if none."""
    proofs = [proof for proof in _PROVEN.values() if (proof.table, proof.query) == (table.name, table.fingerprint)]
    return next((proof for proof in reversed(proofs) if proof.method == table.refresh_method), None)


# Caches of this process: an analysis takes a tenth of a second, and starting Spark for it takes many seconds.
_ANALYSED: dict[tuple[str, str, str, bool], Analysis] = {}
_PROVEN: dict[str, Proof] = {}


@cache
def spark_version() -> str:
    """Return the version of Spark, as another version may analyse a query differently."""
    return version("pyspark")
