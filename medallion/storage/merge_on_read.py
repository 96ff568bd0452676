"""Merge on read: mark deleted rows by deletion vectors, and write new rows to a new file.

The cost depends on the size of the change, not on the files that it is scattered over. This pays only for large tables
with few deleted rows per file; otherwise files are rewritten without these rows.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from medallion.sql_text import quoted
from medallion.storage.added_files import add_actions
from medallion.storage.data_files import indexed_columns, write_change_file, write_data_file
from medallion.storage.deletion_vectors import FEATURE, deleted_positions, encode_file, file_name
from medallion.storage.files import Place, write_new
from medallion.storage.live_rows import FILE, POSITION, can_number, numbered_rows, same_key, snapshot_of
from medallion.storage.log_entries import Action
from medallion.storage.log_writer import commit_actions, metadata_with, removal
from medallion.storage.s3 import S3Path

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from deltalake import CommitProperties, DeltaTable

MAX_DEAD_SHARE = 0.3  # share of deleted rows in the touched files above which these are rewritten
# If the touched files are smaller than this share of ``marks_from``, rewriting them costs no more.
_MIN_REWRITTEN_SHARE = 1 / 8
_PLAIN_IN_URL = "/:=+@,;&!$'()*~"  # characters that delta-rs does not encode in a path, besides letters and digits
PROPERTY = "delta.enableDeletionVectors"
_CHANGE_TYPE = "_change_type"
# Features that a table may have besides deletion vectors. Entries written here comply with them, because a table whose
# columns or properties use a constraint, append-only mode or generated columns is not eligible.
_WRITTEN = frozenset({"appendOnly", "invariants", "changeDataFeed", "checkConstraints", "generatedColumns"})
# Writer features that older protocols imply, and the protocol version from which they do.
_LEGACY = (
    *(("appendOnly", 2), ("invariants", 2)),
    *(("checkConstraints", 3), ("changeDataFeed", 4), ("generatedColumns", 4)),
)
_UNUSED = ("delta.constraints.", "delta.appendOnly", "delta.columnMapping.mode", "delta.enableRowTracking")


@dataclass(frozen=True)
class FileLayout:
    """How a change writes the files of a table.

    folder: of the table. bytes: target size of a data file. marks_from: the size in bytes from which a table is merged
    on read; None for never. may_rewrite: whether this process may rewrite files where merging on read does not pay.
    """

    folder: Place
    bytes: int
    marks_from: int | None = None
    may_rewrite: bool = True


@dataclass(frozen=True)
class FoundRows:
    """Rows of a table by key, and where they are.

    rows: with the table's columns and types, sorted by file and position. files, positions: those of each row. path_of:
    the path in the log of each file. stored: all files of the table, with their statistics.
    """

    rows: "pa.Table"
    files: "pa.Array"
    positions: "np.ndarray[Any, Any]"
    path_of: Mapping[str, str]
    stored: "pa.Table"

    def having(self, keys: "pa.Table") -> "FoundRows":
        """Return the rows with some of the keys, none of which is null."""
        import numpy as np
        import pyarrow as pa

        names = keys.column_names
        own = pa.table({name: self.rows[name].cast(keys.schema.field(name).type) for name in names})
        numbered = own.append_column(FILE, pa.array(np.arange(len(own))))
        wanted = numbered.join(keys, names, join_type="left semi")[FILE].combine_chunks().sort()
        rows, files, positions = self.rows.take(wanted), self.files.take(wanted), self.positions[wanted.to_numpy()]
        return replace(self, rows=rows, files=files, positions=positions)

    @cached_property
    def by_file(self) -> "dict[str, np.ndarray[Any, Any]]":
        """The positions, sorted, by the path of their file."""
        import numpy as np

        if not len(self.rows):
            return {}
        encoded = self.files.dictionary_encode()
        starts = np.flatnonzero(np.diff(encoded.indices.to_numpy(), prepend=-1))
        parts = np.split(self.positions, starts[1:])
        return dict(zip(map(self.path_of.__getitem__, encoded.dictionary.to_pylist()), parts, strict=True))


def find_rows(delta: "DeltaTable", layout: FileLayout, keys: "pa.Table") -> FoundRows | None:
    """Return the rows with ``keys``, a table with key columns, of a table that is merged on read; None of another."""
    import pyarrow as pa

    files = pa.table(delta.get_add_actions(flatten=True))
    if not _is_eligible(delta, layout, files):
        return None
    sought = keys.group_by(keys.column_names).aggregate([])
    snapshot = snapshot_of(delta, layout.folder, _files_with(files, sought))
    columns = ", ".join(f"live.{quoted(name)}" for name in (*snapshot.schema.names, FILE, POSITION))
    with numbered_rows(snapshot) as (connection, path_of):
        connection.register("keys", sought)
        query = f"SELECT {columns} FROM live SEMI JOIN keys ON {same_key(sought.column_names)}"
        rows = connection.execute(f"{query} ORDER BY {FILE}, {POSITION}").to_arrow_table()
    own = rows.select(snapshot.schema.names).cast(snapshot.schema)
    return FoundRows(own, rows[FILE].combine_chunks(), rows[POSITION].to_numpy(), path_of, files)


def replace_marking(
    delta: "DeltaTable",
    layout: FileLayout,
    rows: "pa.Table",
    keys: "pa.Table",
    commit: "CommitProperties",
    found: FoundRows | None = None,
) -> bool:
    """Replace the rows with ``keys`` by ``rows`` in one commit with its change data feed, if merging on read pays.

    rows: with the table's columns and types. keys: a table with key columns. found: the rows with these keys, none of
    which is null, and others, if they were read before.

    Returns:
        Whether it was done. If not, nothing is changed, and the caller must rewrite files.

    Raises MedallionError if another writer has committed in the meantime.
    """
    touched = find_rows(delta, layout, keys) if found is None else found.having(keys)
    if touched is None or (touched.by_file and not _pays(delta, layout, touched)):
        return False
    added = add_actions(layout.folder, delta.version(), touched.by_file.keys())
    if added.keys() != touched.by_file.keys():
        return False
    _commit(delta, layout.folder, rows, touched, added, commit)
    return True


def _is_eligible(delta: "DeltaTable", layout: FileLayout, files: "pa.Table") -> bool:
    import pyarrow.compute as pc

    if layout.marks_from is None or (pc.sum(files["size_bytes"]).as_py() or 0) < layout.marks_from:
        return False
    if isinstance(layout.folder, S3Path) and quote(str(layout.folder), safe=_PLAIN_IN_URL) != str(layout.folder):
        return False  # delta-rs encodes the path of a vector twice, and would not find it
    return "num_records" in files.column_names and is_plain(delta)


def is_plain(delta: "DeltaTable") -> bool:
    """Whether entries of the log that are written here are all that the features of a table ask for."""
    protocol, metadata = delta.protocol(), delta.metadata()
    features = {*(protocol.writer_features or ()), *(protocol.reader_features or ())}
    return (
        features <= _WRITTEN | {FEATURE}
        and protocol.min_writer_version not in (5, 6)
        and not metadata.partition_columns
        and not any(name.startswith(_UNUSED) for name in metadata.configuration)
        and "delta.generationExpression" not in (schema := delta.schema().to_json())
        and "delta.invariants" not in schema
        and can_number(delta)
    )


def _files_with(files: "pa.Table", keys: "pa.Table") -> list[str]:
    """Return the paths of files that may have one of ``keys``, by the bounds of each key column."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    may = np.ones(len(files), bool)
    for name in keys.column_names:
        ends = [f"{end}.{name}" for end in ("min", "max")]
        if keys[name].null_count or not set(ends) <= set(files.column_names):
            continue
        sought = pc.unique(keys[name]).sort()
        if not (pa.types.is_integer(sought.type) or pa.types.is_date(sought.type)) or not len(sought):
            continue  # the statistics cut the bounds of texts short, and those of timestamps to milliseconds
        least, most = (files[end].cast(sought.type) for end in ends)
        values = sought.to_numpy(zero_copy_only=False)
        known = pc.and_(pc.is_valid(least), pc.is_valid(most)).to_numpy(zero_copy_only=False)
        lows, highs = (end.fill_null(sought[0]).to_numpy(zero_copy_only=False) for end in (least, most))
        first = np.searchsorted(values, lows)
        within = (first < len(values)) & (values[np.minimum(first, len(values) - 1)] <= highs)
        may &= within | ~known
    return [path for path, wanted in zip(files["path"].to_pylist(), may, strict=True) if wanted]


