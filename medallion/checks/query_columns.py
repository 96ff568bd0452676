"""Which columns of a table a query of an expectation reads."""

import re
from collections.abc import Sequence

# In lower case, what reads columns without their names: a star but for COUNT(*), COLUMNS(), NATURAL JOIN, the number of
# a column, and FROM without SELECT.
_UNNAMED = re.compile(r"(?<!\()\*|\bcolumns\b|\bnatural\b|#\d|(?:^|\()\s*from\b")


def named_columns(query: str, columns: Sequence[str], table: str = "batch") -> list[str]:
    """Return those of a table's columns that ``query``, which calls it {table}, may read; all where it names none."""
    text = query.lower()
    words = set(re.findall(r"\w+", text))
    alias = re.search(rf"\{{{table}\}}\s+(?:as\s+)?(\w+)", text)
    is_row = alias and len(re.findall(rf"\b{alias[1]}\b(?!\s*\.)", text)) > 1  # a value of all columns, once defined
    if is_row or _UNNAMED.search(text):
        return [*columns]
    return [name for name in columns if name.lower() in words or not name.isidentifier()]
