"""Which columns determine a row, as far as it can be seen from the SQL.

A *key* of a relation is a set of its columns: rows that agree on them agree on all columns. It follows from the keys of
the tables, which every check proves, from GROUP BY, from joins on equal columns, and from ROW_NUMBER.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, product

from sqlglot import exp
from sqlglot.optimizer.scope import Scope

from medallion.model.parsed_query import (
    Schemas,
    Unprovable,
    aggregates,
    conjuncts,
    group_expressions,
    sources_of,
    window_parts,
)

Key = frozenset[str]  # columns of what a query gives
At = tuple[str, str]  # alias and column, or nothing and an expression; in lower case

_MAX_COMBINATIONS = 16  # of the keys of joined relations; each may have several
_MULTIPLY = (exp.Explode, exp.Posexplode, exp.Inline, exp.Unnest)  # one row becomes many
_SEVERAL_ROWS = (exp.Window, exp.AggFunc, exp.Subquery)


@dataclass(frozen=True)
class _Rows:
    """What follows from what in the rows of one SELECT, before it groups them. keys and columns: by alias."""

    keys: Mapping[str, tuple[frozenset[At], ...]]
    columns: Mapping[str, frozenset[At]]
    implied: tuple[tuple[At, At], ...]
    constants: frozenset[At]

    def closure(self, known: Iterable[At]) -> frozenset[At]:
        reached = self.constants | frozenset(known)
        while True:
            more = {right for left, right in self.implied if left in reached}
            for alias, keys in self.keys.items():
                if any(key <= reached for key in keys):
                    more |= self.columns[alias]
            if more <= reached:
                return reached
            reached |= more

    def has_all(self, reached: frozenset[At]) -> bool:
        return all(any(key <= reached for key in keys) for keys in self.keys.values())


class RowKeys:
    """The keys of every query of a table."""

    def __init__(self, schemas: Schemas) -> None:
        self._schemas = schemas
        self._known: dict[int, tuple[Key, ...]] = {}
        self._rows: dict[int, _Rows] = {}

    def determine_row(self, expressions: Iterable[exp.Expr], scope: Scope, *, before_groups: bool = False) -> bool:
        """Whether rows of ``scope`` that agree on ``expressions`` agree on everything.

        before_groups: whether that is about the rows it reads, or those it makes of them by GROUP BY.
        """
        reached = self._reached(expressions, scope)
        groups = None if before_groups else _groups(scope.expression)
        if groups is None:
            return not _multiplies(scope.expression) and self._rows_of(scope).has_all(reached)
        return all(self._is_known(group, reached, scope) for group in groups)

    def determine_output(self, expressions: Iterable[exp.Expr], scope: Scope) -> bool:
        """Whether rows that agree on ``expressions`` agree on all that ``scope`` gives."""
        reached = self._reached(expressions, scope)
        projected = self._project(scope)
        return projected is not None and all(self._is_known(item, reached, scope) for item in projected.values())

    def missing(self, expressions: Iterable[exp.Expr], scope: Scope, *, before_groups: bool = False) -> list[str]:
        """The columns that would make ``expressions`` determine a row of ``scope``, as one would write them."""
        reached = self._reached(expressions, scope)
        groups = None if before_groups else _groups(scope.expression)
        if groups is not None:
            return [group.sql("spark") for group in groups if not self._is_known(group, reached, scope)]
        names: list[str] = []
        for keys in self._rows_of(scope).keys.values():
            if not keys:
                return []
            if not any(key <= reached for key in keys):
                names += sorted(name for _, name in min(keys, key=len) - reached)
        return list(dict.fromkeys(names))

    def of(self, scope: Scope) -> tuple[Key, ...]:
        """The keys of what the query of ``scope`` gives; none where nothing is known, as of a recursive one."""
        if id(scope) not in self._known:
            self._known[id(scope)] = ()
            self._known[id(scope)] = tuple(dict.fromkeys(self._keys(scope)))
        return self._known[id(scope)]

    def _keys(self, scope: Scope) -> Iterator[Key]:
        projected = None if scope.outer_columns else self._project(scope)
        if projected is None:
            if columns := frozenset(self._schemas.output(scope)):
                yield columns
            return
        yield from self._numbered(projected, scope)
        seeds: Iterable[frozenset[At]] = [frozenset()]
        if _groups(scope.expression) is None:
            combinations = product(*self._rows_of(scope).keys.values())
            seeds = (frozenset().union(*keys) for keys in islice(combinations, _MAX_COMBINATIONS))
        for seed in seeds:
            yield self._smallest(projected, seed, scope)

    def _smallest(self, projected: Mapping[str, exp.Expr], seed: frozenset[At], scope: Scope) -> Key:
        """As few of the ``projected`` columns as determine a row, those of ``seed`` rather than others."""
        remaining = dict(projected)
        if not self.determine_row(remaining.values(), scope):
            return frozenset(remaining)
        for name in sorted(projected, key=lambda name: self._atom(projected[name], scope) in seed):
            fewer = [item for other, item in remaining.items() if other != name]
            if self.determine_row(fewer, scope):
                del remaining[name]
        return frozenset(remaining)

    def _numbered(self, projected: Mapping[str, exp.Expr], scope: Scope) -> Iterator[Key]:
        """A row number, with what its window is partitioned by."""
        names = {self._atom(item, scope): name for name, item in projected.items()}
        for name, item in projected.items():
            if isinstance(item, exp.Window) and isinstance(item.this, exp.RowNumber):
                partition = [self._atom(part, scope) for part in window_parts(item, scope.expression).partition]
                if all(part in names for part in partition):
                    yield frozenset({name, *(names[part] for part in partition)})

    def _project(self, scope: Scope) -> dict[str, exp.Expr] | None:
        """By name, what the SELECT of ``scope`` gives; None for what is not one row for each that it reads."""
        select = scope.expression
        if not isinstance(select, exp.Select) or _multiplies(select):
            return None
        projected: dict[str, exp.Expr] = {}
        for item in select.selects:
            if not item.is_star:
                projected[item.alias_or_name.lower()] = item.unalias()
                continue
            starred = self._schemas.starred(item, scope)
            if not starred:
                return None
            for alias, columns in starred.items():
                projected |= {name: exp.column(name, table=alias) for name in columns}
        return projected

    def _reached(self, expressions: Iterable[exp.Expr], scope: Scope) -> frozenset[At]:
        return self._rows_of(scope).closure(self._atom(item, scope) for item in expressions)

    def _is_known(self, item: exp.Expr, reached: frozenset[At], scope: Scope) -> bool:
        if self._atom(item, scope) in reached:
            return True
        return not item.find(*_SEVERAL_ROWS) and all(
            self._atom(column, scope) in reached for column in item.find_all(exp.Column)
        )

    def _atom(self, item: exp.Expr, scope: Scope) -> At:
        if isinstance(item, exp.Column):
            return self._schemas.column(item, scope) or ("", item.sql("spark").lower())

        def qualified(node: exp.Expr) -> exp.Expr:
            place = self._schemas.column(node, scope) if isinstance(node, exp.Column) else None
            return exp.column(place[1], table=place[0]) if place else node

        return "", item.copy().transform(qualified).sql("spark")

    def _rows_of(self, scope: Scope) -> _Rows:
        if id(scope) not in self._rows:
            self._rows[id(scope)] = self._read(scope)
        return self._rows[id(scope)]

    def _read(self, scope: Scope) -> _Rows:
        """What follows from what in the rows that the SELECT of ``scope`` reads."""
        tree = scope.expression
        joins = {join.alias_or_name.lower(): join for join in tree.args.get("joins") or ()}
        visible = [alias.lower() for alias in scope.selected_sources]
        keys, columns = {}, {}
        for alias, pair in sources_of(scope).items():
            name = alias.lower()
            if name in visible and joins.get(name, exp.Join()).kind not in {"SEMI", "ANTI"}:
                keys[name] = tuple(frozenset((name, column) for column in key) for key in self._source_keys(*pair))
                columns[name] = frozenset((name, column) for column in self._schemas.sources(scope).get(name, ()))
        where = tree.args.get("where")
        implied, constants = self._equal(where.this if where else None, scope)
        for name, join in joins.items():
            pairs, fixed = self._equal(join.args.get("on"), scope)
            pairs += self._using(join, columns)
            if join.side == "LEFT":  # its row may be all null: what it equals does not follow from it
                implied += [(left, right) for left, right in pairs if right[0] == name]
            elif not join.side and join.kind not in {"SEMI", "ANTI"}:
                implied, constants = implied + pairs, constants | fixed
        return _Rows(keys, columns, tuple(implied), constants)

    def _source_keys(self, node: exp.Expr, source: exp.Expr | Scope) -> tuple[Key, ...]:
        if isinstance(source, Scope):
            return self.of(source)
        if not isinstance(source, exp.Table) or source.name not in self._schemas.nodes or node.alias_column_names:
            return ()
        return (frozenset(key.lower() for key in self._schemas.nodes[source.name].keys),)

    def _equal(self, condition: exp.Expr | None, scope: Scope) -> tuple[list[tuple[At, At]], frozenset[At]]:
        """The pairs of columns that ``condition`` makes equal, both ways round, and the columns it gives one value."""
        pairs: list[tuple[At, At]] = []
        constants: set[At] = set()
        for part in conjuncts(condition):
            if not isinstance(part, exp.EQ):
                continue
            sides = [self._atom(side, scope) for side in (part.left, part.right)]
            if isinstance(part.left, exp.Column) and isinstance(part.right, exp.Column):
                pairs += [(sides[0], sides[1]), (sides[1], sides[0])]
            elif isinstance(part.left, exp.Column) and isinstance(part.right, exp.Literal):
                constants.add(sides[0])
        return pairs, frozenset(constants)

    @staticmethod
    def _using(join: exp.Join, columns: Mapping[str, frozenset[At]]) -> list[tuple[At, At]]:
        alias, pairs = join.alias_or_name.lower(), []
        for name in (identifier.name.lower() for identifier in join.args.get("using") or ()):
            for other in columns:
                if other != alias and (other, name) in columns[other]:
                    pairs += [((other, name), (alias, name)), ((alias, name), (other, name))]
                    break
        return pairs


def _groups(select: exp.Expr) -> list[exp.Expr] | None:
    """What ``select`` groups by: nothing where it makes one row of all; None where it does not group."""
    if not isinstance(select, exp.Select):
        return None
    try:
        groups = group_expressions(select)
    except Unprovable:  # rows of several groupings, which differ in all columns alone
        return list(select.selects)
    return groups if groups or any(aggregates(item) for item in select.selects) else None


def _multiplies(select: exp.Expr) -> bool:
    """Whether a row that ``select`` reads may become several."""
    if not isinstance(select, exp.Select) or select.args.get("laterals") or select.args.get("pivots"):
        return True
    return any(item.find(*_MULTIPLY) for item in select.selects)
