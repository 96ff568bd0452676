"""How the relations of one SELECT meet in its joins: what the proof of a refresh by key goes by."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sqlglot import exp
from sqlglot.optimizer.scope import Scope

from medallion.model.parsed_query import Schemas, Unprovable, conjuncts
from medallion.model.table import ByKey

At = tuple[str, str]  # alias and column in a SELECT, or table and column in the lake; in lower case


@dataclass(frozen=True)
class Relation:
    """What is known of a relation. keys: its columns that carry the key; None where it is free. origins: by column, the
    columns of inputs of which it is a plain copy. pending: inputs by ``via`` that have not met their table yet."""

    keys: frozenset[str] | None
    origins: Mapping[str, frozenset[At]] = field(default_factory=dict)
    pending: frozenset[str] = frozenset()


class Joins:
    """How the sources of one SELECT meet: which columns are equal in every row that comes out."""

    def __init__(self, method: ByKey, schemas: Schemas, scope: Scope, sources: Mapping[str, Relation]) -> None:
        self._method, self._schemas, self._scope, self._sources = method, schemas, scope, sources
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
            having = [left for left in earlier if name in self._schemas.sources(self._scope).get(left, {})]
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
        if isinstance(part, exp.EQ):  # not <=>, by which a NULL leads to rows too
            a, b = part.left, part.right
            if isinstance(a, exp.Column) and isinstance(b, exp.Column):
                left, right = (self._schemas.column(column, self._scope) for column in (a, b))
                if left and right and left[0] != right[0]:
                    yield left, right

    def keys(self) -> frozenset[At]:
        """The columns that carry the key in every row that comes out. Raises Unprovable where rows of several meet."""
        keyed = {alias: source.keys for alias, source in self._sources.items() if source.keys is not None}
        if not keyed:
            return frozenset()
        column = self._method.column
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
                via = self._method.via[name]
                own, target = (name, via.column.lower()), (via.through, via.as_column.lower())
                pairs = [*self._on.get(alias, []), *self._inner]
                if not any(self._is_pair(pair, alias, own, target, origins) for pair in pairs):
                    waiting.add(name)
        return frozenset(waiting)

    def _is_pair(
        self, pair: tuple[At, At], alias: str, own: At, target: At, origins: Mapping[At, frozenset[At]]
    ) -> bool:
        """Whether ``pair`` has the two columns, the input's ``own`` from ``alias``."""
        return any(
            mine[0] == alias and own in origins.get(mine, ()) and target in origins.get(theirs, ())
            for mine, theirs in (pair, pair[::-1])
        )

    def origins(self) -> dict[At, frozenset[At]]:
        """By alias and column, the columns of inputs of which it is a copy."""
        return {
            (alias, name): copies for alias, source in self._sources.items() for name, copies in source.origins.items()
        }
