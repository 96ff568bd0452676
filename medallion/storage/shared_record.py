"""A small JSON record that several machines change by compare-and-swap, on a (shared) disk or in a bucket.

In a bucket it is one object, written with ``If-Match`` or ``If-None-Match``. On a disk each change is a new file with
the next number, created by a hard link: the file system refuses a link whose name exists, from whichever machine. The
age of a record is measured by the clock of the store, never by comparing the clocks of two machines.
"""

import errno
import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

from medallion.errors import NOT_ALLOWED, MedallionError
from medallion.storage.files import Place
from medallion.storage.s3 import CONFLICTS, S3Path
from medallion.storage.s3_errors import LAKE, explained

_KEPT_FILES = 20  # states that are kept on a disk, so that a late writer finds its number taken
_REQUEST_SECONDS = 5.0  # the record is small, and a lease holder must learn quickly whether it still holds the lease


@dataclass(frozen=True)
class Entry:
    """One state of a record.

    number: grows by one with each change. age: seconds since it was written, by the store's clock. tag: the store's
    identifier of this state.
    """

    number: int
    content: Mapping[str, Any]
    age: float
    tag: str = ""


class SharedRecord(Protocol):
    """A record at one place."""

    def read(self) -> Entry | None:
        """Return the newest state; None if there is none yet."""

    def swap(self, former: Entry | None, content: Mapping[str, Any]) -> Entry | None:
        """Replace ``former`` by ``content`` and return the new state; None if ``former`` is no longer the newest."""


def shared_record(place: Place) -> SharedRecord:
    """Return the record at ``place``: a folder on a disk, an object in a bucket."""
    return BucketRecord(place) if isinstance(place, S3Path) else DiskRecord(place)


class DiskRecord:
    """A record in a folder, with one file for each state; the highest number is the newest."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self) -> Entry | None:
        """Return the newest state; a state that a power failure left unreadable is empty."""
        while numbers := self._numbers():
            path = self._file(numbers[-1])
            try:
                text, written = path.read_text(encoding="utf-8"), path.stat().st_mtime
            except FileNotFoundError:
                continue  # replaced in the meantime
            return Entry(numbers[-1], _parse(text), self._now() - written)
        return None

    def swap(self, former: Entry | None, content: Mapping[str, Any]) -> Entry | None:
        """Do as SharedRecord says. Raises MedallionError if the disk has no hard links or cannot be written."""
        number = 1 if former is None else former.number + 1
        try:
            draft = self._draft(json.dumps(dict(content)))
            try:
                os.link(draft, self._file(number))
            except FileExistsError:
                return None
            finally:
                draft.unlink(missing_ok=True)
            numbers = self._numbers()
        except OSError as error:
            advice = "free some, then run this again" if error.errno == errno.ENOSPC else "a lake needs hard links"
            raise MedallionError(f"{self._folder} cannot be written: {error.strerror}; {advice}") from None
        if numbers[-1] > number:  # the name was free because that state was removed long ago
            with suppress(FileNotFoundError):
                self._file(number).unlink()
            return None
        for old in numbers[:-_KEPT_FILES]:
            with suppress(FileNotFoundError):
                self._file(old).unlink()
        return Entry(number, content, 0.0)

    def _numbers(self) -> list[int]:
        try:
            return sorted(int(name[:-5]) for name in os.listdir(self._folder) if name[:-5].isdigit())
        except FileNotFoundError:
            return []

    def _file(self, number: int) -> Path:
        return self._folder / f"{number:012}.json"

    def _draft(self, text: str) -> Path:
        self._folder.mkdir(parents=True, exist_ok=True)
        draft = self._folder / f".{uuid4().hex}"
        try:
            draft.write_text(text, encoding="utf-8")
        except OSError:
            draft.unlink(missing_ok=True)
            raise
        return draft

    def _now(self) -> float:
        """Return the time by the clock that stamps the files: on a shared disk, that of its server."""
        try:
            draft = self._draft("")
        except OSError as error:
            # A reader without write permission: this machine's clock is accurate enough to show the age.
            if error.errno in NOT_ALLOWED:
                return time.time()
            raise MedallionError(f"{self._folder} cannot be written: {error.strerror}") from None
        try:
            return draft.stat().st_mtime
        finally:
            draft.unlink(missing_ok=True)


class BucketRecord:
    """A record in an object of a bucket."""

    def __init__(self, place: S3Path) -> None:
        self._place = place

    def read(self) -> Entry | None:
        """Return the newest state; None if there is none yet."""
        with explained(f"{self._place} cannot be read", LAKE):
            try:
                answer = self._client.get_object(Bucket=self._place.bucket, Key=self._place.key)
            except self._client.exceptions.NoSuchKey:
                return None
            content, headers = json.loads(answer["Body"].read()), answer["ResponseMetadata"]["HTTPHeaders"]
        now = parsedate_to_datetime(headers["date"])
        return Entry(content.pop("number"), content, (now - answer["LastModified"]).total_seconds(), answer["ETag"])

    def swap(self, former: Entry | None, content: Mapping[str, Any]) -> Entry | None:
        """Do as SharedRecord says. A retry of a request that had succeeded counts as refused."""
        from botocore.exceptions import ClientError

        entry = Entry(1 if former is None else former.number + 1, content, 0.0)
        condition = {"IfNoneMatch": "*"} if former is None else {"IfMatch": former.tag}
        body = json.dumps({**content, "number": entry.number})
        with explained(f"{self._place} cannot be written", LAKE):
            try:
                answer = self._client.put_object(
                    Bucket=self._place.bucket, Key=self._place.key, Body=body.encode(), **condition
                )
            except ClientError as error:
                if error.response["Error"]["Code"] in CONFLICTS:
                    return None
                raise
        return replace(entry, tag=answer["ETag"])

    @property
    def _client(self) -> Any:
        access = self._place.access
        return replace(access, timeout=min(access.timeout, _REQUEST_SECONDS)).client(tries=2)


def _parse(text: str) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads(text)
    except ValueError:
        return {}
    return content
