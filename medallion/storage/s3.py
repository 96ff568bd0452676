"""Buckets: how to access them, and a path into a bucket with the interface of pathlib."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import PurePosixPath
from tempfile import TemporaryFile
from typing import IO, Any

from medallion.errors import MedallionError
from medallion.settings import Settings
from medallion.storage.s3_errors import LAKE, explained

SCHEME = "s3a://"  # Hadoop's scheme, which delta-rs knows too
AT_ONCE = 8  # most requests at a time
_TRIES = 5  # most tries of a request
# Error codes of a conditional put whose condition is not met.
CONFLICTS = frozenset({"PreconditionFailed", "412", "ConditionalRequestConflict", "409"})


@dataclass(frozen=True)
class S3Access:
    """How to access buckets: the server (None for AWS), the region, and the seconds without a byte until a retry."""

    endpoint: str | None = None
    region: str | None = None
    timeout: float = 60.0

    @classmethod
    def of(cls, settings: Settings) -> "S3Access":
        """Return the access that ``settings`` name."""
        return cls(settings.s3_endpoint, settings.s3_region, settings.s3_timeout)

    def client(self, *, anonymous: bool = False, tries: int = _TRIES) -> Any:
        """Return a client, shared by this process, with the usual AWS credential chain unless ``anonymous``."""
        return _client(self, anonymous, tries)

    @property
    def region_name(self) -> str:
        """The region in the settings, else in AWS's own configuration, else us-east-1."""
        return str(self.client().meta.region_name)


AWS = S3Access()


@lru_cache(maxsize=8)
def _client(access: S3Access, anonymous: bool, tries: int) -> Any:
    import boto3
    from botocore import UNSIGNED
    from botocore.config import Config

    session = boto3.Session()
    config = Config(
        signature_version=UNSIGNED if anonymous else None,
        retries={"mode": "standard", "total_max_attempts": tries},
        connect_timeout=10,
        read_timeout=access.timeout,
        max_pool_connections=2 * AT_ONCE,
    )
    region = access.region or session.region_name or "us-east-1"
    return session.client("s3", endpoint_url=access.endpoint, region_name=region, config=config)


@dataclass(frozen=True)
class Stat:
    """Size of an object in bytes, and when it was written, in seconds since the epoch."""

    st_size: int
    st_mtime: float


