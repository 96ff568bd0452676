"""Refreshing a layer in full: every table recomputed from its inputs and written once, in dependency order."""

import json
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING, Any

from medallion.errors import MedallionError
from medallion.model.table import ByKey, Table
from medallion.spark.collect import collect
from medallion.spark.delta_reads import read_table, schema_of
from medallion.spark.session import TABLE_PROPERTIES, explained, in_parallel
from medallion.storage import fence
from medallion.storage.damage import proven_damage
from medallion.storage.delta_writes import properties
from medallion.storage.lake import Lake, TableState, state_of, table_id

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# A change rewrites the files it touches, and most changes are of the newest rows: about a day of them in a file.
_ROWS_PER_FILE, _MAX_FILES = 20_000, 500
SMALL_BYTES = 64 << 20  # in its files
SMALL_ROWS = 50_000  # a table up to here is written by this process: a Spark commit costs ten times as much


@dataclass(frozen=True)
class Written:
    """One table as written: rows and bytes of the commit, and the version it made.

    strategy: what was really done, ``full`` or ``incremental``; how: in which way. note: why so, where that is not
    plain. warning: what a person should know of it; none as a rule. changed: the size of what changed, where it was
    refreshed by that: values of its key, or bytes.
    """

    rows_in: int
    rows_out: int
    bytes_out: int
    version: int
    inputs: Mapping[str, int]
    strategy: str = "full"
    how: str = "recomputed"
    note: str | None = None
    warning: str | None = None
    changed: int | None = None


@dataclass(frozen=True)
class RefreshRun:
    """The run that a refresh is part of: what its commits say of it. strategy: ``full`` or ``incremental``."""

    hour: str | None
    run_id: str
    strategy: str


def refresh_full(spark: "SparkSession", lake: Lake, table: Table, *, hour: str | None, run_id: str) -> Written:
    """Recompute ``table`` from its inputs' current versions and overwrite it in one commit."""
    return recompute(spark, lake, table, RefreshRun(hour, run_id, "full"))


def recompute(
    spark: "SparkSession", lake: Lake, table: Table, run: RefreshRun, *, clustered: bool = False, large: bool = False
) -> Written:
    """Recompute ``table`` and overwrite it in one commit.

    clustered: by its key, so that a change touches few files. The first write is; hourly ones need not pay for it.
    large: because too much had changed for an incremental refresh.
    """
    inputs = input_states(lake, table)
    warning = set_damaged_aside(spark, lake, table)
    by = table.incremental if isinstance(table.incremental, ByKey) else None
    with explained(f"{table.name} could not be computed"):
        rows = spark.sql(table.query, **read_inputs(spark, lake, inputs))
        former = lake.state(table.name)
        if former and not (clustered and by) and _columns(schema_of(former.delta)) == _columns(rows.schema):
            commit = commit_metadata(table, run, inputs, large=large)
            state: TableState | None = overwrite(lake, table, rows, former, commit)
        else:
            if by:
                files = files_by_key(max((state.rows for state in inputs.values()), default=0))
                rows = rows.repartitionByRange(files, by.column).sortWithinPartitions(by.column)
            commit = commit_metadata(table, run, inputs, clustered=by is not None, large=large)
            (
                rows.write.format("delta")
                .mode("overwrite")
                .options(**TABLE_PROPERTIES, **{"delta.dataSkippingStatsColumns": ",".join(pruned_by(table))})
                .option("overwriteSchema", "true")
                .option("userMetadata", commit)
                .save(lake.path(table.name))
            )
            state = lake.state(table.name)
    assert state is not None, f"{table.name} was just written"
    rows_in = sum(s.rows for s in inputs.values())
    return Written(rows_in, state.rows, state.bytes, state.version, versions_of(inputs), warning=warning)


