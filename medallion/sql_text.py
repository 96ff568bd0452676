"""Write texts and names in SQL."""

from collections.abc import Callable

TextLiteral = Callable[[str], str]  # writes a text as a literal of one engine


def text_literal(text: str) -> str:
    """Return a text as a literal of DuckDB and delta-rs, to which a backslash is a character like any other."""
    return "'" + text.replace("'", "''") + "'"


def spark_text_literal(text: str) -> str:
    """Return a text as a literal of Spark, which escapes with backslashes and would fill in ``${name}``."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("$", "\\u0024") + "'"


def quoted(name: str) -> str:
    """Return a column's name as an identifier of DuckDB and delta-rs."""
    return '"' + name.replace('"', '""') + '"'


def backquoted(name: str) -> str:
    """Return a column's or a table's name as an identifier of Spark."""
    return f"`{name.replace('`', '``')}`"
