"""What is asked of the demo source, and the times it spans."""

import math
import zlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from demo.writers import HOUR, Images, Ints, feed, table_of
from medallion.errors import UsageError
from medallion.hours import hour_number

FIRST_CHANGE_HOUR = "2025-11-30T00"
SECOND = HOUR // 3600
DAY = 24 * HOUR
MAX_DAYS = 3650
MAX_SCALE = 1000


@dataclass(frozen=True)
class Plan:
    """A demo source to make. Moments are microseconds since 1970 UTC.

    days: length of the history in the snapshot. hours: how many hours of changes follow it. scale: 1 is the volume
    of the public data set, some 4,860 changes an hour. Raises UsageError for values that make no source.
    """

    days: int
    hours: int
    scale: float
    seed: int

    def __post_init__(self) -> None:
        if not 1 <= self.days <= MAX_DAYS:
            raise UsageError(f"days={self.days} makes no history: give 1 to {MAX_DAYS}")
        if self.hours < 0:
            raise UsageError(f"hours={self.hours} cannot be: give 0 for a snapshot without changes, or more")
        if not 0 < self.scale <= MAX_SCALE:
            raise UsageError(f"scale={self.scale} makes no shop: give more than 0, at most {MAX_SCALE}")
        if self.seed < 0:
            raise UsageError(f"seed={self.seed} cannot be: give 0 or more")

    @property
    def change_hours(self) -> range:
        """The hours of changes, numbered as in medallion.hours."""
        first = hour_number(FIRST_CHANGE_HOUR)
        return range(first, first + self.hours)

    @property
    def start(self) -> int:
        """The moment the snapshot ends and the first change hour begins."""
        return self.change_hours.start * HOUR

    @property
    def end(self) -> int:
        """The moment the last change hour ends."""
        return self.change_hours.stop * HOUR

    @property
    def calendar(self) -> range:
        """The days from the start of the history to the last change hour, counted from 1970-01-01."""
        today = self.start // DAY
        return range(today - self.days, today + math.ceil(self.hours / 24))

    def rng(self, stream: str, index: int = 0) -> np.random.Generator:
        """The random numbers of one stream on one day, or in one hour.

        Every (stream, index) has numbers of its own, so what happens on a day depends neither on the length of the
        history nor on the count of hours.
        """
        entropy = np.random.SeedSequence([self.seed, zlib.crc32(stream.encode()), index])
        return np.random.Generator(np.random.PCG64(entropy))

    def images(self, topic: str, since: Ints, until: Ints, columns: Callable[[Ints], Mapping[str, Any]]) -> Images:
        """The row images that the snapshot or the hours of changes need; ``columns`` gives those of chosen rows."""
        rows = np.flatnonzero((since < until) & (until >= self.start) & (since < self.end))
        return Images(table_of(feed(topic), columns(rows)), since[rows], until[rows])


class Ids:
    """The ids handed out so far, by topic."""

    def __init__(self) -> None:
        self._last: Counter[str] = Counter()

    def take(self, topic: str, count: int) -> Ints:
        """The next ``count`` ids of ``topic``."""
        first = self._last[topic] + 1
        self._last[topic] += count
        return np.arange(first, first + count)
