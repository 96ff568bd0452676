"""Have Spark count what fails in tables that are too large for one machine.

Great Expectations still judges: it asks a query over the counts, which are put into a small table of the check's own
database. Spark reads the tables at the versions, and with the columns, that the views of this check have.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from medallion.checks.by_change import with_query
from medallion.checks.context import tables_in_query
from medallion.checks.judgement import Counts, Judgement
from medallion.checks.result import EXAMPLES, Verdict
from medallion.checks.spark_sql import NotBySpark, share_counts_query, to_spark
from medallion.errors import one_line
from medallion.expect.scopes import Share
from medallion.expect.vocabulary import Expectation
from medallion.spark.delta_reads import read_table
from medallion.sql_text import backquoted
from medallion.storage.duckdb_views import Views
from medallion.storage.lake import state_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COUNTS = "__counts"  # the end of the name of a table of what Spark counted


class SparkCounter:
    """Counts what fails in the tables of one check. start: returns the session, and starts it when first called."""

    def __init__(self, start: "Callable[[], SparkSession]", views: Views) -> None:
        self._start, self._views = start, views
        self._frames: dict[str, DataFrame] = {}
        self._broken: Exception | None = None

    def count(self, table: str, judgements: Sequence[Judgement]) -> list[Counts | NotBySpark]:
        """Return the counts for each expectation on ``table``; those with a condition are counted in one scan.

        Raises the error of a Spark that does not start, or that ends.
        """
        self._require_started()
        conditions = [j.declared.condition for j in judgements if j.declared.condition is not None]
        by_condition = iter(self._count_conditions(table, conditions))
        return [
            self._count_query(table, judgement) if judgement.declared.condition is None else next(by_condition)
            for judgement in judgements
        ]

    def describe_failure(self, table: str, judgement: Judgement, counts: Counts) -> Verdict:
        """Return the verdict on an expectation that failed: how many rows, and a few of them as a hint for readers."""
        condition = judgement.declared.condition
        if condition is not None:
            percent = counts.failed / counts.checked * 100 if counts.checked else None
            rows = self._examples(f"SELECT * FROM {backquoted(table)} WHERE NOT ({condition})", [table])
            return Verdict(False, counts.failed, percent, rows)
        query, names = _translate(judgement), _tables_of(table, judgement)
        if judgement.has_tolerance:  # by its rows so far, not by the groups that its query returns
            with suppress(Exception):
                counts = self._count_rows(query, names, judgement.declared)
        return Verdict(False, counts.failed, rows=self._examples(query, names), records=counts.records)

    def _require_started(self) -> None:
        """Start Spark; one that did not start is not started again for each table."""
        if self._broken is not None:
            raise self._broken
        try:
            self._start()
        except Exception as error:
            self._broken = error
            raise

    def _count_conditions(self, table: str, conditions: Sequence[str]) -> list[Counts | NotBySpark]:
        from pyspark.errors import AnalysisException, PySparkException

        if not conditions:
            return []
        sums = ", ".join(f"COUNT_IF(NOT ({condition})), COUNT({condition})" for condition in conditions)
        try:
            values = self._first(f"SELECT {sums} FROM {backquoted(table)}", [table])
        except AnalysisException as error:
            if len(conditions) == 1:
                return [NotBySpark(one_line(error))]
            return [counts for each in conditions for counts in self._count_conditions(table, [each])]
        except PySparkException as error:
            return [NotBySpark(one_line(error))] * len(conditions)
        return [Counts(*pair) for pair in zip(values[::2], values[1::2], strict=True)]

    def _count_query(self, table: str, judgement: Judgement) -> Counts | NotBySpark:
        from pyspark.errors import PySparkException

        scope, names = judgement.declared.by_change, _tables_of(table, judgement)
        try:
            if judgement.has_tolerance and isinstance(scope, Share):
                return Counts(*self._first(share_counts_query(table, scope), names))
            return self._count_rows(_translate(judgement), names, judgement.declared)
        except NotBySpark as error:
            return error
        except PySparkException as error:
            return NotBySpark(one_line(error))

    def _count_rows(self, query: str, names: Iterable[str], expectation: Expectation) -> Counts:
        """Count the rows that a query returns, and the records that they stand for."""
        grouped = expectation.grouped
        records = f", CAST(SUM({backquoted(grouped.count)}) AS BIGINT)" if grouped else ""
        failed, *of_groups = self._first(f"SELECT COUNT(*){records} FROM ({query}) AS listed", names)
        return Counts(failed, records=of_groups[0] if of_groups and failed else None)

    def _examples(self, query: str, names: Iterable[str]) -> list[dict[str, Any]]:
        """Return a few of the rows that a query returns; none if it fails."""
        with suppress(Exception):
            return list(self._run(f"SELECT * FROM ({query}) AS listed LIMIT {EXAMPLES}", names).toArrow().to_pylist())
        return []

    def _first(self, query: str, names: Iterable[str]) -> Sequence[Any]:
        return tuple(self._run(query, names).collect()[0])

    def _run(self, query: str, names: Iterable[str]) -> "DataFrame":
        """Run a query that names tables. Its braces are doubled."""
        frames = {name: self._frame(name) for name in names}
        tables = ", ".join(f"{backquoted(name)} AS (SELECT * FROM {{{name}}})" for name in frames)
        return self._start().sql(f"WITH {tables} {query}", **frames)  # type: ignore[arg-type]

    def _frame(self, name: str) -> "DataFrame":
        if name not in self._frames:
            at, delta = self._views.tables[name], self._views.opened[name]
            rows = read_table(self._start(), str(at.folder), state_of(delta))
            if at.columns is not None:
                rows = rows.select(*(backquoted(column) for column in at.columns if column in rows.columns))
            self._frames[name] = rows
        return self._frames[name]


def look_at_counts(views: Views, table: str, judgements: Sequence[Judgement]) -> None:
    """Put the counts of ``judgements`` into a table of the check's database, and have each look at its own.

    Great Expectations then asks a query that finds the counts if they mean failure, and the next check of changed rows
    continues from them.
    """
    name, rows = f"{table}{COUNTS}", []
    for place, judgement in enumerate(judgements):
        counts, proof = judgement.counts or Counts(0), judgement.look.proof
        rows.append((place, counts.failed, counts.checked))
        query = f"SELECT failed, checked FROM {name} WHERE expectation = {place} AND {_failure(judgement)}"
        if judgement.has_tolerance:
            proof = replace(proof, failed=counts.failed, values=counts.checked)
        expectation = with_query(judgement.declared, query)
        judgement.look = replace(judgement.look, view=name, expectation=expectation, proof=proof)
    views.connection.execute(f"CREATE OR REPLACE TABLE {name} (expectation INTEGER, failed HUGEINT, checked HUGEINT)")
    views.connection.executemany(f"INSERT INTO {name} VALUES (?, ?, ?)", rows)


def _failure(judgement: Judgement) -> str:
    """SQL that is true if the counts ``failed`` and ``checked`` mean that the expectation failed."""
    scope, arguments = judgement.declared.by_change, judgement.declared.arguments
    if judgement.has_tolerance and isinstance(scope, Share):
        return f"100 * failed > {scope.allowed_percent} * checked"
    if "mostly" in arguments:  # in floating point, as Great Expectations computes it
        share = "(CAST(checked AS DOUBLE) - failed) / CAST(checked AS DOUBLE)"
        return f"checked > 0 AND {share} < CAST('{arguments['mostly']!r}' AS DOUBLE)"
    return "failed > 0"


def _tables_of(table: str, judgement: Judgement) -> list[str]:
    return [table, *sorted(tables_in_query(judgement.declared) - {table})]


def _translate(judgement: Judgement) -> str:
    if judgement.query is None:
        raise NotBySpark(f"{judgement.declared.kind} has no SQL")
    return to_spark(judgement.query)
