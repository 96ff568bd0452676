"""Search for many texts in one pass that identify a person wherever they occur, such as an email address."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

MIN_LENGTH = 5  # shorter texts occur in other words by chance
_TOKEN = re.compile(r"[^\s\"'`\\<>,;:=?&|/(){}\[\]]+")


@dataclass(frozen=True)
class Needles:
    """Texts, each looked for as a word or a group of words."""

    texts: frozenset[str] = frozenset()

    @classmethod
    def of(cls, texts: Collection[str]) -> "Needles":
        """Return the needles among ``texts``: those that are long enough to identify somebody."""
        return cls(frozenset(text.strip() for text in texts if len(text.strip()) >= MIN_LENGTH))

    @cached_property
    def tokens(self) -> frozenset[str]:
        """The texts that are one word, without a separator of words."""
        return frozenset(text for text in self.texts if _TOKEN.fullmatch(text))

    @cached_property
    def _phrases(self) -> "re.Pattern[str] | None":
        phrases = sorted(self.texts - self.tokens, key=len, reverse=True)
        return re.compile("|".join(rf"(?<!\w){re.escape(phrase)}(?!\w)" for phrase in phrases)) if phrases else None

    def are_in(self, text: str) -> bool:
        """Whether one of the texts occurs in ``text``."""
        if self.tokens and any(
            token in self.tokens or token.rstrip(".!") in self.tokens for token in _TOKEN.findall(text)
        ):
            return True
        return self._phrases is not None and self._phrases.search(text) is not None
