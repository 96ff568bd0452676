"""Run Great Expectations: expectations in, verdicts and the results for Data Docs out.

Only this module and data_docs.py import Great Expectations. That takes seconds, so import them where a check runs.
"""

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from time import time
from typing import Any, ClassVar, Literal

import great_expectations as gx
from great_expectations.core import ExpectationSuiteValidationResult
from great_expectations.core.batch_definition import BatchDefinition
from great_expectations.core.freshness_diagnostics import (
    CheckpointFreshnessDiagnostics,
    ValidationDefinitionFreshnessDiagnostics,
)
from great_expectations.core.run_identifier import RunIdentifier
from great_expectations.datasource.fluent.sql_datasource import SQLDatasource, TableAsset
from great_expectations.expectations.core.unexpected_rows_expectation import UnexpectedRowsExpectation
from great_expectations.expectations.expectation import Expectation as GxExpectation
from great_expectations.expectations.metadata_types import FailureSeverity

from medallion.checks import data_docs, dialect
from medallion.checks.result import EXAMPLES, Judged, Validation, Verdict
from medallion.errors import one_line
from medallion.expect.vocabulary import Expectation

_WHOLE = "whole"  # the batch with all rows of a table
_NUMBER = "number"  # in an expectation's meta: its place in our suite, because results come in another order

_Numbered = Mapping[str, Sequence[tuple[int, Expectation]]]  # suites by table, each expectation with its place
_Judged = dict[tuple[str, int], Verdict]  # verdicts by table and place
_Format = Literal["BOOLEAN_ONLY"] | dict[str, Any]
_VERDICTS: _Format = "BOOLEAN_ONLY"
_DETAILS: _Format = {"result_format": "SUMMARY", "partial_unexpected_count": EXAMPLES, "include_unexpected_rows": True}


class QueryFindsNoRows(UnexpectedRowsExpectation):
    """UnexpectedRowsExpectation at half the cost: the original runs its query twice, to count and to fetch rows."""

    metric_dependencies: ClassVar[tuple[str, ...]] = ("unexpected_rows_query.row_count",)

    def _validate(self, metrics: dict[str, Any], *_: Any, **__: Any) -> dict[str, Any]:
        count = metrics["unexpected_rows_query.row_count"]
        return {"success": count == 0, "result": {"observed_value": count}}


class BuiltDefinition(gx.ValidationDefinition):
    """A validation definition that is used as this process has just built it.

    Great Expectations would read the stored one several times to find out whether it has changed, which is a fifth of
    the cost of checking changed rows.
    """

    def is_fresh(self) -> ValidationDefinitionFreshnessDiagnostics:
        """Return that nothing differs from what is stored."""
        return ValidationDefinitionFreshnessDiagnostics(errors=[])


class BuiltCheckpoint(gx.Checkpoint):
    """A checkpoint that is used as this process has just built it."""

    def is_fresh(self) -> CheckpointFreshnessDiagnostics:
        """Return that nothing differs from what is stored."""
        return CheckpointFreshnessDiagnostics(errors=[])


def validate(database: str, suites: Mapping[str, Sequence[Expectation]], *, run_name: str, at: datetime) -> Validation:
    """Judge expectations over the views of a database.

    A first checkpoint returns verdicts only, which costs a scan for each table and each query. A second one returns
    counts and rows of what has failed. An expectation that cannot be judged has failed, and its verdict says why.

    Args:
        database: The name of a DuckDB database of this process.
        suites: The expectations by table.
        run_name: The name of the run in Data Docs.
        at: The time of the run.
    """
    numbered = {table: list(enumerate(suite)) for table, suite in suites.items()}
    with quiet(), closing(_Run(database, [*suites], RunIdentifier(run_name=run_name, run_time=at))) as run:
        verdicts = run.checkpoint("verdicts", numbered, _VERDICTS)
        failed = {
            table: [(number, expectation) for number, expectation in suite if _is_failure(verdicts[table, number])]
            for table, suite in numbered.items()
        }
        details = run.checkpoint("details", failed, _DETAILS)
        verdicts |= {place: replace(verdict, success=False) for place, verdict in details.items() if not verdict.error}
    return Validation(
        {table: [verdicts[table, number] for number, _ in suite] for table, suite in numbered.items()},
        {table: run.seconds.get(table, 0.0) for table in suites},
        tuple(run.judged),
    )


def build(expectation: Expectation, number: int = 0) -> GxExpectation:
    """Return the object of Great Expectations for an expectation, whose query names views.

    Raises an error of Great Expectations for an unknown kind, and for arguments that the kind does not take.
    """
    arguments = dict(expectation.arguments)
    kind: type[GxExpectation] = getattr(gx.expectations, expectation.kind)
    if kind is UnexpectedRowsExpectation:
        kind = QueryFindsNoRows
        arguments["unexpected_rows_query"] = _template(arguments["unexpected_rows_query"])
    severity = FailureSeverity(expectation.severity)
    return kind(**arguments, severity=severity, description=expectation.meaning, meta={_NUMBER: number})


