"""Restore a table to a former version in a commit with a change data feed, so that readers follow what went back.

A restore by delta-rs has no feed: its readers must take every row of the files that came or went for changed.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from medallion.sql_text import quoted
from medallion.storage.added_files import add_actions
from medallion.storage.data_files import write_change_file
from medallion.storage.database import shared_database
from medallion.storage.deletion_vectors import deleted_positions, file_name
from medallion.storage.files import Place
from medallion.storage.live_rows import FILE, POSITION, Snapshot, numbered_rows
from medallion.storage.log_entries import Action
from medallion.storage.log_writer import commit_actions, removal
from medallion.storage.merge_on_read import is_plain
from medallion.storage.table_features import unreadable_here

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import CommitProperties, DeltaTable

MAX_FEED_BYTES = 64 << 20  # most bytes of files that come or go as a whole: of more, all rows count as changed
_CHANGE_TYPE = "_change_type"


def restore_with_feed(delta: "DeltaTable", folder: Place, former: "DeltaTable", commit: "CommitProperties") -> bool:
    """Restore a table to the rows of ``former``, in one commit with its change data feed.

    Columns and properties stay as they are; ``delta`` is updated to the new version.

    Returns:
        Whether it was done: not for other columns, large files, or features that only another writer knows.

    Raises MedallionError if another writer has committed in the meantime.
    """
    if not _is_eligible(delta, former):
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
    marked = sorted(differing.difference(gone, back))
    feed = _feed(
        [*_rows_of_files(folder, delta, gone), *_marked_rows(folder, former, delta, marked)],
        [*_rows_of_files(folder, former, back), *_marked_rows(folder, delta, former, marked)],
    )
    differs = len(feed) > 0  # not after upkeep alone, and readers then have nothing to follow
    removed = (removal(now[path], data_change=differs) for path in sorted(differing & now.keys()))
    actions: list[tuple[str, Action]] = [("remove", action) for action in removed]
    actions += [("add", {**then[path], "dataChange": differs}) for path in sorted(differing & then.keys())]
    if differs:
        actions.append(("cdc", write_change_file(folder, feed)))
    metrics = {"numRemovedFiles": len(differing & now.keys()), "numRestoredFiles": len(differing & then.keys())}
    commit_actions(delta, folder, actions, commit, "RESTORE", metrics)
    return True


def _is_eligible(delta: "DeltaTable", former: "DeltaTable") -> bool:
    if delta.schema().to_json() != former.schema().to_json() or not (is_plain(delta) and is_plain(former)):
        return False
    has_feed = delta.metadata().configuration.get("delta.enableChangeDataFeed") == "true"
    return has_feed and not any(unreadable_here(table) for table in (delta, former))


def _sizes(delta: "DeltaTable") -> dict[str, int]:
    """Return the size in bytes of each data file, by path."""
    import pyarrow as pa

    files = pa.table(delta.get_add_actions(flatten=True))
    return dict(zip(files["path"].to_pylist(), files["size_bytes"].to_pylist(), strict=True))


def _vector(added: Mapping[str, Action], path: str) -> Any:
    """Return what distinguishes the live rows of a file: False if there is no such file."""
    return added[path].get("deletionVector") if path in added else False


def _rows_of_files(folder: Place, delta: "DeltaTable", paths: Sequence[str]) -> "Iterator[pa.Table]":
    """Yield the live rows of whole files."""
    schema = _schema(delta)
    snapshot = Snapshot(folder, schema, paths, deleted_positions(delta))
    columns = ", ".join(map(quoted, schema.names))
    with numbered_rows(snapshot) as (connection, _):
        yield connection.execute(f"SELECT {columns} FROM live").to_arrow_table().cast(schema)


def _marked_rows(
    folder: Place, marking: "DeltaTable", other: "DeltaTable", paths: Sequence[str]
) -> "Iterator[pa.Table]":
    """Yield the rows of files of two versions that ``marking`` marks as deleted, and the other does not."""
    import numpy as np
    import pyarrow as pa

    dead, alive, none = deleted_positions(marking), deleted_positions(other), np.zeros(0, np.int64)
    schema = _schema(marking)
    columns = ", ".join(f"live.{quoted(name)}" for name in schema.names)
    with numbered_rows(Snapshot(folder, schema, paths, {})) as (connection, path_of):
        marks = {
            name: np.setdiff1d(dead.get(file_name(path), none), alive.get(file_name(path), none))
            for name, path in path_of.items()
        }
        files = np.repeat(np.array([*marks], object), [len(positions) for positions in marks.values()])
        positions = np.concatenate([none, *marks.values()])
        places = pa.table({"file": pa.array(files, pa.string()), "position": pa.array(positions, pa.int64())})
        connection.register("places", places)
        query = f"SELECT {columns} FROM live SEMI JOIN places ON live.{FILE} = file AND live.{POSITION} = position"
        yield connection.execute(query).to_arrow_table().cast(schema)


def _feed(deleted: "list[pa.Table]", inserted: "list[pa.Table]") -> "pa.Table":
    """Return the change data feed of a commit, without rows that it deletes and inserts again."""
    import pyarrow as pa

    sides = {"delete": pa.concat_tables(deleted), "insert": pa.concat_tables(inserted)}
    schema = sides["delete"].schema
    if not any(map(_holds_floats, schema.types)):  # 0.0 and -0.0 are equal, but not the same
        with shared_database() as connection:
            for kind, rows in sides.items():
                connection.register(kind, rows)
            sides = {
                kind: connection.execute(f'FROM "{kind}" EXCEPT ALL FROM "{other}"').to_arrow_table().cast(schema)
                for kind, other in (("delete", "insert"), ("insert", "delete"))
            }
    return pa.concat_tables(
        [rows.append_column(_CHANGE_TYPE, pa.repeat(pa.scalar(kind), len(rows))) for kind, rows in sides.items()]
    )


def _holds_floats(kind: "pa.DataType") -> bool:
    """Whether a type is of floating numbers, or has them inside."""
    import pyarrow.types as of

    return of.is_floating(kind) or any(_holds_floats(kind.field(place).type) for place in range(kind.num_fields))


def _schema(delta: "DeltaTable") -> "pa.Schema":
    import pyarrow as pa

    return pa.schema(delta.schema().to_arrow())
