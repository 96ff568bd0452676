"""By which keys a table could be upserted, and over which paths a change of each input leads to one."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product

from medallion.derive.sources import Place, Sources
from medallion.model.methods import ByKey, Via
from medallion.model.plan import Unprovable
from medallion.model.proof import Node, Prover
from medallion.model.proof_by_key import prove_by_key
from medallion.model.table import Feed, Table

MAX_PATHS = 24  # ways of leading inputs to a key, of which each is tried
_NO_KEY = "no column of its query is a plain copy of an input's column that identifies rows of any table"


@dataclass(frozen=True)
class Keys:
    """methods: one for each key that is proven right, the finest first. refused: why no other is."""

    methods: tuple[ByKey, ...]
    refused: str


def keys_of(table: Table, sources: Sources, prover: Prover) -> Keys:
    """List the keys that ``table`` can be upserted by."""
    plan, found, reasons = prover.plan_of(table), list[tuple[int, ByKey]](), list[str]()
    inputs = {name: prover.columns_of(name) for name in table.inputs}
    ranks = _ranks(prover.nodes)
    for name, places in sources.output:
        equal = sources.equal_to(places)
        known = [ranks[column] for column in (name.lower(), *(c.lower() for _, c in equal)) if column in ranks]
        if not places or not known:
            continue
        reason = ""
        for method in islice(_methods(name, equal, sources, table.inputs), MAX_PATHS):
            try:
                prove_by_key(table, method, plan, inputs)
            except Unprovable as refusal:
                reason = reason or str(refusal)
            else:
                found.append((min(known), method))
                break
        else:
            reasons.append(f"by {name}: {reason or 'no path leads from all of its inputs to it'}")
    methods = tuple(method for _, method in sorted(found, key=lambda pair: pair[0]))
    return Keys(methods, "; ".join(reasons) or _NO_KEY)


def _ranks(nodes: Mapping[str, Node]) -> dict[str, int]:
    """Columns, in lower case, that identify rows of a table: 0 for one that does so alone, else its place in a key of
    a feed, which is of the coarsest first as a rule."""
    ranks: dict[str, int] = {}
    for node in nodes.values():
        if len(node.keys) == 1:
            ranks[node.keys[0].lower()] = 0
        elif isinstance(node, Feed):
            for place, key in enumerate(node.keys, start=1):
                ranks.setdefault(key.lower(), place)
    return ranks


def _methods(key: str, equal: Sequence[Place], sources: Sources, inputs: Sequence[str]) -> Iterator[ByKey]:
    """Yield upserts by ``key``: with all columns that are equal to it, else with those alone that are called like it,
    and the other inputs over each path that leads to it."""
    everywhere: dict[str, str] = {}
    for name, column in sorted(equal, key=lambda place: place[1].lower() != key.lower()):
        everywhere.setdefault(name, column)
    alike = {name: column for name, column in everywhere.items() if column.lower() == key.lower()}
    for columns in (everywhere, alike) if alike and alike != everywhere else (everywhere,):
        in_order = {name: columns[name] for name in inputs if name in columns}
        for via in _paths(in_order, sources, inputs):
            yield ByKey(key, via, in_order)


def _paths(keyed: Mapping[str, str], sources: Sources, inputs: Sequence[str]) -> Iterator[dict[str, Via]]:
    """Yield how each input without the key leads to one that has it, the shortest paths first."""
    steps, reached = dict[str, list[Via]](), {*keyed}
    while len(reached) < len(inputs):
        new: dict[str, list[Via]] = {}
        for pair in sources.equal:
            for (name, column), (through, as_column) in (pair, pair[::-1]):
                if name not in reached and through in reached:
                    new.setdefault(name, []).append(Via(column, through, as_column))
        if not new:
            return
        steps |= new
        reached |= new.keys()
    names = [name for name in inputs if name in steps]
    for chosen in product(*(steps[name] for name in names)):
        yield dict(zip(names, chosen, strict=True))
