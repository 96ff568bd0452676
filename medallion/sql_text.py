"""Write texts and names in SQL."""


def text_literal(text: str) -> str:
    """Return a text as a literal, as DuckDB and delta-rs read it; Spark would drop doubled quotes."""
    return "'" + text.replace("'", "''") + "'"


def quoted(name: str) -> str:
    """Return a column's name as an identifier of DuckDB and delta-rs."""
    return '"' + name.replace('"', '""') + '"'


def backquoted(name: str) -> str:
    """Return a column's or a table's name as an identifier of Spark."""
    return f"`{name.replace('`', '``')}`"
