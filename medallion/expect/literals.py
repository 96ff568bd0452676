"""SQL literals, for conditions and queries of expectations and queries of tables."""

import re
from collections.abc import Callable, Mapping, Sequence

LIST_NAME = r"[A-Z][A-Z0-9_]*"  # name of a list of values
_LIST = re.compile(rf"(?<!{{){{({LIST_NAME})}}(?!}})")  # placeholder of a list in a query


def spark_text(value: str) -> str:
    """Return ``value`` as a Spark SQL literal: braces are doubled; quotes are escaped, as Spark drops doubled ones."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return "'" + escaped.replace("{", "{{").replace("}", "}}") + "'"


def duckdb_text(value: str) -> str:
    """Return ``value`` as a literal of DuckDB, which checks run on: braces and quotes are doubled."""
    return "'" + value.replace("'", "''").replace("{", "{{").replace("}", "}}") + "'"


def sql_list(values: Sequence[str], literal: Callable[[str], str] = spark_text) -> str:
    """Return ``values`` as a list of SQL literals in parentheses."""
    return f"({', '.join(map(literal, values))})"


def with_lists(query: str, values: Mapping[str, Sequence[str]], literal: Callable[[str], str] = spark_text) -> str:
    """Return ``query`` with ``{NAME}`` replaced by a list of literals, for each name of ``values``."""
    return _LIST.sub(lambda match: sql_list(values[match[1]], literal) if match[1] in values else match[0], query)
