"""Find keys to upsert a table by, and the paths that lead from a change of each input to the key."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, product

from medallion.derive.sources import Place, Sources
from medallion.model.methods import ByKey, Via
from medallion.model.plan import Unprovable
from medallion.model.proof import Prover
from medallion.model.proof_by_key import prove_by_key
from medallion.model.table import Feed, Node, Table

MAX_PATHS = 24  # most combinations of paths to a key that are tried
_NUMBERS = frozenset({"smallint", "int", "bigint"})
_OWN_NUMBER, _ANY_COLUMN = 100, 200  # ranks, after what identifies rows
_FEW_VALUES = "it is no key of a feed, so one value of it may have many rows"
_NO_KEY = "no column of its query is a plain copy of a key of any table"


@dataclass(frozen=True)
class Keys:
    """Keys to upsert by.

    methods: one per key proven right, the finest first. refused: why no other key is right. is_fine: whether the first
    key has few rows per value.
    """

    methods: tuple[ByKey, ...]
    refused: str
    is_fine: bool = True


@dataclass(frozen=True)
class Identifiers:
    """The columns that identify rows of a feed, so that one value of them has few rows in any table.

    These are the keys of feeds, whatever computed tables call them, and columns with the name of such a key.

    sources: returns what the query of a table copies and compares.
    """

    nodes: Mapping[str, Node]
    sources: Callable[[Table], Sources]
    _known: dict[Place, int | None] = field(default_factory=dict)

    def rank(self, place: Place) -> int | None:
        """Return 0 for a column that identifies rows by itself, else its place in a composite key; None if in none.

        In a composite key the coarsest column usually comes first.
        """
        place = (place[0], place[1].lower())
        if place not in self._known:
            self._known[place] = None  # ends the recursion where comparisons lead in a circle
            self._known[place] = self._rank(*place)
        return self._known[place]

    def _rank(self, name: str, column: str) -> int | None:
        ranks = [rank for feed in self.nodes.values() if isinstance(feed, Feed) for rank in _places(feed, column)]
        node = self.nodes[name]
        if not ranks and isinstance(node, Table):
            sources = self.sources(node)
            copies = [place for given, places in sources.output if given.lower() == column for place in places]
            ranks = [rank for place in sources.equal_to(copies) if (rank := self.rank(place)) is not None]
        return min(ranks, default=None)


def _places(feed: Feed, column: str) -> list[int]:
    keys = [key.lower() for key in feed.keys]
    return [keys.index(column) + (len(keys) > 1)] if column in keys else []


def keys_of(table: Table, sources: Sources, prover: Prover, identifiers: Identifiers) -> Keys:
    """Return the keys that ``table`` can be upserted by."""
    plan, proven, reasons = prover.plan_of(table), list[tuple[int, ByKey]](), list[str]()
    inputs = {name: prover.columns_of(name) for name in table.inputs}
    for name, places in sources.output:
        equal = sources.equal_to(places)
        if not places:
            continue
        rank = _rank(table, name, equal, prover, identifiers)
        if rank is None:
            if name in table.keys:
                reasons.append(f"by {name}: {_FEW_VALUES}")
            continue
        reason = ""
        for method in islice(upserts_by(name, equal, sources, table.inputs, identifiers), MAX_PATHS):
            try:
                prove_by_key(method, plan, inputs)
            except Unprovable as refusal:
                reason = reason or str(refusal)
            else:
                proven.append((rank, method))
                break
        else:
            reasons.append(f"by {name}: {reason or 'no path leads from all of its inputs to it'}")
    methods = tuple(method for _, method in sorted(proven, key=lambda pair: pair[0]))
    is_fine = any(rank < _ANY_COLUMN for rank, _ in proven)
    return Keys(methods, "; ".join(reasons) or _NO_KEY, is_fine)


def _rank(table: Table, name: str, equal: Sequence[Place], prover: Prover, identifiers: Identifiers) -> int | None:
    """Return how fine a key is, 0 the finest; None if it is not worth trying because few values cover most rows."""
    ranks = [rank for place in equal if (rank := identifiers.rank(place)) is not None]
    if ranks:
        return min(ranks)
    types = {column: kind for column, kind, _ in prover.columns_of(table.name)}
    if (name,) == table.keys and types[name] in _NUMBERS:
        return _OWN_NUMBER
    return None if table.refresh == "auto" else _ANY_COLUMN


def upserts_by(
    key: str, equal: Sequence[Place], sources: Sources, inputs: Sequence[str], identifiers: Identifiers
) -> Iterator[ByKey]:
    """Yield upserts by ``key``, with each path from the inputs without it.

    First every column that is equal to the key counts as the key, then only those that have its name.
    """
    everywhere: dict[str, str] = {}
    for name, column in sorted(equal, key=lambda place: place[1].lower() != key.lower()):
        everywhere.setdefault(name, column)
    same_name = {name: column for name, column in everywhere.items() if column.lower() == key.lower()}
    for columns in (everywhere, same_name) if same_name and same_name != everywhere else (everywhere,):
        in_order = {name: columns[name] for name in inputs if name in columns}
        for via in _paths(in_order, sources, inputs, identifiers):
            yield ByKey(key, via, in_order)


def _paths(
    keyed: Mapping[str, str], sources: Sources, inputs: Sequence[str], identifiers: Identifiers
) -> Iterator[dict[str, Via]]:
    """Yield ways from the inputs without the key to one that has it, in the fewest steps: each combination of steps.

    Steps by columns with few rows per value come first.
    The last one takes all steps at once, for inputs that are read more than once.
    """
    steps, reached = dict[str, list[Via]](), {*keyed}
    while len(reached) < len(inputs):
        new: dict[str, list[Via]] = {}
        for pair in sources.equal:
            for (name, column), (through, as_column) in (pair, pair[::-1]):
                if name not in reached and through in reached:
                    new.setdefault(name, []).append(Via(column, through, as_column))
        if not new:
            return
        for name, found in new.items():
            ranks = {way: identifiers.rank((name, way.column)) for way in found}
            steps[name] = sorted(found, key=lambda way: (ranks[way] is None, ranks[way]))
        reached |= new.keys()
    names = [name for name in inputs if name in steps]
    for chosen in islice(product(*(steps[name] for name in names)), MAX_PATHS - 1):
        yield dict(zip(names, chosen, strict=True))
    if any(len(steps[name]) > 1 for name in names):
        yield {name: replace(steps[name][0], also=tuple(dict.fromkeys(steps[name][1:]))) for name in names}
