"""Cache values from a Delta log until it has a newer entry: the steps of an hour need them dozens of times.

This is done only on a disk, where the check costs a hundredth of reading the log; a bucket is read each time.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from medallion.storage.files import Place

Read = TypeVar("Read")
_Entry = tuple[str, int, int, int]

_known: dict[tuple[str, str], tuple[_Entry, Any]] = {}


def remembered(folder: Place, what: str, read: Callable[[], Read]) -> Read:
    """Return the result of ``read`` for the Delta table in ``folder``, from the cache if nothing was committed since.

    what: the name of the value among all that are cached for a table. The value must depend only on the log, and nobody
    may change it.
    """
    entry, key = _newest_entry(folder), (str(folder), what)
    if entry is None:
        return read()
    known = _known.get(key)
    if known is not None and known[0] == entry:
        value: Read = known[1]
        return value
    value = read()
    _known[key] = entry, value
    return value


def _newest_entry(folder: Place) -> _Entry | None:
    """Return a key that identifies the newest entry of a log, even if its file is replaced; None if it is unknown."""
    if not isinstance(folder, Path):
        return None
    log = folder / "_delta_log"
    try:
        name = max((name for name in os.listdir(log) if name.endswith(".json") and name[:20].isdigit()), default=None)
        stat = (log / name).stat() if name else None
    except OSError:
        return None
    return (name, stat.st_ino, stat.st_mtime_ns, stat.st_size) if name and stat else None
