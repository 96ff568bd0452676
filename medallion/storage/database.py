"""DuckDB databases in this process. Opening one takes longer than most reads, so reads of a disk share one."""

import os
import shutil
import stat
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from medallion.storage.files import Place
from medallion.storage.s3 import S3Path

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from medallion.storage.read_only_files import ReadOnlyFiles

_MAX_SPILL_SECONDS = 86_400  # older files are from a process that was killed while it read
# The name and a connection of the shared database, by process: its threads do not exist in a process that is forked.
_shared: "dict[int, tuple[str, DuckDBPyConnection]]" = {}
_opening = Lock()


@contextmanager
def shared_database() -> Iterator["DuckDBPyConnection"]:
    """Open a connection to the database that reads share until this process ends.

    What it creates must be temporary: the temporary tables and views of a connection, and what is registered with it,
    are its own, and are dropped when the block ends.
    """
    import duckdb

    name = _name_of_shared()
    try:
        with duckdb.connect(name) as connection:
            yield connection
    except (duckdb.InternalException, duckdb.FatalException):
        _forget(name)  # after such an error, DuckDB refuses all that a database is asked
        raise


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
    with tempfile.TemporaryDirectory(prefix="rows-") as spill, duckdb.connect() as connection:
        configure(connection, spill)
        yield connection, serve_files(connection)


def configure(connection: "DuckDBPyConnection", spill: str, *, keep_files: bool = True) -> None:
    """Set DuckDB to install no extensions, use UTC, and spill to the folder ``spill``.

    keep_files: whether it keeps in memory what it has read of files, for the next query.
    """
    connection.execute("SET GLOBAL autoinstall_known_extensions = false")
    connection.execute("SET GLOBAL temp_directory = ?", [spill])
    connection.execute("SET GLOBAL TimeZone = 'UTC'")
    for cache in ("parquet_metadata_cache", "enable_external_file_cache"):
        connection.execute(f"SET GLOBAL {cache} = {keep_files}")


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
            unique = uuid.uuid4().hex
            name = f":memory:rows-{unique}"
            connection = duckdb.connect(name)
            configure(connection, str(_spill_folder() / unique), keep_files=False)  # they would grow with each hour
            _shared[process] = name, connection
        return _shared[process][0]


def _forget(name: str) -> None:
    with _opening:
        if _shared.get(os.getpid(), (None,))[0] == name:
            del _shared[os.getpid()]


def _spill_folder() -> Path:
    """Return a folder that only this account can read, without old files.

    DuckDB creates its folder in it when it first spills, so a process that spills nothing leaves nothing behind.
    """
    folder = Path(tempfile.gettempdir(), f"medallion-spill-{os.geteuid()}")
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        return Path(tempfile.mkdtemp(prefix="rows-"))  # somebody else made it, to read along
    for left in folder.iterdir():
        with suppress(FileNotFoundError):  # its process has just ended
            if left.stat().st_mtime < time.time() - _MAX_SPILL_SECONDS:
                shutil.rmtree(left, ignore_errors=True)
    return folder
