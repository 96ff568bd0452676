"""A query as analysed by Spark. Spark resolves columns and types; nothing is resolved here.

It is read from the JSON that Catalyst writes for an analysed plan. Columns are identified by their expression ids,
whatever their names. Kinds of nodes that are not listed here are refused by name.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

from medallion.errors import MedallionError
from medallion.model.column_types import spark_type
from medallion.model.table import ChangeLog, Feed

FLOATING_TYPES = frozenset({"float", "double"})

# Nodes whose rows are those of their child, or some of them, with the same columns.
_SAME_COLUMNS = frozenset(
    {
        *("Filter", "Sort", "SubqueryAlias", "Distinct", "GlobalLimit", "LocalLimit", "Offset", "Sample"),
        *("RepartitionByExpression", "Repartition", "RebalancePartitions", "CTERelationDef"),
    }
)
OWN_OUTPUT = frozenset({"LogicalRDD", "LocalRelation", "Expand", "CTERelationRef", "OneRowRelation", "Range"})
_LEFT_OUTPUT = frozenset({"Intersect", "Except", "Union"})
_KNOWN = (
    _SAME_COLUMNS
    | OWN_OUTPUT
    | _LEFT_OUTPUT
    | {"Project", "Aggregate", "Window", "Join", "Generate", "View", "WithCTE"}
)


class NoPlans(MedallionError):
    """This process cannot read Spark's plans."""


class UnknownRelation(MedallionError):
    """A query reads ``name``, which it does not define, and which is not in braces; line: of the query, if known."""

    def __init__(self, name: str, line: int | None) -> None:
        super().__init__(f"Spark cannot analyse its query: it reads {name}, which is unknown")
        self.name, self.line = name, line


class Unprovable(Exception):
    """A refresh method cannot be proven right for a query; the message says why."""


class Nondeterministic(Unprovable):
    """A query may return different rows when it is run again, whatever its refresh method; the message says why."""


