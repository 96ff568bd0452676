"""Functions that declare expectations as plain values, independent of Great Expectations until a checkpoint runs them.

Every function takes ``severity``: ``critical`` stops the next layer, ``warning`` is only reported. Functions about
single values also accept ``drop``, which moves failing rows to quarantine and counts them, and take
``allowed_percent``: the tolerance, 0 to 100, for sources with known errors or delays, as a share of the rows with a
value. With ``drop`` it is a share of all rows, and exceeding it is a warning; without ``allowed_percent``, a share that
jumps from its own history is a warning.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Literal

from medallion.expect.literals import duckdb_text, sql_list, with_lists
from medallion.expect.scopes import ByChange, Keys, Lookup, RowCount, Rows, Share, Sums, Tolerance
from medallion.sql_text import quoted

Severity = Literal["critical", "warning", "drop"]
_ROW_COUNT = re.compile(r"\(\s*SELECT\s+COUNT\(\*\)(?:\s+AS\s+\w+)?\s+FROM\s+\{\w+\}\s*\)", re.IGNORECASE)
NO_PERSONAL_COLUMNS = "NoPersonalColumns"  # the kind of an expectation that is judged by column lineage, not by a check
_OTHER_IN_DUCKDB = frozenset("\\{}")


@dataclass(frozen=True)
class Grouped:
    """Says that each row of a query stands for several records of the checked table.

    by: the column or columns that identify the group. count: the column with the number of records in the group.
    """

    by: str
    count: str


@dataclass(frozen=True)
class Expectation:
    """One expectation on a table.

    kind: the Great Expectations class that judges it. arguments: the keyword arguments of that class; SQL queries in
    them name tables as ``{silver_customers}``. meaning: the expectation in words, as reports show it. condition: Spark
    SQL that is true for a row that passes and null for a row without a value; None if it is not about single rows.
    by_change: what must be read to prove it again after a change; None if only whole tables prove it. allowed_share: if
    it drops rows, the share that may be dropped, 0 to 1; None if none is declared. grouped: which records a row of its
    query stands for; None if a row is one record, or if the query is about the table as a whole.
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
    """Expect a value in ``column`` of every row."""
    meaning = f"{column} is never null"
    condition = f"{column} IS NOT NULL"
    arguments = {"column": column}
    expectation = Expectation("ExpectColumnValuesToNotBeNull", arguments, meaning, severity, condition)
    return _with_tolerance(expectation, allowed_percent)


def unique(*columns: str, severity: Severity = "critical") -> Expectation:
    """Expect that no two rows have the same values in ``columns``; nulls are equal to each other."""
    names, meaning = ", ".join(map(quoted, columns)), f"{', '.join(columns)} is unique"
    # Numbering rows costs half as much as grouping by a key, if the key is unique, as is normal.
    query = f"""
        SELECT {names}, MAX(copy) AS copies
        FROM (SELECT {names}, ROW_NUMBER() OVER (PARTITION BY {names}) AS copy FROM {{batch}}) AS numbered
        WHERE copy > 1
        GROUP BY {names}
    """
    grouped = Grouped(", ".join(columns), "copies")
    return no_rows(query, meaning, severity=severity, by_change=Keys(columns), grouped=grouped)


def in_set(
    column: str, values: tuple[str, ...], *, allowed_percent: float = 0, severity: Severity = "critical"
) -> Expectation:
    """Expect every non-null value of ``column`` to be one of ``values``."""
    meaning = f"{column} is one of {', '.join(values)}"
    arguments = {"column": column, "value_set": list(values)}
    condition = f"{column} IN {sql_list(values)}"
    expectation = Expectation("ExpectColumnValuesToBeInSet", arguments, meaning, severity, condition)
    return _with_tolerance(expectation, allowed_percent)


def at_least(
    column: str, minimum: float, *, allowed_percent: float = 0, severity: Severity = "critical"
) -> Expectation:
    """Expect every non-null value of ``column`` to be ``minimum`` or more."""
    meaning = f"{column} is at least {minimum}"
    arguments = {"column": column, "min_value": minimum}
    condition = f"{column} >= {minimum}"
    expectation = Expectation("ExpectColumnValuesToBeBetween", arguments, meaning, severity, condition)
    return _with_tolerance(expectation, allowed_percent)


