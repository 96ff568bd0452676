"""Find which columns of its inputs a query uses, from its plan as analysed by Spark."""

from collections.abc import Iterator

from medallion.model.plan import Expression, Node, Plan, id_of

# Operators whose rows depend on every column of their children, whether an expression names it or not.
_COMPARE_ROWS = frozenset({"Union", "Intersect", "Except", "Distinct"})
# Lists of expressions that only make columns: one matters if an operator above uses its column.
_COLUMN_LISTS = {
    "Project": "projectList",
    "Aggregate": "aggregateExpressions",
    "Window": "windowExpressions",
    "Expand": "projections",
}


def columns_read(plan: Plan) -> dict[str, tuple[str, ...]]:
    """Return, by input, the columns that can affect a row of the query, in the order of the input."""
    nodes = [*_above_inputs(plan.root)]
    used: set[int] = {id_of(column) for column in plan.root.output}
    count = 0
    while count < len(used):
        count = len(used)
        for node in nodes:
            used.update(_used_by(node, plan, used))
    read: dict[str, dict[str, None]] = {}
    order: dict[str, tuple[str, ...]] = {}
    for node in nodes:
        if node.source is not None:
            name, order[name] = node.source
            names = (column for column, given in zip(order[name], node.output, strict=True) if id_of(given) in used)
            read.setdefault(name, {}).update(dict.fromkeys(names))
    return {name: tuple(column for column in order[name] if column in names) for name, names in read.items()}


def _used_by(node: Node, plan: Plan, used: set[int]) -> Iterator[int]:
    """Yield the columns that an operator uses, if operators above it use the columns ``used``."""
    if node.source is not None:
        return
    for expression in _expressions(node, used):
        for part in expression.walk():
            yield from part.columns
            if part.plan is not None:
                yield from map(id_of, part.plan.output)
    if node.kind == "CTERelationRef":
        definition = plan.ctes[node.cte]
        pairs = zip(node.output, definition.output, strict=True)
        yield from (id_of(inner) for given, inner in pairs if id_of(given) in used)
    is_unclear = not node.is_known or (node.kind == "Expand" and "projections" not in node.parts)
    if node.kind in _COMPARE_ROWS or is_unclear:
        yield from (id_of(column) for child in node.children for column in child.output)


def _expressions(node: Node, used: set[int]) -> Iterator[Expression]:
    """Yield the expressions of an operator that matter."""
    column_list = _COLUMN_LISTS.get(node.kind, "")
    for name, expressions in node.parts.items():
        if node.kind == "CTERelationRef" or (node.kind == "Expand" and name == "output"):
            continue
        if name != column_list:
            yield from expressions
        elif node.kind == "Expand":
            width = node.detail.get("width", 0)
            for place, column in enumerate(node.output):
                if id_of(column) in used:
                    yield from expressions[place::width]
        else:
            yield from (item for item in expressions if item.id is None or item.id in used)


def _above_inputs(node: Node) -> Iterator[Node]:
    """Yield the nodes of a plan down to its inputs, including those in subqueries."""
    yield node
    if node.source is not None:
        return
    for expression in node.expressions:
        for part in expression.walk():
            if part.plan is not None:
                yield from _above_inputs(part.plan)
    for child in node.children:
        yield from _above_inputs(child)