def _pays(delta: "DeltaTable", layout: FileLayout, touched: FoundRows) -> bool:
    """Whether rewriting the touched files would be expensive for the few rows to delete."""
    assert layout.marks_from is not None, "asked for eligible tables alone"
    former, rewritten, held, dead = deleted_positions(delta), 0, 0, 0
    for path, size, count in zip(*(touched.stored[name].to_pylist() for name in _OF_FILES), strict=True):
        if path in touched.by_file:
            if count is None:
                return False
            rewritten, held = rewritten + size, held + count
            dead += len(touched.by_file[path]) + len(former.get(file_name(path), ()))
    return rewritten >= layout.marks_from * _MIN_REWRITTEN_SHARE and dead <= MAX_DEAD_SHARE * held


_OF_FILES = ("path", "size_bytes", "num_records")


def _enabling_actions(delta: "DeltaTable") -> list[tuple[str, Action]]:
    """Return the actions that allow deletion vectors in the table, for its first commit with some; empty later.

    Readers must support them from then on. The new protocol also names the features that the former version implied.
    """
    protocol, actions = delta.protocol(), list[tuple[str, Action]]()
    if FEATURE not in (protocol.writer_features or ()):
        former = protocol.writer_features or [
            name for name, version in _LEGACY if version <= protocol.min_writer_version
        ]
        versions = {"minReaderVersion": 3, "minWriterVersion": 7}
        read, written = {*(protocol.reader_features or ()), FEATURE}, {*former, FEATURE}
        actions.append(("protocol", {**versions, "readerFeatures": sorted(read), "writerFeatures": sorted(written)}))
    if delta.metadata().configuration.get(PROPERTY) != "true":
        actions.append(("metaData", metadata_with(delta, PROPERTY, "true")))
    return actions


