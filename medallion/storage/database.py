"""DuckDB databases in this process. Opening one takes longer than most reads, so reads of a disk share one."""

import atexit
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory, mkdtemp
from threading import Lock
from typing import TYPE_CHECKING

from medallion.storage.files import Place
from medallion.storage.s3 import S3Path

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from medallion.storage.read_only_files import ReadOnlyFiles

# The name and a connection of the shared database, by process: a forked process has none of its threads.
_shared: "dict[int, tuple[str, DuckDBPyConnection]]" = {}
_opening = Lock()


@contextmanager
def shared_database() -> Iterator["DuckDBPyConnection"]:
    """Open a connection to the database that reads share until this process ends.

    What it creates must be temporary: the temporary tables and views of a connection, and what is registered with it,
    are its own, and are dropped when the block ends.
    """
    import duckdb

    with duckdb.connect(_name_of_shared()) as connection:
        yield connection


@contextmanager
def database_for(folder: Place) -> Iterator[tuple["DuckDBPyConnection", "ReadOnlyFiles | None"]]:
    """Open a connection that can read the files under ``folder``, as ``shared_database`` does.

    The second value is the file system that serves them; None for that of this machine.
    """
    import duckdb

    if not isinstance(folder, S3Path):
        with shared_database() as connection:
            yield connection, None
        return
    with TemporaryDirectory(prefix="rows-") as spill, duckdb.connect() as connection:
        configure(connection, spill)
        yield connection, serve_files(connection)


def configure(connection: "DuckDBPyConnection", spill: str) -> None:
    """Set DuckDB to install no extensions, use UTC, cache the footers of files, and spill to the folder ``spill``."""
    connection.execute("SET GLOBAL autoinstall_known_extensions = false")
    connection.execute("SET GLOBAL temp_directory = ?", [spill])
    connection.execute("SET GLOBAL TimeZone = 'UTC'")
    connection.execute("SET GLOBAL parquet_metadata_cache = true")


def serve_files(connection: "DuckDBPyConnection") -> "ReadOnlyFiles":
    """Let a database read files through this process: for a bucket, DuckDB would have to install an extension."""
    from medallion.storage.read_only_files import ReadOnlyFiles

    served = ReadOnlyFiles()
    connection.register_filesystem(served)
    return served


def _name_of_shared() -> str:
    import duckdb

    process = os.getpid()
    with _opening:
        if process not in _shared:
            name, spill = f":memory:rows-{uuid.uuid4().hex}", mkdtemp(prefix="rows-")
            connection = duckdb.connect(name)
            configure(connection, spill)
            connection.execute("SET GLOBAL enable_external_file_cache = false")  # it would keep what was read
            _shared[process] = name, connection
            atexit.register(_remove_spill, spill, process)
        return _shared[process][0]


def _remove_spill(folder: str, process: int) -> None:
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)
