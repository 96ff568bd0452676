"""The words checks are written in: plain values, free of Great Expectations until a checkpoint runs them.

Every word takes ``severity``: ``critical`` stops the next layer, ``warning`` is reported.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

Severity = Literal["critical", "warning"]


@dataclass(frozen=True)
class Expectation:
    """One promise about a table.

    kind: the Great Expectations class that judges it. arguments: its keyword arguments, where the SQL of a
    query names tables as ``{silver_customers}``. meaning: the promise in words, as reports show it.
    """

    kind: str
    arguments: Mapping[str, Any] = field(hash=False)
    meaning: str
    severity: Severity = "critical"

    def __post_init__(self) -> None:
        object.__setattr__(self, "arguments", MappingProxyType(dict(self.arguments)))


def not_null(column: str, *, severity: Severity = "critical") -> Expectation:
    """Every row has a value in ``column``."""
    return Expectation("ExpectColumnValuesToNotBeNull", {"column": column}, f"{column} is never null", severity)


def unique(*columns: str, severity: Severity = "critical") -> Expectation:
    """No two rows share their values in ``columns``; nulls count as one value."""
    listed = ", ".join(columns)
    # Numbering costs half of grouping by a key that is unique, as it should be.
    query = f"""
        SELECT {listed}, MAX(copy) AS copies
        FROM (SELECT {listed}, ROW_NUMBER() OVER (PARTITION BY {listed}) AS copy FROM {{batch}}) AS numbered
        WHERE copy > 1
        GROUP BY {listed}
    """
    return Expectation("UnexpectedRowsExpectation", {"unexpected_rows_query": query}, f"{listed} is unique", severity)


def in_set(column: str, values: tuple[str, ...], *, severity: Severity = "critical") -> Expectation:
    """Every non-null value of ``column`` is one of ``values``."""
    meaning = f"{column} is one of {', '.join(values)}"
    return Expectation("ExpectColumnValuesToBeInSet", {"column": column, "value_set": list(values)}, meaning, severity)


def at_least(column: str, minimum: float, *, severity: Severity = "critical") -> Expectation:
    """Every non-null value of ``column`` is ``minimum`` or more."""
    arguments = {"column": column, "min_value": minimum}
    return Expectation("ExpectColumnValuesToBeBetween", arguments, f"{column} is at least {minimum}", severity)


def between(column: str, minimum: float, maximum: float, *, severity: Severity = "critical") -> Expectation:
    """Every non-null value of ``column`` lies in [minimum, maximum]."""
    arguments = {"column": column, "min_value": minimum, "max_value": maximum}
    meaning = f"{column} lies between {minimum} and {maximum}"
    return Expectation("ExpectColumnValuesToBeBetween", arguments, meaning, severity)


def not_empty(*, severity: Severity = "critical") -> Expectation:
    """The table has at least one row."""
    return Expectation("ExpectTableRowCountToBeBetween", {"min_value": 1}, "the table is not empty", severity)


def no_rows(query: str, meaning: str, *, severity: Severity = "critical") -> Expectation:
    """``query`` finds nothing: what it would return are the offending rows, shown as examples.

    ``{batch}`` is the table under check; other tables of this layer or below are named ``{silver_customers}``.
    """
    return Expectation("UnexpectedRowsExpectation", {"unexpected_rows_query": query}, meaning, severity)


def refers_to(
    column: str, table: str, key: str | None = None, *, allowed_percent: float = 0, severity: Severity = "critical"
) -> Expectation:
    """Every non-null value of ``column`` is a ``key`` (by default of the same name) of ``table``.

    allowed_percent: the share of rows that may break this before the promise counts as broken, where the source
    is known to be a little behind.
    """
    key = key or column
    unknown = f"""
        SELECT checked.{column}, COUNT(*) AS rows_with_it
        FROM {{batch}} AS checked
        LEFT JOIN {{{table}}} AS known ON known.{key} = checked.{column}
        WHERE known.{key} IS NULL AND checked.{column} IS NOT NULL
        GROUP BY checked.{column}
    """
    if not allowed_percent:
        return no_rows(unknown, f"every {column} is in {table}", severity=severity)
    tolerant = f"""
        WITH unknown AS ({unknown})
        SELECT *
        FROM unknown
        WHERE 100 * (SELECT SUM(rows_with_it) FROM unknown)
            > {allowed_percent} * (SELECT COUNT({column}) FROM {{batch}})
        ORDER BY rows_with_it DESC
    """
    return no_rows(tolerant, f"at most {allowed_percent} % of rows have a {column} not in {table}", severity=severity)
