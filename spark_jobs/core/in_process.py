"""Writing Delta tables from this process, through delta-rs: a commit costs tens of milliseconds, in Spark half a second
and more. For what fits in this process's memory; the rest goes through Spark."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import CommitProperties, DeltaTable

MOST_BYTES = 1 << 30  # of a table, for its rows to be replaced here: beyond it a cluster is worth its overhead


def replace_rows(
    delta: "DeltaTable", rows: "pa.Table", column: str, values: list[Any], commit: "CommitProperties", size: int
) -> None:
    """Put ``rows`` in the place of those whose ``column`` has one of ``values``, in one commit with its change feed.

    rows: in the table's columns. values: sorted whole numbers or texts; none for rows that only come. size: of a data
    file that is written, in bytes.
    """
    from deltalake import write_deltalake

    data = fitting(delta, rows)
    if values:
        condition = named(column, values)
        write_deltalake(
            delta, data, mode="overwrite", predicate=condition, target_file_size=size, commit_properties=commit
        )
    else:
        write_deltalake(delta, data, mode="append", commit_properties=commit)


def named(column: str, values: list[Any]) -> str:
    """A condition in SQL, true for rows whose ``column`` has one of ``values``; its bounds let files be passed over."""
    listed = [_literal(value) for value in values]
    return f"{column} >= {listed[0]} AND {column} <= {listed[-1]} AND {column} IN ({', '.join(listed)})"


def _literal(value: Any) -> str:
    """``value`` in SQL: a whole number or a text."""
    return str(value) if isinstance(value, int) else "'" + str(value).replace("'", "''") + "'"


def fitting(delta: "DeltaTable", rows: "pa.Table | None") -> "pa.Table":
    """``rows`` with the columns and types of the table; none of them: an empty table."""
    import pyarrow as pa

    schema = pa.schema(delta.schema().to_arrow())
    return schema.empty_table() if rows is None else rows.select(schema.names).cast(schema)


def properties(told: str | None = None, transaction: tuple[str, int] | None = None) -> "CommitProperties":
    """What a commit tells of itself, and its entry in the ledger of an application."""
    from deltalake import CommitProperties, Transaction

    return CommitProperties(
        custom_metadata={"userMetadata": told} if told else None,
        app_transactions=[Transaction(*transaction)] if transaction else None,
    )


def bytes_written(path: str, version: int) -> int:
    """The size of the files that a version brought: its rows, and its change feed."""
    lines = Path(path, "_delta_log", f"{version:020}.json").read_text().splitlines()
    actions = [next(iter(json.loads(line).items())) for line in lines if line]
    return sum(file.get("size") or 0 for kind, file in actions if kind in {"add", "cdc"})
