"""Complete changes that name only some columns of a row, before anything is applied.

The table, its log and any other reader of decoded changes then see whole rows. Former values are read from the table's
version before the hour, so an hour always decodes to the same rows, however late.
"""

from collections import ChainMap
from collections.abc import Mapping, MutableMapping
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from medallion.errors import MedallionError
from medallion.ingest.change_lines import read_lines
from medallion.ingest.decode import DELETED, LINE, Decoded, rewrite_changes
from medallion.ingest.hour_files import decoded_file, landed_file
from medallion.model.table import Feed
from medallion.storage import delta_writes
from medallion.storage.files import in_arrow
from medallion.storage.lake import Lake
from medallion.storage.rewind import require_version_before
from medallion.storage.table_features import unreadable_here

_Key = tuple[Any, ...]
_Row = Mapping[str, Any]
_NO_ROW = "updates a row that does not exist"


def complete_updates(lake: Lake, feed: Feed, hour: str, decoded: Decoded, corrected: Mapping[int, str]) -> None:
    """Complete the partial changes of a decoded hour; reject each line with such a change of a row that does not exist.

    corrected: as for decode_file.

    Raises MedallionError if the version of the table before the hour cannot be read.
    """
    if not decoded.kept:
        return
    changes = decoded_file(lake, feed, hour)
    name, at = in_arrow(changes)
    with pq.ParquetFile(name, filesystem=at) as file:
        keys = _keys_of(file, feed, decoded)
        rows = _changes_of(file, feed, keys)
    known = _rows_before(lake, feed, hour, keys)
    completed, missing = _complete(feed, rows, known, decoded)

    def rewrite(batch: pa.RecordBatch) -> pa.RecordBatch:
        touched = pa.array([place in completed for place in batch[LINE].to_pylist()], pa.bool_())
        whole = [completed[place] for place in batch.filter(touched)[LINE].to_pylist()]
        gone = pa.array([place in missing for place in batch[LINE].to_pylist()], pa.bool_())
        rest = batch.filter(pc.invert(pc.or_(touched, gone)))
        added = pa.RecordBatch.from_pylist(whole, schema=batch.schema)
        merged = pa.Table.from_batches([rest, added]).sort_by(LINE).combine_chunks().to_batches()
        return merged[0] if merged else batch.slice(0, 0)

    rewrite_changes(changes, rewrite)
    decoded.changes -= len(missing)
    lines = {decoded.lines_of.get(place, place) for place in missing}
    for number, raw, _ in read_lines(landed_file(lake, feed.topic, hour)) if lines else ():
        if number in lines:
            text = corrected.get(number) or raw.decode("utf-8", "backslashreplace")
            decoded.rejected.append((number, _NO_ROW, text))
    decoded.rejected.sort()


def _keys_of(file: pq.ParquetFile, feed: Feed, decoded: Decoded) -> pa.Table:
    """Return the keys in lines with partial changes, and in the deletions of rows that these moved, each key once."""
    places = {*decoded.kept} | {place for deletions in decoded.moved_from.values() for place in deletions}
    lines = {decoded.lines_of.get(place, place) for place in places}
    own = {place for place, line in decoded.lines_of.items() if line in lines}
    own |= lines - decoded.lines_of.keys()  # a line that has no other place is its own place
    changes = file.read([LINE, *feed.keys])
    changes = changes.filter(pc.is_in(changes[LINE], value_set=pa.array(sorted(own), pa.int64()))).select([*feed.keys])
    return changes.group_by([*feed.keys], use_threads=False).aggregate([])


def _changes_of(file: pq.ParquetFile, feed: Feed, keys: pa.Table) -> list[dict[str, Any]]:
    """Return all changes of these keys in order."""
    names = file.read([LINE, *feed.keys]).join(keys, [*feed.keys], join_type="left semi")[LINE].combine_chunks()
    batches = (batch.filter(pc.is_in(batch[LINE], value_set=names)) for batch in file.iter_batches())
    return sorted((row for batch in batches for row in batch.to_pylist()), key=lambda row: row[LINE])


