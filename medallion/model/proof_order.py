"""Prove that a query returns the same rows every time: nothing in it depends on the order in which rows are read.

A construct that selects rows by an order, such as ROW_NUMBER, LAG, MAX_BY and LIMIT, is deterministic if no two rows
can tie: the order, together with the partitioning of the window, must determine the row. So an ORDER BY should end in
the key columns of the rows that it orders.
"""

from collections.abc import Sequence

from medallion.model.dependencies import Dependencies
from medallion.model.determinism import BY, ORDER_DEPENDENT, floating_sum
from medallion.model.plan import Expression, Node, Nondeterministic, Plan

_NUMBERING = frozenset({"RowNumber", "NTile", "Lag", "Lead", "NthValue"}) | ORDER_DEPENDENT
_TIES_SHARE = frozenset({"Rank", "DenseRank", "PercentRank", "CumeDist"})
_LIMITS = frozenset({"GlobalLimit", "LocalLimit", "Offset"})


def prove_order(plan: Plan, dependencies: Dependencies) -> None:
    """Raise Nondeterministic, naming the construct and what to write instead, if rows can tie in an order."""
    for node in plan.root.walk():
        if node.kind in _LIMITS:
            _prove_limit(node, dependencies)
        elif node.kind == "Window":
            for item in node.parts["windowExpressions"]:
                _prove_window(item.unalias(), node, dependencies)
        elif node.kind == "Aggregate":
            groups = node.parts.get("groupingExpressions", ())
            for item in node.parts["aggregateExpressions"]:
                for part in item.walk():
                    if part.kind == "AggregateExpression" and part.children[0].kind in BY:
                        _prove_by(part, groups, node.child, dependencies)


def _prove_limit(node: Node, dependencies: Dependencies) -> None:
    ordered = node.child
    while ordered.kind in _LIMITS | {"Project"}:
        ordered = ordered.child
    order: Sequence[Expression] = ()
    below = node.child
    if ordered.kind == "Sort" and ordered.detail.get("global"):
        order, below = [item.children[0] for item in ordered.parts["order"]], ordered.child
    rows = dependencies.of(below)
    if rows.determines(order) or dependencies.of(node).columns <= rows.reached(order):
        return
    number = next(iter(node.parts.get("limitExpr", node.parts.get("offsetExpr", ()))), "")
    name = "OFFSET" if node.kind == "Offset" else "LIMIT"
    remedy = _remedy(rows.missing(order))
    raise Nondeterministic(f"{name} {number} is not deterministic where rows tie: {remedy}")


def _prove_window(expression: Expression, node: Node, dependencies: Dependencies) -> None:
    function = expression.children[0]
    partition = node.parts.get("partitionSpec", ())
    order = [item.children[0] for item in node.parts.get("orderSpec", ())]
    inner = function.children[0] if function.kind == "AggregateExpression" else function
    if inner.kind in _TIES_SHARE:
        return
    if inner.kind in BY:
        _prove_by(function, partition, node.child, dependencies)
        return
    sum_of = floating_sum(function) if function.kind == "AggregateExpression" else ""
    is_exact = function.kind == "AggregateExpression" and inner.kind not in _NUMBERING and not sum_of
    if is_exact and not _is_part_by_rows(expression):
        return
    rows = dependencies.of(node.child)
    if rows.determines([*partition, *order]):
        return
    remedy = _remedy(rows.missing([*partition, *order]))
    why = f": {sum_of}, or " if sum_of and not _is_part_by_rows(expression) else " where rows tie: "
    raise Nondeterministic(f"{_short(expression)} is not deterministic{why}{remedy}")


def _prove_by(aggregate: Expression, groups: Sequence[Expression], below: Node, dependencies: Dependencies) -> None:
    """Raise Nondeterministic if rows can tie, because MAX_BY and MIN_BY take any row with the extreme value."""
    value, by = aggregate.children[0].children
    ordered = [by] if by.kind != "CreateNamedStruct" else list(by.children[1::2])
    rows = dependencies.of(below)
    known = [*groups, *ordered]
    if value.columns <= rows.reached(known) or rows.determines(known):
        return
    name = "MAX" if aggregate.children[0].kind == "MaxBy" else "MIN"
    ends = ", ".join(rows.missing(known)) or "the key columns of the rows"
    columns = ", ".join(map(str, ordered))
    raise Nondeterministic(
        f"{_short(aggregate)} is not deterministic where rows tie: write {name}_BY({value}, STRUCT({columns}, {ends}))"
    )


def _is_part_by_rows(expression: Expression) -> bool:
    """Return whether a window frame takes part of a partition by number of rows, which may separate rows that tie."""
    for part in expression.walk():
        if part.kind == "SpecifiedWindowFrame":
            if "RowFrame" not in part.detail:
                return False
            ends = [child.kind.rstrip("$") for child in part.children]
            return ends != ["UnboundedPreceding", "UnboundedFollowing"]
    return False


def _remedy(missing: Sequence[str]) -> str:
    columns = ", ".join(missing)
    return f"end its ORDER BY in {columns}" if columns else "end its ORDER BY in columns that identify a row"


def _short(expression: Expression) -> str:
    shown = str(expression)
    return shown if len(shown) <= 100 else shown[:97] + "..."
