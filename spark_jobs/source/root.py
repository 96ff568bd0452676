"""The source: one root, a folder or an S3 prefix, with a snapshot and a change file per feed and hour."""

import hashlib
import os
import re
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import get_ident
from time import sleep
from typing import IO, Any, Protocol

from spark_jobs.core.errors import MedallionError, UsageError
from spark_jobs.core.hours import PATTERN
from spark_jobs.core.settings import Settings

_CHANGE_FILE = re.compile(rf"cdc/([a-z_]+)/({PATTERN})\.json")
_CHUNK = 1 << 20
_TRIES = 5  # of a request, and of a file that does not arrive whole
_BACK_OFF = 0.5  # seconds before the second try of a file, doubled for each later one
_AT_ONCE = 8  # files of a snapshot that are copied at the same time


Advance = Callable[[str, int, int], None]  # what is being done, how much is done, of how much


def silent(_what: str, _done: int, _total: int) -> None:
    """Tell nobody."""


@dataclass(frozen=True)
class Landed:
    """A file as it was copied: its size in bytes and the SHA-256 of what was written."""

    bytes: int
    sha256: str


class Source(Protocol):
    """Where change files and the snapshot come from. Names are relative to the root, with forward slashes."""

    @property
    def root(self) -> str:
        """The folder or prefix that names are relative to."""

    def sizes(self, prefix: str) -> dict[str, int]:
        """Every file under ``prefix`` with its size in bytes, none where there is no such place."""

    def open(self, name: str) -> tuple[IO[bytes], int]:
        """The file's bytes and its size as the source states it. Raises MedallionError when it cannot be read."""


@dataclass(frozen=True)
class FolderSource:
    """A source in a folder."""

    root: str

    def sizes(self, prefix: str) -> dict[str, int]:
        """Every file under ``prefix`` with its size in bytes, none where there is no such place."""
        base, found = Path(self.root), {}
        for folder, _, files in os.walk(base / prefix):
            for file in (Path(folder, name) for name in files):
                with suppress(FileNotFoundError):  # it went while we looked
                    found[file.relative_to(base).as_posix()] = file.lstat().st_size
        return found

    def open(self, name: str) -> tuple[IO[bytes], int]:
        """The file's bytes and its size when it was opened."""
        path = Path(self.root, name)
        if not path.resolve().is_relative_to(Path(self.root).resolve()):
            raise MedallionError(f"{path} is a link that leads out of the source: it is not read")
        try:
            stream = path.open("rb")
        except OSError as error:
            raise MedallionError(f"{self.root}/{name} cannot be read: {error.strerror}") from None
        return stream, os.fstat(stream.fileno()).st_size


@dataclass(frozen=True)
class S3Source:
    """A source in a bucket, read with the usual AWS credential chain unless ``anonymous``."""

    root: str
    client: Any

    @property
    def _place(self) -> tuple[str, str]:
        bucket, _, prefix = self.root.removeprefix("s3://").partition("/")
        return bucket, f"{prefix}/" if prefix else ""

    def sizes(self, prefix: str) -> dict[str, int]:
        """Every object under ``prefix`` with its size in bytes, without those that stand for folders."""
        bucket, base = self._place
        with self._explained(prefix):
            pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=base + prefix)
            objects = (entry for page in pages for entry in page.get("Contents", ()))
            return {
                entry["Key"].removeprefix(base): entry["Size"] for entry in objects if not entry["Key"].endswith("/")
            }

    def open(self, name: str) -> tuple[IO[bytes], int]:
        """The object's bytes as a stream, and its Content-Length."""
        bucket, base = self._place
        with self._explained(name):
            answer = self.client.get_object(Bucket=bucket, Key=base + name)
        return answer["Body"], answer["ContentLength"]

    @contextmanager
    def _explained(self, name: str) -> Iterator[None]:
        from botocore.exceptions import (
            BotoCoreError,
            ClientError,
            HTTPClientError,
            NoCredentialsError,
            PartialCredentialsError,
        )

        where = f"{self.root}/{name} cannot be read"
        try:
            yield
        except ClientError as error:
            code = error.response["Error"]["Code"]
            raise MedallionError(f"{where}: the server answered {code}{_ADVICE.get(code, '')}") from None
        except (NoCredentialsError, PartialCredentialsError):
            raise MedallionError(f"{where}: no credentials were found{_DENIED}") from None
        except (BotoCoreError, HTTPClientError) as error:
            told = " ".join(str(error).split())[:300]
            raise MedallionError(
                f"{where}: {told}; see MEDALLION_S3_ENDPOINT and the network, then run again"
            ) from None


