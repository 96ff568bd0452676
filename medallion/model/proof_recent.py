"""Prove that only the newest rows of an input matter to a query: each read of it is bounded by its largest value."""

from collections.abc import Mapping
from datetime import timedelta

from medallion.model.methods import Recent
from medallion.model.plan import Column, Expression, Node, Plan, Unprovable, conjuncts, id_of
from medallion.model.table import Table

_ROWWISE = frozenset({"SubqueryAlias", "View", "Filter", "Project"})
_GREATER = {"GreaterThan": 0, "GreaterThanOrEqual": 0, "LessThan": 1, "LessThanOrEqual": 1}


def prove_recent(table: Table, method: Recent, plan: Plan, inputs: Mapping[str, tuple[Column, ...]]) -> None:
    """Raise Unprovable if the query could read a row of the input that is older than the span."""
    if method.input not in table.inputs:
        raise Unprovable(f"its query does not read {method.input}")
    types = {name: kind for name, kind, _ in inputs[method.input]}
    if types.get(method.column) not in {"timestamp", "timestamp_ntz", "date"}:
        raise Unprovable(f"{method.input}.{method.column} is no TIMESTAMP or DATE, whose newest rows are known")
    _Proof(method, plan, is_of_days=types[method.column] == "date").require_bound(plan.root)


class _Proof:
    """The proof for one query."""

    def __init__(self, method: Recent, plan: Plan, *, is_of_days: bool) -> None:
        self._method, self._plan, self._is_of_days = method, plan, is_of_days
        self._message = (
            f"{method.input} is read without the condition {method.column} > the largest {method.column} -"
            f" INTERVAL of at most {method.span}"
        )

    def require_bound(self, node: Node) -> None:
        """Raise Unprovable unless every read of the input in ``node`` is bounded there."""
        if self._unbound(node):
            raise Unprovable(self._message)

    def _unbound(self, node: Node) -> dict[int, int]:
        """Return the reads of the input in ``node`` that are not bounded yet, by the id of their column there."""
        for expression in node.expressions:
            for part in expression.walk():
                if part.plan is not None and not self._is_newest(part.plan):
                    self.require_bound(part.plan)
        if node.source:
            name, columns = node.source
            if name != self._method.input:
                return {}
            number = id_of(node.output[columns.index(self._method.column)])
            return {number: number}
        if node.kind in _ROWWISE:
            return self._rowwise(node)
        if node.kind == "Join" and node.join_type in {"Inner", "Cross"}:
            left, right = (self._unbound(child) for child in node.children)
            return self._after(node.condition, left | right)
        for child in node.children:
            self.require_bound(child)
        return {}

    def _rowwise(self, node: Node) -> dict[int, int]:
        below = self._unbound(node.child)
        if node.kind == "Filter":
            return self._after(node.condition, below)
        if node.kind == "Project" and below:
            moved = {}
            for item in node.parts.get("projectList", ()):
                inner = item.unalias()
                if inner.is_column and id_of(inner) in below:
                    moved[id_of(item)] = below[id_of(inner)]
            # A read whose column is not passed on can no longer be bounded.
            if set(below.values()) - set(moved.values()):
                raise Unprovable(self._message)
            return moved
        return below

    def _after(self, condition: Expression | None, unbound: dict[int, int]) -> dict[int, int]:
        bound = {unbound[number] for part in conjuncts(condition) if (number := self._bound_by(part)) in unbound}
        return {number: reading for number, reading in unbound.items() if reading not in bound}

    def _bound_by(self, part: Expression) -> int:
        """Return the column that is bounded to at most the span before the newest row; -1 if none is."""
        if part.kind not in _GREATER:
            return -1
        column, limit = part.children[:: 1 if _GREATER[part.kind] == 0 else -1]
        column = column.unalias()
        while column.kind == "Cast" and column.children[0].type == "date" and column.type.startswith("timestamp"):
            column = column.children[0]
        while self._keeps_moment(limit) or limit.kind == "DatetimeSub":
            limit = limit.children[0]
        span = self._span_before_newest(limit)
        return id_of(column) if column.is_column and span is not None and span <= self._method.span else -1

    def _span_before_newest(self, limit: Expression) -> timedelta | None:
        """Return how far ``limit`` is before the newest value; None if unknown."""
        newest = limit.children[0] if limit.children else limit
        while self._keeps_moment(newest):
            newest = newest.children[0]
        if newest.plan is None or not self._is_newest(newest.plan):
            return None
        shifts = [child for child in limit.children[1:] if not child.plan]
        return length_of(shifts[0]) if len(shifts) == 1 else None

    def _keeps_moment(self, limit: Expression) -> bool:
        """Return whether ``limit`` is a cast that does not change the time.

        A cast of a timestamp to a date goes back to the start of the day, which the refresh allows for only if the
        column itself is a DATE.
        """
        return limit.kind == "Cast" and (limit.type.startswith("timestamp") or self._is_of_days)

    def _is_newest(self, plan: Node) -> bool:
        """Return whether a plan is exactly SELECT MAX(column) FROM input."""
        if plan.kind != "Aggregate" or plan.parts.get("groupingExpressions"):
            return False
        (item, *more) = plan.parts["aggregateExpressions"]
        largest = item.unalias()
        if more or largest.kind != "AggregateExpression" or len(largest.children) != 1:
            return False
        function, source = largest.children[0], plan.child
        while source.kind in {"SubqueryAlias", "View"} and not source.source:
            source = source.child
        if function.kind != "Max" or source.source is None or source.source[0] != self._method.input:
            return False
        column = function.children[0]
        place = source.source[1].index(self._method.column)
        return column.is_column and id_of(column) == id_of(source.output[place])


def length_of(shift: Expression) -> timedelta | None:
    """Return how much earlier ``shift`` makes a timestamp; None for intervals of variable length, such as months."""
    sign = 1
    while shift.kind in {"UnaryMinus", "ExtractANSIIntervalDays", "ExtractIntervalDays"}:
        sign *= -1 if shift.kind == "UnaryMinus" else 1
        shift = shift.children[0]
    if shift.kind != "Literal" or not shift.type.startswith("interval ") or shift.value is None:
        return None
    if not any(unit in shift.type for unit in ("day", "hour", "minute", "second")):
        return None
    try:
        return timedelta(microseconds=-sign * int(shift.value))
    except ValueError:
        return None
