"""The columns and text of a piece of a query.

In the rest of the query, expressions that the piece computes are replaced by its columns. While a query is parsed,
its inputs in braces are replaced by names that are valid SQL.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from string import Formatter

from sqlglot import exp

from medallion.model.kept_text import ADDS_UP
from medallion.model.methods import KeptItem

_MARK = re.compile(r"__in_(\w+?)__")
_PLAIN = re.compile(r"[a-zA-Z]\w*")  # a name that needs no quotes and is not one generated here
_KINDS: Mapping[type[exp.Expr], str] = {
    exp.Sum: "SUM",
    exp.Count: "COUNT",
    exp.Avg: "AVG",
    exp.Min: "MIN",
    exp.Max: "MAX",
}
_SETS = (exp.Rollup, exp.Cube, exp.GroupingSets)


class Unmoved(Exception):
    """A piece cannot be set apart; the message says why, or is empty if the reason is of no interest."""


class Columns:
    """The columns of a piece that the rest of a query needs: they replace the expressions that the piece computes.

    Args:
        groups: What the piece groups by; if ``takes_columns``, the expressions that it computes per row.
        query: The SELECT that the piece is part of. A group keeps its alias in it and a column of rows its own name,
            because another name would change the plan of the whole query.
        takes_columns: Whether the rows of the piece are not groups.
    """

    def __init__(self, groups: Sequence[exp.Expr], query: exp.Select, *, takes_columns: bool = False) -> None:
        self._groups, self._takes_columns = groups, takes_columns
        self._has_sets = not takes_columns and bool(grouping_of(query))
        self._aliases = {text_of(item.this): item.alias for item in query.expressions if isinstance(item, exp.Alias)}
        self._items: list[KeptItem] = []
        for group in [] if takes_columns else groups:
            self._place("key", text_of(group), group)
        if self._has_sets:  # the group of a null value and the subtotal over all values both have null in its column
            self._place("key", "GROUPING_ID()", exp.GroupingId())

    def items(self) -> list[KeptItem]:
        """Return the columns: first the groups, which identify the rows, then the others that are needed."""
        return self._items

    def with_former_name(self, item: exp.Expr) -> exp.Expr:
        """Return an item of a SELECT over the piece, with its former name; ``_`` if it has none, as in a subquery."""
        if item.is_star:
            raise Unmoved("its columns must be listed, not *")
        name = (
            item.args["alias"].copy() if isinstance(item, exp.Alias) else exp.to_identifier(item.alias_or_name or "_")
        )
        return exp.Alias(this=self.moved(item.unalias()), alias=name)

    def moved(self, tree: exp.Expr, names: frozenset[str] | set[str] = frozenset()) -> exp.Expr:
        """Return an expression over the piece. names: of the SELECT's own columns, which are left as they are."""
        holder = exp.Paren(this=tree.copy())
        self._move(holder.this, names)
        result = holder.this
        assert isinstance(result, exp.Expr)
        return result

    def _move(self, tree: exp.Expr, names: frozenset[str] | set[str]) -> None:
        if isinstance(tree, exp.Query | exp.Subquery):  # a subquery reads relations of its own
            return
        if isinstance(tree, exp.Column) and not tree.table and tree.name.lower() in names:
            return
        if (name := self._name_of(tree)) is not None:
            tree.replace(exp.column(name))
            return
        if isinstance(tree, exp.Column):
            raise Unmoved(f"{text_of(tree)} is neither grouped by nor an aggregate")
        if isinstance(tree, exp.Window):
            for child in [*tree.this.iter_expressions(), *tree.args.get("partition_by", ())]:
                self._move(child, names)
            if tree.args.get("order"):
                self._move(tree.args["order"], names)
            return
        for child in [*tree.iter_expressions()]:
            self._move(child, names)

    def _name_of(self, tree: exp.Expr) -> str | None:
        """Return the column of the piece that an expression equals; None if there is none."""
        for group in self._groups:
            if tree == group or _are_alike(tree, group):
                return self._place("key", text_of(group), group)
        if self._takes_columns:
            return self._place("key", text_of(tree), tree) if isinstance(tree, exp.Column) else None
        if self._has_sets and isinstance(tree, exp.Grouping | exp.GroupingId):
            return self._place("key", text_of(tree), tree)
        if (aggregate := _aggregate(tree)) is None:
            return None
        if self._has_sets and aggregate[0] not in ADDS_UP:
            raise Unmoved(f"{text_of(tree)} does not add up over ROLLUP, CUBE or GROUPING SETS")
        return self._place(aggregate[0], aggregate[1], tree, aggregate[2])

    def _place(self, kind: str, text: str, tree: exp.Expr, condition: str = "") -> str:
        """Return the name of the column for an expression, adding one if needed."""
        for known in self._items:
            if (known.kind, known.text, known.condition) == (kind, text, condition):
                return known.name
        plain = tree.name if isinstance(tree, exp.Column) else ""
        alias = self._aliases.get(text_of(tree), "")
        own = (plain or alias) if self._takes_columns else (alias or plain)
        own = own if _PLAIN.fullmatch(own) else ""
        is_taken = own.lower() in {known.name.lower() for known in self._items}
        name = f"_{len(self._items)}" if not own or is_taken else own
        self._items.append(KeptItem(name, kind, text, condition))
        return name


