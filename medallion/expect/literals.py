"""SQL literals, for conditions and queries of expectations and queries of tables."""

import re
from collections.abc import Callable, Mapping, Sequence

from medallion.sql_text import spark_text_literal, text_literal

LIST_NAME = r"[A-Z][A-Z0-9_]*"  # name of a list of values
_LIST = re.compile(rf"(?<!{{){{({LIST_NAME})}}(?!}})")  # placeholder of a list in a query


def spark_text(value: str) -> str:
    """Return ``value`` as a literal of Spark in a query with placeholders: braces are doubled."""
    return _with_doubled_braces(spark_text_literal(value))


def duckdb_text(value: str) -> str:
    """Return ``value`` as a literal of DuckDB in a query with placeholders: braces are doubled."""
    return _with_doubled_braces(text_literal(value))


def sql_list(values: Sequence[str], literal: Callable[[str], str] = spark_text) -> str:
    """Return ``values`` as a list of SQL literals in parentheses."""
    return f"({', '.join(map(literal, values))})"


def with_lists(query: str, values: Mapping[str, Sequence[str]], literal: Callable[[str], str] = spark_text) -> str:
    """Return ``query`` with ``{NAME}`` replaced by a list of literals, for each name of ``values``."""
    return _LIST.sub(lambda match: sql_list(values[match[1]], literal) if match[1] in values else match[0], query)


def _with_doubled_braces(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")
