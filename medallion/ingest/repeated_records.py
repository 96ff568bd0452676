"""Find records of a partition that arrived twice: one file begins at an offset that another one contains.

A restarted sink delivers some records again, in files that are cut elsewhere. A file names the offset of
its first record alone, and the sink may have left some out, such as records without content: so the n-th record has at
least the n-th offset from there, and where a file goes on from another one is found by the records themselves.
"""

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from medallion.errors import MedallionError
from medallion.ingest.change_lines import read_lines
from medallion.ingest.parts import Part, Parts
from medallion.storage.files import Place

Identifies = Callable[[bytes], bool]  # whether a record can be told from every other one of its partition


class RepeatedLines:
    """Which lines of a landed file hold a record that an earlier line holds already."""

    def __init__(self) -> None:
        self._first: list[int] = []
        self._last: list[int] = []

    def add(self, first: int, last: int) -> None:
        """Take in the lines from one to another, which follow those before."""
        self._first.append(first)
        self._last.append(last)

    def __contains__(self, number: int) -> bool:
        index = bisect_right(self._first, number) - 1
        return index >= 0 and number <= self._last[index]

    def __bool__(self) -> bool:
        return bool(self._first)


@dataclass
class _Records:
    """Records, each with its line in the landed file, what tells it from others, and the least offset it can have."""

    lines: "array[int]" = field(default_factory=lambda: array("q"))
    digests: "array[int]" = field(default_factory=lambda: array("q"))
    offsets: "array[int]" = field(default_factory=lambda: array("q"))
    first: bytes = b""

    def __len__(self) -> int:
        return len(self.lines)

    def extend(self, other: "_Records", since: int) -> None:
        """Append the records of ``other`` from one on."""
        self.lines += other.lines[since:]
        self.digests += other.digests[since:]
        self.offsets += other.offsets[since:]

    def matches(self, place: int, later: "_Records") -> bool:
        """Check whether ``later`` is the same from its beginning as these are from ``place`` on, as far as both go."""
        common = min(len(self) - place, len(later))
        return self.digests[place : place + common] == later.digests[:common]


def require_same_records(path: Place, parts: Parts) -> None:
    """Raise MedallionError where two parts have the same offset of a partition, and another record at it."""
    find_repeated(path, parts, lambda _: False)


def find_repeated(path: Place, parts: Parts, identifies: Identifies) -> RepeatedLines:
    """Return the lines of a landed file whose records are in an earlier part of the same partition.

    A part that begins within the offsets that another one has for certain is compared with it. One that begins after
    them may still hold records of the other, as those that a sink left out have offsets too: that counts only where
    ``identifies`` says so of its first record, since other records may well be alike.

    Args:
        path: The landed file.
        parts: What it was put together from, in order.
        identifies: As it says.

    Raises:
        MedallionError: Two parts have the same offset, and another record at it.
    """
    repeated = RepeatedLines()
    places = [None if part.topic is None else (part.topic, part.partition) for part in parts]
    if len(places) - places.count(None) == len({*places} - {None}):  # the case of nearly every hour
        return repeated
    known: dict[object, _Records] = {}
    for place, part, records in _records_of(path, parts):
        before = known.setdefault(place, _Records())
        common = _common(before, records, (parts, part), identifies)
        if common:
            repeated.add(records.lines[0], records.lines[common - 1])
        before.extend(records, common)
    return repeated


def _records_of(path: Place, parts: Parts) -> Iterator[tuple[object, Part, _Records]]:
    """Yield the records of each part whose name tells its offset, with its partition."""
    index, records, last = 0, _Records(), len(parts) - 1
    every = [*parts]

    def finished() -> Iterator[tuple[object, Part, _Records]]:
        part = every[index]
        if records and part.topic is not None:
            yield (part.topic, part.partition), part, records

    for number, raw, _ in read_lines(path):
        while index < last and parts.index(number) > index:
            yield from finished()
            index, records = index + 1, _Records()
        if not records:
            records.first = raw
        records.offsets.append((every[index].first_offset or 0) + len(records))
        records.lines.append(number)
        records.digests.append(hash(raw.rstrip(b"\r\n")))
    yield from finished()


def _common(before: _Records, later: _Records, about: tuple[Parts, Part], identifies: Identifies) -> int:
    """Return how many of the first records of a part are among those before it."""
    offset = later.offsets[0]
    overlaps = bool(before) and before.offsets[-1] >= offset
    if not before or not (overlaps or identifies(later.first)):
        return 0
    near = bisect_right(before.offsets, offset) - 1  # a record after it has a higher offset for certain
    begins = (place for place in range(near, -1, -1) if before.digests[place] == later.digests[0])
    nearest = next(begins, None)
    place = nearest
    while place is not None and not before.matches(place, later):
        place = next(begins, None)
    if place is not None:
        return min(len(before) - place, len(later))
    if overlaps:
        raise _conflict(before, later, near if nearest is None else nearest, about)
    return 0


def _conflict(before: _Records, later: _Records, place: int, about: tuple[Parts, Part]) -> MedallionError:
    parts, part = about
    pairs = zip(before.digests[place:], later.digests, strict=False)
    differing = next((index for index, (one, other) in enumerate(pairs) if one != other), 0)
    one, other = (parts.place(lines[at]) for lines, at in ((before.lines, place + differing), (later.lines, differing)))
    return MedallionError(
        f"{one} and {other} hold other records, and by the names of their files both have offset"
        f" {later.offsets[differing]} of partition {part.partition}; nothing of the hour was applied: remove the file"
        " that is wrong at the source, then run the hour again"
    )