def _template(query: str) -> str:
    """Return a query in the form in which Great Expectations runs it unchanged.

    Great Expectations fills in braces once more and warns if {batch} is missing, and SQLAlchemy takes :word for a
    parameter. {batch} stands in a comment, because its text has an alias, which does not fit a query with table names.
    """
    literal = query.replace("{", "{{").replace("}", "}}")
    return re.sub(r"(?<![:\w\\]):(?=\w)", r"\\:", literal) + "\n/* {batch} */"


class _Run:
    """The checkpoints of one check and the context that they share. seconds: by table. judged: their results."""

    def __init__(self, database: str, tables: Sequence[str], run_id: RunIdentifier) -> None:
        self.run_id = run_id
        self.context = data_docs.context()
        assets = [
            TableAsset(name=table, table_name=table, batch_definitions=[BatchDefinition(name=_WHOLE)])
            for table in tables
        ]
        # With all assets at once: adding one serializes the configuration of all.
        source = SQLDatasource(name="lake", connection_string=dialect.URL + database, assets=assets)
        self.source = self.context.data_sources.add_sql(source)
        self.seconds: dict[str, float] = {}
        self.judged: list[Judged] = []

    def close(self) -> None:
        """Close the connections, the last of which keeps the database."""
        self.source.get_execution_engine().close()
        self.source.get_engine().dispose()

    def checkpoint(self, name: str, suites: _Numbered, result_format: _Format) -> _Judged:
        """Run one checkpoint with a suite for each table, and return a verdict for every expectation."""
        verdicts: _Judged = {}
        definitions: dict[str, gx.ValidationDefinition] = {}
        for table, expectations in suites.items():
            built = []
            for number, expectation in expectations:
                try:
                    built.append(build(expectation, number))
                    verdicts[table, number] = Verdict(False, error="Great Expectations gave no verdict")
                except Exception as error:
                    why = f"it cannot be built: {' '.join(str(error).split())}"
                    verdicts[table, number] = Verdict(False, error=one_line(why))
            if built:
                suite = gx.ExpectationSuite(f"{table} {name}", expectations=built)
                batch = self.source.get_asset(table).get_batch_definition(_WHOLE)
                definitions[table] = BuiltDefinition(name=suite.name, data=batch, suite=suite)
        if not definitions:
            return verdicts
        checkpoint = BuiltCheckpoint(
            name=name, validation_definitions=list(definitions.values()), result_format=result_format
        )
        run = checkpoint.run(run_id=self.run_id)
        results = dict(zip(definitions, run.run_results.values(), strict=True))
        self._count_seconds(results, time())
        store: Any = self.context.validation_results_store  # has written them as JSON
        keys = [store.key_to_tuple(key) for key in run.run_results]
        self.judged += [Judged(key, store.store_backend.get(key)) for key in keys]
        for table, result in results.items():
            verdicts |= {(table, number): verdict for number, verdict in _verdicts(result)}
        return verdicts

    def _count_seconds(self, results: Mapping[str, ExpectationSuiteValidationResult], finished: float) -> None:
        """Add the seconds of each table: tables run one after the other, and each records when its batch was loaded."""
        loaded = [result.meta["batch_markers"]["ge_load_time"] for result in results.values()]
        begun = [datetime.strptime(text, "%Y%m%dT%H%M%S.%fZ").replace(tzinfo=UTC).timestamp() for text in loaded]
        for table, start, end in zip(results, begun, [*begun[1:], finished], strict=True):
            self.seconds[table] = self.seconds.get(table, 0.0) + end - start


def _is_failure(verdict: Verdict) -> bool:
    return not verdict.success and not verdict.error


def _verdicts(result: ExpectationSuiteValidationResult) -> Iterator[tuple[int, Verdict]]:
    """Yield the verdicts of one suite, each with the place of its expectation."""
    for judged in result.results:
        config = judged.expectation_config
        if config is None or not config.meta:
            continue  # not one of ours, which then have no verdict and so have failed
        # The observed value of a query is the number of rows that it found; for others it is a fact about the table.
        field = "observed_value" if config.type == QueryFindsNoRows.expectation_type else "unexpected_count"
        error = _error(judged.exception_info)
        yield (
            config.meta[_NUMBER],
            Verdict(
                bool(judged.success) and not error,
                judged.result.get(field),
                judged.result.get("unexpected_percent"),
                judged.result.get("unexpected_rows", ()),
                error,
            ),
        )


def _error(info: Mapping[str, Any] | None) -> str | None:
    """Return the message in an exception info, which is flat or has an entry for each failed metric."""
    for entry in (info, *(info or {}).values()):
        if isinstance(entry, Mapping) and entry.get("raised_exception"):
            return one_line(entry.get("exception_message") or "no message")
    return None


@contextmanager
def quiet() -> Iterator[None]:
    """Silence the log of Great Expectations: everything that matters is in the result."""
    logger = logging.getLogger("great_expectations")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)
