"""The words checks are written in: plain values, free of Great Expectations until a checkpoint runs them.

Every word takes ``severity``: ``critical`` stops the next layer, ``warning`` is reported. A word about single values
takes ``drop`` too, which keeps rows that break it out of the table, in quarantine and counted, and
``allowed_percent``: the share, 0 to 100, of the rows with a value that may break it and is no news, where a
source is known to be a little off or behind. With ``drop``, more of all rows is a warning; without
``allowed_percent``, a share that jumps from its own history is.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Literal

from medallion.expect.literals import sql_list
from medallion.expect.scopes import ByChange, Keys, Lookup, RowCount, Rows, Share, Sums, Tolerance

Severity = Literal["critical", "warning", "drop"]
_ROW_COUNT = re.compile(r"\(\s*SELECT\s+COUNT\(\*\)(?:\s+AS\s+\w+)?\s+FROM\s+\{\w+\}\s*\)", re.IGNORECASE)
NO_PERSONAL_COLUMNS = "NoPersonalColumns"  # the kind of an expectation that column lineage judges, not a check
_OTHER_IN_DUCKDB = frozenset("\\{}")


@dataclass(frozen=True)
class Grouped:
    """What one row that a query finds stands for: several records of the table under check.

    by: the column, or columns, whose values are listed. count: the column with the number of records of each.
    """

    by: str
    count: str


@dataclass(frozen=True)
class Expectation:
    """One expectation on a table.

    kind: the Great Expectations class that judges it. arguments: its keyword arguments, where the SQL of a
    query names tables as ``{silver_customers}``. meaning: the expectation in words, as reports show it. condition:
    Spark SQL, true of a row that passes, null of one without a value; None where it is not about single rows.
    by_change: what proves it again once rows have changed; None where only whole tables do. allowed_share: of an
    expectation that drops rows, the share that may be dropped, 0 to 1; None where none is declared. grouped: what a
    row that its query finds stands for; None where it is one record, or its query says something of the whole.
    """

    kind: str
    arguments: Mapping[str, Any] = field(hash=False)
    meaning: str
    severity: Severity = "critical"
    condition: str | None = None
    by_change: ByChange | None = None
    allowed_share: float | None = None
    grouped: Grouped | None = None

    def __post_init__(self) -> None:
        if self.severity == "drop" and self.condition is None:
            raise ValueError(f"{self.meaning}: no single row breaks it, so there is none to drop")
        if isinstance(self.by_change, RowCount) and not self._reads_row_counts_alone():
            raise ValueError(
                f"{self.meaning}: judged by numbers of rows, it may only have min_value, or a query that reads its"
                " tables by (SELECT COUNT(*) AS name FROM {table})"
            )
        object.__setattr__(self, "arguments", MappingProxyType(dict(self.arguments)))

    def _reads_row_counts_alone(self) -> bool:
        query = self.arguments.get("unexpected_rows_query")
        if query is None:
            return set(self.arguments) == {"min_value"}
        return "{" not in _ROW_COUNT.sub("", query)


def not_null(column: str, *, allowed_percent: float = 0, severity: Severity = "critical") -> Expectation:
    """Every row has a value in ``column``."""
    meaning = f"{column} is never null"
    condition = f"{column} IS NOT NULL"
    arguments = {"column": column}
    expectation = Expectation("ExpectColumnValuesToNotBeNull", arguments, meaning, severity, condition)
    return _with_tolerance(expectation, allowed_percent)


def unique(*columns: str, severity: Severity = "critical") -> Expectation:
    """No two rows share their values in ``columns``; nulls count as one value."""
    names = ", ".join(columns)
    # Numbering costs half of grouping by a key that is unique, as it should be.
    query = f"""
        SELECT {names}, MAX(copy) AS copies
        FROM (SELECT {names}, ROW_NUMBER() OVER (PARTITION BY {names}) AS copy FROM {{batch}}) AS numbered
        WHERE copy > 1
        GROUP BY {names}
    """
    scope = Keys(columns)
    return no_rows(query, f"{names} is unique", severity=severity, by_change=scope, grouped=Grouped(names, "copies"))


def in_set(
    column: str, values: tuple[str, ...], *, allowed_percent: float = 0, severity: Severity = "critical"
) -> Expectation:
    """Every non-null value of ``column`` is one of ``values``."""
    meaning = f"{column} is one of {', '.join(values)}"
    arguments = {"column": column, "value_set": list(values)}
    condition = f"{column} IN {sql_list(values)}"
    expectation = Expectation("ExpectColumnValuesToBeInSet", arguments, meaning, severity, condition)
    return _with_tolerance(expectation, allowed_percent)


def at_least(
    column: str, minimum: float, *, allowed_percent: float = 0, severity: Severity = "critical"
) -> Expectation:
    """Every non-null value of ``column`` is ``minimum`` or more."""
    meaning = f"{column} is at least {minimum}"
    arguments = {"column": column, "min_value": minimum}
    condition = f"{column} >= {minimum}"
    expectation = Expectation("ExpectColumnValuesToBeBetween", arguments, meaning, severity, condition)
    return _with_tolerance(expectation, allowed_percent)


def between(
    column: str, minimum: float, maximum: float, *, allowed_percent: float = 0, severity: Severity = "critical"
) -> Expectation:
    """Every non-null value of ``column`` lies in [minimum, maximum]."""
    meaning = f"{column} lies between {minimum} and {maximum}"
    arguments = {"column": column, "min_value": minimum, "max_value": maximum}
    condition = f"{column} BETWEEN {minimum} AND {maximum}"
    expectation = Expectation("ExpectColumnValuesToBeBetween", arguments, meaning, severity, condition)
    return _with_tolerance(expectation, allowed_percent)


def not_empty(*, severity: Severity = "critical") -> Expectation:
    """The table has at least one row."""
    kind, meaning = "ExpectTableRowCountToBeBetween", "the table is not empty"
    return Expectation(kind, {"min_value": 1}, meaning, severity, by_change=RowCount())


def no_rows(
    query: str,
    meaning: str,
    *,
    severity: Severity = "critical",
    by_change: ByChange | None = None,
    grouped: Grouped | None = None,
) -> Expectation:
    """``query`` finds nothing: what it would return are the offending rows, shown as examples.

    ``{batch}`` is the table under check; other tables of this layer or below are named ``{silver_customers}``. grouped:
    where it finds groups of records, what they share and which column counts them, so that records are counted.
    """
    arguments = {"unexpected_rows_query": query}
    kind = "UnexpectedRowsExpectation"
    return Expectation(kind, arguments, meaning, severity, by_change=by_change, grouped=grouped)


def no_personal_columns() -> Expectation:
    """No column has a value that is copied from a personal column of a feed.

    Judged by column lineage before the table is refreshed, so nothing is written where it fails.
    """
    return Expectation(NO_PERSONAL_COLUMNS, {}, "no column is personal")


def adds_up(meaning: str, sums: Sums, *, severity: Severity = "critical") -> Expectation:
    """The table's sums equal those of another table."""
    return no_rows(sums.whole(), meaning, severity=severity, by_change=sums)


