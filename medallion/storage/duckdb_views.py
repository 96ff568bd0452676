"""DuckDB views over the Parquet files of Delta tables: what checks read, without a JVM.

Imports duckdb, deltalake and pyarrow only when views are opened, for the sake of commands that do not check.
"""

import glob
import re
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from medallion.errors import one_line
from medallion.storage import files

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

# A reader that only lists files would see deleted rows, or columns under other names.
_UNREADABLE_FEATURES = frozenset({"deletionVectors", "columnMapping"})
_NAME = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True)
class TableAt:
    """A Delta table at one version; None is the newest."""

    path: str
    version: int | None = None


@dataclass(frozen=True)
class Views:
    """Open views, named like their tables.

    database: what to connect to from this process. versions, rows: of every table that could be opened.
    errors: one line for each that could not.
    """

    database: str
    connection: "DuckDBPyConnection"
    versions: Mapping[str, int]
    rows: Mapping[str, int]
    errors: Mapping[str, str]

    def sample(self, query: str, limit: int) -> list[dict[str, Any]]:
        """The first ``limit`` rows that ``query`` finds, as a help for readers: none where it fails."""
        import duckdb

        try:
            cursor = self.connection.execute(query)
            columns = [name for name, *_ in cursor.description or ()]
            return [dict(zip(columns, row, strict=True)) for row in cursor.fetchmany(limit)]
        except duckdb.Error:
            return []


@contextmanager
def open_views(tables: Mapping[str, TableAt]) -> Iterator[Views]:
    """A private in-memory database with one view per table, gone when the block ends.

    A table that cannot be read does not raise: it has no view and a line in ``errors``.
    """
    import duckdb

    database = f":memory:checks-{uuid.uuid4().hex}"
    versions: dict[str, int] = {}
    rows: dict[str, int] = {}
    errors: dict[str, str] = {}
    with TemporaryDirectory(prefix="checks-") as spill, duckdb.connect(database) as connection:
        # Nothing is to be fetched from anywhere at run time, and what does not fit in memory must not land in the
        # current directory.
        connection.execute("SET GLOBAL autoinstall_known_extensions = false")
        connection.execute("SET GLOBAL temp_directory = ?", [spill])
        connection.execute("SET GLOBAL TimeZone = 'UTC'")
        if any(files.in_bucket(table.path) for table in tables.values()):
            connection.register_filesystem(files.for_duckdb())  # without it DuckDB would have to fetch an extension
        for name, table in tables.items():
            try:
                version = _create_view(connection, name, table)
                (rows[name],) = connection.execute(f"SELECT COUNT(*) FROM {name}").fetchall()[0]
                versions[name] = version
            except Exception as error:
                errors[name] = f"{name} at {table.path} cannot be read: {one_line(error)}"
        yield Views(database, connection, versions, rows, errors)


def _create_view(connection: "DuckDBPyConnection", name: str, table: TableAt) -> int:
    import pyarrow as pa
    from deltalake import DeltaTable

    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not a table name")
    delta = DeltaTable(table.path, version=table.version, storage_options=files.storage_options(table.path))
    if found := _UNREADABLE_FEATURES.intersection(delta.protocol().reader_features or ()):
        raise ValueError(f"its files alone do not tell its rows, it uses {', '.join(sorted(found))}")
    if delta.metadata().partition_columns:
        raise ValueError("its files alone do not tell its rows, it is partitioned")
    # The URIs are percent-encoded, and DuckDB expands wildcards.
    names = [glob.escape(unquote(uri)) for uri in delta.file_uris()]
    # The declared columns, by name: a file may be older than a column, and a merge leaves one of its own in its files.
    declared = pa.schema(delta.schema().to_arrow())
    empty = declared.empty_table()  # noqa: F841  DuckDB finds it by its name
    connection.execute(f"CREATE TABLE {name}__declared AS SELECT * FROM empty")
    rows = f"SELECT * FROM {name}__declared"
    if names:
        listed = ", ".join("'" + file.replace("'", "''") + "'" for file in names)
        # Without hive_partitioning, a folder called x=1 on the way would become a column.
        parquet = f"SELECT * FROM read_parquet([{listed}], hive_partitioning = false, union_by_name = true)"
        columns = ", ".join(f'"{column}"' for column in declared.names)
        rows = f"SELECT {columns} FROM ({rows} UNION ALL BY NAME {parquet})"
    connection.execute(f"CREATE VIEW {name} AS {rows}")
    return delta.version()