@dataclass(frozen=True, eq=False)
class Expression:
    """An expression of a plan.

    kind, package: the class in Catalyst, and its package. id: the id of an attribute or an alias. type: the type of an
    attribute, a literal, a cast or an aggregate. input_type: the type of an aggregate's input. detail: the other fields
    that define it. plan: the plan of a subquery. is_unclear: whether the JSON omits part of its definition.
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
    is_unclear: bool = False

    @property
    def is_column(self) -> bool:
        """Whether it is a plain column."""
        return self.kind == "AttributeReference"

    @cached_property
    def key(self) -> str:
        """A key that is equal for equal expressions of the same columns."""
        if self.is_column:
            return f"#{self.id}"
        inner = ",".join(child.key for child in self.children)
        kind = "" if self.kind == "AggregateExpression" else self.type
        # Unclear expressions and subqueries equal only themselves, because their contents are not compared.
        own = f"@{id(self)}" if self.is_unclear or self.plan is not None else ""
        return f"{self.kind}{own}[{self.value}|{kind}|{self.detail}]({inner})"

    def walk(self) -> Iterator["Expression"]:
        """Yield the expression and all expressions in it, except those in plans of subqueries."""
        yield self
        for child in self.children:
            yield from child.walk()

    @cached_property
    def columns(self) -> frozenset[int]:
        """The ids of the columns in the expression."""
        return frozenset(part.id for part in self.walk() if part.is_column and part.id is not None)

    def unalias(self) -> "Expression":
        """Return the expression that an alias names; any other expression itself."""
        return self.children[0] if self.kind == "Alias" else self

    def __str__(self) -> str:
        """Return approximately the SQL of the expression."""
        return _written(self)


@dataclass(frozen=True, eq=False)
class Node:
    """An operator of a plan.

    parts: its expressions, by field name. output: its columns. detail: the other fields. For a node of an unknown kind,
    ``is_known`` is false and the output is that of its first child.
    """

    kind: str
    children: tuple["Node", ...]
    parts: Mapping[str, tuple[Expression, ...]]
    output: tuple[Expression, ...]
    detail: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_known(self) -> bool:
        """Whether the kind of the node is known."""
        return self.kind in _KNOWN

    @property
    def child(self) -> "Node":
        """The only child, or the first one."""
        return self.children[0]

    @property
    def expressions(self) -> Iterator[Expression]:
        """All expressions of the node."""
        for part in self.parts.values():
            yield from part

    @property
    def condition(self) -> Expression | None:
        """The condition of a join or a filter."""
        return next(iter(self.parts.get("condition", ())), None)

    @property
    def join_type(self) -> str:
        """The type of a join: Inner, Cross, LeftOuter, RightOuter, FullOuter, LeftSemi or LeftAnti."""
        return object_name(self.detail.get("joinType"))

    @property
    def alias(self) -> str:
        """The name that a SubqueryAlias defines."""
        return str(self.detail["identifier"]["name"])

    @property
    def cte(self) -> int:
        """The number of the common table expression that the node defines or reads."""
        return int(self.detail["cteId" if self.kind == "CTERelationRef" else "id"])

    @property
    def source(self) -> tuple[str, tuple[str, ...]] | None:
        """Name and columns of the input, if the node is a View over one; else None."""
        fields = self.detail["desc"]["schema"]["fields"] if self.kind == "View" else []
        if not fields or "input" not in fields[0]["metadata"]:
            return None
        return fields[0]["metadata"]["input"], tuple(column["metadata"]["column"] for column in fields)

    def walk(self) -> Iterator["Node"]:
        """Yield the node and all nodes below it, including those in subqueries."""
        yield self
        for expression in self.expressions:
            for part in expression.walk():
                if part.plan is not None:
                    yield from part.plan.walk()
        for child in self.children:
            yield from child.walk()


Column = tuple[str, str, bool]  # name, type, and whether it may be null


def declared_columns(node: Feed | ChangeLog) -> tuple[Column, ...]:
    """Return the columns of a Bronze table that queries can read: the declared ones."""
    return tuple((column.name, spark_type(column.sql_type), not column.required) for column in node.columns)


@dataclass(frozen=True)
class Analysis:
    """Spark's analysis of a query.

    plan: the JSON of its analysed plan. types: by result id, the types of aggregates and of their inputs, which the
    JSON omits. columns: its output columns. is_deterministic: Catalyst's own flag, which is true even for clock
    functions. is_same: whether Spark produces the same plan for it as for the query to compare it with. optimized: the
    JSON of its optimized plan, if it was asked for and Spark has one for any rows. reads: the id of the first column of
    each read in that plan, and its input.
    """

    plan: str
    types: Mapping[int, tuple[str, str]]
    columns: tuple[Column, ...]
    is_deterministic: bool
    is_same: bool = False
    optimized: str = ""
    reads: tuple[tuple[int, str], ...] = ()


class Analyser(Protocol):
    """Returns Spark's analysis of a query over ``inputs``.

    same_as: another query to compare it with. optimize: whether the optimized plan is wanted.
    """

    def __call__(
        self, query: str, inputs: Mapping[str, tuple[Column, ...]], /, *, same_as: str = "", optimize: bool = False
    ) -> Analysis: ...


@dataclass(frozen=True)
class Plan:
    """An analysed query.

    root: the node that returns its rows. ctes: the common table expressions below it, by number. columns,
    is_deterministic: as in Analysis.
    """

    root: Node
    ctes: Mapping[int, Node]
    columns: tuple[Column, ...]
    is_deterministic: bool

    def cte_named(self, name: str) -> Node | None:
        """Return the query of a common table expression; None if none or several have that name."""
        aliases = [node.child for node in self.ctes.values() if node.child.kind == "SubqueryAlias"]
        queries = [alias.child for alias in aliases if alias.alias.lower() == name.lower()]
        return queries[0] if len(queries) == 1 else None


def conjuncts(condition: Expression | None) -> Iterator[Expression]:
    """Yield the conditions that ``condition`` connects by AND."""
    if condition is not None and condition.kind == "And":
        for child in condition.children:
            yield from conjuncts(child)
    elif condition is not None:
        yield condition


def equal_columns(condition: Expression | None) -> list[tuple[int, int]]:
    """Return the pairs of columns that ``condition`` makes equal and not null.

    Not those of <=>, for which nulls are equal. In a subquery, columns of the enclosing query are included.
    """
    pairs = []
    for part in conjuncts(condition):
        if part.kind == "Or":  # only pairs that every side makes equal
            sides = [{*map(frozenset, equal_columns(side))} for side in part.children]
            pairs += [(min(pair), max(pair)) for pair in sides[0].intersection(*sides[1:])]
        if part.kind == "EqualTo":
            left, right = (side.children[0] if side.kind == "OuterReference" else side for side in part.children)
            if left.is_column and right.is_column:
                pairs.append((id_of(left), id_of(right)))
    return pairs


def id_of(expression: Expression) -> int:
    """Return the id of a column or an alias."""
    assert expression.id is not None
    return expression.id


def in_words(kind: str) -> str:
    """Return the name of a class as words, such as LATERAL JOIN for LateralJoin."""
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
        case "GetStructField":
            return f"{children[0]}.{tree.name}"
        case "CreateNamedStruct":
            return f"STRUCT({', '.join(children[1::2])})"
    return f"{_NAMES.get(tree.kind, in_words(tree.kind).replace(' ', '_'))}({', '.join(children)})"


# Functions whose names do not follow from those of their classes.
_NAMES = {
    "ApproximatePercentile": "PERCENTILE_APPROX",
    "Average": "AVG",
    "CallMethodViaReflection": "REFLECT",
    "CreateArray": "ARRAY",
    "CreateMap": "MAP",
    "DateFormatClass": "DATE_FORMAT",
    "ListAgg": "LISTAGG",
    "LocalTimestamp": "LOCALTIMESTAMP",
    "MonotonicallyIncreasingID": "MONOTONICALLY_INCREASING_ID",
    "ParseToDate": "TO_DATE",
    "ParseToTimestamp": "TO_TIMESTAMP",
    "RandStr": "RANDSTR",
    "RegExpReplace": "REGEXP_REPLACE",
    "RLike": "RLIKE",
    "SparkPartitionID": "SPARK_PARTITION_ID",
    "StringSplit": "SPLIT",
    "Uuid": "UUID",
}


def object_name(value: Any) -> str:
    """Return the class name of a value in the JSON, such as a join type."""
    name = value.get("object") or value.get("product-class") or "" if isinstance(value, Mapping) else ""
    return str(name).rsplit(".", 1)[-1].rstrip("$")
