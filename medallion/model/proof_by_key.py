"""Whether a query can be asked for some values of a key: restricted to them, it gives exactly their rows.

Each relation in the query, a table, a common table expression or a subquery, is one of two kinds. A *keyed* one has
columns that carry the key: its rows with some values follow from the rows of its inputs with these values alone. A
*free* one is read whole; a change in it leads to values of the key by ``via``, for which it must meet the table that it
leads to in a join on that very column.
"""

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
    window_parts,
)
from medallion.model.proof_joins import At, Joins, Relation
from medallion.model.table import ByKey, Table

_CLAUSES = {
    "limit": "LIMIT",
    "offset": "OFFSET",
    "laterals": "LATERAL VIEW",
    "pivots": "PIVOT",
    "match": "MATCH_RECOGNIZE",
}


def prove_by_key(table: Table, method: ByKey, schemas: Schemas) -> None:
    """Raise Unprovable, naming the construct, when rows of the key follow from more than its own input rows."""
    _require_via(table, method, schemas)
    tree = parse(table.query, table.inputs)
    _require_spelling(tree, table, method, schemas)
    result = _Proof(method, schemas).relation(root_scope(tree))
    if result.keys is None or method.column.lower() not in result.keys:
        raise Unprovable(f"{method.column} is not passed through unchanged from an input that has it")
    if result.pending:
        name = min(result.pending)
        via = method.via[name]
        raise Unprovable(f"{name} is not joined on its {via.column} = {via.through}.{via.as_column}, as via says")


def _require_spelling(tree: exp.Query, table: Table, method: ByKey, schemas: Schemas) -> None:
    """Raise Unprovable for a column in other letters than tables have it: files know it by these alone."""
    spelled = {node.alias_or_name for node in tree.find_all(exp.Column, exp.Alias)}
    for node in (schemas.nodes[name] for name in table.inputs):
        spelled.update(node.keys if isinstance(node, Table) else (column.name for column in node.columns))
    columns = [method.column, *(column for via in method.via.values() for column in (via.column, via.as_column))]
    for column in columns:
        others = sorted(name for name in spelled if name.lower() == column.lower())
        if others and column not in others:
            raise Unprovable(f"{column} is spelled {others[0]} in its query and inputs")


def _require_via(table: Table, method: ByKey, schemas: Schemas) -> None:
    keyed = [name for name in table.inputs if method.column.lower() in schemas.of(name)]
    if not keyed:
        raise Unprovable(f"no input has a column {method.column}")
    for name in method.via:
        if name not in table.inputs:
            raise Unprovable(f"via names {name}, which its query does not read")
        if name in keyed:
            raise Unprovable(f"via names {name}, which has {method.column} itself")
    for name in table.inputs:
        if name not in keyed and name not in method.via:
            raise Unprovable(f"{name} has no {method.column}: say in via how its rows lead to one")
    for name in method.via:
        seen = {name}
        while name not in keyed:
            via = method.via[name]
            if via.through not in table.inputs or via.through in seen:
                raise Unprovable(f"via leads from {name} to {via.through}, which is not another of its inputs")
            for place, column in ((name, via.column), (via.through, via.as_column)):
                if column.lower() not in schemas.of(place):
                    raise Unprovable(f"via names {column}, which is no column of {place}")
            seen.add(via.through)
            name = via.through


