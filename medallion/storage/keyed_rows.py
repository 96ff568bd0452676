"""Read the rows of a table that have some values, at one or more of its versions, in one pass over its files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from threading import Lock
from typing import TYPE_CHECKING, Any

from medallion.storage.deletion_vectors import deleted_positions, file_name
from medallion.storage.file_filter import files_with
from medallion.storage.files import Place
from medallion.storage.lake import TableState, table_id
from medallion.storage.live_rows import FILE, POSITION, Snapshot, can_number, numbered_rows, quoted
from medallion.storage.table_features import unreadable_here

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

MAX_ROWS, MAX_BYTES = 1_000_000, 128 << 20  # most rows, and bytes of them in memory, that one read returns
MAX_READ_BYTES = 4 << 30  # most bytes of the files that are read: of more, Spark reads them in parallel
MAX_KEPT_BYTES = 256 << 20  # most bytes of rows that are kept for further tables

Values = tuple[Any, ...]
Wanted = tuple[tuple[str, Values], ...]


@dataclass
class _Entry:
    lock: Lock = field(default_factory=Lock)
    rows: "list[pa.Table] | None" = None
    is_read: bool = False


class KeyedRows:
    """Rows by key that several tables of a run need; each is read from the files once. Threads share it."""

    def __init__(self) -> None:
        self._entries: dict[tuple[Any, ...], _Entry] = {}
        self._bytes, self._lock = 0, Lock()

    def read(
        self, folder: Place, states: Sequence[TableState], columns: Sequence[str], wanted: Wanted
    ) -> "list[pa.Table] | None":
        """Return the rows of each version of a table that have one of the wanted values in any of the columns.

        Args:
            folder: The folder of the table.
            states: The table at each version.
            columns: The columns to return.
            wanted: Columns, each with its values, sorted, null last.

        Returns:
            A table of rows per version; None if these are too many, or if only Spark can read them.
        """
        versions = tuple((table_id(state.delta), state.version) for state in states)
        key = (str(folder), versions, tuple(columns), wanted)
        with self._lock:
            entry = self._entries.setdefault(key, _Entry())
        with entry.lock:
            if entry.is_read:
                return entry.rows
            rows = rows_with_values(folder, states, columns, wanted)
            size = sum(table.nbytes for table in rows or ())
            with self._lock:
                if self._bytes + size <= MAX_KEPT_BYTES:
                    self._bytes += size
                    entry.rows, entry.is_read = rows, True
            return rows


def rows_with_values(
    folder: Place, states: Sequence[TableState], columns: Sequence[str], wanted: Wanted
) -> "list[pa.Table] | None":
    """Return the same as ``KeyedRows.read``, from the files."""
    import pyarrow as pa

    schemas = [pa.schema(state.delta.schema().to_arrow()) for state in states]
    names = [*dict.fromkeys([*columns, *(column for column, _ in wanted)])]
    if any(unreadable_here(state.delta) or not can_number(state.delta) for state in states):
        return None
    if any(not {*names} <= {*schema.names} for schema in schemas):
        return None
    if not all(_is_plain(schemas[-1].field(name).type) for name in names):
        return None
    selected = [_selected(state, wanted) for state in states]
    sizes = {path: size for files in selected for path, size in files}
    if sum(sizes.values()) > MAX_READ_BYTES:
        return None
    schema = pa.schema([schemas[-1].field(name) for name in names])
    snapshot = Snapshot(folder, schema, [*sizes], {})
    with numbered_rows(snapshot) as (connection, path_of):
        conditions = []
        for number, (column, values) in enumerate(wanted):
            known = [value for value in values if value is not None]
            connection.register(f"wanted_{number}", pa.table({"value": pa.array(known, schema.field(column).type)}))
            name = quoted(column)
            if len(known) < len(values):
                conditions.append(f"{name} IS NULL")
            conditions.append(f"{name} IN (SELECT value FROM wanted_{number})")
        read_list = ", ".join([*map(quoted, columns), FILE, POSITION])
        most = MAX_ROWS * len(states)
        query = f"SELECT {read_list} FROM live WHERE {' OR '.join(conditions)} LIMIT {most + 1}"
        rows: pa.Table = connection.execute(query).to_arrow_table()
    if rows.num_rows > most or rows.nbytes > MAX_BYTES * len(states):
        return None
    places = _places(rows, path_of)
    returned = pa.schema([schema.field(column) for column in columns])
    rows = rows.select([*columns]).cast(returned)
    return [
        rows.filter(_is_live(places, {path for path, _ in files}, state))
        for files, state in zip(selected, states, strict=True)
    ]


def _is_plain(kind: "pa.DataType") -> bool:
    """Whether Spark gives values of this type from Arrow the type that they have in the table."""
    import pyarrow.types as of

    tests = (of.is_boolean, of.is_integer, of.is_floating, of.is_decimal, of.is_date, of.is_string, of.is_binary)
    return any(test(kind) for test in tests) or (of.is_timestamp(kind) and kind.tz is not None)


def _selected(state: TableState, wanted: Wanted) -> list[tuple[str, int]]:
    """Return path and size of each file that may have one of the wanted values."""
    files = zip(state.actions["path"], state.actions["size_bytes"], strict=True)
    selections = zip(*(files_with(column, values).selects(state) for column, values in wanted), strict=True)
    return [*compress(files, map(any, selections))]


def _places(rows: "pa.Table", path_of: Mapping[str, str]) -> "dict[str, tuple[np.ndarray[Any, Any], ...]]":
    """Return, by path in the log, which rows come from a file, and their positions in it."""
    import numpy as np

    files = rows[FILE].combine_chunks().dictionary_encode()
    numbers = files.indices.to_numpy(zero_copy_only=False)
    positions = rows[POSITION].to_numpy()
    places: dict[str, tuple[np.ndarray[Any, Any], ...]] = {}
    for number, name in enumerate(files.dictionary.to_pylist()):
        (where,) = np.nonzero(numbers == number)
        places[path_of[name]] = (where, positions[where])
    return places


def _is_live(
    places: "Mapping[str, tuple[np.ndarray[Any, Any], ...]]", paths: set[str], state: TableState
) -> "pa.Array":
    """Return, for each row, whether it is in one of ``paths`` and not deleted at the version of ``state``."""
    import numpy as np
    import pyarrow as pa

    live = np.zeros(sum(len(where) for where, _ in places.values()), bool)
    deleted = deleted_positions(state.delta)
    for path, (where, positions) in places.items():
        if path in paths:
            dead = deleted.get(file_name(path))
            live[where] = True if dead is None else ~np.isin(positions, dead)
    return pa.array(live)
