"""How the key of an upsert passes through a plan: what is known about the rows of each node.

A *keyed* relation has groups of columns, one group for each keyed relation in it that is not joined on the key yet; all
columns of a group carry the same value of the key. Its rows for some key values depend only on the rows of the keyed
inputs with these values. If a relation has several groups, as after a cross join, only an equality between columns of
two groups merges these; until then no operator except a join or a filter may read the relation. A relation without
groups is *free*: its rows do not depend on the key.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from medallion.model.methods import Via
from medallion.model.plan import Expression, Node, Unprovable, equal_columns, id_of

Place = tuple[str, str]  # an input and a column of it, in lower case
Instance = tuple[str, int]  # an input, and which of the reads of it
Copies = tuple[frozenset[tuple[Instance, str]], ...]  # the input columns of a plain copy, for each branch of a UNION


@dataclass(frozen=True)
class Relation:
    """What is known about a relation.

    groups: groups of columns that carry the key, one for each part that is not joined on the key yet; empty if it is
    free. copies: by column, the input columns that it is a plain copy of, with the read of the input; for each branch
    of a UNION. pending: reads of inputs with a ``via`` path that are not joined to the table of that path yet. outer:
    in a subquery, the columns of the enclosing query that carry the key; a column equal to one of them has the key of
    the row for which the subquery is evaluated.
    """

    groups: tuple[frozenset[int], ...] = ()
    copies: Mapping[int, Copies] = field(default_factory=dict)
    pending: frozenset[Instance] = frozenset()
    outer: frozenset[int] = frozenset()

    @property
    def is_keyed(self) -> bool:
        """Whether its rows depend only on the input rows with their key."""
        return bool(self.groups)

    @property
    def carriers(self) -> frozenset[int]:
        """The columns that carry the key if all parts are joined on it; else empty."""
        return self.groups[0] if len(self.groups) == 1 else frozenset()

    @property
    def is_bound(self) -> bool:
        """Whether all rows of a subquery have the key of the row of the enclosing query."""
        return bool(self.carriers & self.outer)

    def renamed(self, names: Iterable[tuple[int, int]]) -> "Relation":
        """Return the relation with other column ids. names: pairs of an old id and a new one."""
        pairs = list(names)
        groups = tuple(
            frozenset(new for old, new in pairs if old in group) | (group & self.outer) for group in self.groups
        )
        copies = {new: self.copies[old] for old, new in pairs if old in self.copies}
        return replace(self, groups=groups, copies=copies)

    def read_again(self, place: int) -> "Relation":
        """Return the same relation for another read of its inputs."""

        def moved(instance: Instance) -> Instance:
            return instance[0], hash((instance[1], place))

        copies = {
            column: tuple(frozenset((moved(instance), name) for instance, name in branch) for branch in branches)
            for column, branches in self.copies.items()
        }
        return replace(self, copies=copies, pending=frozenset(map(moved, self.pending)))

    def where(
        self, pairs: list[tuple[int, int]], via: Mapping[str, Via], around: "Relation | None" = None
    ) -> "Relation":
        """Return the relation filtered to equal ``pairs`` of columns. around: the relation that encloses a subquery."""
        relation = replace(self, groups=_merged(self.groups, pairs))
        known = self if around is None else replace(self, copies={**around.copies, **self.copies})
        return replace(relation, pending=relation.waiting(pairs, via, known))

    def waiting(self, pairs: list[tuple[int, int]], via: Mapping[str, Via], other: "Relation") -> frozenset[Instance]:
        """Return the pending reads that equal ``pairs`` of columns with ``other`` do not join along their ``via``."""
        return frozenset(instance for instance in self.pending if not self._meets(instance, pairs, via, other))

    def _meets(
        self, instance: Instance, pairs: list[tuple[int, int]], via: Mapping[str, Via], other: "Relation"
    ) -> bool:
        for mine, theirs in (*pairs, *((b, a) for a, b in pairs)):
            own, other_copies = self.copies.get(mine, ()), other.copies.get(theirs, ())
            targets = {
                (way.through, way.as_column.lower())
                for way in via[instance[0]].ways
                if own and all((instance, way.column.lower()) in branch for branch in own)
            }
            if other_copies and all(targets & {(read[0], name) for read, name in branch} for branch in other_copies):
                return True
        return False


def joined(node: Node, left: Relation, right: Relation, key: str, via: Mapping[str, Via]) -> Relation:
    """Return what is known about a join. Raises Unprovable if it could join rows of different keys."""
    pairs = equal_columns(node.condition)
    copies = {**left.copies, **right.copies}
    both = Relation((*left.groups, *right.groups), copies, left.pending | right.pending, left.outer | right.outer)
    if node.join_type in {"Inner", "Cross"}:
        return both.where(pairs, via)
    if node.join_type not in {"LeftOuter", "LeftSemi", "LeftAnti"}:
        word = {"RightOuter": "RIGHT", "FullOuter": "FULL"}.get(node.join_type, node.join_type)
        raise Unprovable(f"it has a {word} JOIN: write it as a LEFT JOIN or an INNER JOIN")
    if right.is_keyed and not left.is_keyed:
        raise Unprovable(f"it has an outer join whose left side does not have {key}")
    for group in right.groups:
        if not any(_equal(group, other, pairs) for other in left.groups):
            raise Unprovable(f"it joins {name_of(node.children[1])} without {key} = {key}")
    pending = left.pending | right.waiting(pairs, via, left)
    return replace(
        both, groups=left.groups, copies=copies if node.join_type == "LeftOuter" else left.copies, pending=pending
    )


def asked_of(
    left: Relation, subquery: Relation, pairs: list[tuple[int, int]], key: str, via: Mapping[str, Via], name: str
) -> Relation:
    """Return what is known about rows for each of which a subquery is evaluated.

    pairs: columns of the rows and of the subquery such that only rows with equal values matter. Raises Unprovable if
    rows of other keys could matter too.
    """
    for group in subquery.groups:
        if not group & subquery.outer and not any(_equal(group, other, pairs) for other in left.groups):
            raise Unprovable(f"it has a subquery over {name} without {key} = {key}")
    known = replace(subquery, copies={**left.copies, **subquery.copies})
    return replace(left, pending=left.pending | known.waiting(pairs, via, left))


def _equal(group: frozenset[int], other: frozenset[int], pairs: list[tuple[int, int]]) -> bool:
    return any((a in group and b in other) or (b in group and a in other) for a, b in pairs)


def _merged(groups: tuple[frozenset[int], ...], pairs: list[tuple[int, int]]) -> tuple[frozenset[int], ...]:
    """Merge groups that a pair of equal columns connects; a column that equals a carrier also carries the key."""
    merged = list(groups)
    for _ in range(len(pairs) + 1):
        for left, right in pairs:
            for place, group in enumerate(merged):
                if {left, right} & group:
                    merged[place] = group | {left, right}
        for place, group in enumerate(merged):
            for further in range(len(merged) - 1, place, -1):
                if group & merged[further]:
                    group = merged[place] = group | merged.pop(further)
    return tuple(merged)


def of_input(node: Node, key: str | None, via: Mapping[str, Via], place: int) -> Relation:
    """Return what is known about an input. key: its key column, if it has one."""
    assert node.source is not None
    name, columns = node.source
    instance = (name, place)
    copies = {
        id_of(item): (frozenset({(instance, column.lower())}),)
        for column, item in zip(columns, node.output, strict=True)
    }
    if key is not None:
        carriers = frozenset(id_of(item) for column, item in zip(columns, node.output, strict=True) if column == key)
        return Relation((carriers,), copies)
    return Relation((), copies, frozenset({instance}) if name in via else frozenset())


def given(items: Iterable[Expression]) -> list[tuple[int, int]]:
    """Return the columns that are passed on unchanged, as pairs of old and new id."""
    pairs = []
    for item in items:
        inner = item.unalias()
        if inner.is_column:
            pairs.append((id_of(inner), id_of(item)))
    return pairs


def name_of(node: Node) -> str:
    """Return the name of a relation in its query."""
    if node.source:
        return node.source[0]
    while node.kind in {"SubqueryAlias", "Project", "Filter"}:
        if node.kind == "SubqueryAlias" and not node.alias.startswith("_pyspark_"):
            return node.alias
        node = node.child
    return node.source[0] if node.source else "a subquery"
