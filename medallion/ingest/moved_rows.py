"""Match rows whose key changes: these come as a deletion and an insert without the values that were not logged.

Debezium writes an update of a key like this, perhaps to two partitions. Both records have the position of the update in
the database log, and no other change has it.
"""

from medallion.ingest.sources import TIMES, Reader


class MovedRows:
    """Finds the deletions that have the same position in the database log as a change that keeps values."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._deletions: dict[int, tuple[int, ...]] = {}  # hash of a position, to save memory -> places
        self._partial: dict[int, int] = {}  # place -> hash of its position

    def add_deletion(self, place: int) -> None:
        """Note that the last record deletes a row, at this place."""
        if (position := self._position()) is not None:
            self._deletions[position] = (*self._deletions.get(position, ()), place)

    def add_partial(self, place: int) -> None:
        """Note that the last record keeps values of a row, at this place."""
        if (position := self._position()) is not None:
            self._partial[place] = position

    def deletions(self) -> dict[int, tuple[int, ...]]:
        """Return, by place of a change that keeps values, the places of the deletions with its position."""
        pairs = ((place, self._deletions.get(position)) for place, position in self._partial.items())
        return {place: deletions for place, deletions in pairs if deletions}

    def _position(self) -> int | None:
        position = self._reader.position()
        return None if position is None or position[0] in TIMES else hash(position)
