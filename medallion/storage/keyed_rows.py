"""Read the rows of a table that have some values, at one or more of its versions, in one pass over its files."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from threading import Lock
from typing import TYPE_CHECKING, Any

from medallion.sql_text import quoted
from medallion.storage.database import shared_database
from medallion.storage.deletion_vectors import deleted_positions, file_name
from medallion.storage.file_filter import files_with
from medallion.storage.files import Place
from medallion.storage.lake import TableState, table_id
from medallion.storage.live_rows import FILE, POSITION, Snapshot, can_number, numbered_rows
from medallion.storage.table_features import unreadable_here

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from duckdb import DuckDBPyConnection

MAX_ROWS, MAX_BYTES = 1_000_000, 128 << 20  # most rows, and bytes of them in memory, that one read returns
MAX_READ_BYTES = 4 << 30  # most bytes of the files that are read: of more, Spark reads them in parallel
MAX_KEPT_BYTES = 256 << 20  # most bytes of rows that are kept for further tables
MIN_SHARE = 0.2  # of the values that tables may ask for: one that asks for fewer reads its own rows
_NUMBER = "_number of the row"

Values = tuple[Any, ...]


@dataclass(frozen=True)
class Clause:
    """What holds for a row: a value in each of some columns, and a condition.

    wanted: columns, each with its values, sorted, null last. condition: in the SQL of DuckDB; empty if there is none.
    """

    wanted: tuple[tuple[str, Values], ...]
    condition: str = ""


@dataclass
class _Entry:
    lock: Lock = field(default_factory=Lock)
    rows: "list[pa.Table] | None" = None
    is_read: bool = False


@dataclass
class _Shared:
    """Rows with some values of a column. values, columns: of the last read. rows: None if there are too many."""

    lock: Lock = field(default_factory=Lock)
    values: frozenset[Any] = frozenset()
    columns: frozenset[str] = frozenset()
    rows: "list[pa.Table] | None" = None


class KeyedRows:
    """Rows by key that several tables of a run need; each is read from the files once. Threads share it."""

    def __init__(self) -> None:
        self._entries: dict[tuple[Any, ...], _Entry] = {}
        self._shared: dict[tuple[Any, ...], _Shared] = {}
        self._bytes, self._lock = 0, Lock()

    def read_shared(
        self,
        folder: Place,
        states: Sequence[TableState],
        columns: Collection[str],
        wanted: tuple[str, Values],
        others: Callable[[], Iterable[Any]],
    ) -> "list[pa.Table] | None":
        """Return the rows of each version of a table with some values of a column, with other rows and columns.

        What one table has read serves the next. A large table is read once, as scattered rows are in nearly all files.

        Args:
            folder: The folder of the table.
            states: The table at each version.
            columns: The columns that the tables of the run need.
            wanted: The column, and its values.
            others: Returns further values, which other tables may ask for.

        Returns:
            A table of rows per version; None if these are too many, or few of those that the tables may ask for, or if
            only Spark can read them.
        """
        column, values = wanted
        versions = tuple((table_id(state.delta), state.version) for state in states)
        with self._lock:
            shared = self._shared.setdefault((str(folder), versions, column), _Shared())
        with shared.lock:
            if not (shared.values.issuperset(values) and shared.columns.issuperset(columns)):
                every = shared.values.union(values, others())
                if len(values) < len(every) * MIN_SHARE:
                    return None
                read_columns = shared.columns.union(columns)
                clause = Clause(((column, (*sorted(every - {None}), *({None} & every))),))
                rows = rows_with_values(folder, states, sorted(read_columns), (clause,))
                # Only now, as reading may fail: what is recorded as read must be there.
                shared.values, shared.columns = every, read_columns
                shared.rows = rows if self._may_keep(rows, instead_of=shared.rows) else None
                return rows
            return shared.rows

    def read(
        self, folder: Place, states: Sequence[TableState], columns: Sequence[str], clauses: tuple[Clause, ...]
    ) -> "list[pa.Table] | None":
        """Return the rows of each version of a table for which at least one of the clauses holds.

        Args:
            folder: The folder of the table.
            states: The table at each version.
            columns: The columns to return, with those of the conditions.
            clauses: At least one.

        Returns:
            A table of rows per version; None if these are too many, or if only Spark can read them.
        """
        versions = tuple((table_id(state.delta), state.version) for state in states)
        key = (str(folder), versions, tuple(columns), clauses)
        with self._lock:
            entry = self._entries.setdefault(key, _Entry())
        with entry.lock:
            if entry.is_read:
                return entry.rows
            rows = rows_with_values(folder, states, columns, clauses)
            if self._may_keep(rows):
                entry.rows, entry.is_read = rows, True
            return rows

    def _may_keep(self, rows: "list[pa.Table] | None", instead_of: "list[pa.Table] | None" = None) -> bool:
        """Return whether there is room for rows, and take it. instead_of: rows that are no longer kept."""
        size, freed = (sum(table.nbytes for table in tables or ()) for tables in (rows, instead_of))
        with self._lock:
            self._bytes -= freed
            if self._bytes + size > MAX_KEPT_BYTES:
                return False
            self._bytes += size
            return True


def rows_with_values(
    folder: Place, states: Sequence[TableState], columns: Sequence[str], clauses: tuple[Clause, ...]
) -> "list[pa.Table] | None":
    """Return the same as ``KeyedRows.read``, from the files."""
    import pyarrow as pa

    schemas = [pa.schema(state.delta.schema().to_arrow()) for state in states]
    names = [*dict.fromkeys([*columns, *(column for clause in clauses for column, _ in clause.wanted)])]
    if any(unreadable_here(state.delta) or not can_number(state.delta) for state in states):
        return None
    if any(not {*names} <= {*schema.names} for schema in schemas):
        return None
    if not all(_is_plain(schemas[-1].field(name).type) for name in names):
        return None
    selected = [_selected(state, clauses) for state in states]
    sizes = {path: size for files in selected for path, size in files}
    if sum(sizes.values()) > MAX_READ_BYTES:
        return None
    schema = pa.schema([schemas[-1].field(name) for name in names])
    snapshot = Snapshot(folder, schema, [*sizes], {})
    with numbered_rows(snapshot) as (connection, path_of):
        read_list = ", ".join([*map(quoted, columns), FILE, POSITION])
        most = MAX_ROWS * len(states)
        query = f"SELECT {read_list} FROM live WHERE {_where(connection, clauses, schema)} LIMIT {most + 1}"
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


def rows_that_hold(rows: "pa.Table", clauses: Sequence[Clause]) -> "pa.Table":
    """Return the rows for which at least one of the clauses holds."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    if len(clauses) == 1:
        for column, values in clauses[0].wanted:
            rows = rows.filter(pc.is_in(rows[column], pa.array(values, rows.schema.field(column).type)))
        clauses = [Clause((), clauses[0].condition)]
    if any(clause == Clause(()) for clause in clauses) or not rows.num_rows:
        return rows
    wanted = {column for clause in clauses for column, _ in clause.wanted}
    conditions = " ".join(clause.condition for clause in clauses)
    compared = rows.select([name for name in rows.column_names if name in wanted or quoted(name) in conditions])
    with shared_database() as connection:
        # Only row numbers come back, as not every type survives the way through a database.
        connection.register("live", compared.append_column(_NUMBER, pa.array(np.arange(rows.num_rows))))
        query = f'SELECT "{_NUMBER}" FROM live WHERE {_where(connection, clauses, rows.schema)} ORDER BY "{_NUMBER}"'
        return rows.take(connection.execute(query).to_arrow_table()[_NUMBER])


