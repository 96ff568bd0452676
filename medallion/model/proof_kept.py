"""Prove that the state of a query's kept relations adds up, and returns the table's rows together with the rest.

Three things are proven. First, the relations and the rest, put together, are the query: Spark's optimizer produces the
same plan for both. Second, a relation can be restored from its state: its aggregates are of kinds for which this is
known, over the same expressions as the state. Third, a change adds to the state what the touched rows give after it,
less what they gave before: each row below the groups depends on one row of one input, or on the rows of one key.
"""

import re
from dataclasses import replace

from medallion.errors import MedallionError
from medallion.model.kept_text import (
    ADDS_UP,
    OF_VALUES,
    ROWS,
    counters_of,
    group_names,
    inputs_of,
    relation_text,
    state_text,
    whole_text,
)
from medallion.model.methods import Kept, KeptItem, KeptPart
from medallion.model.plan import Analysis, Expression, Node, NoPlans, Plan, Unprovable, in_words
from medallion.model.plan_json import read_plan
from medallion.model.plan_shape import shape_of
from medallion.model.proof_additive import Reading
from medallion.model.proof_by_key import prove_keyed
from medallion.model.table import Table

_KINDS = {"Sum": "SUM", "Count": "COUNT", "Average": "AVG", "Min": "MIN", "Max": "MAX"}
_INTEGERS = frozenset({"tinyint", "smallint", "int", "bigint"})
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_COMPARABLE = _INTEGERS | {"string", "date", "timestamp", "boolean"}
_ROW_BY_ROW = frozenset({"SubqueryAlias", "Filter", "Project", "Generate", "Expand", "View"})
_MIN_DIGITS = 9  # additional digits of a quotient, enough to average MAX_AVERAGED_ROWS rows exactly as Spark does


def prove_kept(table: Table, method: Kept, reading: Reading) -> None:
    """Raise Unprovable, naming the construct, if parts and rest could return other rows than the query."""
    for part in method.parts:
        current_part = proven_part(part, reading)
        if current_part != part:
            raise Unprovable("its kept relations have other types now")
    if unknown := {*inputs_of(method.rest)} - {*table.inputs, *(part.name for part in method.parts)}:
        raise Unprovable(f"the rest of it reads {min(unknown)}, which is neither kept nor an input")
    whole = whole_text(method.parts, method.rest)
    if not _asked(whole, reading, same_as=table.query).is_same:
        raise Unprovable("its pieces, put together again, are not the same query to Spark")


def rest_of(method: Kept, reading: Reading) -> Plan:
    """Return the rest as analysed by Spark. Raises Unprovable if it cannot be computed from the kept relations."""
    kept = {part.name: tuple((item.name, item.type, True) for item in part.items) for part in method.parts}
    return read_plan(_asked(method.rest, replace(reading, inputs={**reading.inputs, **kept})))


def plan_of(part: KeptPart, reading: Reading) -> Plan:
    """Return the relation as analysed by Spark. Raises Unprovable if it cannot be computed on its own."""
    return read_plan(_asked(relation_text(part), reading))


def proven_part(part: KeptPart, reading: Reading) -> KeptPart:
    """Return a part with the types of its columns. Raises Unprovable if its state does not add up."""
    relation, state = plan_of(part, reading), read_plan(_asked(state_text(part), reading))
    types = [kind for _, kind, _ in relation.columns]
    items = tuple(replace(item, type=kind) for item, kind in zip(part.items, types, strict=True))
    root, below = _column_expressions(relation, is_distinct=part.is_distinct), _groups_of(state)
    pairs = [*zip(items, root[1], strict=True)]
    expected = [covered for item, expression in pairs for covered in _covered_expressions(item, expression)]
    _require_state(part, (relation, root[0], expected), (state, *below))
    for item, expression in pairs:
        _require_exact(item, expression)
    if part.by is None:
        _require_row_by_row(relation, root[0])
    else:
        # Rows of the others may all matter: where one of them changes, the state is rebuilt.
        inputs = {name: reading.inputs[name] for name in inputs_of(relation_text(part)) if name not in part.whole}
        prove_keyed(root[0], part.by, relation, inputs)
    return replace(part, items=items)


