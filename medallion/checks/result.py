"""The result of a check as plain values, from which its page, its JSON and its events are made."""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from medallion.counts import counted
from medallion.expect.vocabulary import Severity
from medallion.ops.check_records import Proof
from medallion.ops.event_schema import WORST_FIRST, Status

EXAMPLES = 5  # failing rows kept for each expectation
_COLUMNS = 8  # columns kept of each of these rows
BY_SPARK = "whole table by Spark"  # what was looked at
_CELL = 120  # characters kept of each value


@dataclass(frozen=True)
class Verdict:
    """The verdict of Great Expectations on one expectation.

    If it failed and counts rows, unexpected is the number of failing rows, percent their share of the rows with a
    value, and rows has some of them. error: why there is no verdict. records: the records in the groups that a query
    returned, where Spark counted them.
    """

    success: bool
    unexpected: int | None = None
    percent: float | None = None
    rows: Sequence[Mapping[str, Any]] = ()
    error: str | None = None
    records: int | None = None


@dataclass(frozen=True)
class Judged:
    """The JSON that Great Expectations returned for one suite, and its key in their store (suite, run, time, batch)."""

    key: tuple[str, ...]
    content: str


@dataclass(frozen=True)
class Validation:
    """The verdicts on each table, in the order of its suite, and the seconds that each table took.

    judged: the results from which Data Docs are built.
    """

    verdicts: Mapping[str, Sequence[Verdict]]
    seconds: Mapping[str, float]
    judged: tuple[Judged, ...] = ()


@dataclass(frozen=True)
class ExpectationResult:
    """The result of one expectation.

    observed: what was found, in words, such as ``3 of 650,000 rows``. unexpected_count: the number of failing rows.
    unexpected_percent: their share of the rows with a value, 0 to 100. Both are None if the expectation counts no rows.
    examples: a few failing rows, column to value as text, null as None. query: its SQL, if it is a query. error: why
    there is no verdict; the expectation then counts as failed. looked_at: the rows that were read: those of the whole
    table, the changed ones, or none because none has changed since it passed. records: the number of records judged, if
    these are not the rows of the table. measure: the number that later checks compare with, if it has a history.
    origins: if it failed, the lines of change files that may be the cause, in words. note: why DuckDB judged it,
    although it reads a large table.
    """

    meaning: str
    kind: str
    severity: Severity
    success: bool
    observed: str
    unexpected_count: int | None = None
    unexpected_percent: float | None = None
    examples: tuple[Mapping[str, str | None], ...] = ()
    query: str | None = None
    error: str | None = None
    looked_at: str = "whole table"
    records: int | None = None
    measure: float | None = None
    origins: tuple[str, ...] = ()
    note: str | None = None

    @property
    def status(self) -> Status:
        """Return the status; an expectation without a verdict has failed, whatever its severity."""
        if self.success:
            return "succeeded"
        return "warned" if self.severity == "warning" and self.error is None else "failed"


@dataclass(frozen=True)
class TableResult:
    """The verdicts on one table. version: its Delta version, None if it cannot be read, as for rows. seconds: wall."""

    table: str
    version: int | None
    rows: int | None
    seconds: float
    expectations: tuple[ExpectationResult, ...]

    @property
    def status(self) -> Status:
        """Return the status of the worst of its expectations."""
        return worst(expectation.status for expectation in self.expectations)

    @property
    def is_by_spark(self) -> bool:
        """Whether Spark read the table, because it is large."""
        return any(expectation.looked_at == BY_SPARK for expectation in self.expectations)

    def counts(self) -> dict[str, dict[str, int | str | None]]:
        """Return status, severity, and numbers of passed and failed records, by meaning of the expectation.

        A number is None if it is unknown. An expectation that is judged by its history also has what was observed.
        """
        counts: dict[str, dict[str, int | str | None]] = {}
        for result in self.expectations:
            failed = None if result.error else result.unexpected_count or 0
            records = self.rows if result.records is None else result.records
            passed = None if records is None or failed is None else max(0, records - failed)
            counts[result.meaning] = {
                "status": result.status,
                "severity": result.severity,
                "passed": passed,
                "failed": failed,
            }
            if result.measure is not None:
                counts[result.meaning]["observed"] = result.observed
        return counts


