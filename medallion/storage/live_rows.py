"""Read the live rows of a Delta table from its data files with DuckDB: all rows that no deletion vector marks.

All reads of data files without a Delta engine use this module.
"""

import glob
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from medallion.sql_text import quoted, text_literal
from medallion.storage.change_feed import data_file
from medallion.storage.database import database_for
from medallion.storage.deletion_vectors import Positions, deleted_positions, file_name
from medallion.storage.files import Place

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable
    from duckdb import DuckDBPyConnection

    from medallion.storage.read_only_files import ReadOnlyFiles

FILE, POSITION = "filename", "file_row_number"  # DuckDB's names for the file of a row and its position in it
TEMPORARY = "temp"  # DuckDB's name for the schema of a connection's temporary tables
_BATCH_ROWS = 100_000


def rows_of_files(names: Iterable[str]) -> str:
    """Return the DuckDB expression that reads the Parquet files with these names."""
    file_list = ", ".join(map(text_literal, names))
    # With hive_partitioning, a folder called x=1 in the path would become a column.
    return f"read_parquet([{file_list}], hive_partitioning = false, union_by_name = true)"


def names_of(name: str, places: Sequence[Place], served: "ReadOnlyFiles | None") -> list[str]:
    """Return the names by which DuckDB knows data files.

    name: of the table, for the names in ``served``. served: the file system that serves the files; None for that of
    this machine.
    """
    return [str(place) for place in places] if served is None else served.add(name, places)


def live_parts(
    connection: "DuckDBPyConnection",
    name: str,
    files: Sequence[tuple[str, str]],
    deleted: Positions,
    *,
    schema: str,
    numbered: bool = False,
) -> list[str]:
    """Return queries for the rows of ``files`` that are not deleted, for UNION ALL BY NAME; none without files.

    If rows are deleted, the table ``<schema>."<name>.deleted"`` is created.

    Args:
        connection: A connection to DuckDB.
        name: The name of the table.
        files: For each file, the name by which DuckDB knows it, and its path in the log.
        deleted: The positions of deleted rows, by name of the file.
        schema: A schema of the database, or TEMPORARY for a table of this connection.
        numbered: Whether to add the columns FILE and POSITION.
    """
    import numpy as np
    import pyarrow as pa

    extra = f", {FILE}, {POSITION}" if numbered else ""
    marked = [(known, deleted[file_name(path)]) for known, path in files if file_name(path) in deleted]
    plain = [known for known, path in files if file_name(path) not in deleted]
    parts = [f"SELECT *{extra} FROM {rows_of_files(map(glob.escape, plain))}"] if plain else []
    if marked:
        lengths = [len(positions) for _, positions in marked]
        numbers = pa.array(np.repeat(np.arange(len(marked), dtype=np.int32), lengths))
        files_of_rows = pa.DictionaryArray.from_arrays(numbers, pa.array([known for known, _ in marked], pa.string()))
        positions = pa.array(np.concatenate([positions for _, positions in marked]), pa.int64())
        rows = pa.table({"file": files_of_rows, "position": positions})
        connection.register("deleted_rows", rows)
        kind = "TEMP TABLE" if schema == TEMPORARY else "TABLE"
        connection.execute(
            f'CREATE {kind} {schema}."{name}.deleted" AS SELECT file::VARCHAR AS file, position FROM deleted_rows'
        )
        connection.unregister("deleted_rows")
        parts.append(
            f"SELECT f.*{extra} FROM {rows_of_files(glob.escape(known) for known, _ in marked)} AS f"
            f' ANTI JOIN {schema}."{name}.deleted" AS d ON f.{FILE} = d.file AND f.{POSITION} = d.position'
        )
    return parts


def can_number(delta: "DeltaTable") -> bool:
    """Whether no column of a table is called FILE or POSITION, so that its rows can be numbered."""
    return not {FILE, POSITION} & {field.name.lower() for field in delta.schema().fields}


@dataclass(frozen=True)
class Snapshot:
    """What is needed to read the rows of a table at one version, without the opened table.

    paths: of the data files, as in the log. deleted: the positions of deleted rows, by name of the file.
    """

    folder: Place
    schema: "pa.Schema"
    paths: Sequence[str]
    deleted: Positions


