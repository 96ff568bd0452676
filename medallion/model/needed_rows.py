"""Find which rows of its inputs can matter to a query, from its plan as optimized by Spark.

The optimizer moves every condition on the rows of one input down to where this input is read, so the filter directly
above a read says which of its rows can matter. Joins say more: the row of an inner join that finds no partner is lost.
Only conditions with one meaning in Spark and in DuckDB are taken; without some part of one, more rows count as needed.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from medallion.model.needs import Link, Needs, Read
from medallion.model.plan import Column, Expression, Node, conjuncts, equal_columns, id_of
from medallion.sql_text import quoted, text_literal

Copies = Mapping[int, tuple[int, str]]  # by column, the read and the column of it that this is a plain copy of

_COMPARED = re.compile(r"byte|short|integer|long|string|date|boolean|decimal\(\d+,\d+\)")
_LITERALS = {
    **dict.fromkeys(("byte", "short", "integer", "long"), re.compile(r"-?\d+")),
    "date": re.compile(r"\d{4}-\d\d-\d\d"),
    "boolean": re.compile(r"true|false"),
    "decimal": re.compile(r"-?\d+(\.\d+)?"),
    "string": re.compile(r"[^\x00]*", re.DOTALL),
}
_OPERATORS = {
    "EqualTo": "=",
    "EqualNullSafe": "IS NOT DISTINCT FROM",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
}
_TEXT_TESTS = {"StartsWith": "starts_with", "EndsWith": "ends_with", "Contains": "contains"}
# Joins in which a row of the left, or of the right side is lost without a partner.
_LEFT_NEEDS_PARTNER = frozenset({"Inner", "Cross", "LeftSemi", "RightOuter"})
_RIGHT_NEEDS_PARTNER = frozenset({"Inner", "Cross", "LeftSemi", "LeftOuter", "LeftAnti"})


def needed_rows(root: Node, reads: Sequence[tuple[int, str]], inputs: Mapping[str, tuple[Column, ...]]) -> Needs:
    """Return what an optimized query needs of its inputs.

    Args:
        root: The plan.
        reads: The id of the first column of each read, and its input.
        inputs: The columns of each input, in the order of a read.
    """
    walk = _Walk(dict(reads), inputs)
    required = walk.of(root, is_top=True).required
    if {read.input for read in walk.reads} != {*inputs} or len(walk.reads) != len(reads):
        return Needs()  # an input that the optimizer does not read, or a read in a part of the plan not known here
    return Needs(tuple(walk.reads), tuple(sorted(required)))


@dataclass(frozen=True)
class _Below:
    """What is known about the rows of a node. required: the reads without a row of which it has none."""

    copies: Copies = field(default_factory=dict)
    required: frozenset[int] = frozenset()


class _Walk:
    def __init__(self, names: Mapping[int, str], inputs: Mapping[str, tuple[Column, ...]]) -> None:
        self._names, self._inputs = names, inputs
        self.reads: list[Read] = []

    def of(self, node: Node, *, is_top: bool = False) -> _Below:
        """Return what is known about the rows of a node. is_top: whether an aggregate of no rows is as good as none."""
        for expression in node.expressions:
            for part in expression.walk():
                if part.plan is not None:
                    self.of(part.plan)
        below = [self.of(child) for child in node.children]
        match node.kind:
            case "LogicalRDD":
                return self._read(node)
            case "Filter":
                return self._filtered(node, below[0])
            case "Project":
                return replace(below[0], copies=_passed(node.parts.get("projectList", ()), below[0].copies))
            case "Aggregate":
                return self._grouped(node, below[0], is_top=is_top)
            case "Window":
                kept = {part.id for part in node.parts.get("partitionSpec", ())}
                return replace(below[0], copies=_only(kept, below[0].copies))
            case "Sort" | "Generate":
                return below[0]
            case "Expand":
                return replace(below[0], copies={})
            case "Join":
                return self._joined(node, *below)
        return _Below()

    def _read(self, node: Node) -> _Below:
        number, name = len(self.reads), self._names[id_of(node.output[0])]
        self.reads.append(Read(name))
        pairs = zip(node.output, self._inputs[name], strict=True)
        copies = {id_of(given): (number, column) for given, (column, _, _) in pairs if _COMPARED.fullmatch(given.type)}
        return _Below(copies, frozenset({number}))

    def _filtered(self, node: Node, below: _Below) -> _Below:
        if node.child.kind == "LogicalRDD":
            (number,) = below.required
            names = {column: name for column, (_, name) in below.copies.items()}
            known = [text for part in conjuncts(node.condition) if (text := implied(part, names))]
            self.reads[number] = replace(self.reads[number], condition=" AND ".join(known))
        for left, right in equal_columns(node.condition):
            self._link(below.copies.get(left), below.copies.get(right))
            self._link(below.copies.get(right), below.copies.get(left))
        return below

    def _grouped(self, node: Node, below: _Below, *, is_top: bool) -> _Below:
        groups = node.parts.get("groupingExpressions", ())
        copies = _only({part.id for part in groups}, below.copies)
        required = below.required if groups or is_top else frozenset[int]()
        return _Below(_passed(node.parts["aggregateExpressions"], copies), required)

    def _joined(self, node: Node, left: _Below, right: _Below) -> _Below:
        kind = node.join_type
        for pair in equal_columns(node.condition):
            for one, other in (pair, pair[::-1]):
                if kind in _LEFT_NEEDS_PARTNER:
                    self._link(left.copies.get(one), right.copies.get(other))
                if kind in _RIGHT_NEEDS_PARTNER:
                    self._link(right.copies.get(one), left.copies.get(other))
        if kind not in _LEFT_NEEDS_PARTNER | _RIGHT_NEEDS_PARTNER:
            return _Below()
        required = frozenset[int]()
        if kind != "RightOuter":
            required |= left.required
        if kind in _LEFT_NEEDS_PARTNER:
            required |= right.required
        return _Below({**left.copies, **right.copies}, required)

    def _link(self, column: tuple[int, str] | None, other: tuple[int, str] | None) -> None:
        """Note that rows of the read of ``column`` need a partner in ``other``."""
        if column is None or other is None or column[0] == other[0]:
            return
        read = self.reads[column[0]]
        self.reads[column[0]] = replace(read, links=tuple(dict.fromkeys((*read.links, Link(column[1], *other)))))


def _passed(items: Iterable[Expression], copies: Copies) -> Copies:
    pairs = ((item, item.unalias()) for item in items)
    return {id_of(item): copies[id_of(inner)] for item, inner in pairs if inner.id in copies}


def _only(columns: Iterable[int | None], copies: Copies) -> Copies:
    return {column: copy for column, copy in copies.items() if column in {*columns}}


def implied(condition: Expression, names: Mapping[int, str]) -> str:
    """Return SQL that is true for every row for which ``condition`` is; empty if none is known.

    names: the columns that can be named, by id.
    """
    if condition.kind == "And":
        return " AND ".join(filter(None, (implied(side, names) for side in condition.children)))
    if condition.kind == "Or":
        sides = [implied(side, names) for side in condition.children]
        return f"({' OR '.join(f'({side})' for side in sides)})" if all(sides) else ""
    return _same(condition, names)


def _same(condition: Expression, names: Mapping[int, str]) -> str:
    """Return SQL with the same value as ``condition``, true, false or null; empty if none is known."""
    kind, parts = condition.kind, condition.children
    if kind == "Not":
        inner = _same(parts[0], names)
        return f"(NOT {inner})" if inner else ""
    if condition.is_column:
        return _value(condition, names)
    if kind in {"IsNull", "IsNotNull"} and parts[0].is_column:
        column = names.get(id_of(parts[0]))
        return f"({quoted(column)} IS {'NOT ' if kind == 'IsNotNull' else ''}NULL)" if column else ""
    values = [_value(part, names) for part in parts]
    if not all(values):
        return ""
    if kind in _OPERATORS:
        return f"({values[0]} {_OPERATORS[kind]} {values[1]})"
    if kind == "In":
        return f"({values[0]} IN ({', '.join(values[1:])}))"
    if kind in _TEXT_TESTS:
        return f"{_TEXT_TESTS[kind]}({values[0]}, {values[1]})"
    # In Spark, _ stands for one UTF-16 code unit, and a backslash escapes.
    if kind == "Like" and parts[1].value is not None and not {"_", "\\"} & {*parts[1].value}:
        return f"({values[0]} LIKE {values[1]})"
    return ""


def _value(expression: Expression, names: Mapping[int, str]) -> str:
    """Return the SQL of a column, the beginning of a text, or a literal; empty for anything else."""
    if expression.is_column:
        return quoted(names[id_of(expression)]) if id_of(expression) in names else ""
    if expression.kind == "Literal":
        return _literal(expression)
    if expression.kind == "Substring":
        text, *place = expression.children
        numbers = [part.value or "" for part in place]
        if (inner := _value(text, names)) and all(number.isdecimal() and number != "0" for number in numbers):
            return f"substring({', '.join((inner, *numbers))})"
    return ""


def _literal(expression: Expression) -> str:
    kind, text = expression.type, expression.value
    allowed = _LITERALS.get(kind.split("(")[0])
    if text is None or allowed is None or not allowed.fullmatch(text):
        return ""
    if kind in {"string", "date"}:
        written = text_literal(text)
        return f"DATE {written}" if kind == "date" else written
    return text
