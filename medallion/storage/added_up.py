"""Add up a log of differences, as upkeep of aggregate state: a group that changed often is read as one row again."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from medallion.sql_text import quoted
from medallion.storage.added_files import add_actions
from medallion.storage.data_files import indexed_columns, write_data_file
from medallion.storage.delta_writes import properties
from medallion.storage.files import Place
from medallion.storage.live_rows import can_number, numbered_rows, snapshot_of
from medallion.storage.log_entries import Action
from medallion.storage.log_writer import commit_actions, removal
from medallion.storage.table_features import unreadable_here, unwritable_here

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable

MAX_BYTES = 256 << 20  # largest log that is added up, in data files
MAX_SHARE_LEFT = 0.5  # of the rows: if more are left, rewriting all of them is not worth it


def add_up(delta: "DeltaTable", folder: Place, groups: Sequence[str], metadata: str | None) -> int:
    """Replace the rows of each group by their sum, in one commit that readers of changes do not see.

    delta: the opened log, which is updated to the new version. groups: the columns that identify a group; all others
    are whole numbers or decimals that add up. A group whose sums are all 0 is left out. metadata: the JSON of the
    newest commit, repeated here.

    Returns:
        The number of replaced files; 0 if too few rows would be saved, or the log is too large.
    """
    import pyarrow as pa

    if unreadable_here(delta) or unwritable_here(delta) or not can_number(delta):
        return 0
    snapshot = snapshot_of(delta, folder)
    counters = [name for name in snapshot.schema.names if name not in groups]
    kinds = {name: _sql_type(snapshot.schema.field(name).type) for name in counters}
    added = add_actions(folder, delta.version(), snapshot.paths)
    if None in kinds.values() or sum(file["size"] for file in added.values()) > MAX_BYTES:
        return 0
    keys = ", ".join(map(quoted, groups))
    sums = ", ".join(f"CAST(SUM({quoted(name)}) AS {kind}) AS {quoted(name)}" for name, kind in kinds.items())
    query = f"SELECT {', '.join(filter(None, (keys, sums)))} FROM live"
    if groups:
        query += f" GROUP BY {keys} HAVING {' OR '.join(f'SUM({quoted(name)}) <> 0' for name in counters)}"
    with numbered_rows(snapshot) as (connection, _):
        (count,) = connection.execute("SELECT COUNT(*) FROM live").fetchone() or (0,)
        rows: pa.Table = connection.execute(query).to_arrow_table()
    if len(rows) > MAX_SHARE_LEFT * count or added.keys() != {*snapshot.paths}:
        return 0
    rows = rows.select(snapshot.schema.names).cast(snapshot.schema)
    actions: list[tuple[str, Action]] = [("remove", removal(file, data_change=False)) for file in added.values()]
    if len(rows):
        actions.append(("add", write_data_file(folder, rows, indexed_columns(delta), data_change=False)))
    commit_actions(delta, folder, actions, properties(metadata, upon=delta), "OPTIMIZE", {})
    return len(added)


def _sql_type(kind: "pa.DataType") -> str | None:
    """Return the type of a counter in DuckDB; None if it is no whole number or decimal."""
    import pyarrow as pa

    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    return "BIGINT" if pa.types.is_integer(kind) else None
