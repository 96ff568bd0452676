"""Functional dependencies between the columns of a query, read from its plan, to prove that an order identifies rows.

Rows that agree on an *identity* are the same row. Dependencies follow from the keys of tables, which every check
verifies, from GROUP BY, from joins on equal columns, and from ROW_NUMBER.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

from medallion.model.plan import Expression, Node, Plan, conjuncts, equal_columns, id_of

Atom = int | str  # a column by its id, or an expression by its key
Implied = tuple[frozenset[Atom], frozenset[Atom]]  # the first set determines the second

NOTHING: frozenset[Atom] = frozenset()
_NULL_REJECTING = frozenset({"EqualTo", "GreaterThan", "GreaterThanOrEqual", "LessThan", "LessThanOrEqual"})
_SAME_ROWS = frozenset(
    {
        *("Filter", "Sort", "SubqueryAlias", "GlobalLimit", "LocalLimit", "Offset", "CTERelationDef"),
        *("RepartitionByExpression", "Repartition", "RebalancePartitions"),
    }
)


@dataclass(frozen=True)
class Rows:
    """The functional dependencies in the rows of a node. identity: columns that identify a row; None if unknown."""

    output: tuple[Expression, ...]
    implied: tuple[Implied, ...]
    identity: frozenset[Atom] | None
    names: Mapping[Atom, str]

    def closure(self, known: Iterable[Atom]) -> frozenset[Atom]:
        """Return everything that ``known`` determines."""
        reached = frozenset(known)
        while True:
            more = frozenset(chain.from_iterable(right for left, right in self.implied if left <= reached))
            if more <= reached:
                return reached
            reached |= more

    def reached(self, expressions: Iterable[Expression]) -> frozenset[Atom]:
        """Return everything that the values of ``expressions`` determine."""
        return self.closure(atom(item) for item in expressions)

    def determines(self, expressions: Iterable[Expression]) -> bool:
        """Return whether rows that agree on ``expressions`` are the same row, or equal in all columns."""
        reached = self.reached(expressions)
        return (self.identity is not None and self.identity <= reached) or self.columns <= reached

    def missing(self, expressions: Iterable[Expression]) -> list[str]:
        """Return the names of columns to add to ``expressions`` so that they determine a row."""
        reached = self.reached(expressions)
        wanted = self.columns if self.identity is None else self.identity
        return list(dict.fromkeys(self.names.get(item, str(item)) for item in sorted(wanted - reached, key=str)))

    @property
    def columns(self) -> frozenset[Atom]:
        """The ids of the output columns."""
        return frozenset(id_of(column) for column in self.output)


def atom(expression: Expression) -> Atom:
    """Return what represents the value of ``expression``: the id of a column, else the key of the expression."""
    inner = expression.unalias()
    return id_of(inner) if inner.is_column else inner.key


class Dependencies:
    """The dependencies in the rows of every node of a plan. keys: the keys of each input, by its name."""

    def __init__(self, plan: Plan, keys: Mapping[str, tuple[str, ...]]) -> None:
        self._plan, self._keys = plan, keys
        self._known: dict[int, Rows] = {}

    def of(self, node: Node) -> Rows:
        """Return the dependencies in the rows of ``node``."""
        if id(node) not in self._known:
            self._known[id(node)] = self._read(node)
        return self._known[id(node)]

    def _read(self, node: Node) -> Rows:
        if node.source:
            return self._of_input(node)
        match node.kind:
            case "Project":
                return self._project(node)
            case "Aggregate":
                return self._aggregate(node)
            case "Window":
                return self._window(node)
            case "Join":
                return self._join(node)
            case "CTERelationRef":
                return self._reference(node)
            case "WithCTE":
                return self.of(node.children[node.detail["plan"]])
            case "Distinct" | "Intersect" | "Except":
                below = self.of(node.child)
                return Rows(node.output, below.implied, below.columns, below.names)
            case kind if kind in _SAME_ROWS:
                below = self.of(node.child)
                fixed = tuple(_equalities(node.condition)) if kind == "Filter" else ()
                return Rows(node.output, (*below.implied, *fixed), below.identity, below.names)
        names: dict[Atom, str] = {id_of(column): column.name for column in node.output}
        below_implied = self.of(node.child).implied if node.kind == "Generate" else ()
        return Rows(node.output, below_implied, None, names)

    def _of_input(self, node: Node) -> Rows:
        assert node.source is not None
        name, columns = node.source
        ids = {column: id_of(item) for column, item in zip(columns, node.output, strict=True)}
        by_lower = {column.lower(): number for column, number in ids.items()}
        names: dict[Atom, str] = {number: column for column, number in ids.items()}
        key = [by_lower.get(column.lower()) for column in self._keys[name]]
        if None in key:
            return Rows(node.output, (), None, names)
        identity: frozenset[Atom] = frozenset(number for number in key if number is not None)
        return Rows(node.output, ((identity, frozenset(ids.values())),), identity, names)

    def _project(self, node: Node) -> Rows:
        below = self.of(node.child)
        implied, names = [*below.implied], {**below.names}
        for item in node.parts.get("projectList", ()):
            if item.kind == "Alias":
                names[id_of(item)] = item.name
                implied += _alias(item)
        return Rows(node.output, tuple(implied), below.identity, names)

    def _aggregate(self, node: Node) -> Rows:
        below = self.of(node.child)
        groups = node.parts.get("groupingExpressions", ())
        identity: frozenset[Atom] = frozenset(atom(group) for group in groups)
        implied, names = [*below.implied], {**below.names}
        for group in groups:
            names.setdefault(atom(group), str(group))
            implied.append((frozenset(group.columns), frozenset({atom(group)})))
        for item in node.parts["aggregateExpressions"]:
            if item.kind == "Alias":
                names[id_of(item)] = item.name
                implied.append((identity, frozenset({id_of(item)})))
                if atom(item) in identity:
                    implied.append((frozenset({id_of(item)}), frozenset({atom(item)})))
        return Rows(node.output, tuple(implied), identity, names)

    def _window(self, node: Node) -> Rows:
        below = self.of(node.child)
        implied, names = [*below.implied], {**below.names}
        partition: frozenset[Atom] = frozenset(atom(item) for item in node.parts.get("partitionSpec", ()))
        for item in node.parts["windowExpressions"]:
            names[id_of(item)] = item.name
            function = item.unalias().children[0]
            if function.kind == "RowNumber":
                implied.append((partition | {id_of(item)}, below.columns | (below.identity or NOTHING)))
            if below.identity is not None:
                implied.append((below.identity, frozenset({id_of(item)})))
        return Rows(node.output, tuple(implied), below.identity, names)

    def _join(self, node: Node) -> Rows:
        left, right = (self.of(child) for child in node.children)
        names = {**left.names, **right.names}
        if node.join_type in {"LeftSemi", "LeftAnti"}:
            return Rows(node.output, left.implied, left.identity, names)
        if not node.is_known or node.join_type not in {"Inner", "Cross", "LeftOuter", "RightOuter", "FullOuter"}:
            return Rows(node.output, (), None, names)
        identity = None if left.identity is None or right.identity is None else left.identity | right.identity
        if node.join_type in {"Inner", "Cross"}:
            return Rows(node.output, (*left.implied, *right.implied, *_equalities(node.condition)), identity, names)
        outer = {"LeftOuter": (right,), "RightOuter": (left,), "FullOuter": (left, right)}[node.join_type]
        implied: list[Implied] = []
        for side, columns in ((left, node.children[0].output), (right, node.children[1].output)):
            implied += _where_not_null(side, columns, node.condition) if side in outer else side.implied
        if len(outer) == 1:
            implied += _from_other_side(node.condition, outer[0].columns)
        return Rows(node.output, tuple(implied), identity, names)

    def _reference(self, node: Node) -> Rows:
        """Return the dependencies of a common table expression, with the column ids of this reference to it."""
        definition = self._plan.ctes.get(node.cte)
        if definition is None:
            return Rows(node.output, (), None, {})
        below = self.of(definition.child)
        # Columns that the expression does not output get an id that no column here has.
        here: dict[Atom, Atom] = {
            id_of(old): id_of(new) for old, new in zip(definition.output, node.output, strict=True)
        }

        def moved(atoms: frozenset[Atom]) -> frozenset[Atom]:
            return frozenset(here.get(item, f"{item} under {id(node)}") for item in atoms)

        implied = tuple((moved(a), moved(b)) for a, b in below.implied)
        names = {here.get(item, f"{item} under {id(node)}"): name for item, name in below.names.items()}
        return Rows(node.output, implied, None if below.identity is None else moved(below.identity), names)


def _alias(item: Expression) -> Iterator[Implied]:
    inner = item.unalias()
    if any(part.plan is not None for part in inner.walk()):
        return
    given: frozenset[Atom] = frozenset({id_of(item)})
    same = frozenset({atom(inner)})
    yield frozenset(inner.columns), given | same
    yield given, same
    yield same, given


def _equalities(condition: Expression | None) -> Iterator[Implied]:
    """Yield the columns that are equal if ``condition`` is true, and those that are then constant."""
    for left, right in equal_columns(condition):
        yield frozenset({left}), frozenset({right})
        yield frozenset({right}), frozenset({left})
    for part in conjuncts(condition):
        if part.kind == "EqualTo":
            sides = sorted(part.children, key=lambda side: side.is_column)
            if not sides[0].columns and sides[0].kind in {"Literal", "Cast"} and sides[1].is_column:
                yield NOTHING, frozenset({id_of(sides[1])})


def _where_not_null(side: Rows, columns: Iterable[Expression], condition: Expression | None) -> Iterator[Implied]:
    """Yield the dependencies of a nullable side of an outer join that have a column that is null only if unmatched."""
    never_null = {id_of(column) for column in columns if not column.nullable}
    for part in conjuncts(condition):
        if part.kind in _NULL_REJECTING:
            never_null |= {id_of(item) for item in part.children if item.is_column}
    for left, right in side.implied:
        if any(item in never_null for item in left):
            yield left, right


def _from_other_side(condition: Expression | None, outer: frozenset[Atom]) -> Iterator[Implied]:
    """Yield the columns equal to one of the other side: all columns there in the condition together determine them."""
    read = frozenset().union(*(part.columns for part in conjuncts(condition)))
    others: frozenset[Atom] = frozenset(read) - outer
    for left, right in equal_columns(condition):
        for mine, theirs in ((left, right), (right, left)):
            if mine in outer and theirs not in outer:
                yield others, frozenset({mine})
