"""The order of records that came in several streams: files of several partitions, or of several writers.

Within a stream the order is that of its records. Between streams it is that of the positions that records had in the
log of their database; where they tell none, the streams follow one another.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from medallion.ingest.parts import Part, Parts
from medallion.ingest.sources import Reader

_MAX_NOTES = 5


class RecordOrder:
    """The order of the changes of one landed file."""

    def __init__(self, parts: Parts, reader: Reader) -> None:
        self._parts, self._reader, self._streams = parts, reader, parts.streams
        self.is_needed = bool(parts)  # else a file came as it is, and its order is that of its lines
        self._several = len({*self._streams}) > 1
        self._deletions = Counter[int]()  # by part
        self._places: list[tuple[int, int]] = []  # of each change: stream and place
        self._positions: list[tuple[Any, ...] | None] = []

    def add(self, line: int, place: int, *, deleted: bool) -> None:
        """Take in a change of a line, at its place in the landed file."""
        if not self.is_needed:
            return
        part = self._parts.index(line)
        self._deletions[part] += deleted
        if self._several:
            self._places.append((self._streams[part], place))
            self._positions.append(self._reader.position())

    def places(self) -> Mapping[int, int]:
        """Return the place that each change has in the order of all, by its place in the file; empty if the same."""
        if len({position[0] for position in self._positions if position is not None}) != 1:
            return {}  # none is known, or they are of several databases and do not compare
        highest: dict[int, tuple[Any, ...]] = {}
        keys = []
        for (stream, _), position in zip(self._places, self._positions, strict=True):
            # What comes again, or came late into its stream, is no earlier than what stands before it there.
            highest[stream] = max(highest.get(stream, ()), position or ())
            keys.append(highest[stream])
        order = sorted(range(len(keys)), key=keys.__getitem__)
        before = [place for _, place in self._places]
        after = {before[index]: place for place, index in zip(before, order, strict=True)}
        return after if any(old != new for old, new in after.items()) else {}

    def notes(self) -> list[str]:
        """Name offsets that go back or leave a gap within a partition.

        A deletion may leave one: the record after it, which has no content, is written by few.
        """
        by_partition = defaultdict[int, list[tuple[int, Part]]](list)
        for index, part in enumerate(self._parts):
            if part.partition is not None:
                by_partition[part.partition].append((index, part))
        found = []
        for partition, parts in sorted(by_partition.items()):
            for (index, part), (_, later) in pairwise(parts):
                end = (part.first_offset or 0) + part.lines
                missing = (later.first_offset or 0) - end
                if missing < 0:
                    found.append(f"offsets of partition {partition} go back: {later.name} begins before {end}")
                elif missing > self._deletions[index]:
                    found.append(f"offsets of partition {partition} leave a gap of {missing} before {later.name}")
        return found[:_MAX_NOTES] + ([f"{len(found) - _MAX_NOTES} more gaps of offsets"] * (len(found) > _MAX_NOTES))
