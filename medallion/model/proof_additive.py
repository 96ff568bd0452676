"""Prove that the parts of an incremental aggregate add up: their difference depends only on the changed rows."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from medallion.errors import MedallionError
from medallion.model.additive_split import Part, Split, require_names, split_of
from medallion.model.methods import Additive, ByKey
from medallion.model.plan import (
    FLOATING_TYPES,
    Analyser,
    Column,
    Expression,
    Node,
    NoPlans,
    Plan,
    Unprovable,
    id_of,
    in_words,
)
from medallion.model.plan_json import read_plan
from medallion.model.plan_shape import shape_of
from medallion.model.refresh_method import SIDE
from medallion.model.table import ChangeLog, Feed, Table

Whole = Mapping[int, str]  # column ids and names: a change contains all rows that have the same values in them, or none

_NUMBERS = re.compile(r"tinyint|smallint|int|bigint|decimal\(\d+,\d+\)")
_INSTEAD = {
    "HAVING": "filter the groups in the rest of the query",
    "DISTINCT": "group by the columns",
    "JOIN": "join in the rest of the query, or in a table of its own",
}
_CLAUSES = {
    "Filter": "HAVING",
    "Join": "JOIN",
    "Distinct": "DISTINCT",
    "GlobalLimit": "LIMIT",
    "LocalLimit": "LIMIT",
    "Offset": "OFFSET",
    "Sort": "ORDER BY",
    "Sample": "TABLESAMPLE",
}


@dataclass(frozen=True)
class Reading:
    """What a proof needs to know about tables: their declarations, their columns, and Spark's analysis of queries."""

    nodes: Mapping[str, Feed | ChangeLog | Table]
    inputs: Mapping[str, tuple[Column, ...]]
    analyse: Analyser


def prove_additive(table: Table, method: Additive, plan: Plan, reading: Reading) -> None:
    """Raise Unprovable, naming the part and the construct, if a part does not add up."""
    require_names(table)
    parts: dict[str, frozenset[int]] = {}
    for name in method.parts:
        parts[name] = prove_part(name, plan, reading, parts)
    _compare_pieces(plan, split_of(table), reading)


def prove_part(name: str, plan: Plan, reading: Reading, before: Mapping[str, frozenset[int]]) -> frozenset[int]:
    """Prove that a common table expression adds up; return the positions of the columns that it groups by.

    before: these positions for the earlier parts, which it may read. Raises Unprovable, which names the construct.
    """
    node = plan.cte_named(name)
    if node is None:
        raise Unprovable(f"two common table expressions are called `{name}`: give one another name")
    try:
        return _Part(reading, plan, before).places_of_keys(node)
    except Unprovable as reason:
        raise Unprovable(f"`{name}` does not add up: {reason}") from None


