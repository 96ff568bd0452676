"""The erased persons, each as a keyed digest: enough to recognise them again, not enough to name them.

``<lake>/ops/erasure/subjects.json`` has the digests, and ``key`` beside it their secret key. Readers of tables need
neither.
"""

import hmac
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from secrets import token_hex
from typing import Any

from medallion.errors import DamagedFile, UsageError
from medallion.model.column_types import parse_type
from medallion.model.registry import Registry
from medallion.model.table import Feed
from medallion.storage import fence, files
from medallion.storage.files import Place
from medallion.storage.lake import Lake

_WHOLE_NUMBER = re.compile(r"([+-]?[0-9]+)(?:\.0*)?")
_MAX_DIGITS = 60  # a longer text is no whole number that a column holds
PERSON = ""  # the kind of a person's digest; for the digest of a key, the kind is the feed's table


@dataclass(frozen=True)
class ErasedSubject:
    """The record of one digest. erased_at: in ISO 8601. lifted: the hour from which it is allowed again, if any."""

    erased_at: str
    lifted: str | None = None


@dataclass(frozen=True)
class ErasedSubjects:
    """Everybody who was erased from a lake."""

    key: bytes = field(default=b"", repr=False)
    digests: Mapping[str, ErasedSubject] = field(default_factory=dict)

    def digest(self, kind: str, value: Any) -> str:
        """Return the digest of ``value``; kind: PERSON, or the table whose key it is."""
        text = f"{kind}\0{subject_text(value)}"
        return hmac.digest(self.key, text.encode("utf-8", "surrogatepass"), "sha256").hex()

    def forbids(self, kind: str, value: Any, hour: str | None = None) -> bool:
        """Whether rows of ``hour`` about that person must not be in the lake; hour: None for the snapshot."""
        if not self.digests or value is None:
            return False
        known = self.digests.get(self.digest(kind, value))
        return known is not None and (known.lifted is None or (hour or "") < known.lifted)

    def with_erased(self, values: Mapping[str, Iterable[Any]]) -> "ErasedSubjects":
        """Return a copy with further persons; values: by kind of digest."""
        entry = ErasedSubject(datetime.now(UTC).isoformat(timespec="seconds"))
        added = {self.digest(kind, value): entry for kind, known in values.items() for value in known}
        return replace(self, digests={**self.digests, **added})

    def with_lifted(self, values: Iterable[Any], hour: str) -> "ErasedSubjects":
        """Return a copy with persons allowed from ``hour`` on. Raises UsageError for one who was not erased."""
        lifted = {}
        for place, value in enumerate(values, start=1):
            digest = self.digest(PERSON, value)
            if digest not in self.digests:
                raise UsageError(f"subject {place} was not erased from this lake: there is nothing to lift")
            lifted[digest] = replace(self.digests[digest], lifted=hour)
        return replace(self, digests={**self.digests, **lifted})


@dataclass(frozen=True)
class Registered:
    """The record of the persons erased from a lake."""

    lake: Lake

    @cached_property
    def folder(self) -> Place:
        """The folder of this record and of the plan of an erasure, which only the writer may read."""
        return self.lake.at(self.lake.ops("erasure"))

    def read(self) -> ErasedSubjects:
        """Return everybody who was erased. Raises DamagedFile if one of the two files is gone."""
        place = self.folder / "subjects.json"

        def parse(content: dict[str, Any]) -> dict[str, ErasedSubject]:
            return {digest: ErasedSubject(**known) for digest, known in content["digests"].items()}

        digests = files.read_record(place, parse, "restore it from a backup: erased persons would come back")
        try:
            known = ErasedSubjects(self._key(), digests or {})
        except FileNotFoundError:
            if not digests:
                return ErasedSubjects()
            raise self._is_gone("key") from None
        if digests is None:  # it is written before the key
            raise self._is_gone("subjects.json")
        return known

    def _is_gone(self, name: str) -> DamagedFile:
        return DamagedFile(
            f"{self.folder / name} is gone: without it no erased person is known again; restore it from a backup"
        )

    def read_or_begin(self) -> ErasedSubjects:
        """Return everybody who was erased, with a new key if nobody was erased yet."""
        known = self.read()
        if known.key:
            return known
        self.write(known)
        write_private(self.folder / "key", token_hex(32))
        return ErasedSubjects(self._key())

    def write(self, known: ErasedSubjects) -> None:
        """Replace the record atomically."""
        fence.require()
        content = {"digests": {digest: asdict(entry) for digest, entry in sorted(known.digests.items())}}
        write_private(self.folder / "subjects.json", files.json_text(content))

    def _key(self) -> bytes:
        return bytes.fromhex((self.folder / "key").read_text(encoding="ascii").strip())


