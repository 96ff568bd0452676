"""Read the values of a column in changed rows, without Spark."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from medallion.storage.change_feed import Changes, data_file
from medallion.storage.delta_writes import with_plain_texts
from medallion.storage.files import Place, in_arrow
from medallion.storage.keyed_rows import Clause, rows_that_hold

if TYPE_CHECKING:
    import pyarrow as pa

MAX_COMPARED_BYTES = 64 << 20  # most bytes in memory of changed rows that are compared, before with after
_SIDE = "_side of the change"  # 1 for an inserted row, -1 for a deleted one


def changed_values(
    folder: Place,
    column: str,
    changes: Changes,
    max_values: int,
    compared: Sequence[str] = (),
    condition: str = "",
) -> "pa.Array":
    """Return the distinct values of ``column`` in the rows that ``changes`` of a table deleted and inserted.

    compared: the columns that matter, if known: a row that was deleted and inserted with the same values in them counts
    as unchanged. Of a change of more than MAX_COMPARED_BYTES, all rows count. condition: in the SQL of DuckDB, over
    these columns; rows for which it does not hold do not matter.

    Memory does not grow with the change: where rows are not compared, reading stops after the batch with which there
    are more than ``max_values``. Callers must expect more values than that.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if compared:
        columns = [*dict.fromkeys([column, *compared])]
        if (differing := _differing_rows(folder, changes, columns, condition)) is not None:
            return pc.unique(differing[column]) if differing.num_rows else pa.nulls(0)
    values = pa.nulls(0)
    for rows in _changed_rows(folder, changes, [column]):
        more = rows[column].combine_chunks()
        values = pc.unique(pa.concat_arrays([values, more]) if len(values) else more)
        if len(values) > max_values:
            return values
    return values


def _differing_rows(folder: Place, changes: Changes, columns: Sequence[str], condition: str) -> "pa.Table | None":
    """Return the changed rows that matter and are not both deleted and inserted; None if they cannot be compared."""
    import pyarrow as pa
    import pyarrow.compute as pc

    parts: list[pa.Table] = []
    for rows in _changed_rows(folder, changes, columns):
        if rows.num_columns <= len(columns):
            return None  # a file from before one of the columns was added
        parts.append(rows)
        if sum(part.nbytes for part in parts) > MAX_COMPARED_BYTES:
            return None
    if not parts:
        return pa.table({})
    try:
        # Spark writes files whose columns are nullable, even of a table in which they are not.
        rows = rows_that_hold(pa.concat_tables(parts, promote_options="default"), [Clause((), condition)])
        counted = rows.group_by([*columns]).aggregate([(_SIDE, "sum")])
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):  # types that Arrow does not group, or of different files
        return None
    return counted.filter(pc.not_equal(counted[f"{_SIDE}_sum"], 0))


def _changed_rows(folder: Place, changes: Changes, columns: Sequence[str]) -> "Iterator[pa.Table]":
    """Yield changed rows in batches: those of ``columns`` that a file has, and _SIDE."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    inserted = pa.array(["insert", "update_postimage"])
    for _, kind, file in changes.files:
        name, at = in_arrow(data_file(folder, file))
        read_columns = [*columns, *(["_change_type"] if kind == "cdc" else [])]
        with pq.ParquetFile(name, filesystem=at) as stored:
            for batch in stored.iter_batches(columns=read_columns):
                rows = with_plain_texts(pa.Table.from_batches([batch]))
                sides = pa.repeat(pa.scalar(1 if kind == "add" else -1, pa.int64()), rows.num_rows)
                if kind == "cdc":
                    sides = pc.if_else(pc.is_in(rows["_change_type"], inserted), 1, -1)
                    rows = rows.drop_columns(["_change_type"])
                yield rows.append_column(_SIDE, sides)
