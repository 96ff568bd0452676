"""The files of a lake: on a disk through pathlib, in a bucket through S3Path, which has the same interface.

A place in a bucket includes how to reach the bucket; credentials are found where AWS's own tools look for them.
"""

import json
import logging
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from errno import EISDIR, ELOOP
from functools import lru_cache
from pathlib import Path
from random import uniform
from tempfile import NamedTemporaryFile
from threading import get_ident
from time import sleep
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from uuid import uuid4

from medallion.errors import DamagedFile
from medallion.storage import s3
from medallion.storage.s3 import S3Access, S3Path

if TYPE_CHECKING:
    from pyarrow.fs import S3FileSystem

Place: TypeAlias = Path | S3Path
_PAUSES = (0.1, 0.2, 0.4, 0.8)  # seconds between attempts while storage fails
S = TypeVar("S")
T = TypeVar("T")


def in_bucket(path: str) -> bool:
    """Whether ``path`` leads into a bucket."""
    return path.startswith(s3.SCHEME)


def at(path: str, *names: str, access: S3Access) -> Place:
    """Return the place that ``path`` names, and ``names`` under it."""
    if not in_bucket(path):
        return Path(path, *names)
    return S3Path.of("/".join((path, *names)), access)


@contextmanager
def whole(place: Place) -> Iterator[Path]:
    """Yield a local file that replaces ``place`` if the block succeeds, and is removed if it fails.

    Readers see either the former content or all of the new one.
    """
    if isinstance(place, S3Path):
        with NamedTemporaryFile(prefix="medallion-") as local:
            yield Path(local.name)
            place.upload(local.name)
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    partial = place.with_name(f".{place.name}.{os.getpid()}.{get_ident()}.part")
    try:
        yield partial
        partial.replace(place)
    finally:
        partial.unlink(missing_ok=True)


def write_text(place: Place, text: str) -> None:
    """Write ``text`` to ``place`` atomically."""
    if isinstance(place, S3Path):
        place.write_text(text)
    else:
        with whole(place) as partial, partial.open("w", encoding="utf-8") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())  # before the file is renamed: otherwise a power cut could leave it empty


def write_new(place: Place, content: bytes) -> None:
    """Write a new file that nothing refers to yet."""
    if isinstance(place, S3Path):
        place.write_bytes(content)
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.open("xb") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())  # before a log entry names the file


def create_whole(place: Place, content: bytes) -> bool:
    """Create a file with this content atomically; return False, and change nothing, if it exists."""
    if isinstance(place, S3Path):
        return place.create(content)
    draft = place.with_name(f".{place.name}.{uuid4()}.tmp")
    try:
        write_new(draft, content)
        os.link(draft, place)
    except FileExistsError:
        return False
    finally:
        draft.unlink(missing_ok=True)
    return True


def write_json(place: Place, content: Mapping[str, object]) -> None:
    """Write ``content`` as JSON to ``place`` atomically."""
    write_text(place, json_text(content))


def json_text(content: Mapping[str, object]) -> str:
    """Return the JSON that ``write_json`` writes."""
    return json.dumps(content, indent=1) + "\n"


