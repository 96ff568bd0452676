"""Writing Delta tables from this process, through delta-rs: a commit costs tens of milliseconds, in Spark half a second
and more. For what fits in this process's memory; the rest goes through Spark."""

from typing import TYPE_CHECKING, Any

from medallion.storage import fence
from medallion.storage.change_feed import actions_of

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import CommitProperties, DeltaTable

MOST_BYTES = 1 << 30  # of a table, for its rows to be replaced here: beyond it a cluster is worth its overhead
# Values of a key, for them to be named in a condition, which leaves rows in the order of their files but costs a
# millisecond for each; more are joined.
MOST_NAMED = 2_000
_COMES = "_comes"


def rows_having(delta: "DeltaTable", column: str, values: list[Any], columns: list[str] | None = None) -> "pa.Table":
    """The rows whose ``column`` has one of ``values``, which are sorted and not none at all.

    columns: those that are wanted, all if not given.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    data, at = delta.to_pyarrow_dataset(), pc.field(column)
    sought = pa.array(values, data.schema.field(column).type)
    # Files are passed over by the least and the largest value in them, which a set of values says nothing of.
    return data.to_table(columns, filter=(at >= sought[0]) & (at <= sought[-1]) & at.isin(sought))


def replace_rows(
    delta: "DeltaTable", rows: "pa.Table | None", column: str, values: list[Any], commit: "CommitProperties", size: int
) -> None:
    """Put ``rows`` in the place of those whose ``column`` has one of ``values``, in one commit with its change feed.

    rows: with the table's columns; None where none come. values: sorted whole numbers or texts; none where none go.
    size: of a data file that is written, in bytes.
    """
    from deltalake import write_deltalake

    data = _fitting(delta, rows)
    if not values:
        write_deltalake(delta, data, mode="append", commit_properties=commit)
    elif len(values) <= MOST_NAMED:
        condition = named(column, values)
        write_deltalake(
            delta, data, mode="overwrite", predicate=condition, target_file_size=size, commit_properties=commit
        )
    else:
        _merged(delta, data, column, values, commit)


def _merged(delta: "DeltaTable", rows: "pa.Table", column: str, values: list[Any], commit: "CommitProperties") -> None:
    """The same by a merge: what goes is found by a join with its keys, and what comes matches nothing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    # A row to go that is not there would go wrong: delta-rs puts a row of nulls in its place into the change feed.
    there = pc.unique(rows_having(delta, column, values, [column])[column])
    rows = rows.cast(pa.schema([field.with_nullable(True) for field in rows.schema]))  # what goes has a key alone
    going = pa.table({column: there})
    source = pa.concat_tables(
        [
            rows.append_column(_COMES, pa.repeat(pa.scalar(True), len(rows))),
            going.append_column(_COMES, pa.repeat(pa.scalar(False), len(going))),
        ],
        promote_options="default",
    )
    least, most = _literal(values[0]), _literal(values[-1])
    on = f"t.{column} = s.{column} AND NOT s.{_COMES} AND t.{column} >= {least} AND t.{column} <= {most}"
    (
        delta.merge(source, on, source_alias="s", target_alias="t", commit_properties=commit)
        .when_matched_delete()
        .when_not_matched_insert({name: f"s.{name}" for name in rows.column_names}, predicate=f"s.{_COMES}")
        .execute()
    )


def named(column: str, values: list[Any]) -> str:
    """A condition in SQL, true for rows whose ``column`` has one of ``values``; its bounds let files be passed over."""
    least, most = _literal(values[0]), _literal(values[-1])
    return f"{column} >= {least} AND {column} <= {most} AND {column} IN ({listed(values)})"


def listed(values: list[Any]) -> str:
    """Values in SQL, one after the other."""
    return ", ".join(_literal(value) for value in values)


def _literal(value: Any) -> str:
    """``value`` in SQL: a whole number or a text."""
    return str(value) if isinstance(value, int) else "'" + str(value).replace("'", "''") + "'"


def _fitting(delta: "DeltaTable", rows: "pa.Table | None") -> "pa.Table":
    """``rows`` with the columns and types of the table; none of them: an empty table."""
    import pyarrow as pa

    schema = pa.schema(delta.schema().to_arrow())
    return schema.empty_table() if rows is None else rows.select(schema.names).cast(schema)


def properties(told: str | None = None, transaction: tuple[str, int] | None = None) -> "CommitProperties":
    """What a commit tells of itself, with the writer's fencing number, and its entry in the ledger of an application.

    Raises LeaseLost when this process is not the lake's writer any more.
    """
    from deltalake import CommitProperties, Transaction

    metadata = {name: str(number) for name, number in fence.stamp().items()} | ({"userMetadata": told} if told else {})
    return CommitProperties(
        custom_metadata=metadata or None,
        app_transactions=[Transaction(*transaction)] if transaction else None,
    )


def bytes_written(path: str, version: int) -> int:
    """The size of the files that a version brought: its rows, and its change feed."""
    return sum(file.get("size") or 0 for kind, file in actions_of(path, version) if kind in {"add", "cdc"})
