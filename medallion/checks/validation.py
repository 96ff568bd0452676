"""Great Expectations at work: suites in, verdicts and what its Data Docs are built from out.

With data_docs.py the only module that imports Great Expectations, which takes seconds: import it where a check runs.
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

_WHOLE = "whole"  # the batch of a table that all of its rows are
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
        count = metrics["unexpected_rows_query.row_count"]
        return {"success": count == 0, "result": {"observed_value": count}}


class BuiltDefinition(gx.ValidationDefinition):
    """A validation definition that is judged as this process has just built it.

    Great Expectations would store it and read it again, several times, to see whether it has changed since: a fifth of
    what a check of changed rows costs.
    """

    def is_fresh(self) -> ValidationDefinitionFreshnessDiagnostics:
        """Return no difference from what is stored."""
        return ValidationDefinitionFreshnessDiagnostics(errors=[])


class BuiltCheckpoint(gx.Checkpoint):
    """A checkpoint of such definitions."""

    def is_fresh(self) -> CheckpointFreshnessDiagnostics:
        """Return no difference from what is stored."""
        return CheckpointFreshnessDiagnostics(errors=[])


def validate(database: str, suites: Mapping[str, Sequence[Expectation]], *, run_name: str, at: datetime) -> Validation:
    """Judge ``suites``, table name to expectations, over the views of ``database``.

    One checkpoint asks for bare verdicts, which costs one scan per table and one per query. Only what is broken is
    asked about again, for counts and rows. An expectation that could not be judged is broken and says why.
    """
    numbered = {table: list(enumerate(suite)) for table, suite in suites.items()}
    with quiet(), closing(_Run(database, [*suites], RunIdentifier(run_name=run_name, run_time=at))) as run:
        verdicts = run.checkpoint("verdicts", numbered, _VERDICTS)
        broken = {
            table: [(number, expectation) for number, expectation in suite if _is_failure(verdicts[table, number])]
            for table, suite in numbered.items()
        }
        details = run.checkpoint("details", broken, _DETAILS)
        verdicts |= {place: replace(verdict, success=False) for place, verdict in details.items() if not verdict.error}
    return Validation(
        {table: [verdicts[table, number] for number, _ in suite] for table, suite in numbered.items()},
        {table: run.seconds.get(table, 0.0) for table in suites},
        tuple(run.judged),
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
        """Let go of the database, which goes with its last connection."""
        self.source.get_execution_engine().close()
        self.source.get_engine().dispose()

    def checkpoint(self, name: str, suites: _Numbered, result_format: _Format) -> _Judged:
        """Run one checkpoint with one suite per table; every expectation of ``suites`` gets its verdict."""
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
        store: Any = self.context.validation_results_store  # which has made JSON of them, and carries no types
        keys = [store.key_to_tuple(key) for key in run.run_results]
        self.judged += [Judged(key, store.store_backend.get(key)) for key in keys]
        for table, result in results.items():
            verdicts |= {(table, number): verdict for number, verdict in _verdicts(result)}
        return verdicts

    def _count_seconds(self, results: Mapping[str, ExpectationSuiteValidationResult], finished: float) -> None:
        """Add what each table took: tables run one after the other, and each notes when its batch was loaded."""
        loaded = [result.meta["batch_markers"]["ge_load_time"] for result in results.values()]
        begun = [datetime.strptime(text, "%Y%m%dT%H%M%S.%fZ").replace(tzinfo=UTC).timestamp() for text in loaded]
        for table, start, end in zip(results, begun, [*begun[1:], finished], strict=True):
            self.seconds[table] = self.seconds.get(table, 0.0) + end - start


def _is_failure(verdict: Verdict) -> bool:
    return not verdict.success and not verdict.error


def _verdicts(result: ExpectationSuiteValidationResult) -> Iterator[tuple[int, Verdict]]:
    """The verdicts of one suite, each with its place there."""
    for judged in result.results:
        config = judged.expectation_config
        if config is None or not config.meta:
            continue  # not ours: whatever is, then misses its verdict
        # A query's observed value is the number of rows it found; that of others is a fact about the table.
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
    """The message in Great Expectations' exception info: flat, or one such entry for each failed metric."""
    for entry in (info, *(info or {}).values()):
        if isinstance(entry, Mapping) and entry.get("raised_exception"):
            return one_line(entry.get("exception_message") or "no message")
    return None


@contextmanager
def quiet() -> Iterator[None]:
    """Great Expectations without its log lines: what matters is in the result."""
    logger = logging.getLogger("great_expectations")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)