def read_json(place: Place, remedy: str = "restore it from a backup") -> dict[str, Any] | None:
    """Return the JSON object in the file at ``place``; None if the file does not exist.

    Raises DamagedFile, whose message ends with ``remedy``, if it is not a JSON object.
    """
    try:
        content = json.loads(place.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError as error:
        raise DamagedFile(f"{place} is damaged: {error}; {remedy}") from None
    except OSError as error:
        if error.errno not in (EISDIR, ELOOP):
            raise
        raise DamagedFile(f"{place} is damaged: {error.strerror}; {remedy}") from None
    if not isinstance(content, dict):
        raise DamagedFile(f"{place} is damaged: it holds no JSON object; {remedy}")
    return content


def read_record(place: Place, parse: Callable[[dict[str, Any]], T], remedy: str) -> T | None:
    """Return the result of ``parse`` for the JSON object in the file at ``place``; None if the file does not exist.

    Raises DamagedFile, whose message ends with ``remedy``, if it is not a JSON object that ``parse`` accepts.
    """
    content = read_json(place, remedy)
    if content is None:
        return None
    try:
        return parse(content)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise DamagedFile(f"{place} is damaged: its content is not as it should be ({error!r}); {remedy}") from None


def read_record_if_whole(place: Place, parse: Callable[[dict[str, Any]], T], consequence: str) -> T | None:
    """Do the same as ``read_record``, but for a damaged file log a warning with ``consequence`` and return None."""
    try:
        return read_record(place, parse, consequence)
    except DamagedFile as damage:
        logging.getLogger(__name__).warning("%s", damage)
        return None


def glob(folder: Place, pattern: str) -> list[Place]:
    """List the entries of ``folder`` whose names match ``pattern``, sorted by name."""
    return sorted(folder.glob(pattern), key=str)


def each(work: Callable[[Place], T], places: Iterable[Place]) -> list[T]:
    """Apply ``work`` to each place and return the results in order; in a bucket, several run at a time."""
    items = list(places)
    if items and isinstance(items[0], S3Path):
        return side_by_side(work, items)
    return [work(place) for place in items]


def side_by_side(work: Callable[[S], T], items: Iterable[S]) -> list[T]:
    """Apply ``work``, which waits for storage, to each item in threads; return the results in order."""
    with ThreadPoolExecutor(s3.AT_ONCE) as pool:
        return list(pool.map(work, items))


def retry_while_failing(work: Callable[[], T]) -> T:
    """Return the result of ``work``, which is retried while storage fails, for about two seconds in all.

    The client of a bucket has its own retries, to which this adds little.
    """
    for seconds in _PAUSES:
        try:
            return work()
        except OSError:
            sleep(seconds * uniform(0.5, 1.5))  # noqa: S311 (so that readers do not all retry at once)
    return work()


def unreadable_part(folder: Place) -> str | None:
    """Return the first folder or file of a table's log on this disk that this account cannot read, or None."""
    if isinstance(folder, S3Path):
        return None
    log = folder / "_delta_log"
    for part, right in ((folder, os.X_OK), (log, os.R_OK | os.X_OK)):
        if not os.access(part, right):
            return str(part) if os.access(part, os.F_OK) else None
    with suppress(OSError):  # other errors of the disk are reported elsewhere
        return next((str(file) for file in sorted(log.iterdir()) if not os.access(file, os.R_OK)), None)
    return None


def all_there(places: Iterable[Place]) -> bool:
    """Check whether every one of these files exists."""
    return all(each(lambda place: place.exists(), places))


def remove_tree(place: Place) -> None:
    """Remove a folder with all its contents, if it exists."""
    if isinstance(place, S3Path):
        place.remove_tree()
    else:
        shutil.rmtree(place, ignore_errors=True)


def remove_if_empty(folder: Place) -> None:
    """Remove a folder if it is empty; a bucket has no folders."""
    if isinstance(folder, Path) and folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def move(place: Place, target: Place) -> None:
    """Move a folder; in a bucket, all its files are copied, then removed."""
    if isinstance(place, S3Path) and isinstance(target, S3Path):
        place.copy_tree(target)
        place.remove_tree()
    elif isinstance(place, Path) and isinstance(target, Path):
        target.parent.mkdir(parents=True, exist_ok=True)
        place.rename(target)
    else:
        raise ValueError(f"{place} and {target} are not on the same storage")


def storage_options(folder: Place) -> dict[str, str] | None:
    """Return the options with which delta-rs accesses a table in ``folder``; None for a table on a disk.

    A commit is a conditional put, which fails if the object exists, so no commit overwrites another.
    """
    if not isinstance(folder, S3Path):
        return None
    access = folder.access
    options = {
        "aws_region": access.region_name,
        "aws_conditional_put": "etag",
        "timeout": f"{max(1, round(access.timeout))}s",
    }
    if access.endpoint:
        options |= {"aws_endpoint_url": access.endpoint, "aws_allow_http": "true"}
    return options


def in_arrow(place: Place) -> tuple[str | Path, Any]:
    """Return a file's name and file system for Arrow; the file system is None for this machine's own."""
    if isinstance(place, S3Path):
        return "/".join((place.bucket, place.key)), _arrow_client(place.access)
    return place, None


@lru_cache(maxsize=4)
def _arrow_client(access: S3Access) -> "S3FileSystem":
    from pyarrow.fs import S3FileSystem

    return S3FileSystem(
        endpoint_override=access.endpoint,
        region=access.region_name,
        request_timeout=access.timeout,
        connect_timeout=10,
    )
