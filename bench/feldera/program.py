"""The pipeline in Feldera's SQL, made from our own tables: a table for each feed, a view for each query.

Three things are written otherwise than in our queries, because they would mean something else there: the week, sums
of integers, and timestamps, which have no zone. What else is known to differ is refused: no query of ours needs it.
"""

from collections.abc import Iterable, Iterator, Mapping

import sqlglot
from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.generator import Generator as StandardGenerator
from sqlglot.optimizer.annotate_types import annotate_types
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import Scope, traverse_scope

from medallion.errors import MedallionError
from medallion.model.registry import Registry
from medallion.model.table import Feed, Table
from medallion.project import find_project

Columns = dict[str, str]  # name -> type, in Spark's words
_DECIMAL = {exp.DataType.Type.DECIMAL}
_TEXT = exp.DataType.TEXT_TYPES
_WHOLE = exp.DataType.INTEGER_TYPES
_FLOAT = {exp.DataType.Type.DOUBLE, exp.DataType.Type.FLOAT}
_NODE = "medallion_node"  # the number of a node, which survives what the optimizer does to a copy of the tree


def _truncate_timestamp(generator: StandardGenerator, cut: exp.TimestampTrunc) -> str:
    return f"TIMESTAMP_TRUNC({generator.sql(cut.this)}, {_unit(cut)})"


class FelderaSQL(Dialect):
    """Feldera's SQL, where it is written otherwise than the standard."""

    class Generator(StandardGenerator):
        TRANSFORMS = {**StandardGenerator.TRANSFORMS, exp.TimestampTrunc: _truncate_timestamp}  # noqa: RUF012 (as sqlglot has it)
        TYPE_MAPPING = {**StandardGenerator.TYPE_MAPPING, exp.DataType.Type.TIMESTAMPTZ: "TIMESTAMP"}  # noqa: RUF012


def program(tables: Registry | None = None) -> str:
    """Return the whole pipeline in Feldera's SQL.

    Raises:
        MedallionError: A query has what means something else there; table and expression are named.
    """
    known: dict[str, Columns] = {}
    required: dict[str, set[str]] = {}
    parts = []
    for node in tables or find_project().registry():
        if isinstance(node, Feed):
            known[node.name] = {column.name: column.type for column in node.columns}
            required[node.name] = {column.name for column in node.columns if column.required}
            parts.append(_table(node))
        elif isinstance(node, Table):
            parts.append(view(node, known, required))
    return "\n\n".join(parts) + "\n"


def _table(feed: Feed) -> str:
    columns = [
        f"    {c.name} {exp.DataType.build(c.type, dialect='spark').sql(FelderaSQL)}{' NOT NULL' if c.required else ''}"
        for c in feed.columns
    ]
    columns.append(f"    PRIMARY KEY ({', '.join(feed.keys)})")
    return f"-- {_first_line(feed.doc)}\nCREATE TABLE {feed.name} (\n" + ",\n".join(columns) + "\n);"


def view(table: Table, known: dict[str, Columns], required: dict[str, set[str]] | None = None) -> str:
    """Return the view of one table, and add its columns to ``known``.

    Args:
        table: A table whose inputs are in ``known``.
        known: The columns of each table so far, with their types.
        required: The columns of each table that have a value in every row.
    """
    tree = sqlglot.parse_one(table.query.format_map({name: name for name in table.inputs}), read="spark")
    for number, node in enumerate(tree.walk()):
        node.meta[_NODE] = number
    typed = _annotate_types(tree, known)
    for difference in _differences(typed, required or {}):
        raise MedallionError(
            f"{table.name} cannot be computed by Feldera as Spark does: {difference}; write it otherwise, or leave"
            " feldera out of the strategies"
        )
    known[table.name] = {select.alias_or_name: _column_type(select) for select in typed.selects}
    widened = {total.meta.get(_NODE) for total in typed.find_all(exp.Sum) if _is_small_integer(total.this)}
    for total in tree.find_all(exp.Sum):
        if total.meta[_NODE] in widened:  # a sum has the type of its values there, BIGINT in Spark
            total.set("this", exp.cast(total.this, "BIGINT"))
    for cut in list(tree.find_all(exp.TimestampTrunc)):
        if _unit(cut) == "WEEK":
            cut.replace(_from_monday(cut))
    for division in tree.find_all(exp.Div):
        division.set("safe", False)  # our queries guard each divisor themselves
    for cast in list(tree.find_all(exp.TryCast)):  # how Spark's CAST is read
        cast.replace(exp.Cast(this=cast.this, to=cast.to))
    query = tree.sql(FelderaSQL, pretty=True, comments=False)
    return f"-- {_first_line(table.doc)}\nCREATE MATERIALIZED VIEW {table.name} AS\n{query};"


def _annotate_types(tree: exp.Expr, known: Mapping[str, Columns]) -> exp.Query:
    """Return a copy of a query in which each column has its table, and each expression its type."""
    schema: dict[str, object] = dict(known)
    typed = qualify(tree.copy(), schema=schema, dialect="spark", quote_identifiers=False, identify=False)
    typed = annotate_types(typed, schema=schema, dialect="spark")
    assert isinstance(typed, exp.Query)
    return typed


