"""Rows that get another key, where that is two records: a deletion, and an insert that lacks what was not logged.

So Debezium writes an update of a key, perhaps to two partitions. Both records have the position in the log of the
database that the update had, and no other change has it.
"""

from medallion.ingest.sources import TIMES, Reader


class MovedRows:
    """Which deletions have the position of an insert that keeps values."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._deletions: dict[int, tuple[int, ...]] = {}  # hash of a position, as they are many -> places
        self._partial: dict[int, int] = {}  # place -> hash of its position

    def add_deletion(self, place: int) -> None:
        """Take in that the last record deletes a row."""
        if (position := self._position()) is not None:
            self._deletions[position] = (*self._deletions.get(position, ()), place)

    def add_partial(self, place: int) -> None:
        """Take in that the last record keeps values of a row."""
        if (position := self._position()) is not None:
            self._partial[place] = position

    def deletions(self) -> dict[int, tuple[int, ...]]:
        """Return the places of deletions by that of the change that has their position."""
        found = ((place, self._deletions.get(position)) for place, position in self._partial.items())
        return {place: deletions for place, deletions in found if deletions}

    def _position(self) -> int | None:
        position = self._reader.position()
        return None if position is None or position[0] in TIMES else hash(position)
