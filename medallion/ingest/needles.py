"""Search for many texts in one pass that identify a person wherever they occur, such as an email address."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

MIN_LENGTH = 5  # shorter texts occur in other words by chance
_START = re.compile(r"(?<!\w)\w+|\W", re.DOTALL)  # a word, or any other character
_TOKEN = re.compile(r"[^\s\"'`\\<>,;:=?&|/(){}\[\]]+")


@dataclass(frozen=True)
class Needles:
    """Texts, each looked for as a word or a group of words."""

    texts: frozenset[str] = frozenset()

    @classmethod
    def of(cls, texts: Collection[str]) -> "Needles":
        """Return the needles among ``texts``: those that are long enough to identify somebody."""
        return cls(frozenset(text.strip() for text in texts if len(text.strip()) >= MIN_LENGTH))

    def __bool__(self) -> bool:
        return bool(self.texts)

    @cached_property
    def tokens(self) -> frozenset[str]:
        """The texts that are one word, without a separator of words."""
        return frozenset(text for text in self.texts if _TOKEN.fullmatch(text))

    @cached_property
    def _phrases(self) -> Mapping[str, Sequence[str]]:
        """The other texts, by the letters that each begins with: so thousands of them cost no more than one."""
        phrases: dict[str, list[str]] = {}
        for phrase in self.texts - self.tokens:
            phrases.setdefault(_START.match(phrase)[0], []).append(phrase)  # type: ignore[index]
        return phrases

    @cached_property
    def _encoded(self) -> tuple[frozenset[bytes], frozenset[bytes], Sequence[int]]:
        """The texts as bytes, what each begins with, and their lengths: thousands of them cost no more than one."""
        encoded = frozenset(text.encode() for text in self.texts)
        return encoded, frozenset(text[:MIN_LENGTH] for text in encoded), sorted(set(map(len, encoded)))

    def are_in_bytes(self, content: bytes) -> bool:
        """Return whether one of the texts occurs in ``content``, whatever is around it."""
        encoded, beginnings, lengths = self._encoded
        return any(
            content[place : place + length] in encoded
            for place in range(len(content) - MIN_LENGTH + 1)
            if content[place : place + MIN_LENGTH] in beginnings
            for length in lengths
        )

    def are_in(self, text: str) -> bool:
        """Return whether one of the texts occurs in ``text``."""
        if self.tokens and any(
            token in self.tokens or token.rstrip(".!") in self.tokens for token in _TOKEN.findall(text)
        ):
            return True
        if not self._phrases:
            return False
        return any(
            text.startswith(phrase, start.start()) and not _goes_on(text, start.start() + len(phrase))
            for start in _START.finditer(text)
            for phrase in self._phrases.get(start[0], ())
        )


def _goes_on(text: str, place: int) -> bool:
    return place < len(text) and (text[place].isalnum() or text[place] == "_")