def _commit(
    delta: "DeltaTable",
    folder: Place,
    rows: "pa.Table",
    touched: FoundRows,
    added: Mapping[str, Action],
    commit: "CommitProperties",
) -> None:
    actions: list[tuple[str, Action]] = []
    if touched.by_file:
        actions += [*_enabling_actions(delta), *marking_actions(delta, folder, touched.by_file, added)]
    if len(rows):
        actions.append(("add", write_data_file(folder, rows, indexed_columns(delta))))
    if touched.by_file and delta.metadata().configuration.get("delta.enableChangeDataFeed") == "true":
        # The change data feed is written now, while the rows are in memory: otherwise each reader would have to search
        # the files for them.
        actions.append(("cdc", write_change_file(folder, _feed(touched.rows, rows))))
    counts = {"numTargetRowsDeleted": len(touched.rows), "numTargetRowsInserted": len(rows)}
    metrics = counts | {"numOutputRows": len(rows), "numTargetDeletionVectorsAdded": len(touched.by_file)}
    commit_actions(delta, folder, actions, commit, "MERGE", metrics)


def marking_actions(
    delta: "DeltaTable",
    folder: Place,
    positions: "Mapping[str, np.ndarray[Any, Any]]",
    added: Mapping[str, Action],
) -> Iterable[tuple[str, Action]]:
    """Write deletion vectors for rows, in addition to rows that are deleted already; return the actions of a commit.

    positions: of the rows, by the path of their file. added: the ``add`` of each of these files.
    """
    import numpy as np

    former = deleted_positions(delta)
    all_dead = {
        path: np.union1d(marked, former.get(file_name(path), np.zeros(0, np.int64)))
        for path, marked in positions.items()
    }
    statistics = {path: json.loads(added[path]["stats"]) for path in all_dead}
    remaining = {path: dead for path, dead in all_dead.items() if len(dead) < statistics[path]["numRecords"]}
    descriptors: dict[str, Action] = {}
    if remaining:
        name, content, descriptors = encode_file(remaining)
        write_new(folder / name, content)
    actions: list[tuple[str, Action]] = []
    for path in all_dead:
        actions.append(("remove", removal(added[path])))
        if path in remaining:
            changed_fields = {"stats": json.dumps({**statistics[path], "tightBounds": False}), "dataChange": True}
            actions.append(("add", {**added[path], **changed_fields, "deletionVector": descriptors[path]}))
    return actions


def _feed(deleted: "pa.Table", inserted: "pa.Table") -> "pa.Table":
    import pyarrow as pa

    sides = ((deleted, "delete"), (inserted, "insert"))
    return pa.concat_tables(
        [side.append_column(_CHANGE_TYPE, pa.repeat(pa.scalar(kind), len(side))) for side, kind in sides]
    )
