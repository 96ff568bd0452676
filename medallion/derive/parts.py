"""Find the parts of a query that add up, from the outside in: first what the rest reads, then what those parts read."""

from collections.abc import Collection
from dataclasses import dataclass, field

from medallion.derive.sources import cte_name, inputs_below, nodes_below
from medallion.model.plan import Node, Plan, Unprovable
from medallion.model.proof_additive import Reading, prove_part

MAKE_GROUPS = frozenset({"Aggregate", "Distinct", "Window"})


@dataclass
class Parts:
    """The parts of a query.

    names: the common table expressions that add up, inner ones first. refused: why others do not, by name.
    """

    names: dict[str, frozenset[int]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)

    def reason(self) -> str:
        """Return why no part adds up."""
        none = "its query has no GROUP BY with only SUM and COUNT, to which a change could be added"
        return "; ".join(self.refused.values()) or none


def parts_of(plan: Plan, reading: Reading, passed_over: Collection[str]) -> Parts:
    """Return the parts of a query that add up.

    passed_over: inputs whose sums are not worth keeping because reading them whole is cheap.
    """
    parts = Parts()
    _outside_in(plan, plan.root, reading, passed_over, parts)
    return parts


def rest_groups(plan: Plan, names: Collection[str], passed_over: Collection[str]) -> str | None:
    """Return the first input that the rest of a query groups again as a whole each time; None if there is none."""
    stops = {name.lower() for name in names}
    for node in nodes_below(plan, plan.root, stops):
        if node.kind in MAKE_GROUPS:
            for name in inputs_below(plan, node, stops):
                if name not in passed_over:
                    return name
    return None


def _outside_in(plan: Plan, node: Node, reading: Reading, passed_over: Collection[str], parts: Parts) -> None:
    for name in _read_by(plan, node):
        if name not in parts.names and name not in parts.refused:
            _try_part(plan, name, reading, passed_over, parts)


def _try_part(plan: Plan, name: str, reading: Reading, passed_over: Collection[str], parts: Parts) -> None:
    node = plan.cte_named(name)
    assert node is not None, "it was found by its name"
    if {*inputs_below(plan, node, parts.names)} <= {*passed_over} and not _reads_any(plan, node, parts.names):
        return
    try:
        parts.names[name] = prove_part(name, plan, reading, parts.names)
        return
    except Unprovable as refusal:
        reason = str(refusal)
    _outside_in(plan, node, reading, passed_over, parts)
    if _reads_any(plan, node, parts.names):  # it may add up over the parts just found inside it
        try:
            parts.names[name] = prove_part(name, plan, reading, parts.names)
            return
        except Unprovable:
            pass
    parts.refused[name] = reason


def _read_by(plan: Plan, node: Node) -> list[str]:
    """Return the common table expressions that ``node`` reads directly, in order."""
    every = {name.lower() for definition in plan.ctes.values() if (name := cte_name(definition))}
    read = (part for part in nodes_below(plan, node, every) if part.kind == "CTERelationRef")
    names = dict.fromkeys(cte_name(plan.ctes[part.cte]) for part in read)
    return [name for name in names if name and plan.cte_named(name) is not None]


def _reads_any(plan: Plan, node: Node, names: Collection[str]) -> bool:
    return any(name in names for name in _read_by(plan, node))
