"""Read the values of a column in changed rows, without Spark."""

from typing import TYPE_CHECKING

from medallion.storage.change_feed import Changes, data_file
from medallion.storage.delta_writes import with_plain_texts
from medallion.storage.files import Place, in_arrow

if TYPE_CHECKING:
    import pyarrow as pa


def changed_values(folder: Place, column: str, changes: Changes, max_values: int) -> "pa.Array":
    """Return the distinct values of ``column`` in the rows that ``changes`` of a table deleted and inserted.

    Reading stops after the batch that exceeds ``max_values``, so memory does not grow with the change.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    values = pa.nulls(0)
    for *_, file in changes.files:
        name, at = in_arrow(data_file(folder, file))
        with pq.ParquetFile(name, filesystem=at) as rows:
            for batch in rows.iter_batches(columns=[column]):
                more = with_plain_texts(pa.Table.from_batches([batch]))[column].combine_chunks()
                values = pc.unique(pa.concat_arrays([values, more]) if len(values) else more)
                if len(values) > max_values:
                    return values
    return values
