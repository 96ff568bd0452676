"""Drop or blank lines of change files about erased persons before they count as landed.

A dropped line leaves an empty one, so that other lines keep their numbers. Lines are not interpreted here: in every
format, an object that has an erased value in the subject column is about that person.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from medallion.counts import counted
from medallion.ingest.change_lines import MAX_LINE, is_too_long
from medallion.ingest.erased_subjects import (
    PERSON,
    ErasedSubjects,
    Registered,
    owners_first,
    subject_text,
    subject_type,
    type_of,
)
from medallion.ingest.needles import Needles
from medallion.ingest.parts import Part
from medallion.ingest.source import Landed, digest
from medallion.model.table import BLANK, Feed
from medallion.storage.files import Place, whole
from medallion.storage.lake import Lake

_VALUE = rb'"\s*:\s*("(?:[^"\\]|\\.)*"|[-+.0-9eE]+)'
_NUMBER = "\0#"  # begins the text in place of a number with a fraction, so that its digits stay the same
_AS_NUMBER = re.compile(r'"\\u0000#([^"]*)"')
_DROPPED: Any = object()
_KNOWN_VALUES = 1 << 16  # most values of the subject column whose verdict is cached
NO_NEEDLES = Needles()
Forbids = Callable[[Any], bool]


@dataclass
class ErasedLines:
    """Remove lines about erased persons from the landed files of one hour.

    feeds: the feeds about persons, by topic. counts: lines by topic and what was done to them, ``dropped`` or
    ``blanked``.
    """

    register: Registered
    feeds: Mapping[str, Feed]
    known: ErasedSubjects
    hour: str
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)

    @classmethod
    def of(cls, lake: Lake, feeds: Iterable[Feed], hour: str) -> "ErasedLines":
        """Return an instance for the persons erased from ``lake``. Raises DamagedFile if these cannot be read."""
        register = Registered(lake)
        return cls(register, {feed.topic: feed for feed in owners_first(feeds)}, register.read(), hour)

    def owners_first(self, topics: Iterable[str]) -> list[str]:
        """Return topics in the order in which their files are to be cleaned.

        A new order of an erased person is seen before its lines, which name nobody.
        """
        places = {topic: place for place, topic in enumerate(self.feeds)}
        return sorted(topics, key=lambda topic: places.get(topic, 0))

    def in_landed(self, topic: str, place: Place, landed: Landed, names: Sequence[str]) -> Landed:
        """Rewrite a file that has just landed from ``names`` at the source, if it has lines of erased persons.

        The parts in the result describe the files as they came from the source, so that a later change of these is
        still noticed.
        """
        cleaned = self.in_file(topic, place)
        if not cleaned.dropped and not cleaned.blanked:
            return landed
        parts = landed.parts or (Part(names[0], landed.bytes, landed.sha256, cleaned.lines),)
        return replace(facts_of(place), parts=parts)

    def in_file(self, topic: str, place: Place) -> "Cleaned":
        """Rewrite a file of lines of ``topic``, if it has lines of erased persons, and count these."""
        if topic not in self.feeds or not self.known.digests:
            return Cleaned()
        cleaner = LineCleaner.of(self.feeds[topic], self.known, self.hour)
        cleaned = clean_file(place, cleaner)
        self._remember_keys(self.feeds[topic], cleaner.keys)
        self.counts[topic, "dropped"] += cleaned.dropped
        self.counts[topic, "blanked"] += cleaned.blanked
        return cleaned

    def _remember_keys(self, feed: Feed, keys: Iterable[str]) -> None:
        """Record the keys of removed rows before their hour lands, if rows of other feeds refer to them."""
        new = {key for key in keys if not self.known.forbids(feed.name, key)}
        if new and any(other.subject_of == feed.name for other in self.feeds.values()):
            self.known = self.known.with_erased({feed.name: new})
            self.register.write(self.known)

    def describe(self) -> str:
        """Describe what was done; empty if there was nothing to do."""
        done = [
            f"{counted(count, 'line')} of {topic} {what}"
            for (topic, what), count in sorted(self.counts.items())
            if count
        ]
        return f"{', '.join(done)}, as they are about erased persons" if done else ""


def without_erased(lake: Lake, feed: Feed, hour: str, lines: Mapping[int, str]) -> dict[int, str]:
    """Return corrected lines, with those about erased persons blanked, or empty if they are to be dropped."""
    known = Registered(lake).read() if lines and feed.subject else ErasedSubjects()
    if not known.digests:
        return dict(lines)
    cleaner = LineCleaner.of(feed, known, hour)
    return {number: (cleaner.clean_text(raw) or "") for number, raw in lines.items()}


def facts_of(place: Place) -> Landed:
    """Return size and checksum of a file as it is now."""
    with place.open("rb") as stream:
        return digest(stream)


def clean_file(place: Place, cleaner: "LineCleaner", record: Callable[[Landed, int], None] | None = None) -> "Cleaned":
    """Rewrite a file of lines without those about erased persons, if it has any.

    record: called with size, checksum and number of lines of the new file before it replaces the old one.
    """
    cleaned = _clean_lines(place, cleaner, lambda _: None)
    if cleaned.dropped or cleaned.blanked:
        with whole(place) as partial:
            with partial.open("wb") as out:
                _clean_lines(place, cleaner, out.write)
            if record is not None:
                record(facts_of(partial), cleaned.lines)
    return cleaned


@dataclass(frozen=True)
class Cleaned:
    """The numbers of lines in a file, of dropped lines, and of blanked lines."""

    lines: int = 0
    dropped: int = 0
    blanked: int = 0


def _clean_lines(place: Place, cleaner: "LineCleaner", write: Callable[[bytes], Any]) -> Cleaned:
    lines = dropped = blanked = 0
    with place.open("rb") as stream:
        while raw := stream.readline(MAX_LINE + len(b"\r\n")):
            cleaned = cleaner.clean(raw)
            lines, dropped, blanked = lines + 1, dropped + (cleaned is None), blanked + (cleaned not in (None, raw))
            write(b"\n" if cleaned is None else cleaned)
            while not raw.endswith(b"\n") and (raw := stream.readline(MAX_LINE)):  # the rest of a line that is too long
                write(b"" if cleaned is None else raw)
    return Cleaned(lines, dropped, blanked)


@dataclass
class LineCleaner:
    """Clean the lines of one feed. forbids: whether a value of the subject column is that of an erased person.

    needles: texts that identify an erased person wherever they occur. hints: texts that do in a line that names
    nobody. keys: the keys of all rows that were dropped or blanked by their subject, as texts, if the feed has a single
    key column.
    """

    feed: Feed
    forbids: Forbids
    needles: Needles = NO_NEEDLES
    hints: Needles = NO_NEEDLES
    keys: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._subject = re.compile(b'(?i)"' + re.escape(self.feed.subject.encode()) + _VALUE)
        self._name = self.feed.subject.casefold()
        self._blanked_columns = {name.casefold() for name in self.feed.personal_columns}
        kind, forbids = subject_type(self.feed), self.forbids
        self._forbids = lru_cache(_KNOWN_VALUES)(lambda value: value is not None and forbids(subject_text(value, kind)))
        self._changed = False
        self._key, *others = (name.casefold() for name in self.feed.keys)
        self._has_key = not others
        self._key_type = type_of(self.feed, self.feed.keys[0])

    @classmethod
    def of(cls, feed: Feed, known: ErasedSubjects, hour: str | None) -> "LineCleaner":
        """Return a cleaner for everybody who is ``known`` to be erased as of ``hour``."""
        kind = feed.subject_of or PERSON
        return cls(feed, lambda value: known.forbids(kind, value, hour))

    def clean_text(self, line: str) -> str | None:
        """Do the same as ``clean`` for a text."""
        cleaned = self.clean(line.encode("utf-8", "surrogatepass"))
        return None if cleaned is None else cleaned.decode("utf-8", "surrogatepass")

    def clean(self, raw: bytes) -> bytes | None:
        """Return the line without erased persons, unchanged if it has none; None if nothing of it remains."""
        return self._cleaned(raw) if self._may_have_one(raw) else raw

    def _may_have_one(self, raw: bytes) -> bool:
        if self._has_needle(raw):
            return True
        if b"\\u" in raw:  # the column or the value may be written with escapes
            return True
        return any(self._forbids(_scalar(match[1])) for match in self._subject.finditer(raw))

    def _cleaned(self, raw: bytes) -> bytes | None:
        try:
            if is_too_long(raw):
                raise ValueError
            record = json.loads(
                raw.removeprefix(b"\xef\xbb\xbf").decode(),
                parse_float=_as_text,
                parse_constant=_as_text,
                object_pairs_hook=self._as_object,
            )
        except (ValueError, RecursionError):  # the line will be rejected, and its quoted text must not remain
            names_subject = any(self._forbids(_scalar(match[1])) for match in self._subject.finditer(raw))
            return None if names_subject or self._has_needle(raw) else raw
        self._changed = False
        remainder = self._clean_value(record)
        if remainder is _DROPPED:
            return None
        if not self._changed:  # a needle identifies the erased person even in a line that names somebody else
            return None if self._has_needle(raw) else raw
        text = _AS_NUMBER.sub(r"\1", json.dumps(remainder, ensure_ascii=False))
        cleaned = text.encode("utf-8", "surrogatepass")
        return None if self.needles and self.needles.are_in(text) else cleaned + b"\n"

    def _has_needle(self, raw: bytes) -> bool:
        if not self.needles and not self.hints:
            return False
        text = raw.decode("utf-8", "replace")
        return self.needles.are_in(text) or (not self._subject.search(raw) and self.hints.are_in(text))

    def _as_object(self, pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
        """Return the object. Raises ValueError if it names the subject twice, because either value may count."""
        row = dict(pairs)
        if len(row) < len(pairs) and sum(name.casefold() == self._name for name, _ in pairs) > 1:
            raise ValueError
        return row

    def _clean_value(self, value: Any) -> Any:
        if isinstance(value, dict):
            return self._clean_object(value)
        if isinstance(value, list) and value:
            items = [item for item in map(self._clean_value, value) if item is not _DROPPED]
            self._changed |= len(items) < len(value)
            return items or _DROPPED
        return value

    def _clean_object(self, row: dict[str, Any]) -> Any:
        # An undeclared column beside it may differ in letter case alone, so each is looked at.
        subjects = (value for name, value in row.items() if name.casefold() == self._name)
        if any(not isinstance(value, dict | list) and self._forbids(_plain(value)) for value in subjects):
            self._changed = True
            self._collect_key(row)
            if self.feed.erase != BLANK:
                return _DROPPED
            return {name: None if name.casefold() in self._blanked_columns else v for name, v in row.items()}
        fields = {name: self._clean_value(value) for name, value in row.items()}
        gone = {name for name, value in fields.items() if value is _DROPPED}
        if gone == {"before"} and isinstance(fields.get("after"), dict):  # the row now belongs to somebody else
            return fields | {"before": None}
        return _DROPPED if gone else fields

    def _collect_key(self, row: Mapping[str, Any]) -> None:
        key = next((value for name, value in row.items() if name.casefold() == self._key), None)
        if self._has_key and key is not None and not isinstance(key, dict | list):
            self.keys.add(subject_text(_plain(key), self._key_type))


def _as_text(number: str) -> str:
    return f"{_NUMBER}{number}"


def _plain(value: Any) -> Any:
    return value.removeprefix(_NUMBER) if isinstance(value, str) else value


def _scalar(raw: bytes) -> Any:
    """Return the value of a JSON text or number in a line; the text itself if it is neither."""
    text = raw.decode("utf-8", "replace")
    try:
        return json.loads(text, parse_float=str)
    except ValueError:
        return text.strip('"')
