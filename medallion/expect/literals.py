"""Spark SQL literals, for conditions of expectations and queries of tables."""

from collections.abc import Sequence


def spark_text(value: str) -> str:
    """Return ``value`` as a Spark SQL literal: braces are doubled; quotes are escaped, as Spark drops doubled ones."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return "'" + escaped.replace("{", "{{").replace("}", "}}") + "'"


def sql_list(values: Sequence[str]) -> str:
    """Return ``values`` as a list of SQL literals in parentheses."""
    return f"({', '.join(map(spark_text, values))})"
