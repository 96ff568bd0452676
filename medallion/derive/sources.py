"""Find which columns of a plan copy input columns, which of these it sets equal, and which input it reads first.

Keys and paths are proposed from this; the proofs check them.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from medallion.model.plan import Expression, Node, Plan, equal_columns, id_of

Place = tuple[str, str]  # an input and one of its columns, as spelled there


@dataclass(frozen=True)
class Sources:
    """What a query copies and compares.

    output: by column of the query, in order, the input columns of which it is a plain copy. equal: the pairs of
    columns that a join, a filter or IN sets equal, in the order of the plan. first: the input that it reads first;
    None if it reads none. is_grouped: whether the rows of that input are grouped on the way to the output.
    """

    output: tuple[tuple[str, frozenset[Place]], ...]
    equal: tuple[tuple[Place, Place], ...]
    first: str | None
    is_grouped: bool

    def equal_to(self, places: Iterable[Place]) -> tuple[Place, ...]:
        """Return ``places``, then the columns that are equal to one of them, directly or through other columns."""
        reached = sorted(places)
        for place in reached:  # the list grows inside the loop
            for left, right in self.equal:
                for mine, other in ((left, right), (right, left)):
                    if mine == place and other not in reached:
                        reached.append(other)
        return tuple(reached)


def sources_of(plan: Plan) -> Sources:
    """Read what the query of a plan copies and compares."""
    reader = _Reader(plan)
    reader.read(plan.root)
    output = tuple((column.name, reader.copies.get(id_of(column), frozenset())) for column in plan.root.output)
    first, is_grouped = _first(plan, plan.root)
    return Sources(output, tuple(dict.fromkeys(reader.equal)), first, is_grouped)


def inputs_below(plan: Plan, node: Node, stops: Iterable[str] = ()) -> Iterator[str]:
    """Yield the inputs that ``node`` and its subqueries read, except through common table expressions in ``stops``."""
    ends = {stop.lower() for stop in stops}
    for part in nodes_below(plan, node, ends):
        if part.source:
            yield part.source[0]


def nodes_below(plan: Plan, node: Node, stops: Iterable[str] = (), *, subqueries: bool = True) -> Iterator[Node]:
    """Yield ``node`` and all nodes below it, in subqueries and common table expressions too, but not in ``stops``.

    stops: names of common table expressions, in lower case. subqueries: whether to look into subqueries of expressions.
    """
    if node.source:
        yield node
        return
    yield node
    if node.kind == "CTERelationRef":
        definition = plan.ctes[node.cte]
        if cte_name(definition).lower() not in stops:
            yield from nodes_below(plan, definition.child, stops, subqueries=subqueries)
    for child in _children(node):
        yield from nodes_below(plan, child, stops, subqueries=subqueries)
    for expression in node.expressions if subqueries else ():
        for part in expression.walk():
            if part.plan is not None:
                yield from nodes_below(plan, part.plan, stops)


def cte_name(definition: Node) -> str:
    """Return the name of a common table expression; empty if it has none."""
    return definition.child.alias if definition.child.kind == "SubqueryAlias" else ""


def _children(node: Node) -> tuple[Node, ...]:
    """Return the nodes whose rows ``node`` reads: for WITH, only that of its query."""
    return (node.children[node.detail["plan"]],) if node.kind == "WithCTE" else node.children


class _Reader:
    """Collects copies and equalities bottom-up; a column has one id throughout a plan."""

    def __init__(self, plan: Plan) -> None:
        self._plan, self._known = plan, set[int]()
        self.copies: dict[int, frozenset[Place]] = {}
        self.equal: list[tuple[Place, Place]] = []

    def read(self, node: Node) -> None:
        if id(node) in self._known:
            return
        self._known.add(id(node))
        if node.source:
            name, columns = node.source
            for column, item in zip(columns, node.output, strict=True):
                self.copies[id_of(item)] = frozenset({(name, column)})
            return
        if node.kind == "CTERelationRef":
            definition = self._plan.ctes[node.cte]
            self.read(definition.child)
            self._copy(zip(map(id_of, definition.output), map(id_of, node.output), strict=True))
        for child in _children(node):
            self.read(child)
        for expression in node.expressions:
            for part in expression.walk():
                self._read_subquery(part)
        self._read_own(node)

    def _read_own(self, node: Node) -> None:
        match node.kind:
            case "Project":
                self._pass_on(node.parts.get("projectList", ()))
            case "Aggregate":
                self._pass_on(node.parts["aggregateExpressions"])
            case "Union" | "Intersect" | "Except":
                for child in node.children[1:]:
                    self._copy(zip(map(id_of, child.output), map(id_of, node.output), strict=True))
            case "Join" | "Filter":
                self._compare(node)

    def _read_subquery(self, part: Expression) -> None:
        """Read a subquery, which may compare its rows with the outer ones, and the columns that IN compares."""
        if part.plan is not None:
            self.read(part.plan)
        for query in part.children:
            if query.kind == "ListQuery" and query.plan is not None:
                self.read(query.plan)
                for value, given in zip(part.children, query.plan.output, strict=False):
                    if value.is_column:
                        self._set_equal(id_of(value), id_of(given))

    def _pass_on(self, items: Iterable[Expression]) -> None:
        inner = ((item.unalias(), item) for item in items)
        self._copy((id_of(old), id_of(new)) for old, new in inner if old.is_column)

    def _copy(self, pairs: Iterable[tuple[int, int]]) -> None:
        for old, new in pairs:
            self.copies[new] = self.copies.get(new, frozenset()) | self.copies.get(old, frozenset())

    def _compare(self, node: Node) -> None:
        for left, right in equal_columns(node.condition):
            self._set_equal(left, right)

    def _set_equal(self, left: int, right: int) -> None:
        for mine in sorted(self.copies.get(left, ())):
            for other in sorted(self.copies.get(right, ())):
                self.equal.append((mine, other))


def _first(plan: Plan, node: Node) -> tuple[str | None, bool]:
    is_grouped = False
    while not node.source:
        is_grouped = is_grouped or node.kind in {"Aggregate", "Distinct"}
        if node.kind == "CTERelationRef":
            node = plan.ctes[node.cte].child
        elif node.children:
            node = _children(node)[0]
        else:
            return None, is_grouped
    return node.source[0], is_grouped
