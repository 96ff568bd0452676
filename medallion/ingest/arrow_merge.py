"""Merge an hour's changes in Arrow: compare the last image of each key with the table's row of that key.

The comparison works column by column, because rows in Python would take ten times the memory.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from medallion.ingest.decode import DELETED, LINE
from medallion.storage.files import Place, in_arrow

_PLACE = "_place"
_BATCH_ROWS = 50_000


@dataclass(frozen=True)
class Merge:
    """The rows to insert, update and delete.

    rows: new rows and new images. deleted_keys: the keys of the rows that they replace or that are deleted.
    """

    rows: pa.Table
    deleted_keys: pa.Table
    inserted: int
    updated: int
    deleted: int


def last_images(changes: Place, keys: Sequence[str]) -> pa.Table:
    """Return the last change of each key in a file of decoded changes, by the order of lines.

    Of all other changes only key and line are held in memory.
    """
    name, at = in_arrow(changes)
    with pq.ParquetFile(name, filesystem=at) as file:
        lines = file.read([*keys, LINE]).group_by([*keys], use_threads=False).aggregate([(LINE, "max")])
        wanted = lines[f"{LINE}_max"].combine_chunks()
        del lines
        batches = (batch.filter(pc.is_in(batch[LINE], value_set=wanted)) for batch in file.iter_batches(_BATCH_ROWS))
        return pa.Table.from_batches([batch for batch in batches if len(batch)], file.schema_arrow)


def merge_into(known: pa.Table, last: pa.Table, keys: Sequence[str]) -> Merge:
    """Compare ``last``, the last change of each key, with ``known``, all rows of a table with one of these keys."""
    own = [name for name in last.column_names if name not in {LINE, DELETED}]
    at = _places(last.select([*keys]), known.select([*keys]), keys)
    exists = pc.is_valid(at)
    deletes = last[DELETED]
    differs = pa.chunked_array([pa.repeat(False, len(last))])
    for name in own:
        if name not in keys:
            before, now = known[name].take(at), last[name]
            if before.type != now.type:
                before = before.cast(now.type)
            differs = pc.or_(differs, pc.invert(_same(before, now)))
    inserts = pc.and_(pc.invert(deletes), pc.invert(exists))
    updates = pc.and_(pc.and_(pc.invert(deletes), exists), differs)
    goes = pc.or_(updates, pc.and_(deletes, exists))
    return Merge(
        rows=last.filter(pc.or_(inserts, updates)).select(own),
        deleted_keys=last.filter(goes).select([*keys]),
        inserted=_count(inserts),
        updated=_count(updates),
        deleted=_count(pc.and_(deletes, exists)),
    )


def _same(before: pa.ChunkedArray, now: pa.ChunkedArray) -> Any:
    """Return row by row whether two values are the same; null equals null."""
    if pa.types.is_nested(now.type):  # Arrow cannot compare lists, maps and structs
        pairs = zip(before.to_pylist(), now.to_pylist(), strict=True)
        return pa.chunked_array([pa.array([a == b for a, b in pairs], pa.bool_())])
    return pc.or_(pc.fill_null(pc.equal(before, now), False), pc.and_(pc.is_null(before), pc.is_null(now)))


def _places(wanted: pa.Table, known: pa.Table, keys: Sequence[str]) -> pa.ChunkedArray:
    """Return for each row of ``wanted`` the index of the row of ``known`` with its key, or null."""
    known = known.cast(wanted.schema).append_column(_PLACE, pa.array(range(len(known)), pa.int64()))
    known = known.group_by([*keys], use_threads=False).aggregate([(_PLACE, "max")])
    order = wanted.append_column("_order", pa.array(range(len(wanted)), pa.int64()))
    joined = order.join(known, [*keys], join_type="left outer").sort_by("_order")
    return joined[f"{_PLACE}_max"]


def _count(mask: Any) -> int:
    return pc.sum(mask).as_py() or 0
