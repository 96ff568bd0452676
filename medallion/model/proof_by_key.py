"""Prove that a query can be restricted to some values of a key and then returns exactly the rows with these values.

An input that has the key is restricted to the changed values. The changes of any other input lead to values of the key
along ``via``, and it is restricted to the rows that this path connects with them. So every read of it must be joined to
the next table of the path, on the columns of the path, before anything looks at all of its rows.
"""

from collections.abc import Mapping
from dataclasses import replace
from itertools import chain, pairwise

from medallion.model.key_paths import Inputs, key_columns, require_one_type, require_via
from medallion.model.keyed_relations import Copies, Relation, asked_of, given, joined, name_of, of_input
from medallion.model.methods import ByKey
from medallion.model.plan import Expression, Node, Plan, Unprovable, conjuncts, equal_columns, id_of, in_words

_SAME_ROWS = frozenset(
    {"Sort", "SubqueryAlias", "CTERelationDef", "RepartitionByExpression", "Repartition", "RebalancePartitions"}
)
_LIMITS = {"GlobalLimit": "LIMIT", "LocalLimit": "LIMIT", "Offset": "OFFSET", "Sample": "TABLESAMPLE"}


def prove_keyed(node: Node, method: ByKey, plan: Plan, inputs: Inputs) -> None:
    """Raise Unprovable, naming the construct, unless each row of ``node`` depends on a single value of the key.

    The rows need not have a key column themselves: input rows with one value of the key always produce the same rows,
    whatever rows the inputs have with other values.

    Args:
        node: An operator of the plan.
        method: The key, with the columns and paths of all inputs.
        plan: The plan of the node.
        inputs: The columns of the inputs that the plan reads. An input that is left out is read as a whole, and no
            change of it is followed.
    """
    require_via(method, inputs, method.columns)
    result = _Proof(method, plan, method.columns).relation(node)
    if not result.is_keyed:
        raise Unprovable(f"its rows do not follow from {method.column}")
    _require_met(result, method)
    require_one_type(method, inputs, method.columns)


def prove_by_key(method: ByKey, plan: Plan, inputs: Inputs) -> dict[str, str]:
    """Prove that the rows of a key depend only on the input rows with that key.

    Args:
        method: The refresh method of a table.
        plan: The analysed query of the table.
        inputs: The columns of its inputs.

    Returns:
        By input that is restricted, the column that restricts it.

    Raises:
        Unprovable: The rows of a key may depend on other rows; the construct is named.
    """
    restricted = dict(method.columns) or key_columns(method, inputs)
    require_via(method, inputs, restricted)
    names = [column.name for column in plan.root.output]
    if method.column not in names and (other := [n for n in names if n.lower() == method.column.lower()]):
        raise Unprovable(f"{method.column} is spelled {other[0]} in its query and inputs")
    result = _Proof(method, plan, restricted).relation(plan.root)
    _require_met(result, method)
    passed = [column.name for column in plan.root.output if id_of(column) in result.carriers]
    if method.column not in passed or names.count(method.column) > 1:
        raise Unprovable(f"{method.column} is not passed through unchanged from an input that has it")
    require_one_type(method, inputs, restricted)
    return restricted


def _require_met(result: Relation, method: ByKey) -> None:
    """Raise Unprovable unless all parts are joined on the key, and inputs without it along their paths."""
    _require_one_part(result, method.column)
    if result.pending:
        name, _ = min(result.pending)
        via = method.via[name]
        raise Unprovable(f"{name} is not joined on its {via.column} = {via.through}.{via.as_column}, as via says")