def refers_to(
    column: str, table: str, key: str | None = None, *, allowed_percent: float = 0, severity: Severity = "critical"
) -> Expectation:
    """Every non-null value of ``column`` is a ``key`` (by default of the same name) of ``table``."""
    key = key or column
    query = f"""
        SELECT checked.{column}, COUNT(*) AS rows_with_it
        FROM {{batch}} AS checked
        LEFT JOIN {{{table}}} AS known ON known.{key} = checked.{column}
        WHERE known.{key} IS NULL AND checked.{column} IS NOT NULL
        GROUP BY checked.{column}
    """
    scope: ByChange = Lookup(((table, key, column),))
    if allowed_percent:
        scope = Share(column, table, key, allowed_percent)
        query = f"""
        WITH unknown AS ({query})
        SELECT *
        FROM unknown
        WHERE 100 * (SELECT SUM(rows_with_it) FROM unknown)
            > {allowed_percent} * (SELECT COUNT({column}) FROM {{batch}})
        ORDER BY rows_with_it DESC
    """
    meaning = _but(f"every {column} is in {table}", allowed_percent)
    return no_rows(query, meaning, severity=severity, by_change=scope, grouped=Grouped(column, "rows_with_it"))


def _with_tolerance(expectation: Expectation, percent: float) -> Expectation:
    """Return ``expectation`` with ``percent`` of its records allowed to fail, or of all rows to be dropped."""
    if not percent:
        return replace(expectation, by_change=Rows())
    if expectation.severity == "drop":
        return replace(expectation, by_change=Rows(), allowed_share=percent / 100)
    # Rounded once, like the share of passed rows that Great Expectations compares with it.
    arguments = {**expectation.arguments, "mostly": float((100 - Decimal(str(percent))) / 100)}
    condition = expectation.condition
    scope = Tolerance(condition, percent) if condition is not None and is_read_alike(condition) else None
    return replace(expectation, arguments=arguments, meaning=_but(expectation.meaning, percent), by_change=scope)


def is_read_alike(condition: str) -> bool:
    """Whether a condition has no character by which Spark and DuckDB may read another value."""
    return not _OTHER_IN_DUCKDB.intersection(condition)


def _but(meaning: str, allowed_percent: float) -> str:
    return f"{meaning}, tolerance {allowed_percent} %" if allowed_percent else meaning
