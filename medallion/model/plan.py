"""A query as Spark analysed it: which column is meant, of what type, is Spark's word, and nothing is resolved here.

Read from the JSON that Catalyst writes of an analysed plan. Columns are known by their expression ids, whatever they
are called. A kind of node that is not listed here is refused by its name.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

FLOATING_TYPES = frozenset({"float", "double"})

# Nodes whose rows are those of their child, or some of them, with the same columns.
_SAME_COLUMNS = frozenset(
    {
        *("Filter", "Sort", "SubqueryAlias", "Distinct", "GlobalLimit", "LocalLimit", "Offset", "Sample"),
        *("RepartitionByExpression", "Repartition", "RebalancePartitions", "CTERelationDef", "ResolvedHint"),
    }
)
_OWN_OUTPUT = frozenset({"LogicalRDD", "LocalRelation", "Expand", "CTERelationRef", "OneRowRelation", "Range"})
_LEFT_OUTPUT = frozenset({"Intersect", "Except", "Union"})
_KNOWN = (
    _SAME_COLUMNS | _OWN_OUTPUT | _LEFT_OUTPUT | {"Project", "Aggregate", "Window", "Join", "Generate", "View", "WithCTE"}
)
# Of an expression, what differs between two analyses of the same text.
_IDENTITY = frozenset({"class", "num-children", "exprId", "resultId", "name", "qualifier", "metadata", "evalContext"})


class Unprovable(Exception):
    """Why a refresh method cannot be right for a query."""


class Nondeterministic(Unprovable):
    """Why a query need not give the same rows twice, however it is refreshed."""


@dataclass(frozen=True, eq=False)
class Expression:
    """An expression of a plan.

    kind: the class in Catalyst, package: where that is. id: of an attribute or an alias. type: of an attribute, a
    literal, a cast or an aggregate, input_type: of what an aggregate is of. detail: what else makes it what it is.
    plan: of a subquery.
    """

    kind: str
    package: str
    children: tuple["Expression", ...] = ()
    id: int | None = None
    name: str = ""
    type: str = ""
    input_type: str = ""
    nullable: bool = True
    value: str | None = None
    detail: str = ""
    plan: "Node | None" = None

    @property
    def is_column(self) -> bool:
        """Whether it is a column as it is."""
        return self.kind == "AttributeReference"

    @cached_property
    def key(self) -> str:
        """Equal for expressions that are the same, of the same columns."""
        if self.is_column:
            return f"#{self.id}"
        inner = ",".join(child.key for child in self.children)
        return f"{self.kind}[{self.value}|{self.type if self.kind != 'AggregateExpression' else ''}|{self.detail}]({inner})"

    def walk(self) -> Iterator["Expression"]:
        """It and all that is in it, but for the plans of subqueries."""
        yield self
        for child in self.children:
            yield from child.walk()

    @cached_property
    def columns(self) -> frozenset[int]:
        """The ids of the columns in it."""
        return frozenset(part.id for part in self.walk() if part.is_column and part.id is not None)

    def unalias(self) -> "Expression":
        """What an alias stands for."""
        return self.children[0] if self.kind == "Alias" else self

    def __str__(self) -> str:
        """About as one would write it."""
        return _written(self)


@dataclass(frozen=True, eq=False)
class Node:
    """An operator of a plan.

    parts: its expressions, by the name of the field. output: its columns. detail: the other fields. A node of a kind
    that is not known has ``is_known`` false, and the columns of its first child.
    """

    kind: str
    children: tuple["Node", ...]
    parts: Mapping[str, tuple[Expression, ...]]
    output: tuple[Expression, ...]
    detail: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_known(self) -> bool:
        """Whether anything can be said of its rows."""
        return self.kind in _KNOWN

    @property
    def child(self) -> "Node":
        """The only one that it reads, or the first."""
        return self.children[0]

    @property
    def expressions(self) -> Iterator[Expression]:
        """All of them."""
        for part in self.parts.values():
            yield from part

    @property
    def condition(self) -> Expression | None:
        """What a join or a filter goes by."""
        return next(iter(self.parts.get("condition", ())), None)

    @property
    def join_type(self) -> str:
        """Of a join: Inner, Cross, LeftOuter, RightOuter, FullOuter, LeftSemi or LeftAnti."""
        return _object_name(self.detail.get("joinType"))

    @property
    def alias(self) -> str:
        """The name that a SubqueryAlias gives."""
        return str(self.detail["identifier"]["name"])

    @property
    def cte(self) -> int:
        """The number of the common table expression that it defines or reads."""
        return int(self.detail["cteId" if self.kind == "CTERelationRef" else "id"])

    @property
    def source(self) -> tuple[str, tuple[str, ...]] | None:
        """Of a View over an input: its name and columns."""
        fields = self.detail["desc"]["schema"]["fields"] if self.kind == "View" else []
        if not fields or "input" not in fields[0]["metadata"]:
            return None
        return fields[0]["metadata"]["input"], tuple(column["metadata"]["column"] for column in fields)

    def walk(self) -> Iterator["Node"]:
        """It and all below it, those in subqueries too."""
        yield self
        for expression in self.expressions:
            for part in expression.walk():
                if part.plan is not None:
                    yield from part.plan.walk()
        for child in self.children:
            yield from child.walk()


Column = tuple[str, str, bool]  # name, type, and whether it may be null


@dataclass(frozen=True)
class Analysis:
    """What Spark says of a query.

    plan: the JSON of its analysed plan. types: by result id, the types of aggregates and of what they are of, which the
    JSON leaves out. columns: that it gives. is_deterministic: what Catalyst says of it, to which a clock is so.
    """

    plan: str
    types: Mapping[int, tuple[str, str]]
    columns: tuple[Column, ...]
    is_deterministic: bool


@dataclass(frozen=True)
class Plan:
    """An analysed query.

    root: what gives its rows. ctes: the common table expressions under it, by number. columns, is_deterministic: as of
    Analysis.
    """

    root: Node
    ctes: Mapping[int, Node]
    columns: tuple[Column, ...]
    is_deterministic: bool

    def cte_named(self, name: str) -> Node | None:
        """The query of a common table expression; None where there is none of that name, or several."""
        found = [node.child for node in self.ctes.values()]
        found = [node.child for node in found if node.kind == "SubqueryAlias" and node.alias.lower() == name.lower()]
        return found[0] if len(found) == 1 else None


def read_plan(analysis: Analysis) -> Plan:
    """Read what Spark says of a query."""
    root = _Reader(analysis.types).node(json.loads(analysis.plan))
    ctes = {node.cte: node for node in root.walk() if node.kind == "CTERelationDef"}
    return Plan(root, ctes, analysis.columns, analysis.is_deterministic)


def conjuncts(condition: Expression | None) -> Iterator[Expression]:
    """What must all be true, for ``condition`` to be."""
    if condition is not None and condition.kind == "And":
        for child in condition.children:
            yield from conjuncts(child)
    elif condition is not None:
        yield condition


def equal_columns(condition: Expression | None) -> list[tuple[int, int]]:
    """The pairs of columns that ``condition`` makes equal and not null; not by <=>, which lets null meet null."""
    pairs = []
    for part in conjuncts(condition):
        if part.kind == "EqualTo" and all(side.is_column for side in part.children):
            left, right = part.children
            assert left.id is not None and right.id is not None
            pairs.append((left.id, right.id))
    return pairs


def id_of(expression: Expression) -> int:
    """The id of a column or an alias."""
    assert expression.id is not None
    return expression.id


class _Reader:
    """Reads trees that are written as lists, each node before its children."""

    def __init__(self, types: Mapping[int, tuple[str, str]]) -> None:
        self._types = types

    def node(self, items: Sequence[Mapping[str, Any]]) -> Node:
        place = iter(items)
        return self._node(place)

    def _node(self, items: Iterator[Mapping[str, Any]]) -> Node:
        item = next(items)
        kind = item["class"].rstrip("$").rsplit(".", 1)[-1]
        children = tuple(self._node(items) for _ in range(item["num-children"]))
        parts: dict[str, tuple[Expression, ...]] = {}
        detail: dict[str, Any] = {}
        for name, value in item.items():
            if _is_tree(value):
                parts[name] = (self.expression(value),)
            elif isinstance(value, list) and value and all(_is_tree(part) for part in value):
                parts[name] = tuple(self.expression(part) for part in value)
            elif kind == "Expand" and name == "projections":
                parts[name] = tuple(self.expression(part) for row in value for part in row)
                detail["width"] = len(value[0]) if value else 0
            elif name not in {"class", "num-children"}:
                detail[name] = value
        return Node(kind, children, parts, _output(kind, children, parts, detail), detail)

    def expression(self, items: Sequence[Mapping[str, Any]]) -> Expression:
        return self._expression(iter(items))

    def _expression(self, items: Iterator[Mapping[str, Any]]) -> Expression:
        item = next(items)
        package, kind = item["class"].rstrip("$").rsplit(".", 1)
        children = tuple(self._expression(items) for _ in range(item["num-children"]))
        number = item.get("exprId") or item.get("resultId")
        type_text, input_type = item.get("dataType", ""), ""
        if kind == "AggregateExpression":
            type_text, input_type = self._types.get(item["resultId"]["id"], ("unknown", "unknown"))
        plan = item.get("plan")
        detail = {name: value for name, value in item.items() if name not in _IDENTITY and _is_plain(value)}
        return Expression(
            kind,
            package,
            children,
            number["id"] if number else None,
            str(item.get("name", "")),
            type_text if isinstance(type_text, str) else json.dumps(type_text, sort_keys=True),
            input_type,
            bool(item.get("nullable", True)),
            None if item.get("value") is None else str(item["value"]),
            json.dumps(detail, sort_keys=True),
            self.node(plan) if plan is not None and _is_tree(plan) else None,
        )


def _output(
    kind: str,
    children: tuple[Node, ...],
    parts: Mapping[str, tuple[Expression, ...]],
    detail: Mapping[str, Any],
) -> tuple[Expression, ...]:
    if kind in _OWN_OUTPUT:
        return parts.get("output", ())
    if kind == "WithCTE":
        return children[int(detail["plan"])].output
    if kind == "Project":
        return tuple(_column(item) for item in parts.get("projectList", ()))
    if kind == "Aggregate":
        return tuple(_column(item) for item in parts["aggregateExpressions"])
    if kind == "Window":
        return (*children[0].output, *(_column(item) for item in parts["windowExpressions"]))
    if kind == "Generate":
        left_out = set(detail.get("unrequiredChildIndex") or ())
        read = (column for place, column in enumerate(children[0].output) if place not in left_out)
        return (*read, *parts.get("generatorOutput", ()))
    if kind == "Join" and _object_name(detail.get("joinType")) not in {"LeftSemi", "LeftAnti"}:
        return (*children[0].output, *children[1].output)
    return children[0].output if children else ()


def _column(item: Expression) -> Expression:
    """The column that an item of a list gives."""
    if item.is_column:
        return item
    inner = item.unalias()
    known = inner.type if inner.kind in {"AttributeReference", "Literal", "Cast", "AggregateExpression"} else ""
    nullable = inner.nullable if inner.is_column else inner.kind != "Literal" or inner.value is None
    return Expression("AttributeReference", item.package, (), item.id, item.name, known, "", nullable)


def _is_tree(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict) and "class" in value[0]


def _is_plain(value: Any) -> bool:
    """Whether a field is a value, and not a child or its number."""
    if isinstance(value, bool | str) or value is None:
        return True
    return isinstance(value, dict) and ("object" in value or "product-class" in value)


def _object_name(value: Any) -> str:
    name = value.get("object") or value.get("product-class") or "" if isinstance(value, Mapping) else ""
    return str(name).rsplit(".", 1)[-1].rstrip("$")


def in_words(kind: str) -> str:
    """LateralJoin as LATERAL JOIN."""
    return "".join(f" {letter}" if letter.isupper() else letter for letter in kind).strip().upper()


def _written(tree: Expression) -> str:
    children = [str(child) for child in tree.children]
    match tree.kind:
        case "AttributeReference":
            return tree.name
        case "Literal":
            return "NULL" if tree.value is None else f"'{tree.value}'" if tree.type == "string" else tree.value
        case "Alias" | "OuterReference" | "Cast" | "SortOrder":
            return children[0]
        case "AggregateExpression":
            shown = children[0]
            if '"isDistinct": true' in tree.detail:
                shown = shown.replace("(", "(DISTINCT ", 1)
            return shown if len(children) == 1 else f"{shown} FILTER (WHERE {children[1]})"
        case "WindowExpression":
            return f"{children[0]} OVER (...)"
        case "CreateNamedStruct":
            return f"STRUCT({', '.join(children[1::2])})"
    return f"{_NAMES.get(tree.kind, in_words(tree.kind).replace(' ', '_'))}({', '.join(children)})"


_NAMES = {"ApproximatePercentile": "PERCENTILE_APPROX", "Average": "AVG", "ListAgg": "LISTAGG", "Uuid": "UUID"}
