"""Great Expectations at work: suites in, verdicts out, and its Data Docs.

The only module that imports Great Expectations, which takes seconds: import it where a check runs, never earlier.
"""

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from time import time
from typing import Any, ClassVar, Literal

import great_expectations as gx
from great_expectations.core import ExpectationSuiteValidationResult, ExpectationValidationResult
from great_expectations.core.batch_definition import BatchDefinition
from great_expectations.core.run_identifier import RunIdentifier
from great_expectations.data_context.types.resource_identifiers import ValidationResultIdentifier
from great_expectations.expectations.core.unexpected_rows_expectation import UnexpectedRowsExpectation
from great_expectations.expectations.expectation import Expectation as GxExpectation
from great_expectations.expectations.metadata_types import FailureSeverity

from expectations import data_docs, dialect
from expectations.lake_views import one_line
from expectations.result import Validation, Verdict
from expectations.vocabulary import Expectation

EXAMPLES = 5  # offending rows that Great Expectations fetches
_NUMBER = "number"  # in an expectation's meta: its place in our suite, as results come in an order of their own

_Numbered = Mapping[str, Sequence[tuple[int, Expectation]]]  # suites by table, each expectation with its place
_Judged = dict[tuple[str, int], Verdict]  # verdicts by table and place
_Format = Literal["BOOLEAN_ONLY"] | dict[str, Any]
_VERDICTS: _Format = "BOOLEAN_ONLY"
_DETAILS: _Format = {"result_format": "SUMMARY", "partial_unexpected_count": EXAMPLES, "include_unexpected_rows": True}


class QueryFindsNoRows(UnexpectedRowsExpectation):
    """UnexpectedRowsExpectation at half the price: that one runs its query twice, to count and to fetch rows."""

    metric_dependencies: ClassVar[tuple[str, ...]] = ("unexpected_rows_query.row_count",)

    def _validate(self, metrics: dict[str, Any], *_: Any, **__: Any) -> dict[str, Any]:
        found = metrics["unexpected_rows_query.row_count"]
        return {"success": found == 0, "result": {"observed_value": found}}


_QUERY_TYPE = QueryFindsNoRows.expectation_type


def validate(
    database: str, suites: Mapping[str, Sequence[Expectation]], *, run_name: str, at: datetime, docs: Path
) -> Validation:
    """Judge ``suites``, table name to expectations, over the views of ``database``, and publish to the Data Docs.

    One checkpoint asks for bare verdicts, which costs one scan per table and one per query. Only what is broken is
    asked about again, for counts and rows. An expectation that could not be judged is broken and says why.
    """
    with _quiet():
        run = _Run(database, RunIdentifier(run_name=run_name, run_time=at), docs)
        numbered = {table: list(enumerate(suite)) for table, suite in suites.items()}
        verdicts = run.checkpoint("verdicts", numbered, _VERDICTS)
        broken = {
            table: [(number, expectation) for number, expectation in suite if _told_no(verdicts[table, number])]
            for table, suite in numbered.items()
        }
        details = run.checkpoint("details", broken, _DETAILS)
        verdicts |= {place: replace(verdict, success=False) for place, verdict in details.items() if not verdict.error}
        docs_error = data_docs.publish(run.context, run.results, docs)
    return Validation(
        {table: [verdicts[table, number] for number, _ in suite] for table, suite in numbered.items()},
        {table: run.seconds.get(table, 0.0) for table in suites},
        docs_error,
    )


def build(expectation: Expectation, number: int = 0) -> GxExpectation:
    """The Great Expectations object for ``expectation``, whose query names views.

    Raises what Great Expectations raises for a kind it does not know, or arguments that the kind does not take.
    """
    arguments = dict(expectation.arguments)
    kind: type[GxExpectation] = getattr(gx.expectations, expectation.kind)
    if kind is UnexpectedRowsExpectation:
        kind = QueryFindsNoRows
        arguments["unexpected_rows_query"] = _template(arguments["unexpected_rows_query"])
    severity = FailureSeverity(expectation.severity)
    return kind(**arguments, severity=severity, description=expectation.meaning, meta={_NUMBER: number})


def _template(query: str) -> str:
    """The query as Great Expectations wants it.

    It fills in braces once more, SQLAlchemy takes :word for a parameter, and a missing {batch} is warned about on the
    console. What stands there then brings an alias of its own, which no query that names its table can use: hence
    the comment.
    """
    literal = query.replace("{", "{{").replace("}", "}}")
    return re.sub(r"(?<![:\w\\]):(?=\w)", r"\\:", literal) + "\n/* {batch} */"


