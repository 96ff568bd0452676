"""Whether a query can be asked for some values of a key: restricted to them, it gives exactly their rows.

An input that has the key is restricted to the values that changed. Any other is read whole; a change in it leads to
values of the key by ``via``, for which it must meet the table that it leads to in a join on that very column.
"""

from collections.abc import Mapping

from medallion.model.keyed_rows import Relation, given, joined, name_of, of_input
from medallion.model.methods import ByKey, Via
from medallion.model.plan import Column, Node, Plan, Unprovable, equal_columns, id_of, in_words
from medallion.model.table import Table

# Of these alone is a value the same text everywhere.
_KEY_TYPES = frozenset({"tinyint", "smallint", "int", "bigint", "string", "date"})
_SAME_ROWS = frozenset(
    {"Sort", "SubqueryAlias", "CTERelationDef", "RepartitionByExpression", "Repartition", "RebalancePartitions"}
)
_LIMITS = {"GlobalLimit": "LIMIT", "LocalLimit": "LIMIT", "Offset": "OFFSET", "Sample": "TABLESAMPLE"}

Inputs = Mapping[str, tuple[Column, ...]]


def prove_by_key(table: Table, method: ByKey, plan: Plan, inputs: Inputs) -> dict[str, str]:
    """Prove that rows of a key follow from the input rows with that key.

    Args:
        table: The table.
        method: Its refresh method.
        plan: Its query, analysed.
        inputs: The columns of what it reads.

    Returns:
        By input that is restricted, the column by which it is.

    Raises:
        Unprovable: Rows of the key follow from more than that; the construct is named.
    """
    restricted = dict(method.columns) or _key_columns(method, inputs)
    _require_via(table, method, inputs, restricted)
    names = [column.name for column in plan.root.output]
    if method.column not in names and (other := [n for n in names if n.lower() == method.column.lower()]):
        raise Unprovable(f"{method.column} is spelled {other[0]} in its query and inputs")
    result = _Proof(method, plan, restricted).relation(plan.root)
    _require_one_part(result, method.column)
    passed = [column.name for column in plan.root.output if id_of(column) in result.carriers]
    if method.column not in passed or names.count(method.column) > 1:
        raise Unprovable(f"{method.column} is not passed through unchanged from an input that has it")
    if result.pending:
        name, _ = min(result.pending)
        via = method.via[name]
        raise Unprovable(f"{name} is not joined on its {via.column} = {via.through}.{via.as_column}, as via says")
    _require_one_type(method, inputs, restricted)
    return restricted


def _key_columns(method: ByKey, inputs: Inputs) -> dict[str, str]:
    """The column of each input with the key, if it has one, as it is spelled there."""
    found = {}
    for name, columns in inputs.items():
        alike = [column for column, _, _ in columns if column.lower() == method.column.lower()]
        if len(alike) > 1:
            raise Unprovable(f"{name} has several columns called {method.column}: give them other names")
        if alike:
            found[name] = alike[0]
    return found


def _require_one_type(method: ByKey, inputs: Inputs, restricted: Mapping[str, str]) -> None:
    """A value of the key is looked for in each input: it must be the same there."""
    types = {name: kind for name in restricted for column, kind, _ in inputs[name] if column == restricted[name]}
    if len(set(types.values())) > 1:
        shown = ", ".join(f"{kind.upper()} in {name}" for name, kind in types.items())
        raise Unprovable(f"{method.column} is {shown}: declare it with one type")
    kind = next(iter(types.values()))
    if kind not in _KEY_TYPES:
        raise Unprovable(
            f"{method.column} is {kind.upper()}, whose values cannot be listed: take integers, text or DATE"
        )


def _require_via(table: Table, method: ByKey, inputs: Inputs, keyed: Mapping[str, str]) -> None:
    if not keyed:
        raise Unprovable(f"no input has a column {method.column}")
    for name in method.via:
        if name not in table.inputs:
            raise Unprovable(f"via names {name}, which its query does not read")
        if name in keyed:
            raise Unprovable(f"via names {name}, which has {method.column} itself")
    for name in table.inputs:
        if name not in keyed and name not in method.via:
            raise Unprovable(f"{name} has no {method.column}: say in via how its rows lead to one")
    for name in method.via:
        seen = {name}
        while name not in keyed:
            via = method.via[name]
            if via.through not in table.inputs or via.through in seen:
                raise Unprovable(f"via leads from {name} to {via.through}, which is not another of its inputs")
            _require_columns(name, via, inputs)
            seen.add(via.through)
            name = via.through


