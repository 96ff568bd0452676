"""Expectations judged together: by one query that finds the failed rows of all of them.

Great Expectations takes some 10 ms for each expectation, whatever it reads. In most hours all of them pass, which one
verdict tells; those of a table that does not get it are judged one by one, so both ways agree on every input.
"""

from collections.abc import Sequence

from medallion.checks.scope_proof import QUERY
from medallion.expect.vocabulary import Expectation, Severity, is_read_alike, no_rows

_END = "; \t\r\n"  # of a query, which has no place inside another


def failed_rows_query(expectation: Expectation, view: str) -> str | None:
    """Return the query that finds the rows of ``view`` that fail ``expectation``, whose own query names views.

    None where a query does not decide it: it is about the whole table, or tolerates some failed rows.
    """
    if QUERY in expectation.arguments:
        return str(expectation.arguments[QUERY])
    condition = expectation.condition
    if condition is None or "mostly" in expectation.arguments or not is_read_alike(condition):
        return None
    return f"SELECT * FROM {view} WHERE NOT ({condition})"


def join_expectations(expectations: Sequence[Expectation], queries: Sequence[str]) -> Expectation:
    """Return the expectation that passes when all of ``expectations`` do.

    queries: of each, as ``failed_rows_query`` returns it.
    """
    parts = (
        f"SELECT {number} AS expectation FROM (\n{query.rstrip(_END)}\n) AS failed"
        for number, query in enumerate(queries, 1)
    )
    severity: Severity = (
        "critical" if any(expectation.severity == "critical" for expectation in expectations) else "warning"
    )
    meanings = "; ".join(expectation.meaning for expectation in expectations)
    return no_rows("\nUNION ALL\n".join(parts), f"{len(expectations)} expectations: {meanings}", severity=severity)
