"""What a refresh of a table writes: its rows in one commit, and what the commit carries of how they came about."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from medallion.errors import MedallionError
from medallion.model.refresh_method import RefreshMethod
from medallion.model.table import ByKey, Table
from medallion.refresh.cost import RecentCosts
from medallion.spark.collect import collect
from medallion.spark.delta_reads import read_table
from medallion.spark.sessions import Sessions
from medallion.storage import fence
from medallion.storage.lake import Lake, TableState, state_of, table_id
from medallion.storage.row_difference import replace_differing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# A change rewrites the files it touches, and most changes are of the newest rows: about a day of them in a file.
ROWS_PER_FILE, _MAX_FILES = 20_000, 500
SMALL_BYTES = 64 << 20  # in its files
SMALL_ROWS = 50_000  # a table up to here is written by this process: a Spark commit costs ten times as much


@dataclass(frozen=True, kw_only=True)
class Written:
    """One table as written: rows and bytes of the commit, and the version it made.

    strategy: what was really done, ``full`` or ``incremental``; method: how. note: why so, where that is not
    plain. warning: what a person should know of it; none as a rule. changed: the size of what changed, where it was
    refreshed by that: values of its key, or bytes. built_state: whether it built incremental state, which later
    refreshes find.
    """

    rows_in: int
    rows_out: int
    bytes_out: int
    version: int
    inputs: Mapping[str, int]
    strategy: str = "full"
    method: RefreshMethod = RefreshMethod.FULL_RECOMPUTE
    note: str | None = None
    warning: str | None = None
    changed: int | None = None
    built_state: bool = False

    @classmethod
    def whole(cls, state: TableState, inputs: Mapping[str, TableState], **more: Any) -> "Written":
        """Return a table all of whose rows were computed from all rows of its ``inputs``; more: other fields."""
        return cls(
            rows_in=sum(input_state.rows for input_state in inputs.values()),
            rows_out=state.rows,
            bytes_out=state.bytes,
            version=state.version,
            inputs=versions_of(inputs),
            **more,
        )

    @classmethod
    def unchanged(cls, version: int, inputs: Mapping[str, TableState], note: str) -> "Written":
        """Return a table that stays as it is; note: why."""
        return cls(
            rows_in=0,
            rows_out=0,
            bytes_out=0,
            version=version,
            inputs=versions_of(inputs),
            strategy="incremental",
            method=RefreshMethod.UNCHANGED,
            note=note,
        )


@dataclass(frozen=True)
class RefreshRun:
    """What the refreshes of a layer in one run share; their commits carry hour, run_id and strategy.

    costs: what tables took before this run. strategy: ``full`` or ``incremental``.
    """

    lake: Lake
    sessions: Sessions
    costs: RecentCosts
    hour: str | None
    run_id: str
    strategy: str


def overwrite(lake: Lake, table: Table, rows: "DataFrame", former: TableState, commit: str) -> TableState:
    """Put ``rows`` in the place of all that the table had, in one commit; its columns stay as they are.

    Of a small table only what differs is written, so what reads it finds no more changed than is.
    """
    is_small = former.rows <= SMALL_ROWS and former.bytes <= SMALL_BYTES
    data = collect(rows, SMALL_ROWS) if is_small else None  # a table may have been small until now
    if data is not None:
        replace_differing(former.delta, data, replaced_by(table), commit)
    else:
        target = rows.write.format("delta").mode("overwrite").option("userMetadata", commit)
        target.save(lake.path(table.name))
        former.delta.update_incremental()
    return state_of(former.delta)


def files_by_key(rows: int) -> int:
    """Into how many files a table of so many rows is clustered by its key."""
    return min(_MAX_FILES, 1 + rows // ROWS_PER_FILE)


def input_states(lake: Lake, table: Table) -> dict[str, TableState]:
    """The current state of each input. Raises MedallionError when one has not been written."""
    inputs = {}
    for name in table.inputs:
        state = lake.state(name)
        if state is None:
            raise MedallionError(f"{table.name} reads {name}, which has not been written: refresh its layer first")
        inputs[name] = state
    return inputs


def replaced_by(table: Table) -> tuple[str, ...]:
    """The columns whose values a commit of the table replaces as a whole."""
    return (table.incremental.column,) if isinstance(table.incremental, ByKey) else table.keys


def versions_of(inputs: Mapping[str, TableState]) -> dict[str, int]:
    """Return the version of each input."""
    return {name: state.version for name, state in inputs.items()}


def ids_of(inputs: Mapping[str, TableState]) -> dict[str, str]:
    """Return the Delta ids of the inputs; a rebuilt table has a new id."""
    return {name: table_id(state.delta) for name, state in inputs.items()}


def read_inputs(spark: "SparkSession", lake: Lake, inputs: Mapping[str, TableState]) -> dict[str, Any]:
    """A frame for each input, at exactly the version of its state."""
    return {name: read_table(spark, lake.path(name), state) for name, state in inputs.items()}


def commit_metadata(
    table: Table,
    run: RefreshRun,
    inputs: Mapping[str, TableState],
    *,
    clustered: bool = False,
) -> str:
    """The JSON that a commit carries: hour, run, query and inputs of its rows, with versions; whether its files are
    clustered by key, and the writer's fencing number.

    Raises LeaseLost when this process is not the lake's writer any more.
    """
    known: dict[str, Any] = {"hour": run.hour, "run_id": run.run_id, "strategy": run.strategy}
    known |= {"query": table.fingerprint, "inputs": versions_of(inputs), "tables": ids_of(inputs)}
    return json.dumps(known | {"clustered": clustered} | fence.stamp())


def pruned_by(table: Table) -> tuple[str, ...]:
    """Return the columns with file statistics for data skipping."""
    column = (table.incremental.column,) if isinstance(table.incremental, ByKey) else ()
    return tuple(dict.fromkeys((*table.keys, *column, *table.pruned_by)))
