"""Read the JSON that Catalyst writes for an analysed plan."""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from medallion.model.plan import OWN_OUTPUT, Analysis, Column, Expression, Node, Plan, object_name

# Fields of an expression that differ between two analyses of the same text, or that are stored elsewhere.
_IDENTITY = frozenset({"class", "num-children", "exprId", "resultId", "name", "qualifier", "metadata", "evalContext"})
# Fields that the JSON has as null whatever their value. Expressions that differ only in the first two return the same
# value or fail; a plan defines each common expression once; and LIKE with ESCAPE is refused by its text.
_NEVER_WRITTEN = frozenset({"evalMode", "evalContext", "id", "escapeChar", "value"})


def read_plan(analysis: Analysis) -> Plan:
    """Read the plan in Spark's analysis of a query."""
    return _read(analysis.plan, tuple(analysis.types.items()), analysis.columns, analysis.is_deterministic)


@lru_cache(maxsize=64)  # many candidate methods need the plan of one query, and reading a large one takes 0.1 s
def _read(
    plan: str, types: tuple[tuple[int, tuple[str, str]], ...], columns: tuple[Column, ...], is_deterministic: bool
) -> Plan:
    root = _Reader(dict(types)).node(json.loads(plan))
    ctes = {node.cte: node for node in root.walk() if node.kind == "CTERelationDef"}
    return Plan(root, ctes, columns, is_deterministic)


class _Reader:
    """Reads trees that are stored as lists, each node before its children."""

    def __init__(self, types: Mapping[int, tuple[str, str]]) -> None:
        self._types = types

    def node(self, items: Sequence[Mapping[str, Any]]) -> Node:
        place = iter(items)
        return self._node(place)

    def _node(self, items: Iterator[Mapping[str, Any]]) -> Node:
        item = next(items)
        kind = item["class"].rstrip("$").rsplit(".", 1)[-1]
        children = tuple(self._node(items) for _ in range(item["num-children"]))
        if kind == "ResolvedHint":  # says how a join is done, which changes no row
            return children[0]
        parts: dict[str, tuple[Expression, ...]] = {}
        detail: dict[str, Any] = {}
        for name, value in item.items():
            if _is_tree(value):
                parts[name] = (self.expression(value),)
            elif isinstance(value, list) and value and all(_is_tree(part) for part in value):
                parts[name] = tuple(self.expression(part) for part in value)
            elif kind == "Expand" and name == "projections" and value is not None:  # Spark sometimes writes null
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
        if kind == "OuterReference":  # a leaf in the JSON, with the column as a field
            children = (self.expression(item["e"]),)
        number = item.get("exprId") or item.get("resultId")
        type_text, input_type = item.get("dataType", ""), ""
        if kind == "AggregateExpression":
            type_text, input_type = self._types.get(item["resultId"]["id"], ("unknown", "unknown"))
        plan = item.get("plan")
        detail = {name: value for name, value in item.items() if name not in _IDENTITY and _is_definition(value)}
        if kind == "NamedLambdaVariable":  # identified only by name: (a, b) -> a - b is not (a, b) -> b - a
            detail["name"] = item["name"]
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
            any(value is None for name, value in detail.items() if name not in _NEVER_WRITTEN),
        )


def _output(
    kind: str,
    children: tuple[Node, ...],
    parts: Mapping[str, tuple[Expression, ...]],
    detail: Mapping[str, Any],
) -> tuple[Expression, ...]:
    if kind in OWN_OUTPUT:
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
    if kind == "Join" and object_name(detail.get("joinType")) not in {"LeftSemi", "LeftAnti"}:
        return (*children[0].output, *children[1].output)
    return children[0].output if children else ()


def _column(item: Expression) -> Expression:
    """Return the output column of an item of a list."""
    if item.is_column:
        return item
    inner = item.unalias()
    known = inner.type if inner.kind in {"AttributeReference", "Literal", "Cast", "AggregateExpression"} else ""
    nullable = inner.nullable if inner.is_column else inner.kind != "Literal" or inner.value is None
    return Expression("AttributeReference", item.package, (), item.id, item.name, known, "", nullable)


def _is_tree(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict) and "class" in value[0]


def _is_definition(value: Any) -> bool:
    """Return whether a field is part of the definition of an expression.

    Plain values are, such as the position of a field in a struct or the schema of a JSON text. Nested expressions and
    plans are not, as they are among the children, such as the branches of a CASE; nor are ids.
    """
    if isinstance(value, dict):
        is_own = "class" in value or str(value.get("product-class", "")).endswith("ExprId")
        return not is_own and all(map(_is_definition, value.values()))
    return not isinstance(value, list) or all(map(_is_definition, value))
