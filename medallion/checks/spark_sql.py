"""Queries of expectations, which are written in the SQL of DuckDB, in that of Spark."""

from medallion.errors import one_line
from medallion.expect.scopes import Share
from medallion.sql_text import backquoted

# Functions that mean the same in DuckDB and Spark. Others may not: AVG and / of decimals are DOUBLE in DuckDB alone.
_SAME_MEANING = (
    *("Abs", "And", "Case", "Coalesce", "Count", "CountIf", "Exists", "If", "Length", "Lower", "Max", "Min", "Nullif"),
    *("Or", "RowNumber", "Sum", "Upper"),
)


class NotBySpark(Exception):
    """Why DuckDB judges an expectation instead of Spark."""


def share_counts_query(table: str, scope: Share) -> str:
    """Return the query that counts the rows whose value is missing in the other table, and all rows with a value."""
    key, column = backquoted(scope.key), backquoted(scope.column)
    return (
        f"SELECT COUNT_IF(known.value IS NULL), COUNT(*) FROM {backquoted(table)} AS checked"
        f" LEFT JOIN (SELECT DISTINCT {key} AS value FROM {backquoted(scope.table)}) AS known"
        f" ON known.value = checked.{column} WHERE checked.{column} IS NOT NULL"
    )


def to_spark(query: str) -> str:
    """Return a query of DuckDB in Spark SQL, with doubled braces.

    Raises NotBySpark if it cannot be translated, or uses a function that is not known to mean the same in both.
    """
    import sqlglot
    from sqlglot import exp

    unordered = exp.Order(expressions=[exp.Ordered(this=exp.Null())])  # Spark numbers rows in an order only
    same = tuple(getattr(exp, name) for name in _SAME_MEANING)
    try:
        tree, *others = sqlglot.parse(query, dialect="duckdb")
        if tree is None or others:
            raise NotBySpark("it is not one query")
        for node in tree.find_all(exp.Func, exp.Div, exp.IntDiv, exp.Bracket):
            is_literal = isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal)  # DATE '2025-11-30'
            if not isinstance(node, same) and not is_literal:
                raise NotBySpark(f"{one_line(node.sql('duckdb'), 80)} may mean something else in Spark")
        for window in tree.find_all(exp.Window):
            if isinstance(window.this, exp.RowNumber) and window.args.get("order") is None:
                window.set("order", unordered.copy())
        text = tree.sql("spark", unsupported_level=sqlglot.ErrorLevel.RAISE)
    except sqlglot.errors.SqlglotError as error:
        raise NotBySpark(one_line(error)) from None
    return text.replace("{", "{{").replace("}", "}}")