def between(
    column: str, minimum: float, maximum: float, *, allowed_percent: float = 0, severity: Severity = "critical"
) -> Expectation:
    """Expect every non-null value of ``column`` to lie in [minimum, maximum]."""
    meaning = f"{column} lies between {minimum} and {maximum}"
    arguments = {"column": column, "min_value": minimum, "max_value": maximum}
    condition = f"{column} BETWEEN {minimum} AND {maximum}"
    expectation = Expectation("ExpectColumnValuesToBeBetween", arguments, meaning, severity, condition)
    return _with_tolerance(expectation, allowed_percent)


def not_empty(*, severity: Severity = "critical") -> Expectation:
    """Expect the table to have at least one row."""
    kind, meaning = "ExpectTableRowCountToBeBetween", "the table is not empty"
    return Expectation(kind, {"min_value": 1}, meaning, severity, by_change=RowCount())


def no_rows(
    query: str,
    meaning: str,
    *,
    severity: Severity = "critical",
    by_change: ByChange | None = None,
    grouped: Grouped | None = None,
    values: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> Expectation:
    """Expect ``query`` to return no rows; the rows that it returns are failures, and shown as examples.

    ``{batch}`` is the checked table; other tables of this layer or below are named like ``{silver_customers}``.
    grouped: for a query that returns groups of records, what identifies a group and which column counts its records.
    values: lists of strings by upper-case name, which the query uses like ``IN {ORDER_STATUSES}``.
    """
    arguments = {"unexpected_rows_query": with_lists(query, values, duckdb_text)}
    kind = "UnexpectedRowsExpectation"
    return Expectation(kind, arguments, meaning, severity, by_change=by_change, grouped=grouped)


def no_personal_columns() -> Expectation:
    """Expect that no column copies values from a personal column of a feed.

    It is judged by column lineage before the table is refreshed, so nothing is written if it fails.
    """
    return Expectation(NO_PERSONAL_COLUMNS, {}, "no column is personal")


def adds_up(meaning: str, sums: Sums, *, severity: Severity = "critical") -> Expectation:
    """Expect the table's sums to equal those of another table."""
    return no_rows(sums.whole(), meaning, severity=severity, by_change=sums)


def refers_to(
    column: str, table: str, key: str | None = None, *, allowed_percent: float = 0, severity: Severity = "critical"
) -> Expectation:
    """Expect every non-null value of ``column`` to exist in column ``key`` (by default the same name) of ``table``."""
    key = key or column
    checked, known = f"checked.{quoted(column)}", f"known.{quoted(key)}"
    query = f"""
        SELECT {checked}, COUNT(*) AS rows_with_it
        FROM {{batch}} AS checked
        LEFT JOIN {{{table}}} AS known ON {known} = {checked}
        WHERE {known} IS NULL AND {checked} IS NOT NULL
        GROUP BY {checked}
    """
    scope: ByChange = Lookup(((table, key, column),))
    if allowed_percent:
        scope = Share(column, table, key, allowed_percent)
        query = f"""
        WITH unknown AS ({query})
        SELECT *
        FROM unknown
        WHERE 100 * (SELECT SUM(rows_with_it) FROM unknown)
            > {allowed_percent} * (SELECT COUNT({quoted(column)}) FROM {{batch}})
        ORDER BY rows_with_it DESC
    """
    meaning = _but(f"every {column} is in {table}", allowed_percent)
    return no_rows(query, meaning, severity=severity, by_change=scope, grouped=Grouped(column, "rows_with_it"))


def _with_tolerance(expectation: Expectation, percent: float) -> Expectation:
    """Return ``expectation`` with a tolerance: ``percent`` of its records may fail, or of all rows may be dropped."""
    if not percent:
        return replace(expectation, by_change=Rows())
    if expectation.severity == "drop":
        return replace(expectation, by_change=Rows(), allowed_share=percent / 100)
    arguments = {**expectation.arguments, "mostly": passing_share(percent)}
    condition = expectation.condition
    scope = Tolerance(condition, percent) if condition is not None and is_read_alike(condition) else None
    return replace(expectation, arguments=arguments, meaning=_but(expectation.meaning, percent), by_change=scope)


def passing_share(allowed_percent: float) -> float:
    """Return the share of records that must pass, 0 to 1, for a tolerance."""
    # Rounded only once, like the share of passed rows that Great Expectations compares with it.
    return float((100 - Decimal(str(allowed_percent))) / 100)


def is_read_alike(condition: str) -> bool:
    """Return whether a condition has no character that Spark and DuckDB may interpret differently."""
    return not _OTHER_IN_DUCKDB.intersection(condition)


def _but(meaning: str, allowed_percent: float) -> str:
    return f"{meaning}, tolerance {allowed_percent} %" if allowed_percent else meaning
