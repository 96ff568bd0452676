"""What the clauses of a SELECT say, as sqlglot parses it."""

from collections.abc import Iterator

from sqlglot import exp


def gives_groups(query: exp.Select) -> bool:
    """Whether each row of a query is a group."""
    if query.args.get("group") or query.args.get("distinct"):
        return True
    return any(
        isinstance(node, exp.AggFunc) and not _is_windowed(node)
        for item in (*query.expressions, *filter(None, [query.args.get("having")]))
        for node in _own_parts(item)
    )


def _is_windowed(function: exp.Expr) -> bool:
    """Whether a function has an OVER clause, after IGNORE NULLS or a FILTER if it has one."""
    parent = function.parent
    while isinstance(parent, exp.IgnoreNulls | exp.RespectNulls | exp.Filter):
        parent = parent.parent
    return isinstance(parent, exp.Window)


def _own_parts(tree: exp.Expr) -> Iterator[exp.Expr]:
    """Yield an expression and all inside it, except subqueries."""
    if isinstance(tree, exp.Query | exp.Subquery):
        return
    yield tree
    for child in tree.iter_expressions():
        yield from _own_parts(child)


def conjuncts(tree: exp.Expr | None) -> Iterator[exp.Expr]:
    """Yield the conditions that AND connects; nothing for None."""
    if isinstance(tree, exp.And):
        yield from conjuncts(tree.this)
        yield from conjuncts(tree.expression)
    elif tree is not None:
        yield tree


def sources(query: exp.Select) -> Iterator[exp.Expr]:
    """Yield what FROM and the joins of a query read."""
    if query.args.get("from_"):
        yield query.args["from_"].this
    for join in query.args.get("joins") or ():
        yield join.this