def snapshot_of(delta: "DeltaTable", folder: Place, paths: Sequence[str] | None = None) -> Snapshot:
    """Return a snapshot of a table at the version at which it was opened.

    paths: of the data files to read; None for all.
    """
    import pyarrow as pa

    if paths is None:
        paths = pa.table(delta.get_add_actions(flatten=True))["path"].to_pylist()
    return Snapshot(folder, pa.schema(delta.schema().to_arrow()), paths, deleted_positions(delta))


@contextmanager
def numbered_rows(snapshot: Snapshot) -> "Iterator[tuple[DuckDBPyConnection, dict[str, str]]]":
    """Open a database with the rows of a snapshot as the view ``live``, with FILE and POSITION, until the block ends.

    The second value is the path in the log of each FILE.
    """
    with database_for(snapshot.folder) as (connection, served):
        known = names_of("live", [data_file(snapshot.folder, path) for path in snapshot.paths], served)
        connection.register("no_rows", snapshot.schema.empty_table())
        connection.execute(
            f"CREATE TEMP TABLE declared AS SELECT *, '' AS {FILE}, 0::BIGINT AS {POSITION} FROM no_rows"
        )
        files = [*zip(known, snapshot.paths, strict=True)]
        parts = live_parts(connection, "live", files, snapshot.deleted, schema=TEMPORARY, numbered=True)
        rows = " UNION ALL BY NAME ".join(["SELECT * FROM declared", *parts])
        columns = ", ".join([*map(quoted, snapshot.schema.names), FILE, POSITION])
        connection.execute(f"CREATE TEMP VIEW live AS SELECT {columns} FROM ({rows})")
        yield connection, dict(files)


def read_live_rows(
    delta: "DeltaTable", folder: Place, columns: Sequence[str] | None = None, keys: "pa.Table | None" = None
) -> "pa.Table":
    """Return the rows of a table at the version at which it was opened, with the table's types.

    columns: the columns to return; None for all. keys: the keys of the rows to return, in columns with the table's
    names; a null equals a null. None for all rows.
    """
    import pyarrow as pa

    snapshot = snapshot_of(delta, folder)
    query, wanted = _selection(snapshot, snapshot.schema.names if columns is None else columns)
    with numbered_rows(snapshot) as (connection, _):
        if keys is not None:
            connection.register("keys", keys)
            query += f" SEMI JOIN keys ON {same_key(keys.column_names)}"
        rows: pa.Table = connection.execute(query).to_arrow_table()
        return rows.cast(wanted)


def distinct_values(delta: "DeltaTable", folder: Place, column: str, keys: "pa.Table", most: int) -> "pa.ChunkedArray":
    """Return the distinct values of a column in the rows with some keys, at most ``most`` of them.

    keys: as for ``read_live_rows``.
    """
    snapshot = snapshot_of(delta, folder)
    with numbered_rows(snapshot) as (connection, _):
        connection.register("keys", keys)
        rows = f"SELECT DISTINCT live.{quoted(column)} FROM live SEMI JOIN keys ON {same_key(keys.column_names)}"
        values: pa.Table = connection.execute(f"{rows} LIMIT {most}").to_arrow_table()
        return values.column(0).cast(snapshot.schema.field(column).type)


def live_batches(snapshot: Snapshot, columns: Sequence[str]) -> "Iterator[pa.RecordBatch]":
    """Yield the rows of a table in batches, with the table's types."""
    import pyarrow as pa

    query, wanted = _selection(snapshot, columns)
    with numbered_rows(snapshot) as (connection, _):
        for batch in connection.execute(query).to_arrow_reader(_BATCH_ROWS):
            yield from pa.Table.from_batches([batch]).cast(wanted).to_batches()


def _selection(snapshot: Snapshot, columns: Sequence[str]) -> "tuple[str, pa.Schema]":
    """Return the query for some columns of ``live``, and their schema in the table."""
    import pyarrow as pa

    names = ", ".join(f"live.{quoted(name)}" for name in columns)
    return f"SELECT {names} FROM live", pa.schema([snapshot.schema.field(name) for name in columns])


def same_key(columns: Iterable[str]) -> str:
    """Return the SQL condition that a row of ``live`` has the key of a row of ``keys``."""
    return " AND ".join(f"live.{quoted(name)} IS NOT DISTINCT FROM keys.{quoted(name)}" for name in columns)