class _Run:
    """The checkpoints of one check: the context they share, and what they leave behind."""

    def __init__(self, database: str, run_id: RunIdentifier, docs: Path) -> None:
        self.run_id = run_id
        self.context = data_docs.context(docs)
        self.source = self.context.data_sources.add_sql("lake", connection_string=dialect.URL + database)
        self.batches: dict[str, BatchDefinition[Any]] = {}
        self.seconds: dict[str, float] = {}
        self.results: set[ValidationResultIdentifier] = set()

    def checkpoint(self, name: str, suites: _Numbered, result_format: _Format) -> _Judged:
        """Run one checkpoint with one suite per table; every expectation of ``suites`` gets its verdict."""
        verdicts = {
            (table, number): Verdict(False, error="Great Expectations gave no verdict")
            for table, suite in suites.items()
            for number, _ in suite
        }
        definitions: dict[str, gx.ValidationDefinition] = {}
        for table, expectations in suites.items():
            suite = gx.ExpectationSuite(f"{table} {name}")
            for number, expectation in expectations:
                try:
                    suite.add_expectation(build(expectation, number))
                except Exception as error:
                    verdicts[table, number] = Verdict(
                        False, error=one_line(f"it cannot be built: {' '.join(str(error).split())}")
                    )
            if suite.expectations:
                definition = gx.ValidationDefinition(
                    name=suite.name, data=self._batch(table), suite=self.context.suites.add(suite)
                )
                definitions[table] = self.context.validation_definitions.add(definition)
        if not definitions:
            return verdicts
        checkpoint = self.context.checkpoints.add(
            gx.Checkpoint(name=name, validation_definitions=list(definitions.values()), result_format=result_format)
        )
        run = checkpoint.run(run_id=self.run_id)
        finished = time()
        self.results.update(run.run_results)
        results = dict(zip(definitions, run.run_results.values(), strict=True))
        for table, took in _seconds(results, finished).items():
            self.seconds[table] = self.seconds.get(table, 0.0) + took
        for table, result in results.items():
            for judged in result.results:
                config = judged.expectation_config
                if config and config.meta:
                    verdicts[table, config.meta[_NUMBER]] = _verdict(judged, counts=config.type == _QUERY_TYPE)
        return verdicts

    def _batch(self, table: str) -> BatchDefinition[Any]:
        if table not in self.batches:
            asset = self.source.add_table_asset(table, table_name=table)
            self.batches[table] = asset.add_batch_definition_whole_table("whole")
        return self.batches[table]


def _told_no(verdict: Verdict) -> bool:
    return not verdict.success and not verdict.error


def _verdict(judged: ExpectationValidationResult, *, counts: bool) -> Verdict:
    """counts: the observed value is a number of offending rows, not a fact about the table."""
    if error := _error(judged.exception_info):
        return Verdict(False, error=error)
    return Verdict(
        bool(judged.success),
        judged.result.get("observed_value" if counts else "unexpected_count"),
        judged.result.get("unexpected_percent"),
        judged.result.get("unexpected_rows", ()),
    )


def _error(info: Mapping[str, Any] | None) -> str | None:
    """The message in Great Expectations' exception info: flat, or one such entry for each failed metric."""
    for entry in (info, *(info or {}).values()):
        if isinstance(entry, Mapping) and entry.get("raised_exception"):
            return one_line(entry.get("exception_message") or "no message")
    return None


def _seconds(results: Mapping[str, ExpectationSuiteValidationResult], finished: float) -> dict[str, float]:
    """The seconds each table took: tables run one after the other, and each notes when its batch was loaded."""
    begun = {
        table: datetime.strptime(result.meta["batch_markers"]["ge_load_time"], "%Y%m%dT%H%M%S.%fZ")
        .replace(tzinfo=UTC)
        .timestamp()
        for table, result in results.items()
    }
    ends = [*list(begun.values())[1:], finished]
    return {table: end - start for (table, start), end in zip(begun.items(), ends, strict=True)}


@contextmanager
def _quiet() -> Iterator[None]:
    """Great Expectations without its log lines: what matters is in the result."""
    logger = logging.getLogger("great_expectations")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)