class _Part:
    """The proof of one part. before: the positions of the keys of earlier parts, which it may read."""

    def __init__(self, reading: Reading, plan: Plan, before: Mapping[str, frozenset[int]]) -> None:
        self._reading, self._plan, self._before = reading, plan, before

    def places_of_keys(self, node: Node) -> frozenset[int]:
        """Return the positions of the columns that the part groups by, if all others are sums and counts."""
        aggregate = _bare(node)
        if aggregate.kind != "Aggregate":
            _refuse(aggregate)
        whole = self._rows(aggregate.child)
        _require_no_subquery(aggregate)
        groups = aggregate.parts.get("groupingExpressions", ())
        if not groups:
            raise Unprovable("without GROUP BY it has a row even where its input has none")
        wanted, selected_keys = {group.unalias().key: group for group in groups}, set()
        places = set()
        for place, item in enumerate(aggregate.parts["aggregateExpressions"]):
            inner = item.unalias()
            if inner.key in wanted:
                selected_keys.add(inner.key)
                places.add(place)
            elif any(part.kind == "AggregateExpression" for part in inner.walk()):
                self._sum_or_count(item.name, inner, groups, whole)
            else:
                raise Unprovable(f"{item.name} is neither grouped by nor an aggregate")
        if hidden := [group for key, group in wanted.items() if key not in selected_keys]:
            raise Unprovable(f"it groups by {hidden[0]} and does not select it")
        return frozenset(places)

    def _sum_or_count(self, name: str, aggregate: Expression, groups: tuple[Expression, ...], whole: Whole) -> None:
        function = aggregate.children[0]
        if aggregate.kind != "AggregateExpression" or function.kind not in {"Sum", "Count"}:
            raise Unprovable(f"{name} is neither a SUM nor a COUNT, which alone can be added to and subtracted from")
        if '"isDistinct": true' in aggregate.detail:
            if function.kind == "Sum":
                raise Unprovable(f"{name} is a SUM of DISTINCT values")
            known = {id_of(item) for item in (*groups, *function.children) if item.is_column}
            if not known >= whole.keys():
                raise Unprovable(
                    f"{name} counts DISTINCT values of which a change brings only some rows: {_remedy(whole)}"
                )
        if function.kind == "Sum" and aggregate.input_type in FLOATING_TYPES:
            raise Unprovable(f"{name} is a sum of floating-point numbers, which would drift: use DECIMAL")
        if function.kind == "Sum" and not _NUMBERS.fullmatch(aggregate.input_type):
            raise Unprovable(f"{name} is a sum of {aggregate.input_type.upper()}: only integers and DECIMAL are kept")

    def _rows(self, node: Node) -> Whole:
        """Check ``node`` and all below it; return the columns for whose values a change contains all rows or none."""
        _require_no_subquery(node)
        if node.source:
            name, columns = node.source
            keys = _whole_of(self._reading.nodes[name])
            return {
                id_of(item): column for column, item in zip(columns, node.output, strict=True) if column.lower() in keys
            }
        match node.kind:
            case "SubqueryAlias" | "Filter" | "Generate" | "View":
                return self._rows(node.child)
            case "Project":
                return _passed(self._rows(node.child), node.parts.get("projectList", ()))
            case "Aggregate":
                return self._groups(node)
            case "CTERelationRef":
                return self._reference(node)
        _refuse(node)
        raise AssertionError("refused")

    def _groups(self, node: Node) -> Whole:
        """Check an inner GROUP BY, whose groups must be contained in a change completely."""
        whole, groups = self._rows(node.child), node.parts.get("groupingExpressions", ())
        if not {id_of(group) for group in groups if group.is_column} >= whole.keys():
            raise Unprovable(f"it reads groups of which a change brings only some rows: {_remedy(whole)}")
        return _passed(whole, node.parts["aggregateExpressions"])

    def _reference(self, node: Node) -> Whole:
        definition = self._plan.ctes[node.cte]
        alias = definition.child.alias if definition.child.kind == "SubqueryAlias" else ""
        if alias in self._before:
            return {id_of(node.output[place]): node.output[place].name for place in self._before[alias]}
        try:
            whole = self._rows(definition.child)
        except Unprovable as reason:
            raise Unprovable(
                str(reason).replace("it reads groups of which", f"it reads groups of `{alias}` of which")
            ) from None
        here = {id_of(old): id_of(new) for old, new in zip(definition.output, node.output, strict=True)}
        return {here.get(number, -number - 1): name for number, name in whole.items()}


def _passed(whole: Whole, items: tuple[Expression, ...]) -> Whole:
    """Return the columns with the ids that they have after a list of items.

    A column that is not passed on gets an unused id, so nothing above can group by it.
    """
    given: dict[int, int] = {}
    for item in items:
        inner = item.unalias()
        if inner.is_column:
            given.setdefault(id_of(inner), id_of(item))
    return {given.get(number, -number - 1): name for number, name in whole.items()}


def _bare(node: Node) -> Node:
    """Return the node that computes the rows of a part, below nodes that only name it."""
    while node.kind in {"SubqueryAlias", "View"} and not node.source:
        node = node.child
    return node


def _refuse(node: Node) -> None:
    """Raise Unprovable for a construct that no part may have."""
    if node.kind == "Project" and node.child.kind in {"Window", "Project", "Filter", "Aggregate", "Sort"}:
        _refuse(node.child)
    if node.kind == "Window":
        raise Unprovable("it has a window: use it in the rest of the query")
    if node.kind == "Expand":
        raise Unprovable("ROLLUP, CUBE and GROUPING SETS give rows of several groupings")
    if node.kind in {"Union", "Intersect", "Except"}:
        raise Unprovable("it has a UNION or the like: only a plain SELECT adds up")
    clause = _CLAUSES.get(node.kind)
    if node.kind in {"Project", "Aggregate"}:
        raise Unprovable("it is no SELECT with SUM and COUNT by groups")
    if clause is None:
        raise Unprovable(f"it has {in_words(node.kind)}")
    raise Unprovable(f"it has {clause}{f': {_INSTEAD[clause]}' if clause in _INSTEAD else ''}")


