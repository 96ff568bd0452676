"""Whether only the newest rows of an input matter to a query: each use of it is bound to its largest value."""

from datetime import timedelta

from sqlglot import exp
from sqlglot.optimizer.scope import Scope

from medallion.model.parsed_query import Unprovable, conjuncts, parse, root_scope, sources_of
from medallion.model.table import Recent, Table


def prove_recent(table: Table, method: Recent) -> None:
    """Raise Unprovable when the query could see a row of the input that is older than the span."""
    if method.input not in table.inputs:
        raise Unprovable(f"its query does not read {method.input}")
    for scope in root_scope(parse(table.query, table.inputs)).traverse():
        for alias, (node, _) in sources_of(scope).items():
            if isinstance(node, exp.Table) and node.name == method.input:
                if not isinstance(scope.expression, exp.Select):
                    raise Unprovable("a UNION or the like reads it")
                if not (_is_newest(scope.expression, method) or _is_bound(scope, alias, method)):
                    bound = f"the largest {method.column} - INTERVAL of at most {method.span}"
                    raise Unprovable(f"{method.input} is read without the condition {method.column} > {bound}")


def _is_bound(scope: Scope, alias: str, method: Recent) -> bool:
    """Whether WHERE lets through only rows of ``alias`` that are less than the span before the newest one."""
    where = scope.expression.args.get("where")
    return any(_is_bound_by(part, alias, method) for part in conjuncts(where.this if where else None))


def _is_bound_by(part: exp.Expr, alias: str, method: Recent) -> bool:
    if isinstance(part, exp.LT | exp.LTE):
        column, limit = part.right, part.left
    elif isinstance(part, exp.GT | exp.GTE):
        column, limit = part.left, part.right
    else:
        return False
    if not (isinstance(column, exp.Column) and _same(column.name, method.column) and column.table in ("", alias)):
        return False
    if not (isinstance(limit, exp.Sub) and isinstance(limit.left, exp.Subquery)):
        return False
    span, newest = _span(limit.right), limit.left.this
    return isinstance(newest, exp.Select) and _is_newest(newest, method) and span is not None and span <= method.span


def _is_newest(select: exp.Select, method: Recent) -> bool:
    """Whether it is SELECT MAX(column) FROM input, and nothing more."""
    present = {name for name, value in select.args.items() if value}
    if present - {"expressions", "from_", "from", "kind"} or len(select.selects) != 1:
        return False
    largest, source = select.selects[0].unalias(), select.find(exp.Table)
    return (
        isinstance(largest, exp.Max)
        and isinstance(largest.this, exp.Column)
        and _same(largest.this.name, method.column)
        and source is not None
        and source.name == method.input
        and not source.args.get("sample")
    )


def _span(interval: exp.Expr) -> timedelta | None:
    """The length of an INTERVAL of whole units that are always as long; None for anything else."""
    if not isinstance(interval, exp.Interval) or interval.this is None:
        return None
    unit = str(interval.args.get("unit") or "").upper().rstrip("S")
    seconds = {"SECOND": 1, "MINUTE": 60, "HOUR": 3600, "DAY": 86_400, "WEEK": 604_800}.get(unit)
    try:
        return None if seconds is None else timedelta(seconds=seconds * float(interval.this.name))
    except ValueError:
        return None


def _same(a: str, b: str) -> bool:
    return a.lower() == b.lower()