_DENIED = "; a public bucket needs MEDALLION_S3_ANONYMOUS=true, another one credentials that its policy lets in"
_BUSY = "; it is busy: run again later"
_ADVICE = {
    **dict.fromkeys(("AccessDenied", "403", "InvalidAccessKeyId", "SignatureDoesNotMatch"), _DENIED),
    **dict.fromkeys(("SlowDown", "ServiceUnavailable", "503"), _BUSY),
    "NoSuchBucket": "; see MEDALLION_SOURCE, and MEDALLION_S3_ENDPOINT for a server of your own",
    "PermanentRedirect": "; the bucket is in another region: set MEDALLION_S3_REGION",
}


def open_source(settings: Settings) -> Source:
    """The source that ``settings`` names. Raises UsageError when a folder does not exist."""
    if not settings.source.startswith("s3://"):
        if not Path(settings.source).is_dir():
            raise UsageError(
                f"source {settings.source} does not exist: set MEDALLION_SOURCE,"
                f" or make a demo source there with medallion source generate {settings.source}"
            )
        return FolderSource(settings.source)
    import boto3
    from botocore import UNSIGNED
    from botocore.config import Config

    config = Config(
        region_name=settings.s3_region,
        signature_version=UNSIGNED if settings.s3_anonymous else None,
        retries={"mode": "standard", "total_max_attempts": _TRIES},
        connect_timeout=10,
        read_timeout=settings.s3_timeout,
        max_pool_connections=_AT_ONCE,
    )
    return S3Source(settings.source, boto3.Session().client("s3", endpoint_url=settings.s3_endpoint, config=config))


def change_files(source: Source, topics: tuple[str, ...]) -> dict[str, dict[str, str]]:
    """Every hour that the source lists, in order: hour -> topic -> name of its change file."""
    hours: dict[str, dict[str, str]] = {}
    for name in source.sizes("cdc/"):
        if (match := _CHANGE_FILE.fullmatch(name)) and match[1] in topics:
            hours.setdefault(match[2], {})[match[1]] = name
    return dict(sorted(hours.items()))


def copy_file(source: Source, name: str, target: Path) -> Landed:
    """Copy one file of the source to ``target``, whole or not at all.

    Raises MedallionError when fewer or more bytes arrive than the source said there are.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.{os.getpid()}.{get_ident()}.part")
    try:
        for tried in range(1, _TRIES + 1):
            try:
                landed = _copy_once(source, name, partial)
                break
            except _Cut as cut:
                if tried == _TRIES:
                    raise MedallionError(f"{source.root}/{name}: {cut}; run again") from None
                sleep(_BACK_OFF * 2 ** (tried - 1))
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    return landed


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
            if error.errno is not None:  # of the disk
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


def fingerprint(source: Source, name: str) -> Landed:
    """What ``copy_file`` would return for a file as the source has it now."""
    digest, read = hashlib.sha256(), 0
    with source.open(name)[0] as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
            read += len(chunk)
    return Landed(read, digest.hexdigest())


def copy_snapshot(source: Source, topic: str, target: Path, advance: Advance = silent) -> None:
    """Copy the snapshot of one table to the folder ``target``, several files at a time; it is whole or not there.

    What an interrupted copy has brought is kept, and the next one brings the rest. advance: told what is copied, and
    how many of how many files are.
    """
    prefix = f"snapshot/bronze_{topic}/"
    partial = target.with_name(f".{target.name}.part")
    sizes = source.sizes(prefix)
    if not sizes:
        raise MedallionError(f"{source.root} has no {prefix}: the snapshot needs all tables")
    places = {name: partial / name.removeprefix(prefix) for name in sizes}
    if outside := [name for name, place in places.items() if not place.resolve().is_relative_to(partial.resolve())]:
        raise MedallionError(f"{source.root}/{outside[0]} leads out of the snapshot: it is not read")
    there = {name for name, place in places.items() if place.exists() and place.stat().st_size == sizes[name]}
    missing = sorted(sizes.keys() - there)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        copies = [pool.submit(copy_file, source, name, places[name]) for name in missing]
        try:
            for number, copy in enumerate(as_completed(copies)):
                copy.result()
                advance(f"snapshot of {topic}", len(there) + number + 1, len(sizes))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    shutil.rmtree(target, ignore_errors=True)
    partial.rename(target)
