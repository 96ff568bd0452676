"""Write Delta tables from this process through delta-rs.

A commit takes tens of milliseconds, with Spark half a second or more. Data that does not fit into this process's memory
is written by Spark.
"""

from datetime import date, datetime
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any

from medallion.sql_text import TextLiteral, backquoted, quoted, text_literal
from medallion.storage.change_feed import actions_of
from medallion.storage.deletion_vectors import may_have_vectors, vector_files
from medallion.storage.files import Place
from medallion.storage.foreign_commits import stamp, stamped
from medallion.storage.lake import TableState, state_of
from medallion.storage.live_rows import read_live_rows
from medallion.storage.merge_on_read import FileLayout, FoundRows, replace_marking
from medallion.storage.table_features import features_for_spark

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import CommitProperties, DeltaTable
    from pyarrow.compute import Expression

# Spark reads and writes larger tables, for which a cluster is worth its overhead.
MAX_LOCAL_TABLE_BYTES = 4 << 30
# Most bytes of a table of which this process rewrites files; of a larger one it marks and appends rows.
MAX_REWRITTEN_TABLE_BYTES = 1 << 30
# Most key values listed in a condition; it keeps rows in file order but costs a millisecond per value. More values are
# joined.
MAX_LISTED_KEYS = 2_000
IS_INSERTED = "_is_inserted"
_MAX_SCANNED_BYTES = 256 << 20  # of a larger table, DuckDB finds rows in half the time, and in a fifth of the memory


def writes_here(table: TableState, marks_from: int | None) -> bool:
    """Whether this process writes a table. marks_from: the size in bytes from which it is merged on read."""
    is_small = rewrites_here(table) if marks_from is None else table.bytes <= MAX_LOCAL_TABLE_BYTES
    return is_small and not features_for_spark(table.delta)


def rewrites_here(table: TableState) -> bool:
    """Whether this process may rewrite the files of a table."""
    return table.bytes <= min(MAX_REWRITTEN_TABLE_BYTES, MAX_LOCAL_TABLE_BYTES)


def layout_for(table: TableState, folder: Place, file_bytes: int, marks_from: int | None) -> FileLayout:
    """Return how a change writes the files of a table. file_bytes: the target size of a data file."""
    return FileLayout(folder, file_bytes, marks_from, rewrites_here(table))


def text_column(name: str) -> "Expression":
    """Return the column ``name`` as text that Arrow can compare, unlike the text type in files that delta-rs wrote."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.field(name).cast(pa.string())


def rows_having(
    delta: "DeltaTable", folder: Place, column: str, values: list[Any], columns: list[str] | None = None
) -> "pa.Table":
    """Return the rows whose ``column`` has one of ``values``, none of which is null.

    The other arguments are those of ``rows_with_keys``.
    """
    import pyarrow as pa

    kind = pa.schema(delta.schema().to_arrow()).field(column).type
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    keys = pa.table({column: pa.array(values, pa.string() if is_text else kind)})
    return rows_with_keys(delta, folder, keys, columns)


def rows_with_keys(
    delta: "DeltaTable", folder: Place, keys: "pa.Table", columns: list[str] | None = None
) -> "pa.Table":
    """Return the rows whose key is one of ``keys``, a table with the key columns.

    folder: of the table. columns: the columns to return; None for all.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if may_have_vectors(delta) or state_of(delta).bytes > _MAX_SCANNED_BYTES:
        return read_live_rows(delta, folder, columns, keys)
    data = delta.to_pyarrow_dataset()
    if not len(keys):
        return data.schema.empty_table().select(columns or data.schema.names)
    conditions = []
    for name in keys.column_names:
        sought, at = pc.unique(keys[name]), pc.field(name)
        if pa.types.is_string(sought.type):
            conditions.append(text_column(name).isin(sought))
            continue
        bounds = pc.min_max(sought)
        # Arrow skips files by the bounds of a condition, which it does not derive from a set of values.
        conditions.append((at >= bounds["min"]) & (at <= bounds["max"]) & at.isin(sought))
    rows = data.to_table(columns, filter=reduce(and_, conditions))
    rows = with_plain_texts(rows)
    if len(conditions) == 1:
        return rows
    # Only keys are joined, because Arrow cannot join rows with lists, maps or structs.
    places = pa.array(range(len(rows)), pa.int64())
    row_keys = rows.select(keys.column_names).append_column("_place", places)
    return rows.take(row_keys.join(keys, keys.column_names, join_type="left semi")["_place"])


def with_plain_texts(rows: "pa.Table") -> "pa.Table":
    """Return ``rows`` with texts in a type that Arrow can group and join by."""
    import pyarrow as pa

    texts = [f.with_type(pa.string()) if pa.types.is_string_view(f.type) else f for f in rows.schema]
    return rows.cast(pa.schema(texts))