class _Proof:
    """The proof for one query."""

    def __init__(self, method: ByKey, plan: Plan, restricted: Mapping[str, str]) -> None:
        self._method, self._plan, self._restricted = method, plan, restricted
        self._key, self._known, self._around = method.column, dict[int, Relation](), Relation()

    def relation(self, node: Node) -> Relation:
        """Return what is known about the rows of ``node``."""
        if id(node) not in self._known:
            if node.kind not in {"Filter", "Project"}:
                self._require_no_subquery(node)
            self._known[id(node)] = self._read(node)
        return self._known[id(node)]

    def _require_no_subquery(self, node: Node) -> None:
        for expression in node.expressions:
            if any(part.plan is not None for part in expression.walk()):
                raise Unprovable("it has a subquery outside of FROM: write it as a join")

    def _with_subqueries(self, node: Node, relation: Relation) -> Relation:
        """Return what is known about rows for each of which the subqueries of ``node`` are evaluated."""
        for expression in node.expressions:
            for part in conjuncts(expression):
                relation = self._asked(part, relation, is_required=node.kind == "Filter" and part.kind == "InSubquery")
        return relation

    def _asked(self, tree: Expression, relation: Relation, *, is_required: bool) -> Relation:
        """Do this for the subqueries of one expression. is_required: whether only rows where it is true are kept."""
        if tree.plan is not None:
            return self._asked_one(tree.plan, relation, [])
        for part in tree.children:
            if part.kind == "ListQuery" and part.plan is not None:
                values = [*zip(tree.children[:-1], part.plan.output, strict=False)]
                pairs = [(id_of(value), id_of(given)) for value, given in values if value.is_column]
                is_equal = is_required or not any(matters_if_null(*pair) for pair in values)
                relation = self._asked_one(part.plan, relation, pairs if is_equal else [])
            else:
                relation = self._asked(part, relation, is_required=False)
        return relation

    def _asked_one(self, plan: Node, relation: Relation, pairs: list[tuple[int, int]]) -> Relation:
        former, self._around = self._around, replace(relation, copies={**self._around.copies, **relation.copies})
        subquery = self.relation(plan)
        self._around = former
        return asked_of(relation, subquery, pairs, self._key, self._method.via, name_of(plan))

    def _equal_columns(self, node: Node) -> list[tuple[int, int]]:
        """Return the columns that a filter makes equal, and the columns with the key in the enclosing query."""
        carriers = sorted(self._around.carriers)
        return [*equal_columns(node.condition), *pairwise(carriers)]

    def _read(self, node: Node) -> Relation:
        if node.source:
            name = node.source[0]
            relation = of_input(node, self._restricted.get(name), self._method.via, id(node))
            return replace(relation, outer=frozenset().union(*self._around.groups))
        match node.kind:
            case "Project":
                relation = self._with_subqueries(node, self._one_part(node.child))
                return relation.renamed(given(node.parts.get("projectList", ())))
            case "Filter":
                relation = self._with_subqueries(node, self.relation(node.child))
                return relation.where(self._equal_columns(node), self._method.via, self._around)
            case "Join":
                return self._join(node)
            case "Aggregate":
                return self._aggregate(node)
            case "Window":
                return self._window(node)
            case "Union" | "Intersect" | "Except":
                return self._set_operation(node)
            case "CTERelationRef":
                return self._reference(node)
            case "WithCTE":
                return self.relation(node.children[node.detail["plan"]])
        return self._read_further(node)

    def _read_further(self, node: Node) -> Relation:
        match node.kind:
            case kind if kind in _SAME_ROWS:
                return self.relation(node.child)
            case "LocalRelation" | "OneRowRelation" | "Range":
                return Relation()
            case "Distinct":
                relation = self._one_part(node.child)
                if relation.is_keyed and not relation.carriers:
                    raise Unprovable(f"it has DISTINCT without {self._key}")
                self._require_rowwise(relation, "DISTINCT")
                return relation
            case "Generate":
                return self._one_part(node.child)
            case "Expand":
                return self._expand(node)
            case kind if kind in _LIMITS:
                raise Unprovable(f"it has {_LIMITS[kind]}, which looks at all rows")
        raise Unprovable(f"it has {in_words(node.kind)}, which is not known to be refreshed rightly")

    def _one_part(self, node: Node) -> Relation:
        relation = self.relation(node)
        _require_one_part(relation, self._key, node)
        return relation

    def _join(self, node: Node) -> Relation:
        left, right = (self.relation(child) for child in node.children)
        return joined(node, left, right, self._key, self._method.via)

    def _aggregate(self, node: Node) -> Relation:
        relation = self._one_part(node.child)
        groups = node.parts.get("groupingExpressions", ())
        has_key = relation.is_bound or any(item.is_column and id_of(item) in relation.carriers for item in groups)
        if relation.is_keyed and not has_key:
            if node.child.kind == "Expand":
                raise Unprovable(
                    f"it has ROLLUP, CUBE or GROUPING SETS: rows of several groupings, not all of them by {self._key}"
                )
            raise Unprovable(f"it has aggregates that are not grouped by {self._key}")
        self._require_rowwise(relation, "GROUP BY" if groups else "an aggregate")
        return relation.renamed(given(node.parts["aggregateExpressions"]))

    def _window(self, node: Node) -> Relation:
        relation = self._one_part(node.child)
        partition = node.parts.get("partitionSpec", ())
        self._require_rowwise(relation, "a window")
        has_key = relation.is_bound or any(item.is_column and id_of(item) in relation.carriers for item in partition)
        if relation.is_keyed and not has_key:
            shown = str(node.parts["windowExpressions"][0].unalias())[:60]
            raise Unprovable(f"it has a window that is not partitioned by {self._key}: {shown}")
        return relation

    def _expand(self, node: Node) -> Relation:
        """Return what is known of an Expand: an output column carries the key if it does in all rows made of a row."""
        relation = self._one_part(node.child)
        values, width = node.parts.get("projections", ()), node.detail.get("width", 0)
        if not values:
            raise Unprovable("it has ROLLUP, CUBE or GROUPING SETS of which Spark does not tell the rows")
        pairs = []
        for place, column in enumerate(node.output):
            sources = {item.id if item.is_column else None for item in values[place::width]}
            if len(sources) == 1 and None not in sources:
                pairs += [(id_of(item), id_of(column)) for item in values[place : place + 1]]
        return relation.renamed(pairs)

    def _set_operation(self, node: Node) -> Relation:
        """Return what is known of a set operation: it has the key in positions where all branches have it."""
        branches = [self._one_part(child) for child in node.children]
        if all(not branch.is_keyed and not branch.pending for branch in branches):
            return Relation()
        if any(not branch.is_keyed or branch.pending for branch in branches):
            article = "a" if node.kind == "Union" else "an"
            raise Unprovable(f"it has {article} {in_words(node.kind)} with rows that do not have {self._key}")
        places = [
            frozenset(place for place, column in enumerate(child.output) if id_of(column) in branch.carriers)
            for branch, child in zip(branches, node.children, strict=True)
        ]
        common = places[0].intersection(*places[1:])
        if not common and node.kind != "Union":
            raise Unprovable(f"it has an {in_words(node.kind)} of rows that do not have {self._key} in the same place")
        copies: dict[int, Copies] = {}
        for place, column in enumerate(node.output if node.kind == "Union" else ()):
            branch_copies = [
                branch.copies.get(id_of(child.output[place]), ())
                for branch, child in zip(branches, node.children, strict=True)
            ]
            if all(branch_copies):
                copies[id_of(column)] = tuple(chain.from_iterable(branch_copies))
        return Relation((frozenset(id_of(node.output[place]) for place in common),), copies)

    def _reference(self, node: Node) -> Relation:
        definition = self._plan.ctes[node.cte]
        former, self._around = self._around, Relation()  # it is not evaluated per row of an enclosing query
        relation = self._one_part(definition.child)
        self._around = former
        pairs = zip(map(id_of, definition.output), map(id_of, node.output), strict=True)
        return relation.renamed(pairs).read_again(id(node))

    def _require_rowwise(self, relation: Relation, looks: str) -> None:
        """Raise Unprovable if a changed row of an input without the key could affect what its other rows produce."""
        if relation.pending:
            name, _ = min(relation.pending)
            raise Unprovable(f"it has {looks} over {name}, whose changes then lead to other rows too")


def matters_if_null(value: Expression, given: Expression) -> bool:
    """Return whether a row of IN's subquery can matter to a value that does not equal it.

    With a null in the subquery it is unknown whether the value is among the rows, and for a null value any row matters.
    """
    return value.nullable or given.nullable or not value.is_column


def _require_one_part(relation: Relation, key: str, node: Node | None = None) -> None:
    if len(relation.groups) > 1:
        raise Unprovable(f"it joins {_second(node)} without {key} = {key}")


def _second(node: Node | None) -> str:
    """Return the name of what is joined last, for a message."""
    while node is not None and node.kind != "Join" and node.children:
        node = node.child
    return name_of(node.children[1]) if node is not None and node.kind == "Join" else "its inputs"
