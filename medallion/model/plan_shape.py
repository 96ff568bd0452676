"""The shape of a plan: everything except column ids and relation names, so plans that do the same have equal shapes."""

from collections.abc import Sequence

from medallion.model.plan import Expression, Node, Plan, Unprovable, id_of

# Fields of a node that do not affect its rows.
_SAYS_NOTHING = frozenset(
    {
        *("child", "left", "right", "plan", "cteDefs", "cteId", "id", "identifier", "desc", "isTempView", "options"),
        *(
            "rdd",
            "session",
            "outputPartitioning",
            "outputOrdering",
            "isStreaming",
            "hint",
            "originalPlanWithPredicates",
        ),
        *("underSubquery", "children", "_resolved", "statsOpt", "recursive", "maxRows", "maxDepth", "stream"),
    }
)


def shape_of(plan: Plan, node: Node, stops: Sequence[str], without: str | None = None) -> str:
    """Return the shape of ``node``, which is equal for plans that do the same with the same inputs.

    Args:
        plan: The plan of the node.
        node: The node to start from.
        stops: Common table expressions that are compared by name, whatever their definition.
        without: A column of the inputs to ignore where it is passed on or grouped by unchanged.
    """
    return _Shape(plan, stops, without).of(node)


class _Shape:
    def __init__(self, plan: Plan, stops: Sequence[str], without: str | None) -> None:
        self._plan, self._stops, self._without = plan, {stop.lower() for stop in stops}, without
        self._numbers: dict[int, int] = {}
        self._hidden: set[int] = set()

    def of(self, node: Node) -> str:
        """Return the text of a node; children come first, so that columns are numbered from the bottom up."""
        if node.source:
            return self._leaf(node.source[0], node.output)
        if node.kind in {"SubqueryAlias", "View", "CTERelationDef"}:
            return self.of(node.child)
        if node.kind == "WithCTE":
            return self.of(node.children[node.detail["plan"]])
        if node.kind == "CTERelationRef":
            return self._reference(node)
        if node.kind == "Expand" and "projections" not in node.parts:
            raise Unprovable("it has ROLLUP, CUBE or GROUPING SETS of which Spark does not tell the rows")
        below = ",".join(self.of(child) for child in node.children)
        parts = []
        for name, items in sorted(node.parts.items()):
            visible = [item for item in items if not self._is_hidden(item)]
            parts.append(f"{name}=[{';'.join(map(self._expression, visible))}]")
        detail = {name: value for name, value in node.detail.items() if name not in _SAYS_NOTHING}
        if node.kind == "Project" and len(parts) == 1 and self._passes_all(node):
            return below
        return f"{node.kind}{sorted(map(str, detail.items()))}<{'|'.join(parts)}>({below})"

    def _passes_all(self, node: Node) -> bool:
        """Return whether a Project only passes on the columns that it reads, as SELECT * does."""
        items = [id_of(item) for item in node.parts.get("projectList", ()) if item.is_column]
        return len(items) == len(node.output) and items == [id_of(column) for column in node.child.output]

    def _leaf(self, name: str, output: Sequence[Expression]) -> str:
        columns = []
        for column in output:
            if column.name == self._without:
                self._hidden.add(id_of(column))
            else:
                columns.append(f"{column.name}:{self._number(id_of(column))}")
        return f"{name}[{','.join(columns)}]"

    def _reference(self, node: Node) -> str:
        definition = self._plan.ctes[node.cte]
        inner = definition.child
        alias = inner.alias.lower() if inner.kind == "SubqueryAlias" else ""
        if alias in self._stops:
            return self._leaf(alias, node.output)
        below = self.of(inner)
        for old, new in zip(definition.output, node.output, strict=True):
            if id_of(old) in self._hidden:
                self._hidden.add(id_of(new))
        given = [str(self._number(id_of(column))) for column in node.output if id_of(column) not in self._hidden]
        return f"ref[{','.join(given)}]({below})"

    def _is_hidden(self, item: Expression) -> bool:
        return item.is_column and id_of(item) in self._hidden

    def _number(self, column: int) -> int:
        return self._numbers.setdefault(column, len(self._numbers))

    def _expression(self, tree: Expression) -> str:
        if tree.is_column:
            return f"#{self._number(id_of(tree))}"
        inner = ",".join(map(self._expression, tree.children))
        if tree.kind == "Alias":
            return f"{inner} AS #{self._number(id_of(tree))}"
        below = self.of(tree.plan) if tree.plan is not None else ""
        return f"{tree.kind}[{tree.value}|{tree.type}|{tree.detail}|{below}]({inner})"