def replace_keys(
    delta: "DeltaTable",
    rows: "pa.Table",
    deleted_keys: "pa.Table",
    commit: "CommitProperties",
    layout: FileLayout,
    found: FoundRows | None = None,
) -> bool:
    """Replace the rows with the keys ``deleted_keys`` by ``rows``, in one commit with its change data feed.

    rows: some columns of the table; the others become null. deleted_keys: only the key columns, of rows that exist.
    layout: of the files that are touched and written. found: as for ``replace_marking``.

    Returns:
        Whether it was done: not if files would have to be rewritten, and ``layout`` does not allow it.
    """
    import pyarrow as pa

    if not len(deleted_keys):
        append_rows(delta, _rows_like_table(delta, rows), commit)
        return True
    if replace_marking(delta, layout, _rows_like_table(delta, rows), deleted_keys, commit, found):
        return True
    if not layout.may_rewrite:
        return False
    if len(deleted_keys.column_names) == 1:
        (name,) = deleted_keys.column_names
        named_type = pa.types.is_integer(deleted_keys[name].type) or pa.types.is_string(deleted_keys[name].type)
        if named_type and len(deleted_keys) + len(rows) <= MAX_LISTED_KEYS:  # new rows must match the condition too
            values = sorted({*deleted_keys[name].to_pylist(), *rows[name].to_pylist()})
            _rewrite_rows(delta, rows, name, values, commit, layout.bytes)
            return True
    _replace_by_merge(delta, _rows_like_table(delta, rows), deleted_keys, commit)
    return True


def append_rows(
    delta: "DeltaTable", rows: "pa.Table | pa.RecordBatchReader | None", commit: "CommitProperties"
) -> None:
    """Append ``rows``, with the table's columns, in one commit; None makes a commit without rows."""
    import pyarrow as pa
    from deltalake import write_deltalake

    data = pa.schema(delta.schema().to_arrow()).empty_table() if rows is None else rows
    write_deltalake(delta, data, mode="append", commit_properties=commit)


def replace_rows(
    delta: "DeltaTable",
    rows: "pa.Table | None",
    column: str,
    values: list[Any],
    commit: "CommitProperties",
    layout: FileLayout,
) -> bool:
    """Replace the rows whose ``column`` has one of ``values`` by ``rows``, in one commit with its change data feed.

    rows: with the table's columns; None to only delete. values: sorted whole numbers, dates or texts, null last; empty
    to only insert. layout: of the files that are touched and written.

    Returns:
        Whether it was done, as ``replace_keys`` does.
    """
    import pyarrow as pa

    data = _rows_like_table(delta, rows)
    if not values:
        append_rows(delta, data, commit)
        return True
    keys = pa.table({column: pa.array(values, data.schema.field(column).type)})
    if replace_marking(delta, layout, data, keys, commit):
        return True
    if not layout.may_rewrite:
        return False
    if len(values) <= MAX_LISTED_KEYS:
        _rewrite_rows(delta, data, column, values, commit, layout.bytes)
        return True
    # Delete only keys that exist: for a missing one delta-rs writes a row of nulls to the change data feed.
    deleted_keys = rows_having(delta, layout.folder, column, values, [column]).group_by([column]).aggregate([])
    if len(deleted_keys):
        _replace_by_merge(delta, data, deleted_keys, commit)
    else:
        append_rows(delta, data, commit)
    return True


def _rewrite_rows(
    delta: "DeltaTable", rows: "pa.Table", column: str, values: list[Any], commit: "CommitProperties", size: int
) -> None:
    """Replace the rows of a few values by rewriting their files. size: of a data file, in bytes."""
    from deltalake import write_deltalake

    condition = key_condition(quoted(column), values)
    data = _rows_like_table(delta, rows)
    write_deltalake(delta, data, mode="overwrite", predicate=condition, target_file_size=size, commit_properties=commit)


