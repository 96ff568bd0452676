"""The commit of a refresh: rows, clustering by key, and metadata with the lineage of the rows."""

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from medallion.model.methods import ByKey
from medallion.model.refresh_method import RefreshMethod
from medallion.model.table import Node, Table
from medallion.refresh.inputs import commits_of, ids_of, versions_of
from medallion.refresh.refresh_run import RefreshRun
from medallion.spark.collect import collect
from medallion.storage import delta_writes, fence
from medallion.storage.foreign_commits import stamped
from medallion.storage.lake import Lake, TableState, state_of
from medallion.storage.merge_on_read import FileLayout
from medallion.storage.replaced_rows import replacement
from medallion.storage.row_difference import FILE_BYTES, replace_differing
from medallion.storage.table_features import features_for_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# A change that rewrites files mostly touches the newest rows: about a day of rows per file. A change that marks rows
# rewrites none, and every query opens each file.
ROWS_PER_FILE, MARKED_ROWS_PER_FILE, MARKED_BYTES_PER_FILE, _MAX_FILES = 20_000, 200_000, 64 << 20, 500
# Up to this size this process writes a table: a Spark commit costs ten times as much.
SMALL_BYTES = 64 << 20  # in data files
SMALL_ROWS = 50_000


Columns = tuple[str, ...] | None  # the columns by whose values a commit replaces rows; None if it replaces all rows


def is_written_by_difference(table: TableState) -> bool:
    """Return whether a recompute writes only the rows that differ, so that readers do not see all rows as changed."""
    return table.rows <= SMALL_ROWS and table.bytes <= SMALL_BYTES and not features_for_spark(table.delta)


def overwrite(
    lake: Lake, table: Table, rows: "DataFrame", former: TableState, commit: Callable[[Columns], str]
) -> TableState:
    """Replace all rows of the table by ``rows`` in one commit; its columns stay as they are.

    commit: returns the JSON of a commit for the columns by which it replaces rows.
    """
    # The former table may be small and the new rows many.
    data = collect(rows, SMALL_ROWS) if is_written_by_difference(former) else None
    if data is not None:
        key = replaced_by(table)
        layout = FileLayout(lake.folder(table.name), FILE_BYTES, lake.marks_from)
        replace_differing(former.delta, data, key, commit(key), layout)
    else:
        target = (
            rows.write.format("delta").mode("overwrite").option("userMetadata", stamped(commit(None), former.delta))
        )
        target.save(lake.path(table.name))
        former.delta.update_incremental()
    return state_of(former.delta)


def files_by_key(state: TableState, marks_from: int | None) -> int:
    """Return how many files to cluster a table as large as ``state`` into. marks_from: as of Lake.

    Spark rewrites the files of a table that this process does not write.
    """
    wanted = state.rows // ROWS_PER_FILE
    if marks_from is not None and marks_from <= state.bytes <= delta_writes.MAX_LOCAL_TABLE_BYTES:
        wanted = max(state.rows // MARKED_ROWS_PER_FILE, state.bytes // MARKED_BYTES_PER_FILE)
    return min(_MAX_FILES, 1 + wanted)


def replaced_by(table: Node) -> tuple[str, ...]:
    """Return the columns by whose values a commit of the table replaces rows."""
    method = table.method if isinstance(table, Table) else None
    return (method.column,) if isinstance(method, ByKey) else table.keys


def commit_metadata(
    table: Table,
    run: RefreshRun,
    inputs: Mapping[str, TableState],
    method: RefreshMethod,
    replaces: Columns,
    *,
    clustered: bool = False,
) -> str:
    """Return the JSON of a commit's metadata.

    It has the hour, run, query, proof and input versions of the rows, the refresh method, the columns by which rows are
    replaced, whether files are clustered by key, and the fencing number of the writer.

    Raises LeaseLost if this process is no longer the lake's writer.
    """
    known: dict[str, Any] = {"hour": run.hour, "run_id": run.run_id, "strategy": run.strategy}
    known |= {
        "query": table.fingerprint,
        "proof": run.proof_of(table).fingerprint,
        "inputs": versions_of(inputs),
        "tables": ids_of(inputs),
        "commits": commits_of(inputs),
    }
    return json.dumps(known | replacement(method, replaces) | {"clustered": clustered} | fence.stamp())


def pruned_by(table: Table) -> tuple[str, ...]:
    """Return the columns with file statistics for data skipping."""
    column = (table.method.column,) if isinstance(table.method, ByKey) else ()
    return tuple(dict.fromkeys((*table.keys, *column, *table.pruned_by)))
