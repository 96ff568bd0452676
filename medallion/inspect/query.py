"""Read published releases with DuckDB, without a JVM: any SELECT over a release, and the difference of two releases."""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from medallion.errors import UsageError
from medallion.model.registry import Registry
from medallion.model.table import Node
from medallion.ops.releases import Release
from medallion.storage.duckdb_views import open_sealed_views
from medallion.storage.lake import Lake
from medallion.storage.named_versions import NamedVersion, open_named

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


REMEMBERED = 512  # number of cached table differences


@dataclass(frozen=True)
class TableDiff:
    """The difference of a table between two releases: numbers of keys inserted, deleted and updated."""

    table: str
    added: int
    removed: int
    changed: int

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)


@contextmanager
def open_release(lake: Lake, release: Release, names: Collection[str] | None = None) -> Iterator["DuckDBPyConnection"]:
    """Open a connection with a view per table, at the versions of ``release``; of the tables ``names``, or of all.

    The connection can read the data files of this release and nothing else, and cannot write. Raises MedallionError if
    a table cannot be read at its version.
    """
    tables = {table: open_named(lake, _require_version(release, table)) for table in names or release.versions}
    with open_sealed_views(lake, tables) as connection:
        yield connection


def select(connection: "DuckDBPyConnection", sql: str) -> "DuckDBPyConnection":
    """Run one SELECT, or EXPLAIN or EXPLAIN ANALYZE of one.

    Raises UsageError for any other statement, and if the query fails, with DuckDB's message.
    """
    import duckdb

    try:
        return connection.execute(_one_select(connection, sql))
    except duckdb.Error as error:
        raise UsageError(f"the query fails: {error}") from None


def _one_select(connection: "DuckDBPyConnection", sql: str) -> str:
    """Return ``sql`` if it is one SELECT, or EXPLAIN of one, whose SELECT is then parsed separately.

    DuckDB serializes only SELECT statements, so a statement that it serializes can write only through a function call.
    """
    explain = _EXPLAIN.match(sql)
    inner = sql[explain.end() :] if explain else sql
    ((form,),) = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [inner]).fetchall()
    parsed = json.loads(form)
    if parsed["error"] and parsed["error_type"] == "parser":
        raise UsageError(f"the query fails: {parsed['error_message']}")
    if len(parsed.get("statements", ())) != 1:
        raise UsageError(
            "a release can only be read: give one SELECT, or EXPLAIN or EXPLAIN ANALYZE of one, and no other statement"
        )
    if other := sorted(set(_names(parsed, "TABLE_FUNCTION", "function_name")) - _TABLE_FUNCTIONS):
        raise UsageError(f"a query reads the tables of its release alone, so {other[0]}() cannot be used in it")
    if other := sorted(set(_names(parsed, "FUNCTION", "function_name")) & _MACHINE_FUNCTIONS):
        raise UsageError(f"a query reads the tables of its release alone, so {other[0]}() cannot be used in it")
    if other := sorted(set(_names(parsed, "BASE_TABLE", "table_name")) & _MACHINE_VIEWS):
        raise UsageError(f"a query reads the tables of its release alone, so {other[0]} cannot be read in it")
    analyze = "ANALYZE " if explain and explain["analyze"] else ""
    return f"EXPLAIN {analyze}{inner}" if explain else inner


_EXPLAIN = re.compile(
    r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)*EXPLAIN\b(?:\s|--[^\n]*\n|/\*.*?\*/)*(?P<analyze>ANALYZE\b)?", re.I | re.S
)
# Table functions that are not listed may read files, run generated SQL, write logs or take memory addresses.
_TABLE_FUNCTIONS = frozenset(
    {
        *("duckdb_columns", "duckdb_functions", "duckdb_tables", "duckdb_types", "duckdb_views", "generate_series"),
        *("json_each", "json_tree", "pg_timezone_names", "pragma_table_info", "pragma_version", "range", "repeat"),
        *("repeat_row", "summary", "unnest"),
    }
)
# These reveal settings and folders of the machine, or do something other than compute a value.
_MACHINE_FUNCTIONS = frozenset({"current_setting", "getvariable", "pg_sleep", "sleep_ms", "write_log"})
_MACHINE_VIEWS = frozenset({"duckdb_databases", "duckdb_logs", "pg_settings", "pragma_database_list"})


def _names(parsed: Any, kind: str, field: str) -> Iterator[str]:
    """Yield, in lower case, the name in ``field`` of every node of a ``kind`` anywhere in a parsed query."""
    if isinstance(parsed, dict):
        if kind in (parsed.get("type"), parsed.get("class")):
            yield str((parsed["function"] if kind == "TABLE_FUNCTION" else parsed)[field]).lower()
        parsed = [*parsed.values()]
    if isinstance(parsed, list):
        for part in parsed:
            yield from _names(part, kind, field)