def _aggregate(tree: exp.Expr) -> tuple[str, str, str] | None:
    """Return an aggregate's kind, values and condition; None for other expressions.

    Raises Unmoved for an aggregate whose state cannot be kept.
    """
    condition = ""
    if isinstance(tree, exp.Filter):
        condition = text_of(tree.expression.this)
        tree = tree.this
    if not isinstance(tree, exp.AggFunc) or isinstance(tree.parent, exp.Window):
        return None
    kind, inner = _KINDS.get(type(tree), ""), tree.this
    if isinstance(inner, exp.Distinct):
        values = inner.expressions
        if kind == "COUNT" and len(values) == 1:
            return "COUNT DISTINCT", text_of(values[0]), condition
        kind, inner = (kind, values[0]) if kind in {"MIN", "MAX"} and len(values) == 1 else ("", inner)
    if not kind or tree.expressions or inner is None:
        raise Unmoved(f"{text_of(tree)} is no aggregate of which state is kept")
    return kind, text_of(inner), condition


def group_expressions(query: exp.Select) -> list[exp.Expr]:
    """Return the expressions that a query groups by, with positions and aliases resolved."""
    group = query.args.get("group")
    if group is None:
        return [item.unalias() for item in query.expressions] if query.args.get("distinct") else []
    if any(group.args.get(kind) for kind in ("all", "totals")):
        raise Unmoved("GROUP BY ALL is not set apart: list the columns")
    by_name = {item.alias.lower(): item.unalias() for item in query.expressions if isinstance(item, exp.Alias)}
    if group.find(*_SETS):
        columns = [*dict.fromkeys(_grouped_in_sets(group))]
        if any(isinstance(item, exp.Literal) or by_name.get(item.name.lower(), item) != item for item in columns):
            raise Unmoved("list the columns in ROLLUP, CUBE or GROUPING SETS, not their aliases or positions")
        return columns
    groups = []
    for item in group.expressions:
        if isinstance(item, exp.Literal) and not item.is_string:
            item = query.expressions[int(item.this) - 1].unalias()
        elif isinstance(item, exp.Column) and not item.table:
            item = by_name.get(item.name.lower(), item)
        if isinstance(item, exp.Literal):
            raise Unmoved("it groups by a constant")
        groups.append(item)
    return groups


def grouping_of(query: exp.Select) -> str:
    """Return the SQL after GROUP BY if it has ROLLUP, CUBE or GROUPING SETS; empty otherwise."""
    group = query.args.get("group")
    if group is None or not group.find(*_SETS):
        return ""
    return text_of(group).strip().removeprefix("GROUP BY ")


def _grouped_in_sets(tree: exp.Expr) -> Iterator[exp.Expr]:
    """Yield every expression in a GROUP BY with grouping sets."""
    if isinstance(tree, exp.Group | exp.Tuple | exp.Paren | exp.Rollup | exp.Cube | exp.GroupingSets):
        for child in tree.iter_expressions():
            yield from _grouped_in_sets(child)
    else:
        yield tree


def _are_alike(left: exp.Expr, right: exp.Expr) -> bool:
    """Whether two expressions could be the same column, qualified with its table in one of them only."""
    if not isinstance(left, exp.Column) or not isinstance(right, exp.Column) or left.name.lower() != right.name.lower():
        return False
    return not left.table or not right.table or left.table.lower() == right.table.lower()


def text_of(tree: exp.Expr) -> str:
    return unmarked(tree.sql(dialect="spark"))


def marked(query: str) -> str:
    """Replace inputs in braces by names that a SQL parser accepts."""
    pieces = []
    for text, name, _, _ in Formatter().parse(query):
        pieces += [text, f"__in_{name}__" if name else ""]
    return "".join(pieces)


def unmarked(text: str) -> str:
    """Put inputs back in braces."""
    return _MARK.sub(r"{\1}", text.replace("{", "{{").replace("}", "}}"))