def _require_columns(name: str, via: Via, inputs: Inputs) -> None:
    """The columns that ``via`` names are there, and their values are the same."""
    types = []
    for place, column in ((name, via.column), (via.through, via.as_column)):
        found = [kind for known, kind, _ in inputs[place] if known == column]
        if not found:
            raise Unprovable(f"via names {column}, which is no column of {place}")
        types += found
    if types[0] != types[1]:
        raise Unprovable(
            f"via leads from {name}.{via.column}, {types[0].upper()}, to {via.through}.{via.as_column},"
            f" {types[1].upper()}: declare them with one type"
        )


class _Proof:
    """The proof for one query."""

    def __init__(self, method: ByKey, plan: Plan, restricted: Mapping[str, str]) -> None:
        self._method, self._plan, self._restricted = method, plan, restricted
        self._key, self._known = method.column, dict[int, Relation]()

    def relation(self, node: Node) -> Relation:
        """What is known of the rows of ``node``."""
        if id(node) not in self._known:
            self._require_no_subquery(node)
            self._known[id(node)] = self._read(node)
        return self._known[id(node)]

    def _require_no_subquery(self, node: Node) -> None:
        for expression in node.expressions:
            if any(part.plan is not None for part in expression.walk()):
                raise Unprovable("it has a subquery outside of FROM: write it as a join")

    def _read(self, node: Node) -> Relation:
        if node.source:
            name = node.source[0]
            return of_input(node, self._restricted.get(name), self._method.via, id(node))
        match node.kind:
            case "Project":
                relation = self._one_part(node.child)
                return relation.renamed(given(node.parts.get("projectList", ())))
            case "Filter":
                return self.relation(node.child).where(equal_columns(node.condition), self._method.via)
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
        if relation.is_keyed and not any(item.is_column and id_of(item) in relation.carriers for item in groups):
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
        if relation.is_keyed and not any(item.is_column and id_of(item) in relation.carriers for item in partition):
            shown = str(node.parts["windowExpressions"][0].unalias())[:60]
            raise Unprovable(f"it has a window that is not partitioned by {self._key}: {shown}")
        return relation

    def _expand(self, node: Node) -> Relation:
        """Several rows of one: a column carries the key where it does in each of them."""
        relation, width = self._one_part(node.child), node.detail["width"]
        values = node.parts["projections"]
        pairs = []
        for place, column in enumerate(node.output):
            sources = {item.id if item.is_column else None for item in values[place::width]}
            if len(sources) == 1 and None not in sources:
                pairs += [(id_of(item), id_of(column)) for item in values[place : place + 1]]
        return relation.renamed(pairs)

    def _set_operation(self, node: Node) -> Relation:
        """UNION, INTERSECT and EXCEPT of keyed relations are keyed where all have the key in the same place."""
        branches = [self._one_part(child) for child in node.children]
        if all(not branch.is_keyed and not branch.pending for branch in branches):
            return Relation()
        if any(not branch.is_keyed or branch.pending for branch in branches):
            raise Unprovable(f"it has a {in_words(node.kind)} with rows that do not have {self._key}")
        places = [
            frozenset(place for place, column in enumerate(child.output) if id_of(column) in branch.carriers)
            for branch, child in zip(branches, node.children, strict=True)
        ]
        common = places[0].intersection(*places[1:])
        if not common and node.kind != "Union":
            raise Unprovable(f"it has an {in_words(node.kind)} of rows that do not have {self._key} in the same place")
        return Relation((frozenset(id_of(node.output[place]) for place in common),))

    def _reference(self, node: Node) -> Relation:
        definition = self._plan.ctes[node.cte]
        relation = self._one_part(definition.child)
        pairs = zip(map(id_of, definition.output), map(id_of, node.output), strict=True)
        return relation.renamed(pairs).read_again(id(node))

    def _require_rowwise(self, relation: Relation, looks: str) -> None:
        """A changed row of a free input must not change what others of it give."""
        if relation.pending:
            name, _ = min(relation.pending)
            raise Unprovable(f"it has {looks} over {name}, whose changes then lead to other rows too")


def _require_one_part(relation: Relation, key: str, node: Node | None = None) -> None:
    if len(relation.groups) > 1:
        raise Unprovable(f"it joins {_second(node)} without {key} = {key}")


def _second(node: Node | None) -> str:
    """What is joined last, for a message."""
    while node is not None and node.kind != "Join" and node.children:
        node = node.child
    return name_of(node.children[1]) if node is not None and node.kind == "Join" else "its inputs"
