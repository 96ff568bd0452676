"""Whether the parts of an incremental aggregate add up: what a change adds to them follows from the change alone."""

from collections.abc import Mapping

from sqlglot import exp
from sqlglot.optimizer.scope import Scope

from medallion.model.parsed_query import (
    Schemas,
    Unprovable,
    aggregates,
    group_expressions,
    parse,
    root_scope,
    sources_of,
)
from medallion.model.table import Additive, ByKey, Feed, Log, Table

Whole = frozenset[str]  # columns: a change of any row with the same values in them brings all of these rows

_CLAUSES = {
    "joins": "JOIN",
    "laterals": "LATERAL VIEW",
    "having": "HAVING",
    "qualify": "QUALIFY",
    "distinct": "DISTINCT",
    "limit": "LIMIT",
    "offset": "OFFSET",
    "pivots": "PIVOT",
    "match": "MATCH_RECOGNIZE",
}
_INSTEAD = {
    "HAVING": "filter the groups in the rest of the query",
    "DISTINCT": "group by the columns",
    "JOIN": "join in the rest of the query, or in a table of its own",
}


def prove_additive(table: Table, method: Additive, schemas: Schemas) -> None:
    """Raise Unprovable, naming the part and the construct, when a part does not add up."""
    root = root_scope(parse(table.query, table.inputs))
    scopes = {_name(scope): scope for scope in root.cte_scopes}
    parts: dict[str, tuple[str, ...]] = {}
    for name in method.parts:
        if name not in scopes:
            raise Unprovable(f"`{name}` is no common table expression of its query")
        if scopes[name].outer_columns:
            raise Unprovable(f"`{name}` renames its columns from outside: use AS inside")
        try:
            proof = _Part(schemas, parts)
            parts[name] = proof.keys(scopes[name])
        except Unprovable as reason:
            raise Unprovable(f"`{name}` does not add up: {reason}") from None


