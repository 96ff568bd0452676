"""Rewrite files with many deleted rows without these rows, as upkeep of tables that are merged on read."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from medallion.storage.added_files import add_actions
from medallion.storage.data_files import indexed_columns, write_data_file
from medallion.storage.deletion_vectors import deleted_positions, file_name
from medallion.storage.delta_writes import properties
from medallion.storage.files import Place
from medallion.storage.live_rows import live_batches, snapshot_of
from medallion.storage.log_entries import Action
from medallion.storage.log_writer import commit_actions, removal
from medallion.storage.table_features import unreadable_here, unwritable_here

if TYPE_CHECKING:
    from deltalake import DeltaTable

LEAST_DEAD_SHARE = 0.05  # share of deleted rows from which a file is rewritten
MAX_PURGED_BYTES = 512 << 20  # most bytes of files that one commit replaces


def purge(delta: "DeltaTable", folder: Place, metadata: str | None, *, least_share: float = LEAST_DEAD_SHARE) -> int:
    """Replace files with many deleted rows, those with the largest share first, in one commit that changes no row.

    One file is read at a time. delta: the opened table, which is updated to the new version. metadata: the JSON of the
    commit that wrote its rows.

    Returns:
        The number of replaced files: at most MAX_PURGED_BYTES of them, the rest in the next upkeep.
    """
    import pyarrow as pa

    if unreadable_here(delta) or unwritable_here(delta) or not deleted_positions(delta):
        return 0
    chosen = list(_most_dead_first(delta, least_share))
    added = add_actions(folder, delta.version(), chosen)
    actions: list[tuple[str, Action]] = []
    for path in chosen:
        if path in added:
            snapshot = snapshot_of(delta, folder, [path])
            rows = pa.Table.from_batches(live_batches(snapshot, snapshot.schema.names), snapshot.schema)
            actions.append(("remove", removal(added[path], data_change=False)))
            if len(rows):
                new = write_data_file(folder, rows, indexed_columns(delta), data_change=False)
                actions.append(("add", new))
    if actions:
        commit_actions(delta, folder, actions, properties(metadata, upon=delta), "OPTIMIZE", {})
    return sum(kind == "remove" for kind, _ in actions)


def _most_dead_first(delta: "DeltaTable", least_share: float) -> Iterator[str]:
    """Yield the paths of files to purge, those with the largest share of deleted rows first.

    They have MAX_PURGED_BYTES together, or there is one: a larger file must be purged at some time too.
    """
    import pyarrow as pa

    dead, size = deleted_positions(delta), 0
    rows = pa.table(delta.get_add_actions(flatten=True)).select(["path", "num_records", "size_bytes"]).to_pylist()
    shares = {row["path"]: len(dead.get(file_name(row["path"]), ())) / max(1, row["num_records"] or 0) for row in rows}
    for row in sorted(rows, key=lambda row: -shares[row["path"]]):
        if shares[row["path"]] < least_share or (size and size + row["size_bytes"] > MAX_PURGED_BYTES):
            return
        size += row["size_bytes"]
        yield row["path"]
