"""Whether a query gives the same rows every time: nothing in it depends on the order in which rows happen to be read.

What picks rows by an order, such as ROW_NUMBER, LAG, MAX_BY and LIMIT, is deterministic where no two rows can tie:
the order, with what the window is partitioned by, must determine the row. So an ORDER BY ends in the key columns of
the rows that it orders.
"""

from collections.abc import Sequence

from sqlglot import exp
from sqlglot.optimizer.scope import Scope

from medallion.model.determinism import ORDER_DEPENDENT
from medallion.model.parsed_query import (
    Nondeterministic,
    Schemas,
    group_expressions,
    is_window_function,
    root_scope,
    window_function,
    window_parts,
)
from medallion.model.row_keys import RowKeys

_BY = (exp.ArgMax, exp.ArgMin)
_NUMBERING = (exp.RowNumber, exp.Ntile, exp.Lag, exp.Lead, exp.NthValue, *ORDER_DEPENDENT)
_TIES_SHARE = (exp.Rank, exp.DenseRank, exp.PercentRank, exp.CumeDist)
_CHOOSING = (exp.Window, exp.Limit, exp.Offset, exp.Fetch, *_BY)


def prove_order(tree: exp.Query, schemas: Schemas) -> None:
    """Raise Nondeterministic, naming the construct and what to write, where rows that tie may be in any order."""
    if not tree.find(*_CHOOSING):
        return
    keys = RowKeys(schemas)
    for scope in root_scope(tree).traverse():
        _prove_limit(scope, keys)
        for window in scope.find_all(exp.Window):
            if window.arg_key != "windows":
                _prove_window(window, scope, keys)
        for function in scope.find_all(*_BY):
            if not is_window_function(function):
                _prove_by(function, _groups_of(scope.expression), scope, keys)
    for node in tree.find_all(exp.Subquery):
        if node.args.get("limit") or node.args.get("offset"):
            raise Nondeterministic("it limits a query in parentheses: write LIMIT inside them")


def _prove_limit(scope: Scope, keys: RowKeys) -> None:
    query = scope.expression
    limit = query.args.get("limit") or query.args.get("offset")
    if limit is None or not limit.sql("spark").strip():
        return
    order = [_meaning(item.this, query) for item in (query.args.get("order") or exp.Order(expressions=[])).expressions]
    if isinstance(query, exp.Select):
        if keys.determine_row(order, scope) or keys.determine_output(order, scope):
            return
        missing = keys.missing(order, scope)
    else:
        names = query.named_selects if isinstance(query, exp.Query) else []
        missing = [name for name in names if name not in {item.alias_or_name for item in order}]
        if not missing:
            return
    raise Nondeterministic(f"{limit.sql('spark').strip()} is not deterministic where rows tie: {_remedy(missing)}")


def _prove_window(window: exp.Window, scope: Scope, keys: RowKeys) -> None:
    function, parts = window_function(window), window_parts(window, scope.expression)
    if isinstance(function, _TIES_SHARE):
        return
    if isinstance(function, _BY):
        _prove_by(function, parts.partition, scope, keys, in_window=True)
        return
    is_aggregate = isinstance(function, exp.AggFunc) and not isinstance(function, _NUMBERING)
    if is_aggregate and not _is_part_by_rows(parts.frame):
        return
    if keys.determine_row([*parts.partition, *parts.order], scope):
        return
    missing = keys.missing([*parts.partition, *parts.order], scope)
    shown = window.sql("spark")
    raise Nondeterministic(f"{_short(shown)} is not deterministic where rows tie: {_remedy(missing)}")


def _prove_by(
    function: exp.Expr, groups: Sequence[exp.Expr], scope: Scope, keys: RowKeys, *, in_window: bool = False
) -> None:
    """Of the rows with the largest value MAX_BY takes any."""
    by = function.expression
    members = [item.expression if isinstance(item, exp.PropertyEQ) else item.unalias() for item in by.expressions]
    ordered = members if isinstance(by, exp.Struct) else [by]
    if keys.determine_row([*groups, *ordered], scope, before_groups=not in_window):
        return
    missing = keys.missing([*groups, *ordered], scope, before_groups=not in_window)
    name, columns = (
        "MAX" if isinstance(function, exp.ArgMax) else "MIN",
        ", ".join(item.sql("spark") for item in ordered),
    )
    ends = ", ".join(missing) or "the key columns of the rows"
    raise Nondeterministic(
        f"{_short(function.sql('spark'))} is not deterministic where rows tie:"
        f" write {name}_BY({function.this.sql('spark')}, STRUCT({columns}, {ends}))"
    )


def _groups_of(query: exp.Expr) -> list[exp.Expr]:
    return group_expressions(query) if isinstance(query, exp.Select) else []


def _is_part_by_rows(frame: exp.Expr | None) -> bool:
    """Whether a frame takes some of the rows of a partition, by their number: those that tie are then parted."""
    if frame is None or str(frame.args.get("kind")).upper() != "ROWS":
        return False
    return not all(frame.args.get(end) == "UNBOUNDED" for end in ("start", "end"))


def _meaning(item: exp.Expr, query: exp.Expr) -> exp.Expr:
    """What an expression in ORDER BY stands for: a number or a name of the SELECT for what is selected by it."""
    selects = query.selects if isinstance(query, exp.Select) else []
    if isinstance(item, exp.Literal) and not item.is_string and 0 < int(item.this) <= len(selects):
        return selects[int(item.this) - 1].unalias()
    if isinstance(item, exp.Column) and not item.table:
        for selected in selects:
            if isinstance(selected, exp.Alias) and selected.alias.lower() == item.name.lower():
                return selected.unalias()
    return item


def _remedy(missing: Sequence[str]) -> str:
    columns = ", ".join(missing)
    return f"end its ORDER BY in {columns}" if columns else "end its ORDER BY in columns that identify a row"


def _short(sql: str) -> str:
    return sql if len(sql) <= 100 else sql[:97] + "..."