def _require_no_subquery(node: Node) -> None:
    if any(part.plan is not None for expression in node.expressions for part in expression.walk()):
        raise Unprovable("it has a subquery")


def _whole_of(node: Feed | ChangeLog | Table) -> frozenset[str]:
    """Return the columns for whose values a commit of a table contains all rows or none."""
    if isinstance(node, Table) and isinstance(node.method, ByKey):
        return frozenset({node.method.column.lower()})
    return frozenset(key.lower() for key in node.keys)


def _remedy(whole: Whole) -> str:
    return f"group by {' and '.join(sorted(whole.values()))} too"


# --- the pieces together are the query


def _compare_pieces(plan: Plan, split: Split, reading: Reading) -> None:
    """Raise Unprovable if Spark's plan of a piece differs from its plan of the query."""
    known: dict[str, tuple[Column, ...]] = dict(reading.inputs)
    before: list[str] = []
    for name, part in split.parts.items():
        node = plan.cte_named(name)
        assert node is not None
        piece = _analysed(part.query, {part.input: known[part.input]}, reading, name)
        if tuple(column for column, _, _ in piece.columns[: len(part.columns)]) != part.columns:
            raise Unprovable(f"the columns of `{name}` are not those that its text lists: name each with AS")
        _require_counters(name, part, piece)
        alone = _first_columns(piece, name, len(part.columns))
        if shape_of(plan, _bare(node), before) != shape_of(piece, alone, before):
            raise Unprovable(f"`{name}` on its own is not what it is in the query, as Spark reads it")
        sided = {part.input: (*known[part.input], (SIDE, "int", False))}
        by_commit = _analysed(part.query_by_commit, sided, reading, name)
        if shape_of(by_commit, by_commit.root, before, without=SIDE) != shape_of(piece, piece.root, before):
            raise Unprovable(f"`{name}` by commit is not what it is in the query, as Spark reads it")
        known[name] = piece.columns[: len(part.columns)]
        before.append(name)
    rest = _analysed(split.rest, {name: known[name] for name in (*split.inputs, *split.sums)}, reading, "the rest")
    if (rest.columns, shape_of(rest, rest.root, before)) != (plan.columns, shape_of(plan, plan.root, before)):
        names = [(name, kind) for name, kind, _ in rest.columns] == [(name, kind) for name, kind, _ in plan.columns]
        if not names or shape_of(rest, rest.root, before) != shape_of(plan, plan.root, before):
            raise Unprovable("the query without its parts is not what it is with them, as Spark reads it")


def _analysed(query: str, inputs: Mapping[str, tuple[Column, ...]], reading: Reading, name: str) -> Plan:
    try:
        return read_plan(reading.analyse(query, inputs))
    except NoPlans:
        raise
    except MedallionError as error:
        raise Unprovable(f"`{name}` cannot be computed on its own: {error}") from None


def _first_columns(plan: Plan, name: str, count: int) -> Node:
    """Return the aggregate of a part with only its own columns, without counters."""
    aggregate = _aggregate_of(plan, name)
    parts = {**aggregate.parts, "aggregateExpressions": aggregate.parts["aggregateExpressions"][:count]}
    return replace(aggregate, parts=parts, output=aggregate.output[:count])


def _aggregate_of(plan: Plan, name: str) -> Node:
    node = plan.cte_named(name)
    aggregate = _bare(node) if node is not None else plan.root
    if aggregate.kind != "Aggregate":
        raise Unprovable(f"`{name}` on its own is not what it is in the query, as Spark reads it")
    return aggregate


def _require_counters(name: str, part: Part, plan: Plan) -> None:
    """Raise Unprovable unless each counter counts exactly the values of its sum."""
    items = {item.name: item.unalias() for item in _aggregate_of(plan, name).parts["aggregateExpressions"]}
    for column, counter in part.values.items():
        total, count = items[column], items[counter]
        same = total.children[0].children[0].key == count.children[0].children[0].key
        same = same and [item.key for item in total.children[1:]] == [item.key for item in count.children[1:]]
        if not same or (total.children[0].kind, count.children[0].kind) != ("Sum", "Count"):
            raise Unprovable(f"`{name}` has {column}, of which it cannot be seen how many values it is of")
    for column in part.sums:
        if items[column].kind != "AggregateExpression":
            raise Unprovable(f"`{name}` has {column}, which is no sum as Spark reads it")
    for column in part.keys:
        if items[column].kind == "AggregateExpression":
            raise Unprovable(f"`{name}` has {column}, which is no key as Spark reads it")
