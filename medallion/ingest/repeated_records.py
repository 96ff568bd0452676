"""Find records of a partition that arrived twice: a file begins at an offset that an earlier one contains.

A restarted sink delivers some records again, in files that are cut elsewhere. The name of a file has only the offset of
its first record, and the sink may have left out records, such as those without content. So the n-th record has at least
the n-th offset from there, and comparing the records shows where one file continues the other.
"""

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from medallion.errors import MedallionError
from medallion.ingest.change_lines import read_lines
from medallion.ingest.parts import Part, Parts
from medallion.storage.files import Place

Identifies = Callable[[bytes], bool]  # whether a record differs for certain from every other one of its partition


class RepeatedLines:
    """The lines of a landed file with a record that an earlier line has already."""

    def __init__(self) -> None:
        self._first: list[int] = []
        self._last: list[int] = []

    def add(self, first: int, last: int) -> None:
        """Add the lines from ``first`` to ``last``, which come after those added before."""
        self._first.append(first)
        self._last.append(last)

    def __contains__(self, number: int) -> bool:
        index = bisect_right(self._first, number) - 1
        return index >= 0 and number <= self._last[index]

    def __bool__(self) -> bool:
        return bool(self._first)


@dataclass
class _Records:
    """Records, each with its line in the landed file, its digest, and the least offset that it can have."""

    lines: "array[int]" = field(default_factory=lambda: array("q"))
    digests: "array[int]" = field(default_factory=lambda: array("q"))
    offsets: "array[int]" = field(default_factory=lambda: array("q"))
    first: bytes = b""

    def __len__(self) -> int:
        return len(self.lines)

    def extend(self, other: "_Records", since: int) -> None:
        """Append the records of ``other`` from index ``since`` on."""
        self.lines += other.lines[since:]
        self.digests += other.digests[since:]
        self.offsets += other.offsets[since:]

    def matches(self, place: int, later: "_Records") -> bool:
        """Check whether the records from ``place`` on are those at the beginning of ``later``, as far as both go."""
        common = min(len(self) - place, len(later))
        return self.digests[place : place + common] == later.digests[:common]

    def begins(self, later: "_Records", last: int) -> Iterator[int]:
        """Yield the places of the first record of ``later``, from ``last`` backwards."""
        return (place for place in range(last, -1, -1) if self.digests[place] == later.digests[0])

    def common_with(self, later: "_Records", last: int | None = None) -> int:
        """Return how many of the first records of ``later`` are a part of these, which ``later`` may go on from.

        last: the last place at which they can begin.
        """
        places = self.begins(later, len(self) - 1 if last is None else last)
        place = next((place for place in places if self.matches(place, later)), None)
        return 0 if place is None else min(len(self) - place, len(later))


def require_same_records(path: Place, parts: Parts) -> None:
    """Raise MedallionError if two parts have different records at the same offset of a partition."""
    find_repeated(path, parts, lambda _: False)


def find_repeated(path: Place, parts: Parts, identifies: Identifies) -> RepeatedLines:
    """Return the lines of a landed file whose records are in an earlier part of the same partition.

    A part that begins within the offsets that another one has for certain is compared with it. A part that begins after
    them may still repeat records of the other, because records that a sink left out have offsets too. This is checked
    only if ``identifies`` accepts its first record, since other records may be equal by chance.

    Parts of earlier hours are compared only in this second way: if the times in records decide the hour, the offsets
    of an hour are not a range of their own.

    Args:
        path: The landed file.
        parts: The files that it was put together from, in order.
        identifies: Whether a record differs for certain from every other one of its partition.

    Raises:
        MedallionError: Two parts of the landed file have different records at the same offset.
    """
    repeated = RepeatedLines()
    places = [part.stream for part in parts]
    if not parts.of_hours_before and len(places) - places.count(None) == len({*places} - {None}):  # nearly every hour
        return repeated
    earlier, known = dict[object, _Records](), dict[object, _Records]()
    for landed, its_parts in parts.of_hours_before:
        for place, _, records in _records_of(landed, its_parts):
            before = earlier.setdefault(place, _Records())
            before.extend(records, before.common_with(records) if identifies(records.first) else 0)
    for place, part, records in _records_of(path, parts):
        before = known.setdefault(place, _Records())
        common = _common(before, records, (parts, part), identifies)
        before.extend(records, common)
        if place in earlier and identifies(records.first):
            common = max(common, earlier[place].common_with(records))
        if common:
            repeated.add(records.lines[0], records.lines[common - 1])
    return repeated


def _records_of(path: Place, parts: Parts) -> Iterator[tuple[object, Part, _Records]]:
    """Yield the records of each part whose name has an offset, with the partition and the part."""
    index, records, last = 0, _Records(), len(parts) - 1
    every = [*parts]

    def finished() -> Iterator[tuple[object, Part, _Records]]:
        part = every[index]
        if records and part.stream is not None:
            yield part.stream, part, records

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
    """Return how many of a part's first records are among the records before it. Raises as ``find_repeated`` does."""
    offset = later.offsets[0]
    overlaps = bool(before) and before.offsets[-1] >= offset
    if not before or not (overlaps or identifies(later.first)):
        return 0
    near = bisect_right(before.offsets, offset) - 1  # later records have a higher offset for certain
    common = before.common_with(later, near)
    if overlaps and not common:
        raise _conflict(before, later, near, about)
    return common


def _conflict(before: _Records, later: _Records, near: int, about: tuple[Parts, Part]) -> MedallionError:
    parts, part = about
    place = next(before.begins(later, near), near)
    pairs = zip(before.digests[place:], later.digests, strict=False)
    differing = next((index for index, (old, new) in enumerate(pairs) if old != new), 0)
    old_place, new_place = (
        parts.place(lines[at]) for lines, at in ((before.lines, place + differing), (later.lines, differing))
    )
    return MedallionError(
        f"{old_place} and {new_place} hold other records, and by the names of their files both have offset"
        f" {later.offsets[differing]} of partition {part.partition}; nothing of the hour was applied: remove the file"
        " that is wrong at the source, then run the hour again"
    )
