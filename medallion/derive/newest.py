"""Find inputs of which a query needs only the newest rows: it compares them with their own largest timestamp."""

from collections.abc import Iterator
from datetime import timedelta

from medallion.model.methods import Recent
from medallion.model.plan import Expression, Plan, Unprovable
from medallion.model.proof import Prover
from medallion.model.proof_recent import length_of, prove_recent
from medallion.model.table import Table

NO_CONDITION = "no condition limits an input to its newest rows, such as at >= (SELECT MAX(at) ...) - INTERVAL 7 DAYS"


def newest_of(table: Table, prover: Prover) -> tuple[Recent | None, str]:
    """Return the latest-rows method if the whole query follows from the newest rows, or why it does not."""
    plan = prover.plan_of(table)
    inputs = {name: prover.columns_of(name) for name in table.inputs}
    reason = NO_CONDITION
    for method in _methods(plan):
        try:
            prove_recent(table, method, plan, inputs)
        except Unprovable as refusal:
            reason = str(refusal)
        else:
            return method, ""
    return None, reason


def _methods(plan: Plan) -> Iterator[Recent]:
    """Yield a candidate for each largest value of an input and each interval in the query, the shortest first."""
    spans, places = set[timedelta](), dict[tuple[str, str], None]()
    for node in plan.root.walk():
        for expression in node.expressions:
            for part in expression.walk():
                if (span := length_of(part)) is not None:
                    spans.add(abs(span))
                if part.plan is not None and (place := _largest(part)):
                    places[place] = None
    for name, column in places:
        for span in sorted(spans):
            yield Recent(name, column, span)


def _largest(part: Expression) -> tuple[str, str] | None:
    """Return the input and column of a subquery's one aggregate, such as MAX; None for other subqueries."""
    node = part.plan
    assert node is not None
    items = node.parts.get("aggregateExpressions", ())
    if node.kind != "Aggregate" or len(items) != 1:
        return None
    below = node.child
    while below.children and not below.source:
        below = below.child
    columns = items[0].columns
    if below.source is None or len(columns) != 1:
        return None
    name, spelled = below.source
    names = [column for column, item in zip(spelled, below.output, strict=True) if item.id in columns]
    return (name, names[0]) if names else None
