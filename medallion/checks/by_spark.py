"""Have Spark count what fails in tables that are too large for one machine.

Great Expectations still judges: it asks a query over the counts, which are put into a small table of the check's own
database. Spark reads the tables at the versions, and with the columns, that the views of this check have.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from medallion.checks.by_change import with_query
from medallion.checks.context import tables_in_query
from medallion.checks.result import EXAMPLES, Verdict
from medallion.checks.scope_proof import why_unproven
from medallion.checks.spark_sql import NotBySpark, share_query, to_spark
from medallion.errors import one_line
from medallion.expect.scopes import Counted, Share
from medallion.expect.vocabulary import Expectation
from medallion.spark.collect import quoted
from medallion.spark.delta_reads import read_table
from medallion.storage.duckdb_views import Views
from medallion.storage.lake import state_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COUNTS = "__counts"  # the end of the name of a table of what Spark counted


class Asked(NamedTuple):
    """An expectation, and its query with the names of tables in the place of placeholders, if it is a query."""

    expectation: Expectation
    query: str | None

    @property
    def is_counted(self) -> bool:
        """Whether the next check of changed rows continues from the numbers of failed rows and of rows with a value."""
        return isinstance(self.expectation.by_change, Counted) and why_unproven(self.expectation) is None

    @property
    def failure(self) -> str:
        """SQL that is true if the counts ``failed`` and ``checked`` mean that the expectation failed."""
        scope = self.expectation.by_change
        if self.is_counted and isinstance(scope, Share):
            return f"100 * failed > {scope.allowed_percent} * checked"
        if "mostly" in self.expectation.arguments:  # in floating point, as Great Expectations computes it
            mostly = f"CAST('{self.expectation.arguments['mostly']!r}' AS DOUBLE)"
            return f"checked > 0 AND (CAST(checked AS DOUBLE) - failed) / CAST(checked AS DOUBLE) < {mostly}"
        return "failed > 0"


@dataclass(frozen=True)
class Counts:
    """What Spark counted for one expectation.

    failed: the failed rows, or the rows that its query returns. checked: the rows with a value; None for a query.
    records: the records in the groups that its query returns; None if each row is one record.
    """

    failed: int
    checked: int | None = None
    records: int | None = None


class SparkCounter:
    """Counts what fails in the tables of one check. start: returns the session, and starts it when first called."""

    def __init__(self, start: "Callable[[], SparkSession]", views: Views) -> None:
        self._start, self._views = start, views
        self._frames: dict[str, DataFrame] = {}
        self._broken: Exception | None = None

    def count(self, table: str, asked: Sequence[Asked]) -> list[Counts | NotBySpark]:
        """Return the counts for each expectation on ``table``; those with a condition are counted in one scan.

        Raises the error of a Spark that does not start, or that ends.
        """
        self._require_started()
        conditions = [each for each in asked if each.expectation.condition is not None]
        by_condition = iter(self._count_conditions(table, conditions))
        return [next(by_condition) if each in conditions else self._count_query(table, each) for each in asked]

    def describe_failure(self, table: str, failed: Asked, counts: Counts) -> Verdict:
        """Return the verdict on an expectation that failed: how many rows, and a few of them as a hint for readers."""
        condition = failed.expectation.condition
        if condition is not None:
            percent = counts.failed / counts.checked * 100 if counts.checked else None
            rows = self._examples(f"SELECT * FROM {quoted(table)} WHERE NOT ({condition})", [table])
            return Verdict(False, counts.failed, percent, rows)
        query, names = _translate(failed), _tables_of(table, failed)
        if failed.is_counted:  # by its rows so far, not by the groups that its query returns
            with suppress(Exception):
                counts = self._count_rows(query, names, failed.expectation)
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

    def _count_conditions(self, table: str, asked: Sequence[Asked]) -> list[Counts | NotBySpark]:
        from pyspark.errors import AnalysisException, PySparkException

        if not asked:
            return []
        conditions = [each.expectation.condition for each in asked]
        sums = ", ".join(f"COUNT_IF(NOT ({condition})), COUNT({condition})" for condition in conditions)
        try:
            values = self._first(f"SELECT {sums} FROM {quoted(table)}", [table])
        except AnalysisException as error:
            if len(asked) == 1:
                return [NotBySpark(one_line(error))]
            return [counts for each in asked for counts in self._count_conditions(table, [each])]
        except PySparkException as error:
            return [NotBySpark(one_line(error))] * len(asked)
        return [Counts(*pair) for pair in zip(values[::2], values[1::2], strict=True)]

    def _count_query(self, table: str, asked: Asked) -> Counts | NotBySpark:
        from pyspark.errors import PySparkException

        scope, names = asked.expectation.by_change, _tables_of(table, asked)
        try:
            if asked.is_counted and isinstance(scope, Share):
                return Counts(*self._first(share_query(table, scope), names))
            return self._count_rows(_translate(asked), names, asked.expectation)
        except NotBySpark as error:
            return error
        except PySparkException as error:
            return NotBySpark(one_line(error))

    def _count_rows(self, query: str, names: Iterable[str], expectation: Expectation) -> Counts:
        """Count the rows that a query returns, and the records that they stand for."""
        grouped = expectation.grouped
        records = f", CAST(SUM({quoted(grouped.count)}) AS BIGINT)" if grouped else ""
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
        tables = ", ".join(f"{quoted(name)} AS (SELECT * FROM {{{name}}})" for name in frames)
        return self._start().sql(f"WITH {tables} {query}", **frames)  # type: ignore[arg-type]

    def _frame(self, name: str) -> "DataFrame":
        if name not in self._frames:
            at, delta = self._views.tables[name], self._views.opened[name]
            rows = read_table(self._start(), str(at.folder), state_of(delta))
            if at.columns is not None:
                rows = rows.select(*(quoted(column) for column in at.columns if column in rows.columns))
            self._frames[name] = rows
        return self._frames[name]


def by_counts(views: Views, table: str, counted: Sequence[tuple[Asked, Counts]]) -> tuple[str, list[Expectation]]:
    """Put counts into a table of the check's database; return its name, and expectations on it for each.

    The query of such an expectation finds the counts if they mean that the declared one failed.
    """
    name = f"{table}{COUNTS}"
    views.connection.execute(f"CREATE OR REPLACE TABLE {name} (expectation INTEGER, failed HUGEINT, checked HUGEINT)")
    rows = [(place, counts.failed, counts.checked) for place, (_, counts) in enumerate(counted)]
    views.connection.executemany(f"INSERT INTO {name} VALUES (?, ?, ?)", rows)
    query = f"SELECT failed, checked FROM {name} WHERE expectation = {{}} AND {{}}"
    return name, [
        with_query(asked.expectation, query.format(at, asked.failure)) for at, (asked, _) in enumerate(counted)
    ]


def _tables_of(table: str, asked: Asked) -> list[str]:
    return [table, *sorted(tables_in_query(asked.expectation) - {table})]


def _translate(asked: Asked) -> str:
    if asked.query is None:
        raise NotBySpark(f"{asked.expectation.kind} has no SQL")
    return to_spark(asked.query)
