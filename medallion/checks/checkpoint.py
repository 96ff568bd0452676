"""A check: the expectations of one layer, judged by Great Expectations over DuckDB, and reported.

Whole tables are looked at, not only what changed: that takes tenths of a second a table.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from string import Formatter
from time import perf_counter
from typing import Any

from expectations.vocabulary import Expectation
from medallion.checks.docs_queue import keep_for_docs
from medallion.checks.lean_imports import lean_imports
from medallion.checks.report_store import publish
from medallion.checks.result import (
    EXAMPLES,
    CheckResult,
    ExpectationResult,
    TableResult,
    Validation,
    Verdict,
    slug,
)
from medallion.checks.row_counts import RowCountRule
from medallion.errors import one_line
from medallion.storage.duckdb_views import TableAt, Views, open_views
from medallion.storage.files import Place

_QUERY = "unexpected_rows_query"
_COLUMNS = 8  # of each example that are kept
_CELL = 120  # characters of each of its values that are kept


def run_checkpoint(
    layer: str,
    tables: Mapping[str, TableAt],
    *,
    suites: Mapping[str, Sequence[Expectation]],
    hour: str,
    run_id: str,
    attempt: int = 1,
    reports: Place,
    row_counts: Mapping[str, RowCountRule] | None = None,
) -> CheckResult:
    """Judge ``suites``, table name to expectations, and write the report pages under ``reports``.

    tables: where each table is that a suite is about or a query names; others are not opened. row_counts: what the row
    counts of tables are judged by, from what opening them tells. Nothing but a report
    that cannot be written raises: a table that cannot be read, a query that does not run, an engine that breaks
    down are broken expectations that say why, so the gate stays shut.
    """
    started_at = datetime.now(UTC)
    begun = perf_counter()
    needed = set(suites).union(*(_named(expectation) for suite in suites.values() for expectation in suite))
    with open_views({name: at for name, at in tables.items() if name in needed}) as views:
        promises = {table: [_promise(expectation, table, views) for expectation in suites[table]] for table in suites}
        sound = {
            table: [promise.expectation for promise in listed if not promise.error]
            for table, listed in promises.items()
        }
        startup_seconds, validation = _validate(
            views.database, sound, f"{hour} {layer} {slug(run_id)} {attempt}", started_at
        )
        judged = views.rows.keys() & (row_counts or {}).keys()  # a table that cannot be read has failed already
        results = [
            TableResult(
                table,
                views.versions.get(table),
                views.rows.get(table),
                round(validation.seconds[table], 3),
                (
                    *_results(promises[table], validation.verdicts[table], views, views.rows.get(table, 0)),
                    *(row_counts[table].judge(views.rows[table]) if row_counts and table in judged else ()),
                ),
            )
            for table in suites
        ]
        result = CheckResult(
            layer=layer,
            hour=hour,
            run_id=run_id,
            attempt=attempt,
            started_at=started_at,
            seconds=round(perf_counter() - begun, 3),
            startup_seconds=round(startup_seconds, 3),
            versions=views.versions,
            table_ids=views.table_ids,
            rows=views.rows,
            tables=tuple(results),
        )
    publish(result, reports)
    keep_for_docs(validation.judged, reports, result.page.replace("/", "-").removesuffix(".html"))
    return result


@dataclass(frozen=True)
class _Promise:
    """An expectation whose query, if it has one, names views; or why it cannot be judged."""

    expectation: Expectation
    error: str | None = None


def bind(query: str, table: str) -> str:
    """``query`` with views in its placeholders: {batch} is that of ``table``, the others are called as they say."""
    return query.format(**{name: name for name in _placeholders(query)} | {"batch": table})


def _placeholders(query: str) -> set[str]:
    try:
        return {name for _, name, _, _ in Formatter().parse(query) if name}
    except ValueError:  # a brace too many: binding the query says so
        return set()


def _named(expectation: Expectation) -> set[str]:
    """The tables that the expectation's query names, besides its own."""
    return _placeholders(expectation.arguments.get(_QUERY, "")) - {"batch"}


