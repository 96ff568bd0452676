"""The source: one root, a folder or an S3 prefix, with a snapshot and a change file per feed and hour."""

import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

from spark_jobs.core.errors import MedallionError, UsageError
from spark_jobs.core.hours import PATTERN
from spark_jobs.core.settings import Settings

_CHANGE_FILE = re.compile(rf"cdc/([a-z_]+)/({PATTERN})\.json")
_CHUNK = 1 << 20


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

    def names(self, prefix: str) -> Iterator[str]:
        """Every file under ``prefix``."""

    def open(self, name: str) -> tuple[IO[bytes], int]:
        """The file's bytes and its size as the source states it. Raises MedallionError when it cannot be read."""


@dataclass(frozen=True)
class FolderSource:
    """A source in a folder."""

    root: str

    def names(self, prefix: str) -> Iterator[str]:
        """Every file under ``prefix``, an empty sequence where there is none."""
        base = Path(self.root)
        for folder, _, files in os.walk(base / prefix):
            yield from (Path(folder, file).relative_to(base).as_posix() for file in files)

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

    def names(self, prefix: str) -> Iterator[str]:
        """Every object under ``prefix``, without those that stand for folders."""
        bucket, base = self._place
        with self._explained(prefix):
            for page in self.client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=base + prefix):
                keys = (entry["Key"] for entry in page.get("Contents", ()))
                yield from (key.removeprefix(base) for key in keys if not key.endswith("/"))

    def open(self, name: str) -> tuple[IO[bytes], int]:
        """The object's bytes as a stream, and its Content-Length."""
        bucket, base = self._place
        with self._explained(name):
            answer = self.client.get_object(Bucket=bucket, Key=base + name)
        return answer["Body"], answer["ContentLength"]

    @contextmanager
    def _explained(self, name: str) -> Iterator[None]:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            yield
        except ClientError as error:
            code = error.response["Error"]["Code"]
            raise MedallionError(f"{self.root}/{name} cannot be read: the server answered {code}") from None
        except BotoCoreError as error:
            raise MedallionError(f"{self.root}/{name} cannot be read: {type(error).__name__}") from None


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
        retries={"mode": "standard", "total_max_attempts": 5},
        connect_timeout=10,
        read_timeout=60,
    )
    return S3Source(settings.source, boto3.client("s3", endpoint_url=settings.s3_endpoint, config=config))


def change_files(source: Source, topics: tuple[str, ...]) -> dict[str, dict[str, str]]:
    """Every hour that the source lists, in order: hour -> topic -> name of its change file."""
    hours: dict[str, dict[str, str]] = {}
    for name in source.names("cdc/"):
        if (match := _CHANGE_FILE.fullmatch(name)) and match[1] in topics:
            hours.setdefault(match[2], {})[match[1]] = name
    return dict(sorted(hours.items()))


def copy_file(source: Source, name: str, target: Path) -> Landed:
    """Copy one file of the source to ``target``, whole or not at all.

    Raises MedallionError when fewer or more bytes arrive than the source said there are.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.{os.getpid()}.part")
    digest, copied = hashlib.sha256(), 0
    stream, size = source.open(name)
    try:
        with stream, partial.open("wb") as out:
            while chunk := stream.read(_CHUNK):
                out.write(chunk)
                digest.update(chunk)
                copied += len(chunk)
            out.flush()
            os.fsync(out.fileno())
        if copied != size:
            raise MedallionError(f"{source.root}/{name}: {copied} of {size} bytes arrived; run again")
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    return Landed(copied, digest.hexdigest())


def fingerprint(source: Source, name: str) -> Landed:
    """What ``copy_file`` would return for a file as the source has it now."""
    digest, read = hashlib.sha256(), 0
    with source.open(name)[0] as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
            read += len(chunk)
    return Landed(read, digest.hexdigest())


def copy_snapshot(source: Source, topic: str, target: Path) -> None:
    """Copy the snapshot of one table to the folder ``target``, whole or not at all."""
    prefix = f"snapshot/bronze_{topic}/"
    partial = target.with_name(f".{target.name}.part")
    shutil.rmtree(partial, ignore_errors=True)
    for name in source.names(prefix):
        copy_file(source, name, partial / name.removeprefix(prefix))
    if not partial.exists():
        raise MedallionError(f"{source.root} has no {prefix}: the snapshot needs all tables")
    shutil.rmtree(target, ignore_errors=True)
    partial.rename(target)