def _replace_by_merge(
    delta: "DeltaTable", rows: "pa.Table", deleted_keys: "pa.Table", commit: "CommitProperties"
) -> None:
    """Replace rows by a merge that deletes rows with ``deleted_keys`` and inserts new rows, which match nothing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    rows = rows.cast(pa.schema([field.with_nullable(True) for field in rows.schema]))  # deleted rows have only keys
    deleted_keys = deleted_keys.cast(pa.schema([rows.schema.field(name) for name in deleted_keys.column_names]))
    source = pa.concat_tables(
        [
            rows.append_column(IS_INSERTED, pa.repeat(pa.scalar(True), len(rows))),
            deleted_keys.append_column(IS_INSERTED, pa.repeat(pa.scalar(False), len(deleted_keys))),
        ],
        promote_options="default",
    )
    on = [f"t.{quoted(name)} = s.{quoted(name)}" for name in deleted_keys.column_names]
    for name in deleted_keys.column_names:
        if pa.types.is_integer(deleted_keys[name].type) or pa.types.is_string(deleted_keys[name].type):
            least, most = (_literal(value) for value in pc.min_max(deleted_keys[name]).as_py().values())
            on.append(f"t.{quoted(name)} >= {least} AND t.{quoted(name)} <= {most}")
    (
        delta.merge(
            source,
            " AND ".join([*on, f"NOT s.{IS_INSERTED}"]),
            source_alias="s",
            target_alias="t",
            commit_properties=commit,
        )
        .when_matched_delete()
        .when_not_matched_insert(
            {quoted(name): f"s.{quoted(name)}" for name in rows.column_names}, predicate=f"s.{IS_INSERTED}"
        )
        .execute()
    )


def key_condition(column: str, values: list[Any], text: TextLiteral = text_literal) -> str:
    """Return the SQL condition for rows whose ``column`` has one of ``values``; its bounds allow skipping files.

    column: as an identifier. values: sorted, null last. text: how who reads the condition writes a text.
    """
    known = [value for value in values if value is not None]
    if not known:
        return f"{column} IS NULL"
    least, most = _literal(known[0], text), _literal(known[-1], text)
    condition = f"{column} >= {least} AND {column} <= {most} AND {column} IN ({literal_list(known, text)})"
    return condition if len(known) == len(values) else f"(({condition}) OR {column} IS NULL)"


def literal_list(values: list[Any], text: TextLiteral = text_literal) -> str:
    """Return ``values`` as a list of SQL literals; text: as for ``key_condition``."""
    return ", ".join(_literal(value, text) for value in values)


def _literal(value: Any, text: TextLiteral = text_literal) -> str:
    """Return a whole number, a date, a timestamp with its zone or a text as a SQL literal."""
    if isinstance(value, datetime):
        return f"CAST('{value.isoformat()}' AS TIMESTAMP)"
    if isinstance(value, date):
        return f"CAST('{value.isoformat()}' AS DATE)"
    return str(value) if isinstance(value, int) else text(str(value))


def _rows_like_table(delta: "DeltaTable", rows: "pa.Table | None") -> "pa.Table":
    """Return ``rows`` with the columns and types of the table; missing columns are null. None gives no rows."""
    import pyarrow as pa

    schema = pa.schema(delta.schema().to_arrow())
    return schema.empty_table() if rows is None else cast_to_schema(rows, schema)


def cast_to_schema(rows: "pa.Table", schema: "pa.Schema") -> "pa.Table":
    """Return ``rows`` with the columns and types of ``schema``; missing columns are null."""
    import pyarrow as pa

    columns = [rows[f.name] if f.name in rows.column_names else pa.nulls(len(rows), f.type) for f in schema]
    return pa.table(columns, names=schema.names).cast(schema)


def properties(
    metadata_text: str | None = None,
    transaction: tuple[str, int] | None = None,
    *,
    upon: "DeltaTable | None" = None,
) -> "CommitProperties":
    """Return the properties of a commit: its metadata, the stamp that marks it as ours, and a ledger entry.

    upon: the opened table that the commit follows; None for the first commit of a table.

    Raises LeaseLost if this process is no longer the lake's writer.
    """
    from deltalake import CommitProperties, Transaction

    metadata = {name: str(number) for name, number in stamp(upon).items()} | (
        {"userMetadata": stamped(metadata_text, upon)} if metadata_text else {}
    )
    return CommitProperties(
        custom_metadata=metadata or None,
        app_transactions=[Transaction(*transaction)] if transaction else None,
    )


def identifier(path: str) -> str:
    """Return the SQL name of the Delta table at ``path``."""
    return f"delta.{backquoted(path)}"


def timestamp_literal(moment: datetime) -> str:
    """Return ``moment``, in UTC and to the second, as a literal that delta-rs compares with a TIMESTAMP column."""
    return f"arrow_cast('{moment:%Y-%m-%dT%H:%M:%S}', 'Timestamp(Microsecond, Some(\"UTC\"))')"


def bytes_written(folder: Place, version: int) -> int:
    """Return the bytes of the files that a version wrote: data files, change data feed, and deletion vectors."""
    actions = actions_of(folder, version)
    former = {file["path"] for kind, file in actions if kind == "remove"}  # a file added again has more deleted rows
    written = [file for kind, file in actions if kind in {"add", "cdc"} and file["path"] not in former]
    vectors = vector_files(file for kind, file in actions if kind == "add") - vector_files(
        file for kind, file in actions if kind == "remove"
    )
    sizes = (place.stat().st_size for name in vectors if (place := folder / name).exists())
    return sum(file.get("size") or 0 for file in written) + sum(sizes)