def _promise(expectation: Expectation, table: str, views: Views) -> _Promise:
    for name in (table, *sorted(_named(expectation))):
        if name not in views.versions:
            return _Promise(expectation, views.errors.get(name, f"{name} is not among the tables of this check"))
    if _QUERY not in expectation.arguments:
        return _Promise(expectation)
    try:
        query = bind(expectation.arguments[_QUERY], table)
    except (ValueError, LookupError) as error:
        return _Promise(expectation, f"its query cannot be read: {one_line(error)}")
    return _Promise(replace(expectation, arguments={**expectation.arguments, _QUERY: query}))


def _validate(
    database: str, suites: Mapping[str, Sequence[Expectation]], run_name: str, at: datetime
) -> tuple[float, Validation]:
    """The seconds that loading Great Expectations took, and its verdicts."""
    begun = perf_counter()
    try:
        with lean_imports():
            from medallion.checks import validation  # which takes seconds

        startup_seconds = perf_counter() - begun
        return startup_seconds, validation.validate(database, suites, run_name=run_name, at=at)
    except Exception as error:
        broken = Verdict(False, error=f"Great Expectations broke down: {one_line(error)}")
        verdicts = {table: [broken] * len(suite) for table, suite in suites.items()}
        return perf_counter() - begun, Validation(verdicts, dict.fromkeys(suites, 0.0))


def _results(
    promises: Sequence[_Promise], verdicts: Sequence[Verdict], views: Views, rows: int
) -> list[ExpectationResult]:
    """The promises with their verdicts; ``verdicts`` are of those that could be judged, in their order."""
    judged = iter(verdicts)
    results = []
    for promise in promises:
        verdict = Verdict(False, error=promise.error) if promise.error else next(judged)
        results.append(_result(promise.expectation, verdict, views, rows))
    return results


def _result(expectation: Expectation, verdict: Verdict, views: Views, rows: int) -> ExpectationResult:
    query = expectation.arguments.get(_QUERY)
    examples = verdict.rows[:EXAMPLES]
    if query and not verdict.success and not verdict.error:
        examples = views.sample(query, EXAMPLES)
    return ExpectationResult(
        meaning=expectation.meaning,
        kind=expectation.kind,
        severity=expectation.severity,
        success=verdict.success,
        observed=_observed(expectation, verdict, rows),
        unexpected_count=verdict.found,
        unexpected_percent=verdict.percent,
        examples=tuple(_example(row, expectation.arguments.get("column")) for row in examples),
        query=query,
        error=verdict.error,
    )


def _observed(expectation: Expectation, verdict: Verdict, rows: int) -> str:
    if verdict.error:
        return "no verdict"
    if expectation.kind == "ExpectTableRowCountToBeBetween":
        return _counted(rows)
    if verdict.success and "mostly" in expectation.arguments:  # a bare verdict does not say how many
        return f"few enough of {_counted(rows)}"
    found = 0 if verdict.success else verdict.found
    if found is None:
        return "not counted"
    return f"{_counted(found)} found" if _QUERY in expectation.arguments else f"{found:,} of {_counted(rows)}"


def _counted(rows: int) -> str:
    return f"{rows:,} row" if rows == 1 else f"{rows:,} rows"


def _example(row: Mapping[str, Any], first: str | None) -> dict[str, str | None]:
    """The row's first columns as text, the column that the expectation is about before all others."""
    columns = [first, *(column for column in row if column != first)] if first in row else list(row)
    return {column: _cell(row[column]) for column in columns[:_COLUMNS] if column is not None}


def _cell(value: Any) -> str | None:
    if value is None:
        return None
    text = str(value)
    return text if len(text) <= _CELL else f"{text[: _CELL - 1]}…"