def _rows_before(lake: Lake, feed: Feed, hour: str, keys: pa.Table) -> list[dict[str, Any]]:
    """Return the rows with these keys as the table had them before the hour."""
    delta = lake.opened(lake.path(feed.name), require_version_before(lake, feed.name, hour))
    if unreadable_here(delta):
        raise MedallionError(
            f"{feed.topic} of {hour} has changes that name some columns of a row, and {feed.name} has a feature that"
            " only Spark can read: have the source write whole rows; nothing of the hour was applied"
        )
    folder = lake.folder(feed.name)
    own = {field.name for field in pa.schema(delta.schema().to_arrow())}
    columns = [column.name for column in feed.columns if column.name in own]
    rows: list[dict[str, Any]] = delta_writes.rows_with_keys(delta, folder, keys, columns).to_pylist()
    return rows


def _complete(
    feed: Feed, changes: list[dict[str, Any]], known: list[dict[str, Any]], decoded: Decoded
) -> tuple[dict[int, dict[str, Any]], set[int]]:
    """Follow each key through its changes, line by line.

    Returns:
        Completed changes by place, and the places of all changes in lines that update a row that does not exist.
    """

    def line_of(change: Mapping[str, Any]) -> int:
        place: int = change[LINE]
        return decoded.lines_of.get(place, place)

    rows: dict[_Key, _Row | None] = {_key_of(feed, row): row for row in known}
    moves = _Moves(feed, changes, decoded)
    completed: dict[int, dict[str, Any]] = {}
    missing: set[int] = set()
    for _, group in groupby(changes, line_of):
        of_line = [*group]
        after = ChainMap[_Key, _Row | None]({}, rows)
        whole = _complete_line(feed, of_line, after, decoded, moves)
        if whole is None:
            missing.update(change[LINE] for change in of_line)
            continue
        completed |= whole
        rows.update(after.maps[0])
    return completed, missing


def _complete_line(
    feed: Feed,
    changes: list[dict[str, Any]],
    rows: MutableMapping[_Key, _Row | None],
    decoded: Decoded,
    moves: "_Moves",
) -> dict[int, dict[str, Any]] | None:
    """Complete the changes of a line and apply them to ``rows``, in which a deleted row is None.

    Returns the completed changes by place; None if a row is missing.
    """
    names = [column.name for column in feed.columns]
    completed: dict[int, dict[str, Any]] = {}
    gone: _Row | None = None  # the row that the last deletion in this line deleted
    for change in changes:
        place, key = change[LINE], _key_of(feed, change)
        if change[DELETED]:
            gone = rows.get(key)
            moves.add_deleted(place, gone)
            rows[key] = None
            continue
        if place in decoded.kept:
            former = gone if place in decoded.moved else moves.former_row(place, rows) or rows.get(key)
            if former is None:
                return None
            change = change | {names[column]: former.get(names[column]) for column in decoded.kept[place]}
            completed[place] = change
        rows[key] = change
    return completed


class _Moves:
    """Former rows of changes whose row had another key: what the deletion of that key deletes."""

    def __init__(self, feed: Feed, changes: list[dict[str, Any]], decoded: Decoded) -> None:
        self._deletions = decoded.moved_from
        wanted = {place for places in decoded.moved_from.values() for place in places}
        self._keys = {change[LINE]: _key_of(feed, change) for change in changes if change[LINE] in wanted}
        self._deleted: dict[int, _Row] = {}

    def add_deleted(self, place: int, row: _Row | None) -> None:
        """Note the row that a deletion deletes; a deletion that came twice finds no row the second time."""
        if place in self._keys and row is not None:
            self._deleted[place] = row

    def former_row(self, place: int, rows: Mapping[_Key, _Row | None]) -> _Row | None:
        """Return the row of a change under its former key; None unless the deletions with its position have one key."""
        deletions = [each for each in self._deletions.get(place, ()) if each in self._keys]
        keys = {self._keys[each] for each in deletions}
        if len(keys) != 1:
            return None
        deleted = (self._deleted[each] for each in deletions if each in self._deleted)
        return next(deleted, None) or rows.get(*keys)


def _key_of(feed: Feed, row: _Row) -> _Key:
    return tuple(row[key] for key in feed.keys)
