"""The person or persons that files are searched for, and what counts as a mention of them in a text."""

import re
from bisect import bisect_left
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from medallion.ingest.needles import Needles

_WORD = r"[^\s\"'`\\,;:=<>!?&|/()\[\]{}]+"
_BETWEEN = r"[\"'`\\\s]*(?:[:=<>!(\[{\s\"'`\\]|\bIN\b|\bIS\b|\bAS\b)*"
_UNICODE_ESCAPE = re.compile(r"\\+u([0-9a-fA-F]{4})")
_ESCAPED = re.compile(r"\\+([\"'/\\])")


@dataclass(frozen=True)
class Person:
    """The person or persons to search for.

    subjects: their ids as strings. columns: names of columns that hold such ids, in any letter case. needles: texts
    that belong only to them. hints: texts of theirs that count only in a line that names nobody, neither by such a
    column nor by one of ``owners``, which say of whose row a line is part, such as the order of an order line.
    """

    subjects: frozenset[str]
    columns: frozenset[str]
    needles: Needles = field(default_factory=Needles)
    hints: Needles = field(default_factory=Needles)
    owners: frozenset[str] = frozenset()

    @cached_property
    def names(self) -> frozenset[str]:
        """The column names in the form in which they are compared."""
        return frozenset(name.casefold() for name in self.columns)

    @cached_property
    def _names(self) -> "re.Pattern[str]":
        """Matches a subject column in a text, up to the value after it."""
        return re.compile(_any_of(self.columns) + _BETWEEN, re.IGNORECASE)

    @cached_property
    def _names_somebody(self) -> "re.Pattern[str] | None":
        columns = self.columns | self.owners
        return re.compile(_any_of(columns), re.IGNORECASE) if columns else None

    @cached_property
    def _named(self) -> "re.Pattern[str] | None":
        """Matches a subject column in a text and the values after it: ``user_id IN (41, 42)``, ``"user_id": 42``."""
        if not self.names or not self.subjects:
            return None
        values = rf"({_WORD}(?:[\"'`\\]*\s*,\s*[\"'`\\]*{_WORD})*)"
        return re.compile(self._names.pattern + values, re.IGNORECASE)

    @cached_property
    def _uncommon(self) -> Mapping[int, Set[str]]:
        """The subjects that are not one word, such as those with a blank, by their length."""
        uncommon: dict[int, set[str]] = {}
        for subject in self.subjects:
            if not re.fullmatch(_WORD, subject):
                uncommon.setdefault(len(subject), set()).add(subject)
        return uncommon

    def _has_uncommon_subject(self, text: str, place: int) -> bool:
        return any(
            text[place : place + length] in subjects and not re.match(r"\w", text[place + length : place + length + 1])
            for length, subjects in self._uncommon.items()
        )

    @cached_property
    def _numbers(self) -> list[int]:
        return sorted(int(text) for text in self.subjects if re.fullmatch(r"-?\d{1,19}", text))

    def is_in(self, text: str) -> bool:
        """Return whether a text contains one of the persons, as it is or with escapes as in JSON."""
        return self._is_in(text) or ("\\" in text and self._is_in(without_escapes(text)))

    def _is_in(self, text: str) -> bool:
        if self.needles.are_in(text) or self._has_hint(text):
            return True
        if self._named is None:
            return False
        if any(self._has_uncommon_subject(text, match.end()) for match in self._names.finditer(text)):
            return True
        values = (re.split(r"[\"'`\\\s]*,[\"'`\\\s]*", match[1]) for match in self._named.finditer(text))
        return any(
            not self.subjects.isdisjoint((value, value.rstrip("."), value.removesuffix(".0")))
            for items in values
            for value in items
        )

    def _has_hint(self, text: str) -> bool:
        lines = text.split("\n") if self.hints and self.hints.are_in(text) else ()
        named = self._names_somebody
        return any(self.hints.are_in(line) and not (named and named.search(line)) for line in lines)

    def has_number_between(self, least: Any, most: Any) -> bool:
        """Return whether one of their numeric ids lies within the bounds; True if the bounds are not integers."""
        if not isinstance(least, int) or not isinstance(most, int):
            return True
        place = bisect_left(self._numbers, least)
        return place < len(self._numbers) and self._numbers[place] <= most


def _any_of(columns: Set[str]) -> str:
    names = "|".join(sorted(map(re.escape, columns), key=len, reverse=True))
    return rf"(?<!\w)(?:{names})(?!\w)"


def without_escapes(text: str) -> str:
    """Return a text with the characters that escapes of JSON stand for, also in JSON within JSON."""
    text = _UNICODE_ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # two escapes may be one character
    return _ESCAPED.sub(r"\1", whole)
