"""The source: one root, a folder or an S3 prefix, with a snapshot and the change files of each feed and hour."""

import hashlib
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import sleep
from typing import IO, Any, Protocol

from medallion.errors import MedallionError, UsageError
from medallion.ingest.parts import Part
from medallion.settings import Settings
from medallion.storage import files
from medallion.storage.files import Place
from medallion.storage.s3 import S3Access
from medallion.storage.s3_errors import SOURCE, explained

_CHUNK = 1 << 20
MAX_TRIES = 5  # most tries of a request, and of a file that does not arrive whole
BACK_OFF_SECONDS = 0.5  # seconds before the second try of a file, doubled for each later one


Advance = Callable[[str, int, int], None]  # receives what is being done, how much is done, of how much


def no_progress(_what: str, _done: int, _total: int) -> None:
    """Report nothing."""


@dataclass(frozen=True)
class Landed:
    """A file as it landed: its size in bytes and the SHA-256 of what was written.

    parts: the files of the source that it was put together from; empty if it is a copy of one file.
    """

    bytes: int
    sha256: str
    parts: tuple[Part, ...] = field(default=(), compare=False)

    def facts(self) -> dict[str, Any]:
        """Return the details for an event."""
        return {"bytes": self.bytes, "sha256": self.sha256} | ({"parts": len(self.parts)} if self.parts else {})


@dataclass(frozen=True)
class SourceFile:
    """A file as the source lists it: its size in bytes and when it was last modified, in seconds since 1970."""

    bytes: int
    modified: float


class Source(Protocol):
    """Where change files and the snapshot come from. Names are relative to the root, with forward slashes."""

    @property
    def root(self) -> str:
        """The folder or prefix that names are relative to."""

    def list_files(self, prefix: str) -> dict[str, SourceFile]:
        """List every file under ``prefix`` by name; empty if the place does not exist."""

    def open(self, name: str) -> tuple[IO[bytes], int]:
        """Return the file's bytes as a stream, and its size as the source states it.

        Raises MedallionError if it cannot be read.
        """


@dataclass(frozen=True)
class FolderSource:
    """A source in a folder."""

    root: str

    def list_files(self, prefix: str) -> dict[str, SourceFile]:
        """List every file under ``prefix`` by name; empty if the place does not exist."""
        base, by_name = Path(self.root), {}
        for folder, folders, names in os.walk(base / prefix, onerror=_refuse_unlisted):
            links = [name for name in folders if Path(folder, name).is_symlink()]  # links to folders are not followed
            for file in (Path(folder, name) for name in (*names, *links)):
                with suppress(FileNotFoundError):  # it was removed in the meantime
                    by_name[file.relative_to(base).as_posix()] = _describe(file)
        return by_name

    def open(self, name: str) -> tuple[IO[bytes], int]:
        """Return the file's bytes as a stream, and its size when it was opened."""
        path = Path(self.root, name)
        try:
            inside = path.resolve().is_relative_to(Path(self.root).resolve())
        except RuntimeError:  # raised by Python 3.11
            raise MedallionError(f"{path} cannot be read: it is a link that leads to itself") from None
        if not inside:
            raise MedallionError(f"{path} is a link that leads out of the source: it is not read")
        if path.is_fifo() or path.is_socket() or path.is_char_device():
            raise MedallionError(f"{path} is no regular file: it is not read")  # reading it might never end
        try:
            stream = path.open("rb")
        except OSError as error:
            raise MedallionError(f"{self.root}/{name} cannot be read: {error.strerror}") from None
        return stream, os.fstat(stream.fileno()).st_size


def _refuse_unlisted(error: OSError) -> None:
    """Raise MedallionError for a folder that cannot be listed: its files would be missing without a warning."""
    if not isinstance(error, FileNotFoundError):
        raise MedallionError(f"{error.filename} cannot be listed: {error.strerror}")


def _describe(file: Path) -> SourceFile:
    """Describe a file; a link that leads nowhere is described itself."""
    try:
        stat = file.stat()
    except OSError:
        stat = file.lstat()
    return SourceFile(stat.st_size, stat.st_mtime)