@dataclass(frozen=True, order=True)
class S3Path:
    """A place in a bucket: an object, or all objects under its name, with the part of pathlib's interface used here.

    An object is written atomically. There are no real folders: a folder exists as long as it contains an object. Errors
    are those of ``explained``.
    """

    bucket: str
    key: str
    access: S3Access = field(compare=False, repr=False)
    _stat: Stat | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(cls, uri: str, access: S3Access) -> "S3Path":
        """Return the place that ``s3a://bucket/key`` names."""
        bucket, _, key = uri.removeprefix(SCHEME).partition("/")
        return cls(bucket, key.strip("/"), access)

    def __str__(self) -> str:
        return f"{SCHEME}{self.bucket}/{self.key}"

    def __truediv__(self, name: str) -> "S3Path":
        return S3Path(self.bucket, f"{self.key}/{name}".strip("/"), self.access)

    @property
    def _pure(self) -> PurePosixPath:
        return PurePosixPath(self.key)

    @property
    def name(self) -> str:
        """The last part of the key."""
        return self._pure.name

    @property
    def stem(self) -> str:
        """The last part of the key without its suffix."""
        return self._pure.stem

    @property
    def parts(self) -> tuple[str, ...]:
        """The bucket, then the parts of the key."""
        return (self.bucket, *self._pure.parts)

    @property
    def parent(self) -> "S3Path":
        """The folder above."""
        return S3Path(self.bucket, self.key.rpartition("/")[0], self.access)

    def with_name(self, name: str) -> "S3Path":
        """Return the place with another name in the same folder."""
        return self.parent / name

    def with_suffix(self, suffix: str) -> "S3Path":
        """Return the place with another suffix in the same folder."""
        return self.parent / self._pure.with_suffix(suffix).name

    def relative_to(self, other: "S3Path") -> PurePosixPath:
        """Return the path of this place relative to ``other``."""
        return self._pure.relative_to(other._pure)

    def absolute(self) -> "S3Path":
        """Return this place, which is always absolute."""
        return self

    def exists(self) -> bool:
        """Whether the object exists."""
        try:
            self.stat()
        except FileNotFoundError:
            return False
        return True

    is_file = exists

    def stat(self) -> Stat:
        """Return size and time of the object: from the listing that it came from, else as they are now."""
        if self._stat is not None:
            return self._stat
        with explained(f"{self} cannot be read", LAKE):
            head = self._client.head_object(Bucket=self.bucket, Key=self.key)
            return _stat(head["ContentLength"], head["LastModified"])

    def read_bytes(self) -> bytes:
        """Return the content of the object."""
        with explained(f"{self} cannot be read", LAKE):
            content: bytes = self._client.get_object(Bucket=self.bucket, Key=self.key)["Body"].read()
            return content

    def read_text(self, encoding: str = "utf-8") -> str:
        """Return the content of the object as text."""
        return self.read_bytes().decode(encoding)

    def open(self, mode: str = "rb") -> IO[bytes]:
        """Open a local copy of the object, which is downloaded first, so that a reader sees no broken connection."""
        assert mode == "rb", "an object is written by files.whole"
        local = TemporaryFile()  # noqa: SIM115 (the caller closes it)
        try:
            with explained(f"{self} cannot be read", LAKE):
                self._client.download_fileobj(self.bucket, self.key, local)
        except BaseException:
            local.close()
            raise
        local.seek(0)
        return local

    def write_bytes(self, content: bytes) -> None:
        """Write the object."""
        with explained(f"{self} cannot be written", LAKE):
            self._client.put_object(Bucket=self.bucket, Key=self.key, Body=content)

    def create(self, content: bytes) -> bool:
        """Create the object; return False, and change nothing, if it exists with other content."""
        from botocore.exceptions import ClientError

        with explained(f"{self} cannot be written", LAKE):
            try:
                self._client.put_object(Bucket=self.bucket, Key=self.key, Body=content, IfNoneMatch="*")
            except ClientError as error:
                if error.response["Error"]["Code"] not in CONFLICTS:
                    raise
                # A retry of a request that had succeeded is refused too.
                return self.exists() and self.read_bytes() == content
        return True

    def write_text(self, text: str, encoding: str = "utf-8") -> None:
        """Write the object as text."""
        self.write_bytes(text.encode(encoding))

    def upload(self, file: str | os.PathLike[str]) -> None:
        """Write the content of a local file to the object."""
        from boto3.exceptions import S3UploadFailedError

        with explained(f"{self} cannot be written", LAKE):
            try:
                self._client.upload_file(os.fspath(file), self.bucket, self.key)
            except S3UploadFailedError as error:
                raise error.__context__ or error from None

    def require_writable(self) -> None:
        """Write an object under this name and remove it again. Raises MedallionError if that fails."""
        probe = self / f".writable-{os.getpid()}"
        probe.write_bytes(b"")
        probe.unlink()

    def mkdir(self, *, parents: bool = False, exist_ok: bool = False) -> None:
        """Do nothing: there are no folders."""

    def unlink(self, *, missing_ok: bool = False) -> None:
        """Remove the object; the service does not report whether it existed."""
        with explained(f"{self} cannot be removed", LAKE):
            self._client.delete_object(Bucket=self.bucket, Key=self.key)

    def remove_tree(self) -> None:
        """Remove all objects under this name."""
        every = [{"Key": place.key} for place in self.rglob("*")]
        with explained(f"{self} cannot be removed", LAKE):
            for start in range(0, len(every), 1000):
                answer = self._client.delete_objects(
                    Bucket=self.bucket, Delete={"Objects": every[start : start + 1000], "Quiet": True}
                )
                if errors := answer.get("Errors"):
                    raise MedallionError(f"{self} cannot be removed: {errors[0].get('Message') or errors[0]['Code']}")

    def copy_tree(self, target: "S3Path") -> None:
        """Copy all objects under this name to ``target``, within the service."""
        for place in self.rglob("*"):
            copy = target / str(place.relative_to(self))
            with explained(f"{place} cannot be copied to {copy}", LAKE):
                self._client.copy({"Bucket": place.bucket, "Key": place.key}, copy.bucket, copy.key)

    def iterdir(self) -> Iterator["S3Path"]:
        """List the objects directly under this name, and the names that have objects under them."""
        yield from self._list("/")

    def glob(self, pattern: str) -> Iterator["S3Path"]:
        """List what matches ``pattern``, which has no ``**``; below the first level, objects only."""
        wanted = pattern.split("/")
        places = self.iterdir() if len(wanted) == 1 else self._list("")
        for place in places:
            names = place.relative_to(self).parts
            if len(names) == len(wanted) and all(map(fnmatchcase, names, wanted)):
                yield place

    def rglob(self, pattern: str) -> Iterator["S3Path"]:
        """List every object under this name whose last part matches ``pattern``."""
        return (place for place in self._list("") if fnmatchcase(place.name, pattern))

    def _list(self, delimiter: str) -> Iterator["S3Path"]:
        prefix = f"{self.key}/" if self.key else ""
        with explained(f"{self} cannot be listed", LAKE):
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self.bucket, Prefix=prefix, Delimiter=delimiter
            )
            for page in pages:
                for folder in page.get("CommonPrefixes", ()):
                    yield S3Path(self.bucket, folder["Prefix"].rstrip("/"), self.access)
                for entry in page.get("Contents", ()):
                    if not entry["Key"].endswith("/"):  # other tools create such objects for folders
                        yield S3Path(
                            self.bucket, entry["Key"], self.access, _stat(entry["Size"], entry["LastModified"])
                        )

    @property
    def _client(self) -> Any:
        return self.access.client()


def _stat(size: int, written: datetime) -> Stat:
    return Stat(size, written.timestamp())
