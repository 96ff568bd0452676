"""Compare two optimized plans: whether they return the same rows, as far as their operators show.

Spark's own comparison includes every column that an operator passes on, and the place where an expression is computed,
such as below or above a filter. Equivalent queries differ in both without any effect on the rows. So this comparison
identifies a column by the expression that computes it from columns of tables, and skips operators that only select,
rename and compute columns. An aggregate belongs to the operator that groups, a window function to its operator, and a
column that an outer join may set to null is marked as such. Anything unknown equals nothing.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

from medallion.model.plan import Expression, Node, Plan, conjuncts, id_of

_LIMITS = frozenset({"GlobalLimit", "LocalLimit", "Offset"})
_NULLABLE_SIDES: Mapping[str, tuple[int, ...]] = {"LeftOuter": (1,), "RightOuter": (0,), "FullOuter": (0, 1)}
_MAX_TEXT = 200
_OF_SEVERAL_ROWS = frozenset({"AggregateExpression", "WindowExpression"})
_IN_ANY_ORDER = frozenset({"And", "Or", "EqualTo", "EqualNullSafe", "Add", "Multiply"})


class _Unknown(Exception):
    """A construct that the comparison does not know."""


@dataclass(frozen=True)
class Optimized:
    """A plan as optimized by Spark. tables: the table of each read, by the id of the first column of the read."""

    plan: Plan
    tables: Mapping[int, str]


def give_same_rows(left: Optimized, right: Optimized) -> bool:
    """Return whether two plans of deterministic queries return the same rows in the same columns."""
    try:
        return _Rows(left.tables).of_plan(left.plan.root) == _Rows(right.tables).of_plan(right.plan.root)
    except _Unknown:
        return False


class _Rows:
    """The text of what a plan does. Columns get names from the tables upwards."""

    def __init__(self, tables: Mapping[int, str]) -> None:
        self._tables, self._names = tables, dict[int, str]()
        self._operator = ""  # the one that aggregates and window functions belong to
        self._count = 0

    def of_plan(self, root: Node) -> str:
        """Return the text of the operators that return the rows, with the output columns."""
        return f"{self._of(root)}[{self._columns(root.output)}]"

    def _of(self, node: Node) -> str:
        match node.kind:
            case "LogicalRDD":
                return self._table(node)
            case "Project":
                below = self._of(node.child)
                self._name(node.parts["projectList"])
                return below
            case "Aggregate":
                below = self._of(node.child)
                groups = sorted({self._text(group) for group in node.parts.get("groupingExpressions", ())})
                operator = self._name(node.parts["aggregateExpressions"], "groups")
                return f"{operator} by {groups}({below})"
            case "Window":
                below = self._of(node.child)
                operator = self._name(node.parts["windowExpressions"], "window")
                return f"{operator}({below})"
            case "Filter":
                below = self._of(node.child)
                return f"Filter {sorted({self._text(part) for part in conjuncts(node.condition)})}({below})"
            case "Sort":
                below = self._of(node.child)
                return f"Sort {node.detail['global']} {self._texts(node.parts['order'])}({below})"
            case kind if kind in _LIMITS:
                below = self._of(node.child)
                return f"{kind} {self._texts(node.expressions)}({below})"
            case "Join":
                return self._join(node)
            case "Union":
                return self._union(node)
            case "Expand":
                return self._expand(node)
        raise _Unknown

    def _table(self, node: Node) -> str:
        name, place = self._tables.get(id_of(node.output[0])), self._next("table")
        if name is None:
            raise _Unknown
        for number, column in enumerate(node.output):
            self._names[id_of(column)] = f"{place}.{number}"
        return f"{place} {name}"

    def _name(self, items: Iterable[Expression], kind: str = "") -> str:
        """Name the columns that an operator computes; columns that it passes on keep their names.

        Return the name of the operator. It has one only with a ``kind``: that of operators that read several rows.
        """
        around, operator = self._operator, self._next(kind) if kind else ""
        self._operator = operator
        for item in items:
            if not item.is_column:
                if item.kind != "Alias":
                    raise _Unknown
                self._names[id_of(item)] = self._text(item.unalias())
        self._operator = around
        return operator

    def _join(self, node: Node) -> str:
        sides = [self._of(child) for child in node.children]
        condition = sorted({self._text(part) for part in conjuncts(node.condition)})
        if node.join_type == "ExistenceJoin":  # it adds a column that says whether a matching row exists
            self._names[int(node.detail["joinType"]["exists"][0]["exprId"]["id"])] = self._next("exists")
        if outer := _NULLABLE_SIDES.get(node.join_type):
            join = self._next("join")
            for side in outer:
                for column in node.children[side].output:
                    self._names[id_of(column)] = _short(f"{join}[{self._text(column)}]")
        return f"{node.join_type} {condition}({','.join(sides)})"

    def _union(self, node: Node) -> str:
        if node.detail.get("byName") or node.detail.get("allowMissingCol"):
            raise _Unknown
        branches = []
        for child in node.children:
            below = self._of(child)
            branches.append(f"{below}[{self._columns(child.output)}]")
        for column in node.output:  # these have the ids of the columns of the first branch
            self._names[id_of(column)] = self._next("union")
        return f"Union({','.join(branches)})"

    def _expand(self, node: Node) -> str:
        """Return the text of an operator that makes several rows of one, as ROLLUP does.

        A column is identified by its expressions in all of these rows.
        """
        below, values = self._of(node.child), self._texts(node.parts.get("projections", ()))
        if not values:
            raise _Unknown
        operator, column_texts = self._next("expand"), set[str]()
        for place, column in enumerate(node.output):
            texts = values[place :: len(node.output)]
            if {*texts} != {self._names.get(id_of(column))}:  # some row has another value
                column_texts.add(_short(str(texts)))
                self._names[id_of(column)] = f"{operator}[{_short(str(texts))}]"
        return f"{operator} {sorted(column_texts)}({below})"

    def _next(self, what: str) -> str:
        self._count += 1
        return f"{what}{self._count}"

    def _columns(self, output: Sequence[Expression]) -> str:
        return ",".join(map(self._text, output))

    def _texts(self, trees: Iterable[Expression]) -> list[str]:
        return [*map(self._text, trees)]

    def _text(self, tree: Expression) -> str:
        if tree.is_column:
            if tree.id not in self._names:  # a column of the query that encloses a subquery
                raise _Unknown
            return self._names[tree.id]
        if tree.is_unclear:
            raise _Unknown
        parts = [*map(self._text, _alike(tree))]
        if tree.kind in _IN_ANY_ORDER:
            parts.sort()
        below = self.of_plan(tree.plan) if tree.plan is not None else ""
        text = f"{tree.kind}[{tree.value}|{tree.type}|{tree.input_type}|{tree.detail}|{below}]({','.join(parts)})"
        return _short(f"{self._operator}[{text}]" if tree.kind in _OF_SEVERAL_ROWS else text)


def _alike(tree: Expression) -> Iterator[Expression]:
    """Yield the operands of an expression; nested ANDs, and nested ORs, are flattened."""
    for child in tree.children:
        if tree.kind in {"And", "Or"} and child.kind == tree.kind:
            yield from _alike(child)
        else:
            yield child


def _short(text: str) -> str:
    """Return a text, or its digest if it is long: nested expressions would otherwise grow exponentially."""
    return text if len(text) <= _MAX_TEXT else f"#{sha256(text.encode()).hexdigest()}"
