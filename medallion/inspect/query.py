"""Reading published releases with DuckDB, without a JVM: any SELECT over one, and the difference of two."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from medallion.errors import MedallionError, UsageError
from medallion.model.registry import Node, Registry
from medallion.ops.releases import Release
from medallion.storage import files
from medallion.storage.duckdb_views import TableAt, open_views
from medallion.storage.lake import Lake

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


@dataclass(frozen=True)
class TableDiff:
    """One table of two releases: how many keys came, went, and hold another row than before."""

    table: str
    added: int
    removed: int
    changed: int

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)


@contextmanager
def open_release(lake: Lake, release: Release) -> Iterator["DuckDBPyConnection"]:
    """A connection with a view per table, at the versions of ``release``.

    It reads files of the lake and nothing else, and cannot be told otherwise. Raises MedallionError when a table
    cannot be read at its version.
    """
    with _views(lake, {t: TableAt(lake.path(t), version) for t, version in release.versions.items()}) as connection:
        yield connection


def select(connection: "DuckDBPyConnection", sql: str) -> "DuckDBPyConnection":
    """Run one SELECT. Raises UsageError, with the reason of the database, for anything that is not one or fails."""
    import duckdb

    try:
        statements = connection.extract_statements(sql)
        kinds = [statement.type for statement in statements]
        if kinds not in ([duckdb.StatementType.SELECT], [duckdb.StatementType.EXPLAIN]):
            raise UsageError("one SELECT is taken, and nothing else: a release is read, never written")
        return connection.execute(statements[0])
    except duckdb.Error as error:
        raise UsageError(f"the query fails: {error}") from None


def digest(connection: "DuckDBPyConnection", relation: str, types: Mapping[str, str] | None = None) -> tuple[int, Any]:
    """How many rows a view or table has, and the sum of their hashes: equal for equal rows, in whatever order.

    types: what its columns are compared as, by name; as they are if not given.
    """
    columns = ", ".join(f'CAST("{name}" AS {kind})' for name, kind in types.items()) if types else "t"
    ((count, hashes),) = connection.execute(f"SELECT COUNT(*), SUM(HASH({columns})) FROM {relation} AS t").fetchall()  # noqa: S608 (declared names)
    return count, hashes


def types_of(connection: "DuckDBPyConnection", relation: str) -> dict[str, str]:
    """Its columns, by name."""
    return {name: kind for name, kind, *_ in connection.execute(f"DESCRIBE {relation}").fetchall()}


def diff(lake: Lake, old: Release, new: Release, tables: Registry) -> Iterator[TableDiff]:
    """What differs between two releases, table by table in the order of the lineage; equal versions are not read."""
    for table in tables:
        versions = old.versions.get(table.name), new.versions.get(table.name)
        if versions[0] == versions[1] or None in versions:
            yield TableDiff(table.name, 0, 0, 0)
            continue
        with _two(lake, table.name, old, new) as connection:
            on = " AND ".join(f'gone."{key}" IS NOT DISTINCT FROM come."{key}"' for key in table.keys)
            counts = "SELECT (SELECT COUNT(*) FROM come), (SELECT COUNT(*) FROM gone), COUNT(*) FROM gone JOIN come ON "
            added, removed, changed = connection.execute(_DIFFERENCE + counts + on).fetchall()[0]
        yield TableDiff(table.name, added - changed, removed - changed, changed)


def diff_rows(lake: Lake, old: Release, new: Release, table: Node, limit: int) -> tuple[list[str], list[Any]]:
    """The first ``limit`` differing rows of one table, by key: column names, then rows.

    The first column is ``-`` for a row as it was and ``+`` for a row as it is: a changed row has both.
    """
    with _two(lake, table.name, old, new) as connection:
        order = ", ".join(f'"{key}"' for key in table.keys)
        both = "SELECT '-' AS side, * FROM gone UNION ALL SELECT '+', * FROM come"
        cursor = connection.execute(f"{_DIFFERENCE} {both} ORDER BY {order}, side DESC LIMIT {int(limit)}")
        return [name for name, *_ in cursor.description or ()], cursor.fetchall()


# Rows are compared whole and nulls are equal; keys are unique, so sets are enough.
_DIFFERENCE = """
    WITH gone AS (SELECT * FROM old_rows EXCEPT SELECT * FROM new_rows),
    come AS (SELECT * FROM new_rows EXCEPT SELECT * FROM old_rows)
"""


@contextmanager
def _two(lake: Lake, table: str, old: Release, new: Release) -> Iterator["DuckDBPyConnection"]:
    """Views old_rows and new_rows of one table, with the columns that either has."""
    path = lake.path(table)
    sides = {"old": TableAt(path, old.versions[table]), "new": TableAt(path, new.versions[table])}
    with _views(lake, sides) as connection:
        columns = {side: types_of(connection, side) for side in sides}
        every = columns["new"] | columns["old"]
        for side, own in columns.items():
            fields = [f'"{c}"' if c in own else f'NULL AS "{c}"' for c in every]
            connection.execute(f"CREATE VIEW {side}_rows AS SELECT {', '.join(fields)} FROM {side}")  # noqa: S608 (declared names)
        yield connection


@contextmanager
def _views(lake: Lake, tables: Mapping[str, TableAt]) -> Iterator["DuckDBPyConnection"]:
    with open_views(tables) as views:
        if views.errors:
            raise MedallionError("; ".join(views.errors.values()))
        views.connection.execute("SET allowed_directories = ?", [[f"{files.at(lake.root).absolute()}/"]])
        views.connection.execute("SET enable_external_access = false")
        views.connection.execute("SET lock_configuration = true")
        yield views.connection
