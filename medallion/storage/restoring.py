"""Restore a table to a former version in a commit with a change data feed, so that readers follow what went back.

A restore by delta-rs has no feed. Where rows are marked as deleted, its log entries name files of which only some rows
have changed, and a reader would have to take every row for changed.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from medallion.storage.added_files import add_actions
from medallion.storage.data_files import write_change_file
from medallion.storage.deletion_vectors import deleted_positions, file_name
from medallion.storage.files import Place
from medallion.storage.live_rows import FILE, POSITION, Snapshot, can_number, numbered_rows, quoted
from medallion.storage.log_entries import Action
from medallion.storage.log_writer import commit_actions, removal
from medallion.storage.table_features import unreadable_here

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from deltalake import CommitProperties, DeltaTable

MAX_FEED_BYTES = 256 << 20  # most bytes of files that came or went as a whole: of more, all rows count as changed
_CHANGE_TYPE = "_change_type"


def restore_with_feed(delta: "DeltaTable", folder: Place, former: "DeltaTable", commit: "CommitProperties") -> bool:
    """Restore a table to the rows of ``former``, in one commit with its change data feed.

    Columns and properties stay as they are; ``delta`` is updated to the new version.

    Returns:
        Whether it was done. It is done only where rows are marked as deleted, and the log says all that is needed.

    Raises MedallionError if another writer has committed in the meantime.
    """
    if not (deleted_positions(delta) or deleted_positions(former)) or not _is_eligible(delta, former):
        return False
    files = {table.version(): _sizes(table) for table in (delta, former)}
    now, then = (add_actions(folder, table.version(), files[table.version()].keys()) for table in (delta, former))
    if any(added.keys() != files[table.version()].keys() for added, table in ((now, delta), (then, former))):
        return False
    differing = {path for path in now.keys() | then.keys() if _vector(now, path) != _vector(then, path)}
    gone, back = sorted(now.keys() - then.keys()), sorted(then.keys() - now.keys())
    sizes = files[delta.version()] | files[former.version()]
    if sum(sizes[path] for path in (*gone, *back)) > MAX_FEED_BYTES:
        return False
    parts = [
        *_rows_of_files(folder, delta, gone, "delete"),
        *_rows_of_files(folder, former, back, "insert"),
        *_marked_rows(folder, delta, former, sorted(differing.difference(gone, back))),
    ]
    actions: list[tuple[str, Action]] = [("remove", removal(now[path])) for path in sorted(differing & now.keys())]
    actions += [("add", {**then[path], "dataChange": True}) for path in sorted(differing & then.keys())]
    if parts:
        import pyarrow as pa

        actions.append(("cdc", write_change_file(folder, pa.concat_tables(parts))))
    metrics = {"numRemovedFiles": len(differing & now.keys()), "numRestoredFiles": len(differing & then.keys())}
    commit_actions(delta, folder, actions, commit, "RESTORE", metrics)
    return True


def _is_eligible(delta: "DeltaTable", former: "DeltaTable") -> bool:
    if delta.schema().to_json() != former.schema().to_json() or delta.metadata().partition_columns:
        return False
    has_feed = delta.metadata().configuration.get("delta.enableChangeDataFeed") == "true"
    return has_feed and not any(unreadable_here(table) or not can_number(table) for table in (delta, former))


def _sizes(delta: "DeltaTable") -> dict[str, int]:
    """Return the size in bytes of each data file, by path."""
    import pyarrow as pa

    files = pa.table(delta.get_add_actions(flatten=True))
    return dict(zip(files["path"].to_pylist(), files["size_bytes"].to_pylist(), strict=True))


def _vector(added: Mapping[str, Action], path: str) -> Any:
    """Return what distinguishes the live rows of a file: False if there is no such file."""
    return added[path].get("deletionVector") if path in added else False


def _rows_of_files(folder: Place, delta: "DeltaTable", paths: Sequence[str], kind: str) -> "Iterator[pa.Table]":
    """Yield the live rows of whole files, with the kind of change."""
    if not paths:
        return
    snapshot = Snapshot(folder, _schema(delta), paths, deleted_positions(delta))
    columns = ", ".join(map(quoted, snapshot.schema.names))
    with numbered_rows(snapshot) as (connection, _):
        rows: pa.Table = connection.execute(f"SELECT {columns} FROM live").to_arrow_table()
    yield _changed(rows.cast(snapshot.schema), kind)


def _marked_rows(
    folder: Place, delta: "DeltaTable", former: "DeltaTable", paths: Sequence[str]
) -> "Iterator[pa.Table]":
    """Yield the rows of files that both versions have which only one of them marks as deleted."""
    import numpy as np
    import pyarrow as pa

    if not paths:
        return
    dead_now, dead_then, none = deleted_positions(delta), deleted_positions(former), np.zeros(0, np.int64)
    snapshot = Snapshot(folder, _schema(delta), paths, {})
    columns = ", ".join(f"live.{quoted(name)}" for name in snapshot.schema.names)
    with numbered_rows(snapshot) as (connection, path_of):
        for kind, dead, alive in (("insert", dead_now, dead_then), ("delete", dead_then, dead_now)):
            marks: list[tuple[str, np.ndarray[Any, Any]]] = [
                (name, np.setdiff1d(dead.get(file_name(path), none), alive.get(file_name(path), none)))
                for name, path in path_of.items()
            ]
            places = pa.table(
                {
                    "file": pa.array(np.repeat(np.array([name for name, _ in marks], object), [*map(_length, marks)])),
                    "position": pa.array(np.concatenate([positions for _, positions in marks]), pa.int64()),
                }
            )
            if not len(places):
                continue
            connection.register("places", places)
            query = f"SELECT {columns} FROM live SEMI JOIN places ON live.{FILE} = file AND live.{POSITION} = position"
            rows: pa.Table = connection.execute(query).to_arrow_table()
            connection.unregister("places")
            yield _changed(rows.cast(snapshot.schema), kind)


def _length(mark: "tuple[str, np.ndarray[Any, Any]]") -> int:
    return len(mark[1])


def _schema(delta: "DeltaTable") -> "pa.Schema":
    import pyarrow as pa

    return pa.schema(delta.schema().to_arrow())


def _changed(rows: "pa.Table", kind: str) -> "pa.Table":
    import pyarrow as pa

    return rows.append_column(_CHANGE_TYPE, pa.repeat(pa.scalar(kind), len(rows)))