def digest(connection: "DuckDBPyConnection", relation: str, types: Mapping[str, str] | None = None) -> tuple[int, Any]:
    """Return the number of rows of a view or table and the sum of their hashes, which is equal for rows in any order.

    types: the types to which columns are cast before hashing, by name; by default they are not cast.
    """
    columns = ", ".join(f'CAST("{name}" AS {kind})' for name, kind in types.items()) if types else "t"
    ((count, hashes),) = connection.execute(f"SELECT COUNT(*), SUM(HASH({columns})) FROM {relation} AS t").fetchall()  # noqa: S608 (declared names)
    return count, hashes


def types_of(connection: "DuckDBPyConnection", relation: str) -> dict[str, str]:
    """Return the types of the columns of a view or table, by name."""
    return {name: kind for name, kind, *_ in connection.execute(f"DESCRIBE {relation}").fetchall()}


def diff(lake: Lake, old: Release, new: Release, tables: Registry) -> Iterator[TableDiff]:
    """Yield the difference of each table between two releases, in dependency order; equal versions are not read."""
    for table in tables:
        if table.name not in old.versions or table.name not in new.versions or _same_version(old, new, table.name):
            yield TableDiff(table.name, 0, 0, 0)
            continue
        yield _diff_table(lake, _require_version(old, table.name), _require_version(new, table.name), table.keys)


@lru_cache(REMEMBERED)
def _diff_table(lake: Lake, old: NamedVersion, new: NamedVersion, keys: tuple[str, ...]) -> TableDiff:
    """Return the difference of two versions of a table; it can be cached because versions never change."""
    with _two(lake, old, new) as (connection, difference):
        on = " AND ".join(f'gone."{key}" IS NOT DISTINCT FROM come."{key}"' for key in keys)
        counts = "SELECT (SELECT COUNT(*) FROM come), (SELECT COUNT(*) FROM gone), COUNT(*) FROM gone JOIN come ON "
        added, removed, changed = connection.execute(difference + counts + on).fetchall()[0]
    return TableDiff(old.table, added - changed, removed - changed, changed)


def diff_rows(lake: Lake, old: Release, new: Release, table: Node, limit: int) -> tuple[list[str], list[Any]]:
    """Return the first ``limit`` differing rows of one table, ordered by key: the column names, then the rows.

    The first column is ``-`` for an old row and ``+`` for a new row; a changed row appears as both.
    """
    sides = _require_version(old, table.name), _require_version(new, table.name)
    with _two(lake, *sides) as (connection, difference):
        order = ", ".join(f'"{key}"' for key in table.keys)
        both = "SELECT '-' AS side, * FROM gone UNION ALL SELECT '+', * FROM come"
        cursor = connection.execute(f"{difference} {both} ORDER BY {order}, side DESC LIMIT {int(limit)}")
        return [name for name, *_ in cursor.description or ()], cursor.fetchall()


def _same_version(old: Release, new: Release, table: str) -> bool:
    """Return whether both releases have the same version of the same table, as far as that is recorded."""
    known = old.table_ids.get(table), new.table_ids.get(table)
    return old.versions[table] == new.versions[table] and known[0] == known[1]


def _require_version(release: Release, table: str) -> NamedVersion:
    version = release.version_of(table)
    if version is None:
        raise UsageError(
            f"release {release.release_id} has no table {table}: medallion release show lists those it has"
        )
    return version


@contextmanager
def _two(lake: Lake, old: NamedVersion, new: NamedVersion) -> Iterator[tuple["DuckDBPyConnection", str]]:
    """Open both versions of a table, with the WITH clause of ``gone`` and ``come``: rows of the old or new side only.

    Both sides get all columns that either has. Rows are compared as a whole, and nulls are equal. Keys are unique, so
    set operations are enough.
    """
    sides = {side: open_named(lake, version) for side, version in (("old", old), ("new", new))}
    with open_sealed_views(lake, sides) as connection:
        columns = {side: types_of(connection, side) for side in sides}
        every = columns["new"] | columns["old"]

        def rows(side: str) -> str:
            fields = [f'"{c}"' if c in columns[side] else f'NULL AS "{c}"' for c in every]
            return f"SELECT {', '.join(fields)} FROM {side}"  # noqa: S608 (declared names)

        yield (
            connection,
            f"""
            WITH gone AS MATERIALIZED ({rows("old")} EXCEPT {rows("new")}),
            come AS MATERIALIZED ({rows("new")} EXCEPT {rows("old")})
        """,
        )
