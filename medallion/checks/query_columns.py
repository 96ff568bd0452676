"""Which columns of a table a query of an expectation reads."""

import re
from collections.abc import Sequence

_COUNT = re.compile(r"\bcount\s*\(\s*\*\s*\)")
_TEXT = re.compile(r"""("[^"]*")|'[^']*'""")  # and quoted names, which may have an apostrophe in them
# In lower case, what reads columns without their names, or may: any star but that of COUNT(*), the number of a column.
_UNNAMED = re.compile(r"\*|#\d|\b(?:columns|natural|table|pivot|unpivot|summarize|describe|show)\b")
_COMMENT_OR_ESCAPE = re.compile(r"--|/\*|\$|\\")  # in which an apostrophe need not begin or end a text
_SET_OPERATORS = frozenset({"union", "except", "intersect"})
_JOINS = frozenset({"join", "left", "right", "full", "inner", "cross", "semi", "anti"})
_CLAUSES = frozenset({"where", "group", "having", "order", "limit", "window", "qualify", "on", "using"})
_NO_ALIAS = _SET_OPERATORS | _JOINS | _CLAUSES | {"as"}  # what may follow a table


def named_columns(query: str, columns: Sequence[str], table: str = "batch") -> list[str]:
    """Return those of a table's columns that ``query``, which calls it {table}, may read; all where it names none."""
    if _COMMENT_OR_ESCAPE.search(query):
        return [*columns]
    text = _COUNT.sub("count()", _TEXT.sub(lambda text: text[1] or "''", query.lower()))
    if _UNNAMED.search(text) or _has_from_without_select(text) or _reads_whole_rows(text, table):
        return [*columns]
    words = set(re.findall(r"\w+", text))
    return [name for name in columns if name.lower() in words or not name.isidentifier()]


def _has_from_without_select(text: str) -> bool:
    """Whether a FROM has no list of columns, which stands for all of them."""
    has_list, former = [False], ""
    for word in re.findall(r"\w+|[()]", text):
        if word == "(":
            has_list.append(False)
        elif word == ")":
            has_list = has_list[:-1] or [False]
        elif word == "select":
            has_list[-1] = True
        elif word in _SET_OPERATORS:
            has_list[-1] = False
        elif word == "from" and former != "distinct":  # IS DISTINCT FROM
            if not has_list[-1]:
                return True
            has_list[-1] = False
        former = word
    return False


def _reads_whole_rows(text: str, table: str) -> bool:
    """Whether the table, or a name that it is given, stands where a value does."""
    name = rf"\{{{table}\}}"
    if len(re.findall(name, text)) != len(re.findall(rf"\b(?:from|join)\s+{name}", text)):
        return True
    aliases = re.findall(rf'{name}\s+as\s+"?(\w+)', text)
    aliases += [word for word in re.findall(rf'{name}\s+"?(\w+)', text) if word not in _NO_ALIAS]
    return any(len(re.findall(rf'\b{alias}\b(?!"?\s*\.)', text)) > aliases.count(alias) for alias in set(aliases))