def _where(connection: "DuckDBPyConnection", clauses: Sequence[Clause], schema: "pa.Schema") -> str:
    """Return the condition that at least one of the clauses holds; the values become views of ``connection``."""
    import pyarrow as pa

    everywhere = [column for column in clauses[0].wanted if all(column in clause.wanted for clause in clauses)]
    texts: dict[tuple[str, Values], str] = {}
    for column, values in dict.fromkeys(item for clause in clauses for item in clause.wanted):
        view, known = f"wanted_{len(texts)}", [value for value in values if value is not None]
        connection.register(view, pa.table({"value": pa.array(known, schema.field(column).type)}))
        is_one = f"{quoted(column)} IN (SELECT value FROM {view})"
        texts[column, values] = is_one if len(known) == len(values) else f"({quoted(column)} IS NULL OR {is_one})"
    parts = []
    for clause in clauses:
        own = [texts[item] for item in clause.wanted if item not in everywhere]
        parts.append(" AND ".join([*own, *([f"({clause.condition})"] if clause.condition else [])]) or "TRUE")
    return " AND ".join([*(texts[item] for item in everywhere), f"({' OR '.join(dict.fromkeys(parts))})"])


def _is_plain(kind: "pa.DataType") -> bool:
    """Whether Spark gives values of this type from Arrow the type that they have in the table."""
    import pyarrow.types as of

    tests = (of.is_boolean, of.is_integer, of.is_floating, of.is_decimal, of.is_date, of.is_string, of.is_binary)
    return any(test(kind) for test in tests) or (of.is_timestamp(kind) and kind.tz is not None)


def _selected(state: TableState, clauses: Sequence[Clause]) -> list[tuple[str, int]]:
    """Return path and size of each file that may have a row for which one of the clauses holds."""
    files = zip(state.actions["path"], state.actions["size_bytes"], strict=True)
    wanted = dict.fromkeys(item for clause in clauses for item in clause.wanted)
    selections = {item: [*files_with(*item).selects(state)] for item in wanted}
    may_hold = (
        any(all(selections[item][place] for item in clause.wanted) for clause in clauses)
        for place in range(state.files)
    )
    return [*compress(files, may_hold)]


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
