"""Values as literals in the SQL of Spark, for conditions of expectations and for the queries of tables."""

from collections.abc import Sequence


def spark_text(value: str) -> str:
    """``value`` as a literal in the SQL of Spark, in which a brace is doubled; to Spark, '' is no quote but nothing."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return "'" + escaped.replace("{", "{{").replace("}", "}}") + "'"


def sql_list(values: Sequence[str]) -> str:
    """Return ``values`` as a list of SQL literals in parentheses."""
    return f"({', '.join(map(spark_text, values))})"