class _Proof:
    """The proof for one query."""

    def __init__(self, method: ByKey, schemas: Schemas) -> None:
        self._method, self._schemas = method, schemas
        self._column = method.column.lower()
        self._known: dict[int, Relation] = {}

    def relation(self, scope: Scope) -> Relation:
        """What is known of the query of ``scope``."""
        if id(scope) not in self._known:
            relation = self._union(scope) if isinstance(scope.expression, exp.SetOperation) else self._select(scope)
            if scope.outer_columns:
                raise Unprovable(
                    f"{scope.expression.sql('spark')[:40]} renames its columns from outside: use AS inside"
                )
            self._known[id(scope)] = relation
        return self._known[id(scope)]

    def _union(self, scope: Scope) -> Relation:
        """UNION, INTERSECT and EXCEPT of keyed relations are keyed where both have the key in the same place."""
        if _has_limit(scope.expression):
            raise Unprovable("it has LIMIT, which looks at all rows")
        left, right = (self.relation(branch) for branch in scope.set_operation_scopes)
        names, others = (list(self._schemas.output(branch)) for branch in scope.set_operation_scopes)
        if left.keys is None or right.keys is None or left.pending or right.pending:
            word = type(scope.expression).__name__.upper()
            raise Unprovable(f"it has a {word} with rows that do not have {self._method.column}")
        both = {name for name, other in zip(names, others, strict=False) if name in left.keys and other in right.keys}
        return Relation(frozenset(both))

    def _select(self, scope: Scope) -> Relation:
        select = scope.expression
        if not isinstance(select, exp.Select):
            raise Unprovable(f"it reads {select.sql('spark')[:40]}, which is no SELECT")
        if scope.subquery_scopes:
            raise Unprovable("it has a subquery outside of FROM: write it as a join")
        sources = {alias.lower(): self._source(*pair) for alias, pair in sources_of(scope).items()}
        joins = Joins(self._method, self._schemas, scope, sources)
        keys, pending, origins = joins.keys(), joins.pending(), joins.origins()
        if sources and any(source.keys is not None for source in sources.values()):
            self._require_keyed(select, scope, keys)
        if pending:
            self._require_rowwise(select, pending)
        return self._project(select, scope, keys, pending, origins)

    def _source(self, node: exp.Expr, source: exp.Expr | Scope) -> Relation:
        if isinstance(node, exp.Table) and (node.args.get("sample") or node.args.get("pivots")):
            raise Unprovable(f"it reads a sample or a pivot of {node.name}")
        if isinstance(source, Scope):
            return self.relation(source)
        if not isinstance(source, exp.Table) or source.name not in self._schemas.nodes:
            raise Unprovable(f"it reads {node.sql('spark')[:40]}, which is not known")
        name, columns = source.name, self._schemas.of(source.name)
        origins = {column: frozenset({(name, column)}) for column in columns}
        if self._column in columns:
            return Relation(frozenset({self._column}), origins)
        return Relation(None, origins, frozenset({name}))

    def _require_keyed(self, select: exp.Select, scope: Scope, keys: frozenset[At]) -> None:
        """All that looks at several rows must look at rows of one value of the key alone."""
        column = self._method.column
        for name, clause in _CLAUSES.items():
            if select.args.get(name):
                raise Unprovable(f"it has {clause}, which looks at all rows")
        groups = group_expressions(select)
        items = [*select.selects, *([select.args["having"]] if select.args.get("having") else [])]
        if (groups or any(aggregates(item) for item in items)) and not self._has_key(groups, scope, keys):
            raise Unprovable(f"it has aggregates that are not grouped by {column}")
        distinct = select.args.get("distinct")
        starred = any(item.is_star for item in select.selects)
        if distinct and not (starred or self._has_key([s.unalias() for s in select.selects], scope, keys)):
            raise Unprovable(f"it has DISTINCT without {column}")
        for window in select.find_all(exp.Window):
            if not window.arg_key == "windows" and not self._has_key(
                list(window_parts(window, select).partition), scope, keys
            ):
                raise Unprovable(f"it has a window that is not partitioned by {column}: {window.sql('spark')[:60]}")

    def _has_key(self, expressions: list[exp.Expr], scope: Scope, keys: frozenset[At]) -> bool:
        return any(isinstance(item, exp.Column) and self._schemas.column(item, scope) in keys for item in expressions)

    def _require_rowwise(self, select: exp.Select, pending: frozenset[str]) -> None:
        """A changed row of a free input must not change what others of it give."""
        looks = [clause for name, clause in _CLAUSES.items() if select.args.get(name)]
        looks += ["GROUP BY"] if select.args.get("group") else []
        looks += ["DISTINCT"] if select.args.get("distinct") else []
        looks += ["a window"] if select.find(exp.Window) else []
        looks += ["an aggregate"] if any(aggregates(item) for item in select.selects) else []
        if looks:
            raise Unprovable(f"it has {looks[0]} over {min(pending)}, whose changes then lead to other rows too")

    def _project(
        self,
        select: exp.Select,
        scope: Scope,
        keys: frozenset[At],
        pending: frozenset[str],
        origins: Mapping[At, frozenset[At]],
    ) -> Relation:
        given: dict[str, At] = {}
        for item in select.selects:
            value = item.unalias()
            if item.is_star:
                for alias, columns in self._schemas.starred(item, scope).items():
                    given |= {name: (alias, name) for name in columns}
            elif isinstance(value, exp.Column) and (place := self._schemas.column(value, scope)):
                given[item.alias_or_name.lower()] = place
        is_free = all(self._source(*pair).keys is None for pair in sources_of(scope).values())
        return Relation(
            None if is_free else frozenset(name for name, place in given.items() if place in keys),
            {name: origins.get(place, frozenset()) for name, place in given.items()},
            pending,
        )


def _has_limit(tree: exp.Expr) -> bool:
    return bool(tree.args.get("limit") or tree.args.get("offset"))
