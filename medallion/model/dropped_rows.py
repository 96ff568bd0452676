"""The rows that a table drops, as a table of their own."""

from dataclasses import replace
from math import inf

from medallion.expect.literals import spark_text
from medallion.model.table import BROKEN, QUARANTINE, Drop, Table


def split_dropped_rows(table: Table) -> tuple[Table, ...]:
    """Split off a table of dropped rows if ``table`` declares an expectation that drops rows.

    The new table is called ``quarantine_<name>`` and is refreshed like any other. Its check counts the rows and warns
    if their share exceeds the declared one or jumps.

    Returns:
        The table without the dropped rows, and the table of dropped rows: the same columns, and ``_broken`` with the
        expectations that a row fails. Only ``table`` if it drops no rows.
    """
    drops = [expectation for expectation in table.expect if expectation.severity == "drop"]
    if not drops:
        return (table,)
    breaks = [f"NOT COALESCE({drop.condition}, TRUE)" for drop in drops]  # null passes, as in every expectation
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