def write_private(place: Place, text: str) -> None:
    """Write a file atomically that only its owner may read; in a bucket, the bucket's policy decides that."""
    if not isinstance(place, Path):
        place.write_text(text)
        return
    place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    partial = place.with_name(f".{place.name}.{os.getpid()}.part")
    partial.unlink(missing_ok=True)
    with open(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", encoding="utf-8") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    partial.replace(place)


def subject_text(value: Any, kind: str = "STRING") -> str:
    """Return the same text for equal values of a subject column of type ``kind``.

    In a column of whole numbers, 42, "042" and 42.0 name the same person; in a STRING, "4" and "4.0" are two persons.
    """
    text = str(value)
    number = _WHOLE_NUMBER.fullmatch(text) if kind != "STRING" and len(text) <= _MAX_DIGITS else None
    return str(int(number[1])) if number else text


def subjects_in(text: str) -> list[str]:
    """Return the subjects in a text, one on each line. A byte order mark before the first belongs to none."""
    return [line.strip() for line in text.removeprefix("\ufeff").splitlines() if line.strip()]


def parse_subjects(tables: Registry, texts: Iterable[str]) -> list[str]:
    """Return subjects in the form of ``subject_text``, each once: as numbers if no feed names persons by a STRING.

    Raises UsageError if no feed declares a subject, and for a text that the subject of no feed can be. The message has
    the place of the text, because it must not name a person.
    """
    kinds = {feed.name: subject_type(feed) for feed in tables.feeds if feed.subject and not feed.subject_of}
    if not kinds:
        raise UsageError("this project declares no subject: name the column of the person in a feed, as subject=...")
    known = dict[str, None]()
    for place, text in enumerate(texts, start=1):
        if not text.strip() or not any(_fits(kind, text) for kind in kinds.values()):
            of = ", ".join(f"{name} has {kind}" for name, kind in kinds.items())
            raise UsageError(f"subject {place} is of no type that names a person here: {of}")
        known[subject_text(text, "STRING" if "STRING" in kinds.values() else "BIGINT")] = None
    return [*known]


def values_for(feed: Feed, texts: Iterable[str]) -> list[Any]:
    """Return subjects as values of the subject column of ``feed``, without those that its type cannot hold."""
    kind = subject_type(feed)
    fitting = [text for text in texts if _fits(kind, text)]
    return sorted(fitting) if kind == "STRING" else sorted(int(text) for text in fitting)


def subject_type(feed: Feed) -> str:
    """Return the type of the subject column of ``feed``."""
    return type_of(feed, feed.subject)


def type_of(feed: Feed, name: str) -> str:
    """Return the type of a column of ``feed``."""
    return next(str(parse_type(column.type)) for column in feed.columns if column.name == name)


def owners_first(feeds: Iterable[Feed]) -> list[Feed]:
    """Return the feeds with a subject, each after the feed that its subject refers to."""
    by_name = {feed.name: feed for feed in feeds}

    def depth(feed: Feed) -> int:
        return 1 + depth(by_name[feed.subject_of]) if feed.subject_of else 0

    return sorted((feed for feed in by_name.values() if feed.subject), key=depth)


_LIMITS = {"TINYINT": 7, "SMALLINT": 15, "INT": 31, "BIGINT": 63}  # bits beside the sign


def _fits(kind: str, text: str) -> bool:
    if kind == "STRING":
        return True
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdecimal() and len(digits) < 20 and abs(int(text)) < 1 << _LIMITS[kind]
