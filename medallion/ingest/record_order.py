"""Order records that came in several streams: files of several partitions, or of several writers.

Within a stream, records are in order. Between streams, their positions in the database log decide; without positions,
one stream is read after the other.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from medallion.ingest.parts import Part, Parts
from medallion.ingest.sources import TIMES, Reader

_MAX_NOTES = 5


class RecordOrder:
    """The order of the changes of one landed file."""

    def __init__(self, parts: Parts, reader: Reader) -> None:
        self._parts, self._reader, self._streams = parts, reader, parts.streams
        self.is_needed = len(self._streams) > 1  # the order of one file is that of its lines
        self._several = len({*self._streams}) > 1
        self._deletions = Counter[int]()  # number of deletions by part
        self._places: list[tuple[int, int]] = []  # stream and place of each change
        self._positions: list[tuple[Any, ...] | None] = []

    def add(self, line: int, place: int, *, deleted: bool) -> None:
        """Note a change of a line and its place in the landed file."""
        if not self.is_needed:
            return
        part = self._parts.index(line)
        self._deletions[part] += deleted
        if self._several:
            self._places.append((self._streams[part], place))
            self._positions.append(self._reader.position())

    def places(self) -> Mapping[int, int]:
        """Return, by place of a change in the file, its place in the order of all streams; empty if none differs."""
        if len(self._kinds()) != 1:
            return {}  # no position is known, or they come from several databases and do not compare
        highest: dict[int, tuple[Any, ...]] = {}
        keys = []
        for (stream, _), position in zip(self._places, self._comparable(), strict=True):
            # A repeated or late record, or one without a position, follows the record before it in its stream.
            highest[stream] = max(highest.get(stream, ()), position or ())
            keys.append(highest[stream])
        order = sorted(range(len(keys)), key=keys.__getitem__)
        before = [place for _, place in self._places]
        after = {before[index]: place for place, index in zip(before, order, strict=True)}
        return after if any(old != new for old, new in after.items()) else {}

    def _kinds(self) -> set[str]:
        """Return the kinds of positions that occur: those in a log or, if there are none, times."""
        kinds = {position[0] for position in self._positions if position is not None}
        return kinds - TIMES or kinds

    def _comparable(self) -> Iterator[tuple[Any, ...] | None]:
        """Yield the positions that can be compared, and None in place of the others."""
        kinds = self._kinds()
        return (position if position and position[0] in kinds else None for position in self._positions)

    def _order_notes(self) -> list[str]:
        """Return a warning if changes of several streams could not be put in the order of the log."""
        kinds = self._kinds()
        if len(kinds) > 1:
            return [
                f"positions of several kinds ({', '.join(sorted(kinds))}) do not compare: files were read one after the"
                " other, so of a key that changes in several of them the last change may be wrong"
            ]
        without = sum(position is None for position in self._comparable()) if kinds else 0
        if not without:
            return []
        return [
            f"{without:,} changes have no {', '.join(kinds)}: each follows the one before it in its partition or file"
        ]

    def notes(self) -> list[str]:
        """Return warnings about changes that could not be put in order, and about gaps in offsets of a partition.

        A deletion may leave a gap of one: few sinks write the tombstone that follows it.
        """
        by_partition = defaultdict[tuple[str, int], list[tuple[int, Part]]](list)
        for index, part in enumerate(self._parts):
            if part.topic is not None and part.partition is not None:
                by_partition[part.topic, part.partition].append((index, part))
        gaps = []
        for (_, partition), parts in sorted(by_partition.items()):
            end = deletions = 0  # end of the parts so far; deletions in the last part and those that it overlaps
            for number, (index, part) in enumerate(parts):
                missing = (part.first_offset or 0) - end
                if number and missing > deletions:
                    gaps.append(f"offsets of partition {partition} leave a gap of {missing} before {part.name}")
                deletions = self._deletions[index] + (deletions if missing < 0 else 0)
                end = max(end, (part.first_offset or 0) + part.lines)
        more = [f"{len(gaps) - _MAX_NOTES} more gaps of offsets"] * (len(gaps) > _MAX_NOTES)
        return [*self._order_notes(), *gaps[:_MAX_NOTES], *more]
