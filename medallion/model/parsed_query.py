"""A table's query as a syntax tree, and the names and kinds of its columns without an engine, for display.

No proof relies on it, because only Spark resolves names.

It parses SQL with sqlglot, whose import costs more than building the registry, so import this module only where needed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

import sqlglot
from sqlglot import exp
from sqlglot.optimizer.scope import Scope, build_scope

from medallion.errors import MedallionError
from medallion.model.table import Node, Table

Kind = Literal["integer", "decimal", "floating", "other", "unknown"]

_INTEGERS = ("TINYINT", "SMALLINT", "INT", "INTEGER", "BIGINT")
_FLOATING_TYPES = {exp.DataType.Type.FLOAT, exp.DataType.Type.DOUBLE}
_INTEGER_TYPES = {getattr(exp.DataType.Type, name) for name in ("TINYINT", "SMALLINT", "INT", "BIGINT")}
_FLOATING_FUNCTIONS = (exp.Sqrt, exp.Cbrt, exp.Exp, exp.Ln, exp.Log, exp.Pow, exp.Stddev, exp.Variance)
_OF_ARGUMENTS = (exp.Coalesce, exp.Greatest, exp.Least, exp.Nullif, exp.Abs, exp.Neg, exp.Paren, exp.Filter, exp.Sum)


@cache
def parse(query: str, inputs: tuple[str, ...]) -> exp.Query:
    """Parse a query, with each ``{silver_customers}`` as a plain name. The tree is shared: copy it before changing it.

    Raises MedallionError if the text is not a query in Spark's SQL.
    """
    try:
        tree = sqlglot.parse_one(query.format_map({name: name for name in inputs}), dialect="spark")
    except sqlglot.errors.ParseError as error:
        raise MedallionError(f"the query cannot be parsed: {str(error).splitlines()[0]}") from None
    if not isinstance(tree, exp.Query):
        raise MedallionError("the query is no SELECT")
    return tree


def root_scope(tree: exp.Query) -> Scope:
    """Return the scope of the outermost query, which leads to every common table expression and subquery."""
    scope = build_scope(tree)
    assert scope is not None, "every kind of query has one"
    return scope


def sources_of(scope: Scope) -> dict[str, tuple[exp.Selectable, exp.Table | Scope]]:
    """Return, by alias, each relation in ``scope`` as written and as resolved, including those of semi joins."""
    return {name: (node, scope.sources[name]) for name, node in scope.references if name in scope.sources}


@dataclass(frozen=True)
class Schemas:
    """The columns of every table, with the kind of their type if known."""

    nodes: Mapping[str, Node]
    _known: dict[str, Mapping[str, Kind]] = field(default_factory=dict)
    _scopes: dict[int, tuple[Scope, dict[str, Mapping[str, Kind]]]] = field(default_factory=dict)
    _outputs: dict[int, tuple[Scope, Mapping[str, Kind]]] = field(default_factory=dict)

    def of(self, name: str) -> Mapping[str, Kind]:
        """Return the kind of each column of the table ``name``, by lower-case name in the order of the table."""
        if name not in self._known:
            node = self.nodes[name]
            if isinstance(node, Table):
                self._known[name] = self.output(root_scope(parse(node.query, node.inputs)))
            else:
                self._known[name] = {column.name.lower(): _kind_of_type(column.type) for column in node.columns}
        return self._known[name]

    def output(self, scope: Scope) -> Mapping[str, Kind]:
        """Return the kind of each output column of the query of ``scope``."""
        if id(scope) not in self._outputs:
            self._outputs[id(scope)] = scope, self._output(scope)
        return self._outputs[id(scope)][1]

    def _output(self, scope: Scope) -> Mapping[str, Kind]:
        tree = scope.expression
        if not isinstance(tree, exp.Query):  # VALUES
            return dict.fromkeys((name.lower() for name in scope.outer_columns), "unknown")
        if isinstance(tree, exp.SetOperation):
            left, right = (self.output(branch) for branch in scope.set_operation_scopes)
            return {name: _wider(a, b) for (name, a), b in zip(left.items(), right.values(), strict=False)}
        kinds: dict[str, Kind] = {}
        for item in tree.selects:
            if item.is_star:
                for columns in self.starred(item, scope).values():
                    kinds |= columns
            else:
                kinds[item.alias_or_name.lower()] = self.kind(item.unalias(), scope)
        names = scope.outer_columns
        return dict(zip((name.lower() for name in names), kinds.values(), strict=False)) if names else kinds

    def sources(self, scope: Scope) -> dict[str, Mapping[str, Kind]]:
        """Return, by alias, the columns of each relation that the query of ``scope`` reads."""
        if id(scope) not in self._scopes:
            columns_by_alias = {
                alias.lower(): self.output(source) if isinstance(source, Scope) else self._of_table(source)
                for alias, (_, source) in sources_of(scope).items()
            }
            self._scopes[id(scope)] = scope, columns_by_alias
        return self._scopes[id(scope)][1]

    def starred(self, star: exp.Expr, scope: Scope) -> dict[str, Mapping[str, Kind]]:
        """Return, by alias, the columns that a star in the SELECT of ``scope`` stands for."""
        wanted = star.table.lower() if isinstance(star, exp.Column) else None
        visible = {alias.lower() for alias in scope.selected_sources}
        return {a: c for a, c in self.sources(scope).items() if a in visible and wanted in (None, a)}

    def _of_table(self, source: exp.Expr) -> Mapping[str, Kind]:
        return self.of(source.name) if isinstance(source, exp.Table) and source.name in self.nodes else {}

    def column(self, column: exp.Column, scope: Scope) -> tuple[str, str] | None:
        """Return alias and name of the column that ``column`` refers to, in lower case; None if unknown."""
        name, sources = column.name.lower(), self.sources(scope)
        if column.table:
            return (column.table.lower(), name)
        having = [alias for alias, columns in sources.items() if name in columns]
        return (having[0], name) if having else None

    def kind(self, tree: exp.Expr, scope: Scope) -> Kind:
        """Return the kind of the values of an expression in ``scope``."""
        if isinstance(tree, exp.Column):
            place = self.column(tree, scope)
            return self.sources(scope).get(place[0], {}).get(place[1], "unknown") if place else "unknown"
        return _kind(tree, lambda part: self.kind(part, scope))


def _kind(tree: exp.Expr, of: Callable[[exp.Expr], Kind]) -> Kind:
    if isinstance(tree, exp.Cast | exp.TryCast):
        return _of_type(tree.to.this)
    if isinstance(tree, exp.Literal):
        if tree.is_string:
            return "other"
        return "floating" if "e" in tree.this.lower() else "decimal" if "." in tree.this else "integer"
    if isinstance(tree, exp.Count | exp.RowNumber | exp.Rank | exp.DenseRank):
        return "integer"
    if isinstance(tree, _FLOATING_FUNCTIONS):
        return "floating"
    if isinstance(tree, exp.Div | exp.Avg):
        whole = _widest([of(part) for part in ((tree.left, tree.right) if isinstance(tree, exp.Div) else (tree.this,))])
        return "floating" if whole == "integer" else whole
    if isinstance(tree, exp.Case | exp.If):
        branches = [branch.args["true"] for branch in tree.args.get("ifs") or ()]
        branches += [tree.args[name] for name in ("true", "false", "default") if tree.args.get(name)]
        return _widest([of(branch) for branch in branches if not isinstance(branch, exp.Null)])
    if isinstance(tree, exp.Window | exp.Max | exp.Min):
        return of(tree.this)
    if isinstance(tree, (*_OF_ARGUMENTS, exp.Add, exp.Sub, exp.Mul)):
        parts = [tree.this, *tree.expressions, *([tree.expression] if tree.args.get("expression") else [])]
        ignored = exp.Null | exp.Where
        return _widest([of(part) for part in parts if not isinstance(part, ignored)])
    return "unknown"


def _widest(kinds: list[Kind]) -> Kind:
    whole: Kind = kinds[0] if kinds else "unknown"
    for kind in kinds[1:]:
        whole = _wider(whole, kind)
    return whole


def _wider(a: Kind, b: Kind) -> Kind:
    """Return the kind of a combination of both; combined with floating-point numbers, anything is floating."""
    for kind in ("floating", "unknown", "other", "decimal"):
        if kind in (a, b):
            return kind
    return "integer"


def _kind_of_type(text: str) -> Kind:
    if text.startswith(("DOUBLE", "FLOAT")):
        return "floating"
    if text.startswith("DECIMAL"):
        return "decimal"
    return "integer" if text in _INTEGERS else "other"


def _of_type(kind: Any) -> Kind:
    if kind in _FLOATING_TYPES:
        return "floating"
    if kind == exp.DataType.Type.DECIMAL:
        return "decimal"
    return "integer" if kind in _INTEGER_TYPES else "other"
