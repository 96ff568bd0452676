"""The rows that a table drops, as a table of their own."""

from dataclasses import replace
from math import inf

from medallion.expect.literals import spark_text
from medallion.model.table import BROKEN, QUARANTINE, Drop, Table


def split_dropped_rows(table: Table) -> tuple[Table, ...]:
    """Split off the table of dropped rows, where ``table`` declares an expectation that drops them.

    It is called ``quarantine_<name>``, and is refreshed like any table. Its check counts the rows, and warns when their
    share exceeds what is declared or jumps.

    Returns:
        The table without these rows, and that of the rows: the same columns, and in ``_broken`` what a row breaks. The
        table alone where it drops none.
    """
    drops = [expectation for expectation in table.expect if expectation.severity == "drop"]
    if not drops:
        return (table,)
    breaks = [f"NOT COALESCE({drop.condition}, TRUE)" for drop in drops]  # as everywhere, null passes
    reasons = ", ".join(
        f"CASE WHEN {b} THEN {spark_text(drop.meaning)} END" for b, drop in zip(breaks, drops, strict=True)
    )
    source, either = f"FROM ({table.query}) AS found", " OR ".join(breaks)
    passing = replace(table, query=f"SELECT * {source} WHERE NOT ({either})")
    passing = replace(passing, expect=tuple(expectation for expectation in table.expect if expectation not in drops))
    return passing, replace(
        table,
        query=f"SELECT *, CONCAT_WS('; ', {reasons}) AS {BROKEN} {source} WHERE {either}",
        expect=(),
        drops=tuple(Drop(drop.meaning, drop.allowed_share) for drop in drops),
        may_be_empty=True,
        max_row_change=inf,
        chart=None,
        descriptions={**table.descriptions, BROKEN: "The expectations that the row fails"},
        name=f"{QUARANTINE}{table.name}",
        doc=f"The rows that {table.name} drops. One row per {' and '.join(table.keys)}.",
    )
