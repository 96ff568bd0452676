"""Check one layer: Great Expectations judges its expectations over DuckDB, and the result is written as a report.

Each expectation reads whole tables, or only what has changed since an earlier check that passed (by_change.py).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from time import perf_counter

from medallion.checks.by_change import (
    INSERTED,
    UNCHANGED,
    WHOLE,
    Basis,
    ChangedRows,
    Look,
    expectation_digest,
)
from medallion.checks.by_spark import COUNTS, SparkCounter, look_at_counts
from medallion.checks.context import CheckContext, bind, tables_in_query
from medallion.checks.docs_queue import keep_for_docs
from medallion.checks.findings import describe
from medallion.checks.judgement import Judgement
from medallion.checks.lean_imports import lean_imports
from medallion.checks.report_store import write_report
from medallion.checks.result import (
    BY_SPARK,
    CheckResult,
    Judged,
    TableResult,
    Validation,
    Verdict,
    slug,
)
from medallion.checks.scope_proof import QUERY
from medallion.checks.spark_sql import NotBySpark
from medallion.checks.together import failed_rows_query, join_expectations
from medallion.errors import one_line
from medallion.expect.scopes import RowCount
from medallion.expect.vocabulary import Expectation
from medallion.ops.check_records import Proof
from medallion.storage.duckdb_views import TableAt, Views, open_views
from medallion.storage.files import Place


@dataclass(frozen=True)
class CheckedLayer:
    """A layer that a run checks at an hour."""

    layer: str
    hour: str
    run_id: str
    attempt: int = 1

    @property
    def name(self) -> str:
        """The name of this run in Great Expectations."""
        return f"{self.hour} {self.layer} {slug(self.run_id)} {self.attempt}"


def run_checkpoint(
    checked: CheckedLayer,
    tables: Mapping[str, TableAt],
    *,
    suites: Mapping[str, Sequence[Expectation]],
    reports: Place,
    context: CheckContext | None = None,
) -> CheckResult:
    """Judge expectations and write the report.

    A table that cannot be read, a query that does not run and an engine that fails are failed expectations that say
    why, so the hour does not pass. Only a report that cannot be written raises.

    Args:
        checked: The layer, and the run that checks it.
        tables: Where each table is that a suite or a query names. Others are not opened.
        suites: The expectations by table.
        reports: The folder of reports.
        context: What is known beside the tables, such as an earlier check.
    """
    context = context or CheckContext()
    started_at = datetime.now(UTC)
    begun = perf_counter()
    needed = set(suites).union(*(tables_in_query(expectation) for suite in suites.values() for expectation in suite))
    with open_views({name: at for name, at in tables.items() if name in needed}) as views:
        judge = _Judge(views, context, checked.name, started_at)
        judgements = judge.judge(suites)
        results = [
            TableResult(
                table,
                views.versions.get(table),
                views.rows.get(table),
                round(judge.seconds.get(table, 0.0), 3),
                (
                    *(context.trace(describe(j.finding, views, table), table, j.declared) for j in judgements[table]),
                    *(context.trace(result, table) for result in context.judge_volumes(table, views)),
                ),
            )
            for table in suites
        ]
        result = CheckResult(
            **vars(checked),
            started_at=started_at,
            seconds=round(perf_counter() - begun, 3),
            startup_seconds=round(judge.startup_seconds, 3),
            versions=views.versions,
            table_ids=views.table_ids,
            rows=views.rows,
            tables=tuple(results),
            proofs={
                table: {
                    expectation_digest(judgement.declared): judgement.look.proof
                    for judgement in suite
                    if judgement.passed
                }
                for table, suite in judgements.items()
            },
        )
    write_report(result, reports)
    keep_for_docs(judge.judged, reports, result.page.replace("/", "-").removesuffix(".html"))
    return result


class _Judge:
    """Has Great Expectations judge the expectations of one check.

    startup_seconds: what loading it took. seconds: by table. judged: its results, for Data Docs.
    """

    def __init__(self, views: Views, context: CheckContext, run_name: str, at: datetime) -> None:
        self._views, self._run_name, self._at = views, run_name, at
        self._is_by_change = context.basis is not None
        self._spark = SparkCounter(context.spark.start, views) if context.spark else None
        self._large = context.spark.large_tables(views) if context.spark else frozenset()
        self._changed = ChangedRows(views, context.basis or Basis(), at, self._large)
        self.startup_seconds = 0.0
        self.seconds: dict[str, float] = {}
        self.judged: list[Judged] = []

    def judge(self, suites: Mapping[str, Sequence[Expectation]]) -> dict[str, list[Judgement]]:
        """Judge every expectation of each table."""
        judgements = {table: [self._plan(expectation, table) for expectation in suites[table]] for table in suites}
        self._count_by_spark(judgements)
        if self._is_by_change:
            self._ask_together(judgements)
        self._ask(judgements, self._run_name)
        again: dict[str, list[Judgement]] = {}
        for table, suite in judgements.items():
            for judgement in suite:
                if not judgement.passed and not judgement.look.is_final:
                    judgement.look = self._on_whole_table(judgement, table)
                    again.setdefault(table, []).append(judgement)
        self._count_by_spark(again)
        self._ask(again, f"{self._run_name} again")
        return judgements

    def _plan(self, expectation: Expectation, table: str) -> Judgement:
        other_tables = tables_in_query(expectation)
        judgement = Judgement(expectation, Look(WHOLE, table, None, Proof(self._at.isoformat()), is_final=True))
        for name in (table, *sorted(other_tables)):
            if name not in self._views.versions:
                why = self._views.errors.get(name, f"{name} is not among the tables of this check")
                return replace(judgement, verdict=Verdict(False, error=why))
        try:
            query = bind(expectation.arguments[QUERY], table) if QUERY in expectation.arguments else None
        except (ValueError, LookupError) as error:
            return replace(judgement, verdict=Verdict(False, error=f"its query cannot be read: {one_line(error)}"))
        judgement = replace(judgement, query=query)
        try:
            look = self._changed.look(table, expectation, other_tables)
        except Exception:  # whatever it was, the whole table is read instead
            return replace(judgement, look=self._on_whole_table(judgement, table))
        if look.way == UNCHANGED:
            return replace(judgement, look=look, verdict=Verdict(True))
        if look.is_final:
            look = replace(self._on_whole_table(judgement, table), proof=look.proof)
        return replace(judgement, look=look)

    def _on_whole_table(self, judgement: Judgement, table: str) -> Look:
        """Return a look at the whole table by the expectation's own query, which returns the failed rows."""
        judged = judgement.declared
        if judgement.query is not None:
            judged = replace(judged, arguments={**judged.arguments, QUERY: judgement.query})
        is_large = not self._large.isdisjoint({table, *tables_in_query(judgement.declared)})
        reads_rows = not isinstance(judged.by_change, RowCount)  # their number is in the footers of the files
        way = BY_SPARK if is_large and reads_rows and judgement.note is None else WHOLE
        return Look(way, table, judged, Proof(self._at.isoformat()), is_final=True)

    def _count_by_spark(self, judgements: Mapping[str, Sequence[Judgement]]) -> None:
        """Have Spark count what fails in large tables; Great Expectations then judges the counts.

        What Spark cannot run is looked at by DuckDB, with a note; if Spark breaks down, expectations have failed.
        """
        for table, suite in judgements.items():
            large = [judgement for judgement in suite if judgement.look.way == BY_SPARK]
            if not large or self._spark is None:
                continue
            begun = perf_counter()
            try:
                answers = self._spark.count(table, large)
            except Exception as error:
                for judgement in large:
                    judgement.look = replace(judgement.look, expectation=None)
                    judgement.verdict = Verdict(False, error=f"Spark broke down: {one_line(error)}")
                continue
            for judgement, counts in zip(large, answers, strict=True):
                if isinstance(counts, NotBySpark):
                    judgement.note, judgement.look = str(counts), self._by_duckdb(judgement, table)
                else:
                    judgement.counts = counts
            if with_counts := [judgement for judgement in large if judgement.counts]:
                look_at_counts(self._views, table, with_counts)
            self.seconds[table] = self.seconds.get(table, 0.0) + perf_counter() - begun

    def _by_duckdb(self, judgement: Judgement, table: str) -> Look:
        """Return a look by DuckDB at tables that are for Spark."""
        try:
            look = self._changed.whole(table, judgement.declared, by_duckdb=True)
        except Exception:  # whatever it was, Great Expectations will say so
            look = judgement.look
        return replace(judgement.look, way=WHOLE, proof=look.proof) if look.is_final else look

    def _ask_together(self, judgements: Mapping[str, Sequence[Judgement]]) -> None:
        """Have all expectations of each table judged by one query; if it finds no row, all of them have passed."""
        members: dict[str, list[Judgement]] = {}
        requested: dict[str, list[Expectation]] = {}
        for suite in judgements.values():
            queries = [(j, failed_rows_query(j.look.expectation, j.look.view)) for j in suite if j.look.expectation]
            decided = [(judgement, query) for judgement, query in queries if query is not None]
            if len(decided) > 1:
                # The query names the views that it reads, but Great Expectations opens this one too.
                view = max((judgement.look.view for judgement, _ in decided), key=len)
                members[view] = [judgement for judgement, _ in decided]
                requested[view] = [join_expectations([j.declared for j, _ in decided], [query for _, query in decided])]
        for view, (verdict,) in self._verdicts(requested, f"{self._run_name} together").items():
            if verdict.success and not verdict.error:
                for judgement in members[view]:
                    judgement.verdict = verdict

    def _ask(self, judgements: Mapping[str, Sequence[Judgement]], run_name: str) -> None:
        """Have Great Expectations judge every expectation that has not passed yet."""
        members: dict[str, list[Judgement]] = {}
        requested: dict[str, list[Expectation]] = {}
        for judgement in (judgement for suite in judgements.values() for judgement in suite):
            if judgement.look.expectation is not None and not judgement.passed:
                members.setdefault(judgement.look.view, []).append(judgement)
                requested.setdefault(judgement.look.view, []).append(judgement.look.expectation)
        for view, verdicts in self._verdicts(requested, run_name).items():
            for judgement, verdict in zip(members[view], verdicts, strict=True):
                judgement.verdict = verdict
                if judgement.counts and self._spark and not verdict.success and not verdict.error:
                    table = view.removesuffix(COUNTS)
                    judgement.verdict = self._spark.describe_failure(table, judgement, judgement.counts)

    def _verdicts(self, suites: Mapping[str, Sequence[Expectation]], run_name: str) -> Mapping[str, Sequence[Verdict]]:
        """Return the verdicts on ``suites``, expectations by view; add up the seconds and keep the results."""
        if not suites:
            return {}
        startup_seconds, validation = _validate(self._views.database, suites, run_name, self._at)
        self.startup_seconds += startup_seconds
        self.judged += validation.judged
        for view, seconds in validation.seconds.items():
            table = view.removesuffix(INSERTED).removesuffix(COUNTS)
            self.seconds[table] = self.seconds.get(table, 0.0) + seconds
        return validation.verdicts


def _validate(
    database: str, suites: Mapping[str, Sequence[Expectation]], run_name: str, at: datetime
) -> tuple[float, Validation]:
    """Return the seconds that loading Great Expectations took, and its verdicts."""
    begun = perf_counter()
    try:
        with lean_imports():
            from medallion.checks import validation  # takes seconds

        startup_seconds = perf_counter() - begun
        return startup_seconds, validation.validate(database, suites, run_name=run_name, at=at)
    except Exception as error:
        broken = Verdict(False, error=f"Great Expectations broke down: {one_line(error)}")
        verdicts = {table: [broken] * len(suite) for table, suite in suites.items()}
        return perf_counter() - begun, Validation(verdicts, dict.fromkeys(suites, 0.0))