@dataclass(frozen=True)
class CheckResult:
    """The verdict on one layer.

    versions, table_ids, rows: those of every table that was read, also for comparison only. started_at: UTC. seconds:
    wall time up to the verdict. startup_seconds: the part of it that loading Great Expectations took. proofs: the
    expectations that passed, by table and digest.
    """

    layer: str
    hour: str
    run_id: str
    attempt: int
    started_at: datetime
    seconds: float
    startup_seconds: float
    versions: Mapping[str, int]
    tables: tuple[TableResult, ...]
    table_ids: Mapping[str, str] = field(default_factory=dict)
    rows: Mapping[str, int] = field(default_factory=dict)
    proofs: Mapping[str, Mapping[str, Proof]] = field(default_factory=dict)

    @property
    def page(self) -> str:
        """The path of its page in the folder of reports. Its JSON has the same name with .json."""
        return f"{self.hour}/{self.layer}-{slug(self.run_id)}-{self.attempt}.html"

    @property
    def status(self) -> Status:
        """Return ``failed`` if a critical expectation failed or one was not judged, ``warned`` for warnings alone."""
        return worst(table.status for table in self.tables)

    @property
    def failures(self) -> list[tuple[str, ExpectationResult]]:
        """Return each expectation that failed with its table, the worst first."""
        return [
            (table.table, expectation)
            for status in WORST_FIRST[:-1]
            for table in self.tables
            for expectation in table.expectations
            if expectation.status == status
        ]

    @property
    def not_by_spark(self) -> list[tuple[str, ExpectationResult]]:
        """Return each expectation that DuckDB judged on a large table, as Spark could not, with its table."""
        return [(table.table, line) for table in self.tables for line in table.expectations if line.note]

    def summary(self, *, with_data: bool = True) -> str:
        """Return one line: the first failure and how many more there are, or how much passed.

        with_data: whether it may quote values, as errors of an engine and lines of a change file do.
        """
        failures = self.failures
        if not failures:
            expectations = sum(len(table.expectations) for table in self.tables)
            tables = counted(len(self.tables), "table")
            return f"{self.layer} check: all {expectations} expectations on {tables} passed"
        table, first = failures[0]
        alike = sum(expectation.status == first.status for _, expectation in failures)
        warnings = len(failures) - alike  # beside what failed
        more = f", and {alike - 1} more" if alike > 1 else ""
        if warnings:
            more += f", and {warnings:,} warned"
        origin = f"; {first.origins[0]}" if first.origins and with_data else ""
        why = (first.error if with_data else "it could not be judged") if first.error else first.observed
        return f"{self.layer} check {self.status}: {table}: {first.meaning}: {why}{more}{origin}"

    def details(self) -> list[str]:
        """Return lines for the log: rows dropped by design, what Spark did not judge, and failures with records."""
        lines = [
            f"{table.table}: {result.meaning}: {result.observed}"
            for table in self.tables
            for result in table.expectations
            if result.success and result.records is not None and result.unexpected_count
        ]
        lines += [
            f"{table}: {result.meaning}: judged by DuckDB instead of Spark: {result.note}"
            for table, result in self.not_by_spark
        ]
        for table, result in self.failures:
            lines.append(f"{result.status}  {table}: {result.meaning}: {result.error or result.observed}")
            lines += [f"  in the changes of this hour: {origin}" for origin in result.origins]
            for example in result.examples[:3]:
                lines.append("  such as " + ", ".join(f"{name} {value}" for name, value in example.items()))
        return lines

    def to_dict(self) -> dict[str, Any]:
        """Return the whole result with its statuses, ready for JSON. Report pages are made from nothing else."""
        result = asdict(self) | {"status": self.status, "page": self.page, "started_at": self.started_at.isoformat()}
        del result["proofs"]  # the next check reads them from the record of this one
        for entry, table in zip(result["tables"], self.tables, strict=True):
            entry["status"] = table.status
            for line, expectation in zip(entry["expectations"], table.expectations, strict=True):
                line["status"] = expectation.status
        return result


def to_example(row: Mapping[str, Any], first: str | None) -> dict[str, str | None]:
    """Return the first columns of a failing row as texts, with the column ``first`` before all others."""
    columns = [first, *(column for column in row if column != first)] if first in row else list(row)
    return {column: _cell(row[column]) for column in columns[:_COLUMNS] if column is not None}


def _cell(value: Any) -> str | None:
    if value is None:
        return None
    text = str(value)
    return text if len(text) <= _CELL else f"{text[: _CELL - 1]}…"


def worst(statuses: Iterator[Status]) -> Status:
    """Return the worst of ``statuses``, or succeeded if there are none."""
    return min(statuses, key=WORST_FIRST.index, default="succeeded")


def slug(run_id: str) -> str:
    """Return a run id as part of a file name. Different ids stay different: one that had to change gets a hash."""
    plain = re.sub(r"[^A-Za-z0-9_.-]", "-", run_id)[:80]
    # An id that ends like such a hash gets one too, or it could equal that of another run.
    if plain == run_id and not re.search(r"-[0-9a-f]{10}$", plain):
        return plain
    return f"{plain}-{hashlib.sha256(run_id.encode()).hexdigest()[:10]}"
