"""What a check found, in words: how many records, of how many, and a few of them."""

from typing import NamedTuple

from medallion.checks.result import BY_SPARK, EXAMPLES, ExpectationResult, Verdict, to_example
from medallion.checks.scope_proof import QUERY
from medallion.counts import counted
from medallion.expect.vocabulary import Expectation, Grouped
from medallion.storage.duckdb_views import Views


class Finding(NamedTuple):
    """An expectation as declared, the verdict on it, and how it was looked at.

    query: as a reader could run it on whole tables; None where it is not written as one. note: as in its result.
    """

    expectation: Expectation
    verdict: Verdict
    looked_at: str
    query: str | None
    note: str | None = None


class _Counted(NamedTuple):
    """What a query found that lists groups of records: how many groups, and the records in all of them."""

    groups: int
    records: int


def describe(finding: Finding, views: Views, table: str) -> ExpectationResult:
    """Return the result of an expectation on ``table``, with examples and counts where it failed."""
    expectation, verdict, query = finding.expectation, finding.verdict, finding.query
    has_failed, rows = not verdict.success and not verdict.error, views.rows.get(table, 0)
    examples, grouped = verdict.rows[:EXAMPLES], None
    if has_failed and finding.looked_at == BY_SPARK:
        grouped = None if verdict.records is None else _Counted(verdict.unexpected or 0, verdict.records)
    elif query and has_failed:
        examples = views.sample(query, EXAMPLES)
        grouped = _count_records(expectation.grouped, query, views) if expectation.grouped else None
    observed, unexpected, percent = _describe_verdict(expectation, verdict, rows), verdict.unexpected, verdict.percent
    if grouped and expectation.grouped:
        values = f"{counted(grouped.groups, 'value')} of {expectation.grouped.by}"
        observed = f"{grouped.records:,} of {counted(rows, 'row')} ({values})"
        unexpected, percent = grouped.records, 100 * grouped.records / rows if rows else None
    return ExpectationResult(
        meaning=expectation.meaning,
        kind=expectation.kind,
        severity=expectation.severity,
        success=verdict.success,
        observed=observed,
        unexpected_count=unexpected,
        unexpected_percent=percent,
        examples=tuple(to_example(row, expectation.arguments.get("column")) for row in examples),
        query=query,
        error=verdict.error,
        looked_at=finding.looked_at,
        note=finding.note,
    )


def _count_records(grouped: Grouped, query: str, views: Views) -> _Counted | None:
    """Count the records of the groups that a query lists; None where that fails."""
    whole = f'SELECT COUNT(*) AS groups, SUM("{grouped.count}") AS records FROM ({query}\n) AS listed'
    for found in views.sample(whole, 1):
        if found["groups"]:
            return _Counted(int(found["groups"]), int(found["records"]))
    return None


def _describe_verdict(expectation: Expectation, verdict: Verdict, rows: int) -> str:
    if verdict.error:
        return "no verdict"
    if expectation.kind == "ExpectTableRowCountToBeBetween":
        return counted(rows, "row")
    if verdict.success and "mostly" in expectation.arguments:  # a bare verdict does not say how many
        return f"few enough of {counted(rows, 'row')}"
    unexpected = 0 if verdict.success else verdict.unexpected
    if unexpected is None:
        return "not counted"
    if QUERY not in expectation.arguments:
        return f"{unexpected:,} of {counted(rows, 'row')}"
    return f"its query found {counted(unexpected, 'row')}" if unexpected else "its query found nothing"
