"""Decode landed change files: each line becomes typed changes, or a rejected line with its reason.

The feed's format defines what a line means; the row decoder checks rows against the declaration. Batches are bounded
in rows and bytes, so memory does not grow with the file.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from medallion.errors import MedallionError
from medallion.ingest.arrow_types import arrow_type
from medallion.ingest.change_lines import MAX_LINE, has_hole, read_lines
from medallion.ingest.json_lines import is_json
from medallion.ingest.moved_rows import MovedRows
from medallion.ingest.parts import Parts
from medallion.ingest.record_order import RecordOrder
from medallion.ingest.refused_file import refused_file
from medallion.ingest.repeated_records import find_repeated
from medallion.ingest.row_decoder import RowDecoder
from medallion.ingest.sources import TIMES, NoRecord, RefusedRecord, Unfit, reader_of
from medallion.model.table import BESIDE_A_CHANGE, Feed
from medallion.storage.files import Place, in_arrow, whole

LINE, DELETED = BESIDE_A_CHANGE
_BATCH_ROWS, _BATCH_BYTES = 10_000, 8 << 20  # a line takes many times its file size in Python
_MAX_REJECTED_BYTES = 64 << 20  # rejected lines are held in memory, each with its reason
_REJECTED_LINE_BYTES = 512
_MIN_INSERTS = 100  # among so many inserts, each column should occur at least once; a delete may have only its key


@dataclass
class Decoded:
    """The content of one landed file: line counts, rejected lines, and differences from the declared columns.

    lines: lines that are not blank. records: lines that are records of the format, whether their rows fit or not.
    repeated: records that an earlier file of their partition has too; they are skipped. changes:
    decoded changes. rejected: (line number, reason, text of the line). recordless: the first rejected line from a file
    of the source without any record, if other files of the hour have some. unknown: undeclared columns, which are not
    loaded, with the number of changes that have them; names are escaped and cut to 80 characters. more_unknown: whether
    there are more of these than are counted. unseen: declared columns that no change has. absent: the unseen columns if
    the file has so many inserts that one should have them. bytes: the size of all changes in memory. parts: the files
    of the source that were put together. lines_of: place of a change -> its line, if they differ. kept: place of a
    change -> indexes of the declared columns that keep the value in the table. moved: places of changes with kept
    columns whose row had another key: the change before it, in the same line, deletes that row. moved_from: place of a
    change with kept columns -> places of the deletions with the same position in the database log. notes: warnings.
    """

    lines: int = 0
    records: int = 0
    repeated: int = 0
    changes: int = 0
    rejected: list[tuple[int, str, str]] = field(default_factory=list)
    recordless: tuple[int, str, str] | None = None
    unknown: Counter[str] = field(default_factory=Counter)
    more_unknown: bool = False
    unseen: list[str] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)
    bytes: int = 0
    parts: Parts = field(default_factory=Parts)
    lines_of: dict[int, int] = field(default_factory=dict)
    kept: dict[int, tuple[int, ...]] = field(default_factory=dict)
    moved: set[int] = field(default_factory=set)
    moved_from: dict[int, tuple[int, ...]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def change_schema(feed: Feed) -> pa.Schema:
    """Return the schema of decoded changes: place, deletion flag, then the feed's columns, all nullable.

    The place of a change is the number of its line; after lines that make several changes it is higher.
    """
    own = [pa.field(c.name, arrow_type(c)) for c in feed.columns]
    return pa.schema([pa.field(LINE, pa.int64(), False), pa.field(DELETED, pa.bool_(), False), *own])


def decode_file(
    path: Place,
    feed: Feed,
    hour: str,
    target: Place,
    corrected: Mapping[int, str] | None = None,
    parts: Parts | None = None,
) -> Decoded:
    """Decode the landed file of ``hour`` at ``path`` into typed changes in the Parquet file ``target``.

    Args:
        path: The landed file, with one record on each line.
        feed: Its feed.
        hour: Its hour.
        target: The Parquet file; the last change of a key is the one with the highest place.
        corrected: Line number -> the line that is read instead.
        parts: The files that the landed file was put together from.

    Returns:
        The content. Changes that keep values of the row that they change must still be completed: see ``kept``.

    Raises:
        MedallionError: The file was cut off in the middle of a line, a part of it was never written, it has too many
            bytes of bad lines, or a record can neither be applied nor left out; nothing of it can be trusted then.
    """
    decoding, schema, inserts = _Decoding(path, feed, hour, parts or Parts()), change_schema(feed), 0
    result = decoding.result
    target.parent.mkdir(parents=True, exist_ok=True)
    name, at = in_arrow(target)
    with pq.ParquetWriter(name, schema, filesystem=at) as writer:
        for rows in decoding.batches(corrected or {}):
            batch = _record_batch(rows, schema)
            result.changes += len(batch)
            inserts += sum(not deleted for _, deleted, *_ in rows)
            result.bytes += batch.nbytes
            writer.write_batch(batch)
    decoding.finish(inserts, target)
    return result


class _Decoding:
    """The state while one landed file is decoded."""

    def __init__(self, path: Place, feed: Feed, hour: str, parts: Parts) -> None:
        self.result = Decoded(parts=parts)
        self._path, self._feed, self._hour = path, feed, hour
        self._reader = reader_of(feed)
        self._rows = RowDecoder(feed, hour, self._reader)
        self._order = RecordOrder(parts, self._reader)
        self._repeated = find_repeated(path, parts, self._is_one_of_a_kind)
        self._moves = MovedRows(self._reader)
        self._rejected_bytes = self._further = 0  # changes beyond the first of each line, so far
        self._with_records: set[int] = set()  # parts with records, if there are several parts

    def batches(self, corrected: Mapping[int, str]) -> Iterator[list[tuple[Any, ...]]]:
        """Yield changes in batches that fit into memory; count lines and rejected lines in the result."""
        result, rows, size = self.result, list[tuple[Any, ...]](), 0
        for number, raw, complete in read_lines(self._path):
            result.lines += 1
            if self._repeated and number in self._repeated:
                result.repeated += 1
                self._count_record(number)
                continue
            if number in corrected:
                raw, complete = corrected[number].encode("utf-8", "surrogatepass"), True
                if not raw:  # a line about a person who was erased
                    continue
            try:
                rows += self._changes(number, raw)
                size += len(raw)
                self._count_record(number)
            except Unfit as unfit:
                self._reject(unfit, number, raw, complete)
            except RefusedRecord as refused:
                what = f"{refused.what} in line {number}"
                raise refused_file(self._feed, self._hour, self._path, what, (number, raw), refused.remedy) from None
            if len(rows) >= _BATCH_ROWS or size >= _BATCH_BYTES:
                yield rows
                rows, size = [], 0
        yield rows

    def finish(self, inserts: int, target: Place) -> None:
        """Complete the result after the last line, and put the changes of several streams in order."""
        result, rows = self.result, self._rows
        result.unknown, result.more_unknown = rows.unknown, rows.more_unknown
        declared = {column.name for column in self._feed.columns}
        result.unseen = sorted(declared - rows.seen)
        result.absent = result.unseen if inserts >= _MIN_INSERTS else []
        if result.records and len(parts := result.parts) > 1:
            others = (line for line in result.rejected if parts.index(line[0]) not in self._with_records)
            result.recordless = next(others, None)
        result.moved_from = self._moves.deletions()
        result.notes += [*self._reader.notes(), *self._order.notes()]
        if places := self._order.places():
            result.lines_of = {new: result.lines_of.get(old, old) for old, new in places.items()}
            result.kept = {places[old]: columns for old, columns in result.kept.items()}
            result.moved = {places[old] for old in result.moved}
            result.moved_from = {
                places[old]: tuple(places[each] for each in gone) for old, gone in result.moved_from.items()
            }
            _renumber(target, places)

    def _is_one_of_a_kind(self, raw: bytes) -> bool:
        """Check whether a record has a position in the database log, so that no other record is the same."""
        reader = reader_of(self._feed)
        try:
            reader.read(raw)
        except (Unfit, RefusedRecord):
            return False
        position = reader.position()
        return position is not None and position[0] not in TIMES

    def _count_record(self, number: int) -> None:
        self.result.records += 1
        if len(self.result.parts) > 1:
            self._with_records.add(self.result.parts.index(number))

    def _changes(self, number: int, raw: bytes) -> list[tuple[Any, ...]]:
        """Return the changes that a line makes. Raises Unfit if any of them does not fit: the line is then rejected."""
        changes = self._reader.read(raw)
        if len(changes) == 1 and not (self._further or self._order.is_needed):  # nearly always
            values, kept_places = self._rows.decode(changes[0])
            if kept_places is None:
                if changes[0].deleted:
                    self._moves.add_deletion(number)
                return [(number, changes[0].deleted, *values)]
        change_rows = [(change, self._rows.decode(change)) for change in changes]
        place = number + self._further
        rows = []
        for change, row in change_rows:
            if place != number:
                self.result.lines_of[place] = number
            if row.kept is not None:
                self.result.kept[place] = row.kept
                if change.moves:
                    self.result.moved.add(place)
                else:
                    self._moves.add_partial(place)
            if change.deleted:
                self._moves.add_deletion(place)
            self._order.add(number, place, deleted=change.deleted)
            rows.append((place, change.deleted, *row.values))
            place += 1
        self._further += max(0, len(change_rows) - 1)
        return rows

    def _reject(self, unfit: Unfit, number: int, raw: bytes, complete: bool) -> None:
        if has_hole(raw, complete):
            raise self._refuse(f"has NUL bytes in line {number}: a part was never written", number, raw) from None
        if not complete and not is_json(raw):
            raise self._refuse(f"is cut off in the middle of line {number}", number, raw) from None
        if not isinstance(unfit, NoRecord):
            self._count_record(number)
        self.result.rejected.append((number, str(unfit), raw.decode("utf-8", "backslashreplace")[:MAX_LINE]))
        self._rejected_bytes += len(raw) + _REJECTED_LINE_BYTES
        if self._rejected_bytes > _MAX_REJECTED_BYTES:
            what = f"has more than {_MAX_REJECTED_BYTES >> 20} MB of bad lines up to line {number}"
            raise self._refuse(what, number, raw) from None

    def _refuse(self, what: str, number: int, raw: bytes) -> MedallionError:
        return refused_file(self._feed, self._hour, self._path, what, (number, raw))


def why_unfit(feed: Feed, hour: str, raw: str) -> str | None:
    """Return the reason why a line of ``hour`` is rejected; None if it fits."""
    reader = reader_of(feed)
    try:
        rows = RowDecoder(feed, hour, reader)
        for change in reader.read(raw.encode("utf-8", "surrogatepass")):
            rows.decode(change)
    except Unfit as unfit:
        return str(unfit)
    except RefusedRecord as refused:
        return f"it {refused.what}: {refused.remedy}"
    return None


def _record_batch(rows: list[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    columns = zip(*rows, strict=True) if rows else ([] for _ in schema)
    arrays = [pa.array(values, f.type) for values, f in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _renumber(changes: Place, places: Mapping[int, int]) -> None:
    """Give the changes in a Parquet file other places."""

    def with_places(batch: pa.RecordBatch) -> pa.RecordBatch:
        numbers = pa.array([places[place] for place in batch[LINE].to_pylist()], pa.int64())
        return batch.set_column(batch.schema.get_field_index(LINE), batch.schema.field(LINE), numbers)

    rewrite_changes(changes, with_places)


def rewrite_changes(changes: Place, rewrite: Callable[[pa.RecordBatch], pa.RecordBatch]) -> None:
    """Rewrite a Parquet file of decoded changes, batch by batch."""
    name, at = in_arrow(changes)
    with (
        whole(changes) as partial,
        pq.ParquetFile(name, filesystem=at) as file,
        pq.ParquetWriter(partial, file.schema_arrow) as writer,
    ):
        for batch in file.iter_batches(_BATCH_ROWS):
            writer.write_batch(rewrite(batch))
