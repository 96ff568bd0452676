"""Replace the rows of a table by writing only those that differ, so that its readers follow few changes."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from medallion.storage.deletion_vectors import may_have_vectors
from medallion.storage.delta_writes import append_rows, cast_to_schema, properties, replace_keys, with_plain_texts
from medallion.storage.files import Place
from medallion.storage.live_rows import read_live_rows
from medallion.storage.merge_on_read import FileLayout
from medallion.storage.table_features import unreadable_here

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable

MAX_DIFFERING_SHARE = 0.5  # share of differing rows beyond which the table is overwritten
FILE_BYTES = 64 << 20
_SIDE = "_side of the difference"


def replace_differing(
    delta: "DeltaTable", rows: "pa.Table", key: Sequence[str], commit: str, layout: FileLayout
) -> None:
    """Replace the rows of the table by ``rows``, in one commit that writes only keys whose rows differ.

    If nothing differs, the commit has only metadata. The whole table is overwritten if it is empty or cannot be read,
    if most rows differ, or if keys have nulls or columns have types that cannot be compared.

    Args:
        delta: The table, opened at its newest version; it needs a change data feed.
        rows: All rows, with the columns of the table.
        key: The columns by which rows are replaced; rows with the same key are replaced together.
        commit: The JSON of the commit's metadata.
        layout: The layout of the files that are touched and written.
    """
    import pyarrow as pa
    from deltalake import write_deltalake

    rows = with_plain_texts(cast_to_schema(rows, pa.schema(delta.schema().to_arrow())))
    keys = _differing_keys(delta, layout.folder, rows, key)
    if keys is None:
        write_deltalake(delta, rows, mode="overwrite", commit_properties=properties(commit, upon=delta))
        return
    differing, former = keys
    if not len(differing):
        append_rows(delta, None, properties(commit, upon=delta))
        return
    names = differing.column_names
    arriving = rows.join(differing, names, join_type="left semi")
    leaving = differing.join(former, names, join_type="left semi")
    replace_keys(delta, arriving, leaving, properties(commit, upon=delta), layout)


def _differing_keys(
    delta: "DeltaTable", folder: Place, rows: "pa.Table", key: Sequence[str]
) -> "tuple[pa.Table, pa.Table] | None":
    """Return the keys whose rows differ, and all keys of the table; None if the table should be overwritten."""
    import duckdb
    import pyarrow as pa
    import pyarrow.compute as pc
    from deltalake.exceptions import DeltaError

    kinds = [rows.schema.field(name).type for name in key]
    if not key or any(map(pa.types.is_nested, rows.schema.types)) or any(map(pa.types.is_floating, kinds)):
        return None
    if unreadable_here(delta):
        return None
    try:
        former = _read_rows(delta, folder).cast(rows.schema)
    except (OSError, DeltaError, duckdb.Error, pa.ArrowException):
        return None  # a file is damaged or lost: the table is overwritten
    if not len(former):
        return None
    sides = [(former, -1), (rows, 1)]
    both = pa.concat_tables([side.append_column(_SIDE, _repeat_number(number, len(side))) for side, number in sides])
    counted = both.group_by(rows.column_names).aggregate([(_SIDE, "sum")])
    differing = counted.filter(pc.not_equal(counted[f"{_SIDE}_sum"], 0))
    if len(differing) > 2 * MAX_DIFFERING_SHARE * len(former):  # an updated row counts twice
        return None
    touched = differing.select(key).group_by(list(key)).aggregate([])
    if any(column.null_count for column in touched.columns):  # a NULL equals nothing, so it finds no row to replace
        return None
    return touched, former.select(key)


def _read_rows(delta: "DeltaTable", folder: Place) -> "pa.Table":
    """Return all rows of the table."""
    if may_have_vectors(delta):
        return read_live_rows(delta, folder)
    return with_plain_texts(delta.to_pyarrow_dataset().to_table())


def _repeat_number(number: int, count: int) -> Any:
    import pyarrow as pa

    return pa.repeat(pa.scalar(number, pa.int64()), count)
