"""Whether a query can be asked for some values of a key: restricted to them, it gives exactly their rows.

Each relation in the query, a table, a common table expression or a subquery, is one of two kinds. A *keyed* one has
columns that carry the key: its rows with some values follow from the rows of its inputs with these values alone. A
*free* one is read whole; a change in it leads to values of the key by ``via``, for which it must meet the table that it
leads to in a join on that very column.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sqlglot import exp
from sqlglot.optimizer.scope import Scope

from medallion.model.parsed_query import (
    Schemas,
    Unprovable,
    aggregates,
    conjuncts,
    group_expressions,
    parse,
    root_scope,
    sources_of,
)
from medallion.model.table import ByKey, Table

At = tuple[str, str]  # alias and column in a SELECT, or table and column in the lake; in lower case
_CLAUSES = {
    "limit": "LIMIT",
    "offset": "OFFSET",
    "laterals": "LATERAL VIEW",
    "pivots": "PIVOT",
    "match": "MATCH_RECOGNIZE",
}


@dataclass(frozen=True)
class _Relation:
    """What is known of a relation. keys: its columns that carry the key; None where it is free. origins: by column, the
    columns of inputs of which it is a plain copy. pending: inputs by ``via`` that have not met their table yet."""

    keys: frozenset[str] | None
    origins: Mapping[str, frozenset[At]] = field(default_factory=dict)
    pending: frozenset[str] = frozenset()


def prove_by_key(table: Table, method: ByKey, schemas: Schemas) -> None:
    """Raise Unprovable, naming the construct, when rows of the key follow from more than its own input rows."""
    _require_via(table, method, schemas)
    result = _Proof(method, schemas).relation(root_scope(parse(table.query, table.inputs)))
    if result.keys is None or method.column.lower() not in result.keys:
        raise Unprovable(f"{method.column} is not passed through unchanged from an input that has it")
    if result.pending:
        name = min(result.pending)
        own, other, other_column = method.via[name]
        raise Unprovable(f"{name} is not joined on its {own} = {other}.{other_column}, as via says")


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
            own, other, other_column = method.via[name]
            if other not in table.inputs or other in seen:
                raise Unprovable(f"via leads from {name} to {other}, which is not another of its inputs")
            for place, column in ((name, own), (other, other_column)):
                if column.lower() not in schemas.of(place):
                    raise Unprovable(f"via names {column}, which is no column of {place}")
            seen.add(other)
            name = other


class _Proof:
    """The proof for one query."""

    def __init__(self, method: ByKey, schemas: Schemas) -> None:
        self._method, self._schemas = method, schemas
        self._column = method.column.lower()
        self._known: dict[int, _Relation] = {}

    def relation(self, scope: Scope) -> _Relation:
        """What is known of the query of ``scope``."""
        if id(scope) not in self._known:
            relation = self._union(scope) if isinstance(scope.expression, exp.SetOperation) else self._select(scope)
            if scope.outer_columns:
                raise Unprovable(
                    f"{scope.expression.sql('spark')[:40]} renames its columns from outside: use AS inside"
                )
            self._known[id(scope)] = relation
        return self._known[id(scope)]

    def _union(self, scope: Scope) -> _Relation:
        """UNION, INTERSECT and EXCEPT of keyed relations are keyed where both have the key in the same place."""
        if _limited(scope.expression):
            raise Unprovable("it has LIMIT, which looks at all rows")
        left, right = (self.relation(branch) for branch in scope.set_operation_scopes)
        names, others = (list(self._schemas.output(branch)) for branch in scope.set_operation_scopes)
        if left.keys is None or right.keys is None or left.pending or right.pending:
            word = type(scope.expression).__name__.upper()
            raise Unprovable(f"it has a {word} with rows that do not have {self._method.column}")
        both = {name for name, other in zip(names, others, strict=False) if name in left.keys and other in right.keys}
        return _Relation(frozenset(both))

    def _select(self, scope: Scope) -> _Relation:
        select = scope.expression.assert_is(exp.Select)
        if scope.subquery_scopes:
            raise Unprovable("it has a subquery outside of FROM: write it as a join")
        sources = {alias.lower(): self._source(*pair) for alias, pair in sources_of(scope).items()}
        joins = _Joins(self, scope, sources)
        keys, pending, origins = joins.keys(), joins.pending(), joins.origins()
        if sources and any(source.keys is not None for source in sources.values()):
            self._require_keyed(select, scope, keys)
        if pending:
            self._require_rowwise(select, pending)
        return self._projected(select, scope, keys, pending, origins)

    def _source(self, node: exp.Expr, source: exp.Expr | Scope) -> _Relation:
        if isinstance(node, exp.Table) and (node.args.get("sample") or node.args.get("pivots")):
            raise Unprovable(f"it reads a sample or a pivot of {node.name}")
        if isinstance(source, Scope):
            return self.relation(source)
        if not isinstance(source, exp.Table) or source.name not in self._schemas.nodes:
            raise Unprovable(f"it reads {node.sql('spark')[:40]}, which is not known")
        name, columns = source.name, self._schemas.of(source.name)
        origins = {column: frozenset({(name, column)}) for column in columns}
        if self._column in columns:
            return _Relation(frozenset({self._column}), origins)
        return _Relation(None, origins, frozenset({name}))

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
            if not window.arg_key == "windows" and not self._has_key(_partition(window, select), scope, keys):
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

    def _projected(
        self,
        select: exp.Select,
        scope: Scope,
        keys: frozenset[At],
        pending: frozenset[str],
        origins: Mapping[At, frozenset[At]],
    ) -> _Relation:
        given: dict[str, At] = {}
        for item in select.selects:
            value = item.unalias()
            if item.is_star:
                for alias, columns in self._schemas.starred(item, scope).items():
                    given |= {name: (alias, name) for name in columns}
            elif isinstance(value, exp.Column) and (place := self._schemas.column(value, scope)):
                given[item.alias_or_name.lower()] = place
        is_free = all(self._source(*pair).keys is None for pair in sources_of(scope).values())
        return _Relation(
            None if is_free else frozenset(name for name, place in given.items() if place in keys),
            {name: origins.get(place, frozenset()) for name, place in given.items()},
            pending,
        )


class _Joins:
    """How the sources of one SELECT meet: which columns are equal in every row that comes out."""

    def __init__(self, proof: _Proof, scope: Scope, sources: Mapping[str, _Relation]) -> None:
        self._proof, self._scope, self._sources = proof, scope, sources
        self._outer: set[str] = set()  # aliases that may be all null
        self._inner: list[tuple[At, At]] = []  # equal in every row
        self._on: dict[str, list[tuple[At, At]]] = {}  # equal where the outer, semi or anti joined alias has a row
        where = scope.expression.args.get("where")
        self._inner += self._equal(where.this if where else None)
        earlier = list(sources)[:1]
        for join in scope.expression.args.get("joins") or ():
            self._add(join, earlier)
            earlier.append(join.alias_or_name.lower())

    def _add(self, join: exp.Join, earlier: list[str]) -> None:
        alias, side, kind = join.alias_or_name.lower(), join.side.upper(), join.kind.upper()
        if side in {"RIGHT", "FULL"} or join.method.upper() == "NATURAL":
            raise Unprovable(f"it has a {side or 'NATURAL'} JOIN: write it as a LEFT JOIN or an INNER JOIN")
        pairs = self._equal(join.args.get("on"))
        for name in (identifier.name.lower() for identifier in join.args.get("using") or ()):
            having = [left for left in earlier if name in self._proof._schemas.sources(self._scope).get(left, {})]
            pairs += [((having[0], name), (alias, name))] if having else []
        if side == "LEFT" or kind in {"SEMI", "ANTI"}:
            self._on[alias] = pairs
            if kind not in {"SEMI", "ANTI"}:
                self._outer.add(alias)
        else:
            self._inner += pairs

    def _equal(self, condition: exp.Expr | None) -> list[tuple[At, At]]:
        return [pair for part in conjuncts(condition) for pair in self._pair(part)]

    def _pair(self, part: exp.Expr) -> Iterator[tuple[At, At]]:
        if isinstance(part, exp.EQ | exp.NullSafeEQ):
            a, b = part.left, part.right
            if isinstance(a, exp.Column) and isinstance(b, exp.Column):
                schemas = self._proof._schemas
                left, right = schemas.column(a, self._scope), schemas.column(b, self._scope)
                if left and right and left[0] != right[0]:
                    yield left, right

    def keys(self) -> frozenset[At]:
        """The columns that carry the key in every row that comes out. Raises Unprovable where rows of several meet."""
        keyed = {alias: source.keys for alias, source in self._sources.items() if source.keys is not None}
        if not keyed:
            return frozenset()
        column = self._proof._method.column
        first = next(iter(self._sources))
        start = first if first in keyed else next(alias for alias in keyed)
        if start in self._on:
            raise Unprovable(f"it has an outer join whose left side does not have {column}")
        met, waiting = {start}, [alias for alias in keyed if alias != start]
        while waiting:
            reached = [alias for alias in waiting if self._meets(alias, met, keyed)]
            if not reached:
                raise Unprovable(f"it joins {waiting[0]} without {column} = {column}")
            met.update(reached)
            waiting = [alias for alias in waiting if alias not in met]
        return frozenset((alias, name) for alias, names in keyed.items() if alias not in self._on for name in names)

    def _meets(self, alias: str, met: set[str], keyed: Mapping[str, frozenset[str]]) -> bool:
        pairs = self._on.get(alias, self._inner)
        return any(
            {left[0], right[0]} & met
            and alias in (left[0], right[0])
            and all(name in keyed.get(source, ()) for source, name in (left, right))
            for left, right in pairs
        )

    def pending(self) -> frozenset[str]:
        """The inputs by ``via`` that have not met their table, here or below."""
        origins = self.origins()
        waiting = set()
        for alias, source in self._sources.items():
            for name in source.pending:
                own, other, other_column = self._proof._method.via[name]
                sought = {(name, own.lower()), (other, other_column.lower())}
                pairs = [*self._on.get(alias, []), *self._inner]
                if not any(self._is_pair(pair, alias, sought, (name, own.lower()), origins) for pair in pairs):
                    waiting.add(name)
        return frozenset(waiting)

    def _is_pair(
        self, pair: tuple[At, At], alias: str, sought: set[At], own: At, origins: Mapping[At, frozenset[At]]
    ) -> bool:
        """Whether ``pair`` has the two columns, the input's ``own`` from ``alias``."""
        (target,) = sought - {own}
        return any(
            mine[0] == alias and own in origins.get(mine, ()) and target in origins.get(theirs, ())
            for mine, theirs in (pair, pair[::-1])
        )

    def origins(self) -> dict[At, frozenset[At]]:
        """By alias and column, the columns of inputs of which it is a copy."""
        return {
            (alias, name): copies for alias, source in self._sources.items() for name, copies in source.origins.items()
        }


def _partition(window: exp.Window, select: exp.Select) -> list[exp.Expr]:
    """What a window is partitioned by, also one that is named and declared at the end."""
    expressions = list(window.args.get("partition_by") or ())
    name = window.args.get("alias")
    declared = {w.this.name.lower(): w for w in select.args.get("windows") or ()}
    if name is not None and name.name.lower() in declared:
        return expressions + _partition(declared[name.name.lower()], select)
    return expressions


def _limited(tree: exp.Expr) -> bool:
    return bool(tree.args.get("limit") or tree.args.get("offset"))
