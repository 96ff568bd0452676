"""A file system for DuckDB that serves a fixed set of data files and cannot write."""

import io
import os
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, NoReturn

from fsspec import AbstractFileSystem

from medallion.storage import files
from medallion.storage.files import Place

PROTOCOL = "release"


class ReadOnlyFiles(AbstractFileSystem):  # type: ignore[misc]
    """Data files with new names, such as ``release://silver_customers/0.parquet``.

    A data file of Delta never changes, so its size is read once. Other files do not exist here, and every method that
    would change something raises PermissionError.
    """

    protocol = PROTOCOL
    cachable = False

    def __init__(self) -> None:
        super().__init__()
        self._places: dict[str, Place] = {}
        self._sizes: dict[str, int] = {}

    def add(self, table: str, places: Iterable[Place]) -> list[str]:
        """Serve the data files of ``table``, and return the names under which they can be read."""
        names = {f"{table}/{number}.parquet": place for number, place in enumerate(places)}
        self._places |= names
        return [f"{PROTOCOL}://{name}" for name in names]

    def names(self) -> list[str]:
        """Return the name of every file that can be read."""
        return [f"{PROTOCOL}://{name}" for name in self._places]

    def open(self, path: str, mode: str = "rb", **_: Any) -> Any:
        """Open one file. Raises PermissionError for any mode but reading."""
        if mode != "rb":
            self._refuse()
        place = self._place(path)
        name, remote = files.in_arrow(place)
        return open(name, "rb", buffering=0) if remote is None else remote.open_input_file(str(name))

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """Return name, size and type of one file."""
        name = self._strip_protocol(path)
        if name not in self._sizes:
            with self.open(path) as stream:
                self._sizes[name] = stream.seek(0, io.SEEK_END) or stream.tell()
        return {"name": name, "size": self._sizes[name], "type": "file"}

    def modified(self, path: str) -> datetime:
        """Return the same time for every file, because none of them changes."""
        self._place(path)
        return datetime.fromtimestamp(0, UTC)

    def exists(self, path: str, **_: Any) -> bool:
        """Whether one of the served files has this name."""
        return self._strip_protocol(path) in self._places

    def glob(self, path: str, **_: Any) -> list[str]:
        """Return the file with exactly this name, if it is served: there are no wildcards."""
        return [self._strip_protocol(path)] if self.exists(path) else []

    def _place(self, path: str) -> Place:
        try:
            return self._places[self._strip_protocol(path)]
        except KeyError:
            raise FileNotFoundError(f"{path} is not a data file of this release") from None

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise PermissionError(f"{os.strerror(30)}: a release is only read")

    _open = touch = mkdir = makedirs = rm = rm_file = _rm = rmdir = mv = cp_file = copy = put_file = pipe_file = _refuse
