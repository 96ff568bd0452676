"""DuckDB views over the Parquet files of Delta tables, for checks and readers of a release, without a JVM.

duckdb, deltalake and pyarrow are imported only when views are opened, so that commands without checks start quickly.
"""

import glob
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from medallion.errors import MedallionError, one_line
from medallion.sql_text import quoted, text_literal
from medallion.storage.change_feed import Changes, data_file
from medallion.storage.database import configure, serve_files
from medallion.storage.deletion_vectors import deleted_positions
from medallion.storage.files import Place, side_by_side
from medallion.storage.lake import Lake, TableState, data_files, open_table, state_of, table_id
from medallion.storage.live_rows import can_number, live_parts, names_of, rows_of_files
from medallion.storage.s3 import AWS, S3Path
from medallion.storage.table_features import unreadable_here

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from duckdb import DuckDBPyConnection

    from medallion.storage.read_only_files import ReadOnlyFiles

_MAPPED = "columnMapping"  # files have columns under other names, so delta-rs reads such a table
# For changed rows: the name of the view, the kinds of files, and their change types in a change data feed.
_SIDES = (
    ("inserted", {"cdc", "add"}, "('insert', 'update_postimage')"),
    ("deleted", {"cdc", "remove"}, "('delete', 'update_preimage')"),
)
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_DECLARED = "CREATE SCHEMA declared"  # for tables behind the views, so that SHOW TABLES lists only the views


@dataclass(frozen=True)
class TableAt:
    """A Delta table at one version; None is the newest. columns: the columns of the view, in order; None for all."""

    folder: Place
    version: int | None = None
    columns: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Comments:
    """The comments of a view: on the table, and by column name in lower case."""

    table: str
    columns: Mapping[str, str]


@dataclass(frozen=True)
class Views:
    """Open views, named like their tables.

    database: the name to connect to from this process. versions, table_ids, rows, bytes: of every table that could be
    opened. errors: one line for each table that could not. tables: the requested tables. opened: the opened tables.
    served: the file system through which DuckDB reads a bucket; None for a lake on a disk.
    """

    database: str
    connection: "DuckDBPyConnection"
    versions: Mapping[str, int]
    table_ids: Mapping[str, str]
    rows: Mapping[str, int]
    bytes: Mapping[str, int]
    errors: Mapping[str, str]
    tables: Mapping[str, TableAt]
    opened: "Mapping[str, DeltaTable]"
    served: "ReadOnlyFiles | None"

    def sample(self, query: str, limit: int) -> list[dict[str, Any]]:
        """Return the first ``limit`` rows of ``query``, as a hint for readers; none if it fails."""
        import duckdb

        try:
            cursor = self.connection.execute(query)
            columns = [name for name, *_ in cursor.description or ()]
            return [dict(zip(columns, row, strict=True)) for row in cursor.fetchmany(limit)]
        except duckdb.Error:
            return []

    def add_changes(self, name: str, changes: Changes) -> None:
        """Create views ``<name>__inserted`` and ``<name>__deleted`` of the rows that commits inserted and deleted.

        A row that one commit inserted and a later one deleted is in both.
        """
        folder = self.tables[name].folder
        served = self.served if isinstance(folder, S3Path) else None
        for side, kinds, types in _SIDES:
            parts = []
            for number, (_, kind, names) in enumerate(changes.by_kind()):
                if kind not in kinds:
                    continue
                places = [data_file(folder, file) for file in names]
                rows = rows_of_files(map(glob.escape, names_of(f"{name}__{side}{number}", places, served)))
                parts.append(f"FROM {rows} WHERE _change_type IN {types}" if kind == "cdc" else f"FROM {rows}")
            declared, columns = f"SELECT * FROM declared.{name}", _columns(self.opened[name], self.tables[name].columns)
            rows = " UNION ALL BY NAME ".join([declared, *(f"SELECT * {part}" for part in parts)])
            self.connection.execute(f"CREATE VIEW {name}__{side} AS SELECT {columns} FROM ({rows})")


@contextmanager
def open_views(tables: Mapping[str, TableAt]) -> Iterator[Views]:
    """Open a private in-memory database with one view per table, which is dropped when the block ends.

    A table that cannot be read does not raise: it has no view and a line in ``errors``.
    """
    import duckdb

    database = f":memory:checks-{uuid.uuid4().hex}"
    errors: dict[str, str] = {}
    with TemporaryDirectory(prefix="checks-") as spill, duckdb.connect(database) as connection:
        configure(connection, spill)
        in_bucket = any(isinstance(table.folder, S3Path) for table in tables.values())
        # Without a file system from this process, DuckDB would have to download an extension to read a bucket.
        served = serve_files(connection) if in_bucket else None
        connection.execute(_DECLARED)

        def open_one(name: str) -> _Opened | None:
            try:
                with connection.cursor() as own:
                    return _open_view(own, name, tables[name], served)
            except Exception as error:
                errors[name] = f"{name} at {tables[name].folder} cannot be read: {one_line(error)}"
                return None

        found = zip(tables, side_by_side(open_one, tables), strict=True)
        opened = {name: table for name, table in found if table is not None}
        yield Views(
            database,
            connection,
            versions={name: table.delta.version() for name, table in opened.items()},
            table_ids={name: table_id(table.delta) for name, table in opened.items()},
            rows={name: table.rows for name, table in opened.items()},
            bytes={name: table.bytes for name, table in opened.items()},
            errors=errors,
            tables=tables,
            opened={name: table.delta for name, table in opened.items()},
            served=served,
        )


@dataclass(frozen=True)
class _Opened:
    delta: "DeltaTable"
    rows: int
    bytes: int