def _unit(cut: exp.TimestampTrunc) -> str:
    return str(cut.args["unit"].name).upper()


def _from_monday(cut: exp.TimestampTrunc) -> exp.Expr:
    """Return a week that begins on Monday as in Spark: TIMESTAMP_TRUNC begins it on Sunday, so it is moved by a day."""
    day = exp.Interval(this=exp.Literal.string("1"), unit=exp.Var(this="DAY"))
    moved = exp.TimestampTrunc(this=exp.Sub(this=cut.this.copy(), expression=day), unit=exp.Var(this="WEEK"))
    return exp.paren(exp.Add(this=moved, expression=day.copy()), copy=False)


def _column_type(select: exp.Expr) -> str:
    value = select.unalias()
    if isinstance(value, exp.TimestampTrunc):
        return "TIMESTAMP"
    return value.type.sql("spark") if value.type else "UNKNOWN"


# --- what would mean something else ----------------------------------------------------------------------------------


def _differences(typed: exp.Expr, required: dict[str, set[str]]) -> Iterator[str]:
    """Yield what a query has that Feldera computes otherwise, in words, with the expression.

    Source: Feldera's SQL reference (operators, aggregates, casts, comparisons), and its engine on our hours.
    """
    for node in typed.walk():
        if reason := _difference(node):
            yield f"{reason} ({_short(node)})"
    for scope in traverse_scope(typed):
        for node in scope.find_all(exp.Greatest, exp.Least):
            if not all(_never_null(value, scope, required) for value in _arguments(node)):
                yield f"{node.key.upper()} with a null is null, in Spark the null is passed over ({_short(node)})"


def _difference(node: exp.Expr) -> str | None:
    match node:
        case exp.IntDiv() | exp.Mod():
            return "integer division ends the pipeline where the divisor is 0"
        case exp.Div() if not (node.this.is_type(*_FLOAT) or node.expression.is_type(*_FLOAT)):
            whole = node.this.is_type(*_WHOLE) and node.expression.is_type(*_WHOLE)
            return "integer division drops the fraction" if whole else "a quotient of decimals has another scale"
        case exp.Avg() if not node.this.is_type(*_FLOAT):
            return "AVG keeps the type of its values, so a DECIMAL or INTEGER is cut"
        case exp.Bracket():
            return "an index out of bounds ends the pipeline, a runtime error"
        case exp.Cast():
            return _cast_difference(node)
    return None


def _cast_difference(cast: exp.Cast) -> str | None:
    source, target = cast.this, cast.to
    if cast.args.get("safe"):
        return "TRY_CAST is not known there, and a CAST that fails ends the pipeline, a runtime error"
    if source.is_type(*_TEXT) and not target.is_type(*_TEXT):
        return "a cast of a text that cannot be read ends the pipeline, a runtime error"
    fraction = source.is_type(*_DECIMAL, *_FLOAT)
    if fraction and target.is_type(*_DECIMAL, *_WHOLE):
        return "a cast to fewer digits cuts them, and does not round"
    if source.is_type(*_WHOLE) and target.is_type(*_WHOLE) and _bits(target) < _bits(source):
        return "a cast to a smaller integer ends the pipeline where the value is too large, a runtime error"
    return None


def _is_small_integer(value: exp.Expr) -> bool:
    return value.is_type(*_WHOLE) and _bits(value) < 64


_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}


def _bits(value: exp.Expr) -> int:
    kind = value if isinstance(value, exp.DataType) else value.type
    return _BITS.get(kind.this.name, 64) if isinstance(kind, exp.DataType) else 64


def _arguments(node: exp.Expr) -> Iterable[exp.Expr]:
    return (node.this, *node.expressions)


def _never_null(value: exp.Expr, scope: Scope, required: dict[str, set[str]]) -> bool:
    """Whether a value is there in every row; False where that is not known."""
    match value:
        case exp.Literal() | exp.Count():
            return True
        case exp.Coalesce():
            return any(_never_null(operand, scope, required) for operand in _arguments(value))
        case exp.Add() | exp.Sub() | exp.Mul():
            return all(_never_null(operand, scope, required) for operand in (value.this, value.expression))
        case exp.Paren() | exp.Neg() | exp.Abs() | exp.Cast():
            return _never_null(value.this, scope, required)
        case exp.Column():
            return _column_never_null(value, scope, required)
    return False


def _column_never_null(column: exp.Column, scope: Scope, required: dict[str, set[str]]) -> bool:
    for join in scope.expression.args.get("joins") or ():
        if join.side in {"RIGHT", "FULL"} or (join.side == "LEFT" and join.alias_or_name == column.table):
            return False
    source = scope.sources.get(column.table)
    if isinstance(source, exp.Table):
        return column.name in required.get(source.name, ())
    if isinstance(source, Scope) and isinstance(source.expression, exp.Select):
        for select in source.expression.selects:
            if select.alias_or_name == column.name:
                return _never_null(select.unalias(), source, required)
    return False


def _short(node: exp.Expr) -> str:
    return node.sql("spark", comments=False)[:120]


def _first_line(doc: str) -> str:
    return doc.strip().splitlines()[0]