def overwrite(lake: Lake, table: Table, rows: "DataFrame", former: TableState, commit: str) -> TableState:
    """Put ``rows`` in the place of all that the table had, in one commit; its columns stay as they are."""
    is_small = former.rows <= SMALL_ROWS and former.bytes <= SMALL_BYTES
    data = collect(rows, SMALL_ROWS) if is_small else None  # a table may have been small until now
    if data is not None:
        from deltalake import write_deltalake

        write_deltalake(former.delta, data, mode="overwrite", commit_properties=properties(commit))
    else:
        target = rows.write.format("delta").mode("overwrite").option("userMetadata", commit)
        target.save(lake.path(table.name))
        former.delta.update_incremental()
    return state_of(former.delta)


def _columns(schema: Any) -> list[tuple[str, Any]]:
    return [(field.name, field.dataType) for field in schema]


def files_by_key(rows: int) -> int:
    """Into how many files a table of so many rows is clustered by its key."""
    return min(_MAX_FILES, 1 + rows // _ROWS_PER_FILE)


def input_states(lake: Lake, table: Table) -> dict[str, TableState]:
    """The current state of each input. Raises MedallionError when one has not been written."""
    inputs = {}
    for name in table.inputs:
        state = lake.state(name)
        if state is None:
            raise MedallionError(f"{table.name} reads {name}, which has not been written: refresh its layer first")
        inputs[name] = state
    return inputs


def versions_of(inputs: Mapping[str, TableState]) -> dict[str, int]:
    """Their versions."""
    return {name: state.version for name, state in inputs.items()}


def ids_of(inputs: Mapping[str, TableState]) -> dict[str, str]:
    """Which tables they are: one that has been made anew has another id, and its versions begin again."""
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
    large: bool = False,
) -> str:
    """The JSON that a commit carries: hour, run, query and inputs of its rows, with versions; whether its files are
    clustered by key, whether the change that led to it was large, and the writer's fencing number.

    Raises LeaseLost when this process is not the lake's writer any more.
    """
    known: dict[str, Any] = {"hour": run.hour, "run_id": run.run_id, "strategy": run.strategy}
    known |= {"query": table.fingerprint, "inputs": versions_of(inputs), "tables": ids_of(inputs)}
    return json.dumps(known | {"clustered": clustered, "large": large} | fence.stamp())


def pruned_by(table: Table) -> tuple[str, ...]:
    """The columns that files are told apart by: those in which a reader looks for few values."""
    column = (table.incremental.column,) if isinstance(table.incremental, ByKey) else ()
    return tuple(dict.fromkeys((*table.keys, *column, *table.pruned_by)))


def set_damaged_aside(spark: "SparkSession", lake: Lake, table: Table) -> str | None:
    """Set the table aside if its log is proven to be damaged, as everything in it can be recomputed; a note, if so.

    Raises MedallionError when it cannot be opened for any other reason: that may pass, and the table is sound.
    """
    try:
        lake.version(table.name)
    except MedallionError:
        damage = proven_damage(lake.path(table.name))
        if damage is None:
            raise
        aside = lake.set_aside(table.name)
        forget_logs(spark)
        return f"rebuilt, as {damage} in the log of {table.name}; what was there is in {aside}"
    return None


def forget_logs(spark: "SparkSession") -> None:
    """Let Spark read every Delta log anew: it remembers those that are no longer there."""
    if hasattr(spark, "_jvm"):
        jvm: Any = spark._jvm
        jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()


def side_by_side(tables: tuple[Table, ...], work: Callable[[Table], None]) -> None:
    """Run ``work`` for each table once its inputs among ``tables`` are done, independent ones at the same time.

    The first failure is raised after what was running has ended; nothing that reads the failed table starts.
    """
    by_name = {table.name: table for table in tables}
    order = TopologicalSorter({t.name: [name for name in t.inputs if name in by_name] for t in tables})
    order.prepare()
    with in_parallel() as pool:
        running: dict[Future[None], str] = {}
        while order.is_active():
            running.update({pool.submit(work, by_name[name]): name for name in order.get_ready()})
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                future.result()
                order.done(running.pop(future))
