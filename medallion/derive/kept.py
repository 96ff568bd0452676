"""Choose the relations of a query whose state is kept, and the keys by which changes of them are followed."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import islice

from medallion.derive.apart import kept_of
from medallion.derive.keys import MAX_PATHS, Identifiers, upserts_by
from medallion.derive.parts import MAKE_GROUPS
from medallion.derive.sources import Place, inputs_below, nodes_below, sources_of
from medallion.model.kept_text import inputs_of, relation_text
from medallion.model.methods import ByKey, Kept, KeptPart
from medallion.model.plan import Plan, Unprovable
from medallion.model.proof_additive import Reading
from medallion.model.proof_kept import plan_of, prove_kept, proven_part, rest_of
from medallion.model.table import Node, Table


def kept_relations(table: Table, reading: Reading, identifiers: Identifiers) -> tuple[Kept | None, str]:
    """Return the relations of a table's query whose state can be kept, or why there are none.

    Args:
        table: The table.
        reading: What a proof needs to know about tables.
        identifiers: The columns that identify rows, so that one value of them has few rows.
    """

    method, reason = _kept(table, reading, lambda part: _accepted(part, reading, identifiers))
    if method is None:
        method, _ = _kept(table, reading, lambda part: _accepted_with_whole_inputs(part, reading, identifiers))
    return method, "" if method else reason


def _kept(table: Table, reading: Reading, accept: Callable[[KeptPart], KeptPart]) -> tuple[Kept | None, str]:
    """Return the relations that ``accept`` takes, if they and the rest are the query, or why there are none."""
    method, reasons = kept_of(table.query, accept)
    if method is None:
        return None, "; ".join(reasons) or "it has no groups, and no rows of one key, that could be kept"
    try:
        prove_kept(table, method, reading)
        _require_little_rest(method, reading)
    except Unprovable as reason:
        return None, str(reason)
    return method, ""


def _require_little_rest(method: Kept, reading: Reading) -> None:
    """Raise Unprovable if the rest of the query, which is computed each time, costs as much as the whole query."""
    read = {name for part in method.parts for name in inputs_of(relation_text(part))}
    if read <= {*inputs_of(method.rest)}:
        raise Unprovable(f"beside what is kept, its query still reads all rows of {' and '.join(sorted(read))}")
    plan, kept = rest_of(method, reading), {part.name for part in method.parts}
    for node in nodes_below(plan, plan.root):
        if node.kind in MAKE_GROUPS and (grouped := {*inputs_below(plan, node)} - kept):
            raise Unprovable(f"beside what is kept, its query still groups all rows of {min(grouped)}")


def _accepted(part: KeptPart, reading: Reading, identifiers: Identifiers) -> KeptPart:
    """Return the part as proven: without a key if changed rows are enough, else with the first key that is right.

    Raises Unprovable if no key is.
    """
    try:
        return proven_part(part, reading)
    except Unprovable as reason:
        row_by_row = str(reason)
    plan, refused = plan_of(part, reading), ""
    for by in _ways(part, plan, reading.nodes, identifiers, ()):
        try:
            return proven_part(replace(part, by=by), reading)
        except Unprovable as reason:
            refused = refused or f"by {by.column}: {reason}"
    raise Unprovable(refused or row_by_row)


def _accepted_with_whole_inputs(part: KeptPart, reading: Reading, identifiers: Identifiers) -> KeptPart:
    """Return the part as ``_accepted`` does, else with inputs that are read whole, as few of them as possible.

    Only tables in which others look up rows by key are taken for that: as a rule they change seldom.
    """
    try:
        return _accepted(part, reading, identifiers)
    except Unprovable as reason:
        refused = reason
    plan = plan_of(part, reading)
    lookups = _lookups(plan, inputs_of(relation_text(part)), reading.nodes)
    for whole in (*((name,) for name in lookups), *([lookups] if len(lookups) > 1 else [])):
        for by in _ways(part, plan, reading.nodes, identifiers, whole):
            with suppress(Unprovable):
                return proven_part(replace(part, by=by, whole=whole), reading)
    raise refused


def _lookups(plan: Plan, inputs: Iterable[str], nodes: Mapping[str, Node]) -> tuple[str, ...]:
    """Return the inputs whose only key is set equal to a column of another input, or that subqueries alone read."""
    compared = {
        mine
        for left, right in sources_of(plan).equal
        for mine, other in ((left, right), (right, left))
        if mine[0] != other[0]
    }
    beside = {node.source[0] for node in nodes_below(plan, plan.root, subqueries=False) if node.source}
    return tuple(
        name
        for name in inputs
        if name not in beside or (len(nodes[name].keys) == 1 and (name, nodes[name].keys[0]) in compared)
    )


def _ways(
    part: KeptPart, plan: Plan, nodes: Mapping[str, Node], identifiers: Identifiers, whole: Collection[str]
) -> Iterator[ByKey]:
    """Yield the keys by which rows of a part could be followed, those with few rows per value first.

    whole: inputs whose changes are not followed.
    """
    sources = sources_of(plan)
    inputs = [name for name in inputs_of(relation_text(part)) if name not in whole]
    followed = replace(sources, equal=tuple(p for p in sources.equal if {name for name, _ in p}.isdisjoint(whole)))
    classes: dict[frozenset[Place], tuple[int, Place]] = {}
    for name in inputs:
        for column in _columns(nodes[name], plan, name):
            rank = identifiers.rank((name, column))
            equal = frozenset(sources.equal_to([(name, column)]))
            if rank is not None and rank < classes.get(equal, (rank + 1, ("", "")))[0]:
                classes[equal] = rank, (name, column)
    ways = [
        (rank, by)
        for equal, (rank, (_, column)) in classes.items()
        for by in islice(upserts_by(column, sorted(equal), followed, inputs, identifiers), MAX_PATHS)
    ]
    yield from (by for _, by in sorted(ways, key=lambda way: (_rows_per_value(way[1], nodes), way[0])))


def _columns(node: Node, plan: Plan, name: str) -> list[str]:
    """Return the columns of an input that the plan reads, in order."""
    read_columns = (part.source[1] for part in plan.root.walk() if part.source and part.source[0] == name)
    return [*next(read_columns, node.keys)]


def _rows_per_value(by: ByKey, nodes: Mapping[str, Node]) -> int:
    """Count the columns on the way to the key that are no key of their input, so that one value may have many rows."""
    steps = [(name, way.column) for name, via in by.via.items() for way in via.ways]
    return sum(column not in nodes[name].keys for name, column in (*by.columns.items(), *steps))