@dataclass(frozen=True)
class S3Source:
    """A source in a bucket, read with the usual AWS credential chain unless ``anonymous``."""

    root: str
    client: Any

    @property
    def _place(self) -> tuple[str, str]:
        bucket, _, prefix = self.root.removeprefix("s3://").partition("/")
        return bucket, f"{prefix}/" if prefix else ""

    def list_files(self, prefix: str) -> dict[str, SourceFile]:
        """List every object under ``prefix`` by name, except those that stand for folders."""
        bucket, base = self._place
        with self._explained(prefix):
            pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=base + prefix)
            objects = (entry for page in pages for entry in page.get("Contents", ()))
            return {
                entry["Key"].removeprefix(base): SourceFile(entry["Size"], entry["LastModified"].timestamp())
                for entry in objects
                if not entry["Key"].endswith("/")
            }

    def open(self, name: str) -> tuple[IO[bytes], int]:
        """Return the object's bytes as a stream, and its Content-Length."""
        bucket, base = self._place
        with self._explained(name):
            answer = self.client.get_object(Bucket=bucket, Key=base + name)
        return answer["Body"], answer["ContentLength"]

    def _explained(self, name: str) -> AbstractContextManager[None]:
        return explained(f"{self.root}/{name} cannot be read", SOURCE)


def open_source(settings: Settings) -> Source:
    """Return the source that ``settings`` names. Raises UsageError if its folder does not exist."""
    if not settings.source.startswith("s3://"):
        if not Path(settings.source).is_dir():
            raise UsageError(
                f"source {settings.source} does not exist: name another in MEDALLION_SOURCE or medallion.toml; where"
                f" the project has a generator, medallion source generate {settings.source} makes one"
            )
        return FolderSource(settings.source)
    return S3Source(settings.source, S3Access.of(settings).client(anonymous=settings.s3_anonymous, tries=MAX_TRIES))


def copy_file(source: Source, name: str, target: Place) -> Landed:
    """Copy one file of the source to ``target``, whole or not at all.

    Raises MedallionError if fewer or more bytes arrive than the source stated, after MAX_TRIES tries.
    """
    with files.whole(target) as partial:
        for tried in range(1, MAX_TRIES + 1):
            try:
                return _copy_once(source, name, partial)
            except _Cut as cut:
                if tried == MAX_TRIES:
                    raise MedallionError(f"{source.root}/{name}: {cut}; run again") from None
                sleep(BACK_OFF_SECONDS * 2 ** (tried - 1))
    raise AssertionError("the last try returns or raises")


class _Cut(Exception):
    """A file did not arrive whole."""


def _copy_once(source: Source, name: str, target: Path) -> Landed:
    digest, copied = hashlib.sha256(), 0
    stream, size = source.open(name)
    with stream, target.open("wb") as out:
        try:
            while chunk := stream.read(_CHUNK):
                out.write(chunk)
                digest.update(chunk)
                copied += len(chunk)
        except OSError as error:
            if error.errno is not None:  # an error of the disk, not of the connection
                raise
            raise _Cut(f"{copied} of {size} bytes arrived ({error})") from None
        except Exception as error:  # a connection ends in many ways, and a checksum can be wrong
            if not type(error).__module__.startswith(("botocore", "urllib3")):
                raise
            raise _Cut(f"{copied} of {size} bytes arrived ({' '.join(str(error).split())[:200]})") from None
        out.flush()
        os.fsync(out.fileno())
    if copied != size:
        raise _Cut(f"{copied} of {size} bytes arrived")
    return Landed(copied, digest.hexdigest())


def digest(stream: IO[bytes]) -> Landed:
    """Return size and checksum of the rest of ``stream``."""
    sha256, read = hashlib.sha256(), 0
    while chunk := stream.read(_CHUNK):
        sha256.update(chunk)
        read += len(chunk)
    return Landed(read, sha256.hexdigest())