def _open_view(connection: "DuckDBPyConnection", name: str, table: TableAt, served: "ReadOnlyFiles | None") -> _Opened:
    """Create the view of a table."""
    delta = open_table(table.folder, table.version)
    if delta is None:
        raise FileNotFoundError("there is no Delta table")
    if isinstance(table.folder, S3Path):
        _create_view(connection, name, delta, data_files(delta, table.folder.access), served, table.columns)
    else:
        _create_view(connection, name, delta, data_files(delta, AWS), None, table.columns)
    state = state_of(delta)
    return _Opened(delta, _count_rows(connection, name, state), state.bytes)


def _count_rows(connection: "DuckDBPyConnection", name: str, state: TableState) -> int:
    """Return the number of rows of a table by its log, or by a query if a writer left the row counts out."""
    if not state.files or None not in state.actions.get("num_records", [None]):
        return state.rows
    (count,) = connection.execute(f"SELECT COUNT(*) FROM {name}").fetchall()[0]
    return int(count)


@contextmanager
def open_sealed_views(lake: Lake, tables: "Mapping[str, DeltaTable]") -> Iterator["DuckDBPyConnection"]:
    """Open a database with one view per opened table that can read their data files and do nothing else.

    It is read-only, can access only a file system that serves exactly these files and cannot write, and its settings
    are locked. Raises MedallionError if a table cannot be read.
    """
    import duckdb

    with TemporaryDirectory(prefix="release-") as scratch:
        database = f"{scratch}/views.duckdb"
        with duckdb.connect(database) as connection:
            served = serve_files(connection)
            _create_views(connection, lake, tables, served)
        with duckdb.connect(database, read_only=True) as connection:
            connection.register_filesystem(served)
            configure(connection, f"{scratch}/spill")
            connection.execute("SET GLOBAL allowed_paths = ?", [served.names()])
            for setting in _SEALED:
                connection.execute(f"SET GLOBAL {setting}")
            yield connection


def write_views(
    file: Path,
    lake: Lake,
    tables: "Mapping[str, DeltaTable]",
    about: Mapping[str, str],
    comments: Mapping[str, Comments],
) -> None:
    """Create a database with a view of each opened table in ``tables``, and a table ``release``.

    about: the columns of the one row of ``release``. comments: by table, if it has any.

    Raises MedallionError if a table cannot be read.
    """
    import duckdb

    with duckdb.connect(str(file)) as connection:
        columns = ", ".join(f"? AS {name}" for name in about)
        connection.execute(f"CREATE TABLE release AS SELECT {columns}", [*about.values()])
        _create_views(connection, lake, tables, None)
        for name in tables.keys() & comments.keys():
            connection.execute(f"COMMENT ON VIEW {name} IS {text_literal(comments[name].table)}")
            for field in tables[name].schema().fields:
                if text := comments[name].columns.get(field.name.lower()):
                    connection.execute(f"COMMENT ON COLUMN {name}.{quoted(field.name)} IS {text_literal(text)}")


def _create_views(
    connection: "DuckDBPyConnection",
    lake: Lake,
    tables: "Mapping[str, DeltaTable]",
    served: "ReadOnlyFiles | None",
) -> None:
    connection.execute(_DECLARED)
    for name, delta in tables.items():
        try:
            _create_view(connection, name, delta, data_files(delta, lake.access), served)
        except Exception as error:
            raise MedallionError(
                f"{name} at {delta.table_uri} cannot be read at version {delta.version()}: {one_line(error)}"
            ) from error


# Python variables must not be readable as tables either. The last setting locks all others.
_SEALED = (
    "autoload_known_extensions = false",
    "python_enable_replacements = false",
    "enable_external_access = false",
    "lock_configuration = true",
)


def _create_view(
    connection: "DuckDBPyConnection",
    name: str,
    delta: "DeltaTable",
    places: "Sequence[Place]",
    served: "ReadOnlyFiles | None",
    columns: Sequence[str] | None = None,
) -> None:
    """Create the view ``name`` of a table at the version at which it was opened.

    places: of its data files. served: the file system that DuckDB reads them through; None for that of this machine.
    columns: the columns of the view; None for all.
    """
    import pyarrow as pa

    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not a table name")
    if delta.metadata().partition_columns:
        raise ValueError("its files alone do not tell its rows, it is partitioned")
    # The declared columns, by name: a file may be older than a column, or have an extra one that a merge left there.
    empty = pa.schema(delta.schema().to_arrow()).empty_table()  # noqa: F841  DuckDB finds it by its name
    connection.execute(f"CREATE TABLE declared.{name} AS SELECT * FROM empty")
    rows, deleted = f"SELECT * FROM declared.{name}", deleted_positions(delta)
    if _MAPPED in unreadable_here(delta) or (deleted and not can_number(delta)):
        from deltalake import QueryBuilder

        # DuckDB finds it by its name.
        read = pa.table(QueryBuilder().register("t", delta).execute("SELECT * FROM t").read_all())  # noqa: F841
        connection.execute(f"INSERT INTO declared.{name} SELECT {_columns(delta)} FROM read")
    elif places:
        files = [*zip(names_of(name, places, served), map(str, places), strict=True)]
        parts = live_parts(connection, name, files, deleted, schema="declared")
        rows = f"SELECT {_columns(delta)} FROM ({' UNION ALL BY NAME '.join([rows, *parts])})"
    connection.execute(f"CREATE VIEW {name} AS SELECT {_columns(delta, columns)} FROM ({rows})")


def _columns(delta: "DeltaTable", wanted: Sequence[str] | None = None) -> str:
    """Return SQL for the columns of a table, or for those in ``wanted``, in that order."""
    names = [field.name for field in delta.schema().fields]
    return ", ".join(f'"{name}"' for name in (names if wanted is None else [n for n in wanted if n in names]))