def _asked(query: str, reading: Reading, same_as: str = "") -> Analysis:
    known = {name: columns for name, columns in reading.inputs.items() if name in inputs_of(query + same_as)}
    try:
        return reading.analyse(query, known, same_as=same_as)
    except NoPlans:
        raise
    except MedallionError as error:
        raise Unprovable(f"a part of it cannot be computed on its own: {error}") from None


def _column_expressions(plan: Plan, *, is_distinct: bool) -> tuple[Node, list[Expression]]:
    """Return the node that a relation takes its columns from, and the expressions of its columns."""
    node = plan.root
    while node.kind in {"WithCTE", "SubqueryAlias"}:
        node = node.children[node.detail["plan"]] if node.kind == "WithCTE" else node.child
    if is_distinct:
        if node.kind != "Distinct" or node.child.kind != "Project":
            raise Unprovable("it is no DISTINCT of plain rows, as Spark reads it")
        node = node.child
    items = node.parts.get("aggregateExpressions", node.parts.get("projectList", ()))
    if node.kind not in {"Aggregate", "Project"} or not items:
        raise Unprovable(f"it has {in_words(node.kind)} where groups or rows are kept")
    return node.child, [item.unalias() for item in items]


def _groups_of(plan: Plan) -> tuple[Node, dict[str, Expression], tuple[Expression, ...]]:
    """Return the node that the state is computed from, its columns by name, and its grouping expressions."""
    node = plan.root
    while node.kind in {"WithCTE", "SubqueryAlias"}:
        node = node.children[node.detail["plan"]] if node.kind == "WithCTE" else node.child
    if node.kind != "Aggregate":
        raise Unprovable("its state is not one of groups")
    items = {item.name: item.unalias() for item in node.parts["aggregateExpressions"]}
    return node.child, items, node.parts.get("groupingExpressions", ())


def _covered_expressions(item: KeptItem, expression: Expression) -> tuple[Expression, ...]:
    """Return the expressions that the state of a column must cover: a value, or input and condition of an aggregate."""
    is_aggregate = any(part.kind == "AggregateExpression" for part in expression.walk())
    if item.kind == "key":
        if is_aggregate:
            raise Unprovable(f"{expression} is no value of rows, as Spark reads it")
        return (expression,)
    if expression.kind != "AggregateExpression":
        raise Unprovable(f"{expression} is not the aggregate that its text says, as Spark reads it")
    function = expression.children[0]
    is_distinct = '"isDistinct": true' in expression.detail and function.kind not in {"Min", "Max"}
    kind = _KINDS.get(function.kind, "") + (" DISTINCT" if is_distinct else "")
    if kind != item.kind or kind not in ADDS_UP | OF_VALUES or len(function.children) != 1:
        raise Unprovable(f"{expression} is no aggregate of which state is kept")
    if len(expression.children) - 1 != bool(item.condition):
        raise Unprovable(f"{expression} has another FILTER than its text says, as Spark reads it")
    return (function.children[0], *expression.children[1:])


def _require_state(
    part: KeptPart,
    relation: tuple[Plan, Node, list[Expression]],
    state: tuple[Plan, Node, dict[str, Expression], tuple[Expression, ...]],
) -> None:
    """Raise Unprovable if the state covers other rows than the relation, or other values of them."""
    plan, below, expected = relation
    state_plan, state_below, columns, groups = state
    actual: list[Expression] = []
    for place, item in enumerate(part.items):
        actual += _state_expressions(item, place, columns)
    if _shape(plan, below, expected) != _shape(state_plan, state_below, actual):
        raise Unprovable("what is kept of it is not of the same rows and values, as Spark reads it")
    grouped, keys = {group.unalias().key for group in groups}, {columns[name].key for name in group_names(part)}
    # With grouping sets, Spark groups by the grouping id too, and a key such as GROUPING(a) is computed from that.
    if grouped - keys or (keys - grouped and not part.grouping):
        raise Unprovable("what is kept of it has other groups, as Spark reads it")
    for name, _ in counters_of(part):
        inner = columns[name]
        kind = _KINDS.get(inner.children[0].kind) if inner.kind == "AggregateExpression" else None
        if kind != ("SUM" if name.startswith("_s") else "COUNT") or '"isDistinct": true' in inner.detail:
            raise Unprovable(f"{name} of its state does not count, as Spark reads it")
    if len(columns[ROWS].children) != 1 or columns[ROWS].children[0].children[0].kind != "Literal":
        raise Unprovable("its state does not count rows, as Spark reads it")


