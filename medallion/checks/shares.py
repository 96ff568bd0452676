"""Expectations that some rows may fail: how many do, and how many are judged, in whole tables and by change."""

from typing import TYPE_CHECKING

from medallion.expect.scopes import Counted, Tolerance

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def count(connection: "DuckDBPyConnection", table: str, scope: Counted) -> tuple[int, int]:
    """The rows of a whole table that fail an expectation, and all that it judges."""
    if isinstance(scope, Tolerance):
        return _read_pair(connection, f"{_counts(scope)} FROM {table}")
    known = f'SELECT 1 FROM {scope.table} AS known WHERE known."{scope.key}" = checked."{scope.column}"'
    return _read_pair(
        connection,
        f"SELECT COUNT(*) FILTER (NOT EXISTS ({known})), COUNT(*) FROM {table} AS checked"
        f' WHERE "{scope.column}" IS NOT NULL',
    )


def count_change(connection: "DuckDBPyConnection", table: str, scope: Counted) -> tuple[int, int]:
    """What the rows that were inserted and deleted add to both counts.

    With n rows and m known rows of a key, now and before, a key counts n where m is 0: so keys that became known
    or unknown count with all of their rows, and the others with the rows that changed.
    """
    if isinstance(scope, Tolerance):
        (failed, values), (former_failed, former_values) = (
            _read_pair(connection, f"{_counts(scope)} FROM {table}__{side}") for side in ("inserted", "deleted")
        )
        return failed - former_failed, values - former_values
    return _read_pair(connection, _RECOUNT.format(table=table, column=scope.column, known=scope.table, key=scope.key))


def share_query(scope: Counted, failed: int, values: int) -> str:
    """The query that finds a row when more of the judged rows failed than the expectation allows."""
    condition = f"100 * {failed}::HUGEINT > {scope.allowed_percent} * {values}::HUGEINT"
    return f"SELECT {failed} AS failed, {values} AS checked WHERE {condition}"


def _counts(scope: Tolerance) -> str:
    return f"SELECT COUNT(*) FILTER (WHERE NOT ({scope.condition})), COUNT({scope.condition})"


def _read_pair(connection: "DuckDBPyConnection", query: str) -> tuple[int, int]:
    first, second = connection.execute(query).fetchall()[0]
    return first, second


_RECOUNT = """
    WITH changed AS MATERIALIZED (
        SELECT key, SUM(step) AS step
        FROM (
            SELECT "{column}" AS key, 1 AS step FROM {table}__inserted
            UNION ALL SELECT "{column}", -1 FROM {table}__deleted
        )
        WHERE key IS NOT NULL
        GROUP BY key
    ),
    moved AS MATERIALIZED (
        SELECT key, SUM(step) AS step
        FROM (
            SELECT "{key}" AS key, 1 AS step FROM {known}__inserted
            UNION ALL SELECT "{key}", -1 FROM {known}__deleted
        )
        WHERE key IS NOT NULL
        GROUP BY key
    ),
    sought AS MATERIALIZED (SELECT key FROM changed UNION SELECT key FROM moved),
    present AS (
        SELECT "{key}" AS key, COUNT(*) AS known FROM {known} WHERE "{key}" IN (SELECT key FROM sought) GROUP BY ALL
    ),
    states AS MATERIALIZED (
        SELECT
            sought.key,
            COALESCE(present.known, 0) = 0 AS is_unknown,
            COALESCE(present.known, 0) - COALESCE(moved.step, 0) = 0 AS was_unknown,
            COALESCE(changed.step, 0) AS step
        FROM sought
        LEFT JOIN present ON present.key = sought.key
        LEFT JOIN moved ON moved.key = sought.key
        LEFT JOIN changed ON changed.key = sought.key
    ),
    flipped AS MATERIALIZED (SELECT key, is_unknown FROM states WHERE is_unknown <> was_unknown),
    of_flipped AS (
        SELECT COALESCE(SUM(CASE WHEN flipped.is_unknown THEN 1 ELSE -1 END), 0) AS failed
        FROM {table} AS checked
        INNER JOIN flipped ON flipped.key = checked."{column}"
    ),
    of_changed AS (
        SELECT COALESCE(SUM(CASE WHEN was_unknown THEN step END), 0) AS failed, COALESCE(SUM(step), 0) AS counted
        FROM states
    )
    SELECT CAST(of_flipped.failed + of_changed.failed AS BIGINT), CAST(of_changed.counted AS BIGINT)
    FROM of_flipped CROSS JOIN of_changed
"""