class _Part:
    """The proof of one part; ``before``: the keys of those before it, which it may read."""

    def __init__(self, schemas: Schemas, before: Mapping[str, tuple[str, ...]]) -> None:
        self._schemas, self._before = schemas, before

    def keys(self, scope: Scope) -> tuple[str, ...]:
        """The columns that the part groups by, if it is sums and counts of its input by these."""
        whole, select = self._rows(scope), _plain(scope)
        if select.args.get("group") is None:
            raise Unprovable("without GROUP BY it has a row even where its input has none")
        groups = group_expressions(select)
        keys, names = self._selected_groups(select, groups), [item.alias_or_name.lower() for item in select.selects]
        if "" in names or len(set(names)) < len(names):
            raise Unprovable("every column needs a name of its own")
        for item in select.selects:
            if aggregates(item):
                self._sum_or_count(item, scope, groups, whole)
        return keys

    def _selected_groups(self, select: exp.Select, groups: list[exp.Expr]) -> tuple[str, ...]:
        keys = {}
        for item in select.selects:
            if item.is_star:
                raise Unprovable("its columns must be listed, not *")
            if not aggregates(item):
                keys[item.alias_or_name.lower()] = _bare(item.unalias())
        groups = [_bare(group) for group in groups]
        if extra := [name for name, value in keys.items() if value not in groups]:
            raise Unprovable(f"{extra[0]} is neither grouped by nor an aggregate")
        if hidden := [group for group in groups if group not in keys.values()]:
            raise Unprovable(f"it groups by {hidden[0].sql('spark')} and does not select it")
        return tuple(keys)

    def _sum_or_count(self, item: exp.Expr, scope: Scope, groups: list[exp.Expr], whole: Whole) -> None:
        name, aggregate = item.alias_or_name, item.unalias()
        aggregate = aggregate.this if isinstance(aggregate, exp.Filter) else aggregate
        if not isinstance(aggregate, exp.Sum | exp.Count):
            raise Unprovable(f"{name} is neither a SUM nor a COUNT, which alone can be added to and subtracted from")
        if aggregate.find(exp.Window, exp.Subquery):
            raise Unprovable(f"{name} has a window or a subquery in it")
        if isinstance(distinct := aggregate.this, exp.Distinct):
            if isinstance(aggregate, exp.Sum):
                raise Unprovable(f"{name} is a SUM of DISTINCT values")
            if not whole <= _columns([*groups, *distinct.expressions]):
                raise Unprovable(
                    f"{name} counts DISTINCT values of which a change brings only some rows: {_remedy(whole)}"
                )
        if isinstance(aggregate, exp.Sum) and self._schemas.kind(aggregate.this, scope) == "floating":
            raise Unprovable(f"{name} is a sum of floating-point numbers, which would drift: use DECIMAL")

    def _rows(self, scope: Scope) -> Whole:
        """What a change of the input brings as a whole, by the columns of what ``scope`` reads; checks all of it."""
        _plain(scope)
        ((node, source),) = sources_of(scope).values()
        if not isinstance(node, exp.Table):
            raise Unprovable("it reads a subquery: make it a common table expression")
        if node.args.get("sample"):
            raise Unprovable("TABLESAMPLE")
        if node.name in self._before:
            return frozenset(self._before[node.name])
        if not isinstance(source, Scope):
            return _whole_of(self._schemas.nodes[node.name])
        return self._selected(source)

    def _selected(self, scope: Scope) -> Whole:
        """The same by the columns that an inner common table expression gives."""
        whole, select = self._rows(scope), _plain(scope)
        groups = group_expressions(select)
        is_grouped = groups or any(aggregates(item) for item in select.selects)
        if is_grouped and not whole <= _columns(groups):
            raise Unprovable(
                f"it reads groups of `{_name(scope)}` of which a change brings only some rows: {_remedy(whole)}"
            )
        given: dict[str, str] = {}
        for item in select.selects:
            if item.is_star:
                given |= {name: name for columns in self._schemas.sources(scope).values() for name in columns}
            elif isinstance(item.unalias(), exp.Column):
                given.setdefault(item.unalias().name.lower(), item.alias_or_name.lower())
        # Of what is not given any more nothing above can group by: a name that no column has stands for it.
        return frozenset(given.get(name, f"{name} (not selected)") for name in whole)


def _columns(expressions: list[exp.Expr]) -> frozenset[str]:
    return frozenset(item.name.lower() for item in expressions if isinstance(item, exp.Column))


def _name(scope: Scope) -> str:
    """The name of the common table expression that ``scope`` is of."""
    parent = scope.expression.parent
    return parent.alias if parent is not None else ""


def _bare(tree: exp.Expr) -> exp.Expr:
    """``tree`` with its columns as plain names in lower case, as they all come from one table."""

    def plain(node: exp.Expr) -> exp.Expr:
        return exp.column(node.name.lower()) if isinstance(node, exp.Column) else node

    return tree.copy().transform(plain)


def _plain(scope: Scope) -> exp.Select:
    """The SELECT of ``scope``, which reads one thing and treats each of its rows alone, or in groups."""
    select = scope.expression
    if not isinstance(select, exp.Select):
        raise Unprovable("it has a UNION or the like: only a plain SELECT adds up")
    for name, clause in _CLAUSES.items():
        if select.args.get(name):
            instead = f": {_INSTEAD[clause]}" if clause in _INSTEAD else ""
            raise Unprovable(f"it has {clause}{instead}")
    if scope.subquery_scopes:
        raise Unprovable("it has a subquery")
    if select.find(exp.Window):
        raise Unprovable("it has a window: use it in the rest of the query")
    if len(sources_of(scope)) != 1:
        raise Unprovable("it must read one table")
    return select


def _whole_of(node: Feed | Log | Table) -> Whole:
    """What a commit of a table brings as a whole: the rows with a value of these columns; without any, all rows."""
    if isinstance(node, Table) and isinstance(node.incremental, ByKey):
        return frozenset({node.incremental.column.lower()})
    return frozenset(key.lower() for key in node.keys)


def _remedy(whole: Whole) -> str:
    return f"group by {' and '.join(sorted(whole))} too"
