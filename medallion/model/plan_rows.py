"""Compare two optimized plans: whether they return the same rows, as far as their operators show.

Spark's own comparison includes every column that an operator passes on. Equivalent queries may pass a column on twice,
rename it, or compute it again from the same columns, without any effect on the rows. So this comparison identifies a
column by its origin, which is a position in a table that is read or the expression that computes it, and skips
operators that only select and rename columns. Anything unknown equals nothing.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from medallion.model.plan import Expression, Node, Plan, conjuncts, id_of

_LIMITS = frozenset({"GlobalLimit", "LocalLimit", "Offset"})
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
        self._values: dict[str, str] = {}  # by expression, a column that already has its value
        self._made = 0

    def of_plan(self, root: Node) -> str:
        """Return the text of the operators that return the rows, with the output columns."""
        return f"{self._of(root)}[{self._columns(root.output)}]"

    def _of(self, node: Node) -> str:
        match node.kind:
            case "LogicalRDD":
                return self._table(node)
            case "Project":
                below = self._of(node.child)
                return self._computing("Project", node.parts["projectList"], below)
            case "Aggregate":
                below = self._of(node.child)
                groups = sorted({self._text(group) for group in node.parts.get("groupingExpressions", ())})
                return self._computing(f"Aggregate by {groups}", node.parts["aggregateExpressions"], below)
            case "Window":
                below = self._of(node.child)
                spec = [self._texts(node.parts.get(part, ())) for part in ("partitionSpec", "orderSpec")]
                return self._computing(f"Window {spec}", node.parts["windowExpressions"], below)
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
        raise _Unknown

    def _table(self, node: Node) -> str:
        name, place = self._tables.get(id_of(node.output[0])), self._next("table")
        if name is None:
            raise _Unknown
        for number, column in enumerate(node.output):
            self._names[id_of(column)] = f"{place}.{number}"
        return f"{place} {name}"

    def _computing(self, what: str, items: Iterable[Expression], below: str) -> str:
        """Return the text of an operator that computes columns; columns that it passes on keep their names."""
        computed: dict[str, str] = {}
        for item in items:
            if item.is_column:
                continue
            if item.kind != "Alias":
                raise _Unknown
            text = self._text(item.unalias())
            if "(" in text and text not in computed:  # a new value, not an existing column
                computed[text] = self._next("value")
                if not any(part.kind in _OF_SEVERAL_ROWS for part in item.walk()):
                    self._values[text] = computed[text]
            self._names[id_of(item)] = computed.get(text, text)
        return f"{what} {[*computed]}({below})" if computed or what != "Project" else below

    def _join(self, node: Node) -> str:
        sides = [self._side(child) for child in node.children]
        condition = sorted({self._text(part) for part in conjuncts(node.condition)})
        if node.join_type.endswith("Outer"):  # its unmatched columns are null, but an expression of them need not be
            self._values.clear()
        if node.join_type == "ExistenceJoin":  # it adds a column that says whether a matching row exists
            self._names[int(node.detail["joinType"]["exists"][0]["exprId"]["id"])] = self._next("exists")
        return f"{node.join_type} {condition}({','.join(sides)})"

    def _side(self, node: Node) -> str:
        """Return the text of a join side without the other side's values, as outer joins may make a constant null."""
        around, self._values = self._values, {}
        text = self._of(node)
        self._values = around | self._values
        return text

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

    def _next(self, what: str) -> str:
        self._made += 1
        return f"{what}{self._made}"

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
        return self._values.get(text, text)


def _alike(tree: Expression) -> Iterator[Expression]:
    """Yield the operands of an expression; nested ANDs, and nested ORs, are flattened."""
    for child in tree.children:
        if tree.kind in {"And", "Or"} and child.kind == tree.kind:
            yield from _alike(child)
        else:
            yield child