def _state_expressions(item: KeptItem, place: int, columns: dict[str, Expression]) -> list[Expression]:
    """Return the expressions in the state that correspond to those of ``_covered_expressions``."""
    if item.kind == "key":
        return [columns[f"_k{place}"]]
    if item.kind in OF_VALUES:
        value = columns[f"_d{place}"]
        if not item.condition:
            return [value]
        if value.kind != "CaseWhen" or len(value.children) != 2:
            raise Unprovable(f"the values of {item.text} are not kept by its condition, as Spark reads it")
        condition, inner = value.children
        return [inner, condition]
    count = columns[f"_v{place}"]
    pair = [count.children[0].children[0], *count.children[1:]]
    if item.kind != "COUNT":
        total = columns[f"_s{place}"]
        own = [total.children[0].children[0], *total.children[1:]]
        if [part.key for part in own] != [part.key for part in pair]:
            raise Unprovable(f"SUM({item.text}) is not counted by what it is of, as Spark reads it")
        return own
    return pair


def _shape(plan: Plan, below: Node, values: list[Expression]) -> str:
    return shape_of(plan, Node("Values", (below,), {"values": tuple(values)}, ()), ())


def _require_exact(item: KeptItem, expression: Expression) -> None:
    """Raise Unprovable for an aggregate that is not restored exactly, or for values that cannot be compared exactly."""
    if item.kind == "key" or item.kind in OF_VALUES:
        kind = item.type if item.kind != "COUNT DISTINCT" else expression.input_type
        if kind not in _COMPARABLE and not _DECIMAL.fullmatch(kind):
            raise Unprovable(
                f"{expression} is {kind.upper()}, whose values are not kept: take integers, DECIMAL, text or dates"
            )
    if item.kind not in {"SUM", "AVG"} or expression.input_type in _INTEGERS:
        return
    read = _DECIMAL.fullmatch(expression.input_type)
    if read is None:
        remedy = "use DECIMAL" if expression.input_type in {"float", "double"} else "only integers and DECIMAL are kept"
        raise Unprovable(f"{expression} is of {expression.input_type.upper()}, of which sums drift: {remedy}")
    if item.kind == "AVG":
        _require_digits(item, expression, int(read[1]), int(read[2]))


def _require_digits(item: KeptItem, expression: Expression, precision: int, scale: int) -> None:
    """Raise Unprovable unless the quotient of sum and count has enough digits to be rounded to the exact average."""
    whole_digits = min(38, precision + 10) - scale
    quotient = max(6, min(scale + 21, 38 - whole_digits))
    result = _DECIMAL.fullmatch(item.type)
    if result is None or quotient - int(result[2]) < _MIN_DIGITS:
        raise Unprovable(f"{expression} has too many digits to be computed from a sum: cast it to a smaller DECIMAL")


def _require_row_by_row(plan: Plan, node: Node) -> None:
    """Raise Unprovable unless each row depends on a single row of one input."""
    while not node.source:
        if any(part.plan is not None for expression in node.expressions for part in expression.walk()):
            raise Unprovable("it has a subquery")
        if node.kind == "CTERelationRef":
            node = plan.ctes[node.cte].child
        elif node.kind in _ROW_BY_ROW:
            node = node.child
        else:
            raise Unprovable(f"it has {in_words(node.kind)}")
