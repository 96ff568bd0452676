"""Refreshing a layer: every table recomputed from its inputs and written once, in dependency order."""

import json
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING, Any

from spark_jobs.core.bronze import in_parallel
from spark_jobs.core.errors import MedallionError
from spark_jobs.core.lake import Lake
from spark_jobs.core.session import TABLE_PROPERTIES, explained
from spark_jobs.core.table import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Written:
    """One table as written: rows and bytes from the commit, and the version it made.

    note: what a person should know of it; none as a rule.
    """

    rows_in: int
    rows_out: int
    bytes_out: int
    version: int
    inputs: Mapping[str, int]
    note: str | None = None


def refresh_full(spark: "SparkSession", lake: Lake, table: Table, *, hour: str | None, run_id: str) -> Written:
    """Recompute ``table`` from its inputs' current versions and overwrite it in one commit.

    The commit's user metadata names hour, run and the input versions it consumed.
    """
    inputs = {}
    for name in table.inputs:
        state = lake.state(name)
        if state is None:
            raise MedallionError(f"{table.name} reads {name}, which has not been written: refresh its layer first")
        inputs[name] = state
    frames: dict[str, Any] = {
        name: spark.read.format("delta").option("versionAsOf", state.version).load(lake.path(name))
        for name, state in inputs.items()
    }
    versions = {name: state.version for name, state in inputs.items()}
    metadata = {"hour": hour, "run_id": run_id, "strategy": "full", "inputs": versions}
    note = _make_way(spark, lake, table)
    with explained(f"{table.name} could not be computed"):
        (
            spark.sql(table.query, **frames)
            .write.format("delta")
            .mode("overwrite")
            .options(**TABLE_PROPERTIES, **{"delta.dataSkippingStatsColumns": ",".join(table.keys)})
            .option("overwriteSchema", "true")
            .option("userMetadata", json.dumps(metadata))
            .save(lake.path(table.name))
        )
    state = lake.state(table.name)
    assert state is not None, f"{table.name} was just written"
    return Written(sum(s.rows for s in inputs.values()), state.rows, state.bytes, state.version, versions, note)


def _make_way(spark: "SparkSession", lake: Lake, table: Table) -> str | None:
    """Set the table aside if its log is damaged, for everything in it can be computed anew; a note, if so."""
    try:
        lake.version(table.name)
    except MedallionError as damaged:
        aside = lake.set_aside(table.name)
        jvm: Any = spark._jvm
        jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # it remembers logs that are no longer there
        return f"rebuilt, as {damaged}; what was there is in {aside}"
    return None


def side_by_side(spark: "SparkSession", tables: tuple[Table, ...], work: Callable[[Table], None]) -> None:
    """Run ``work`` for each table once its inputs among ``tables`` are done, independent ones at the same time.

    The first failure is raised after what was running has ended; nothing that reads the failed table starts.
    """
    by_name = {table.name: table for table in tables}
    order = TopologicalSorter({t.name: [name for name in t.inputs if name in by_name] for t in tables})
    order.prepare()
    with in_parallel(spark) as pool:
        running: dict[Future[None], str] = {}
        while order.is_active():
            running.update({pool.submit(work, by_name[name]): name for name in order.get_ready()})
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                future.result()
                order.done(running.pop(future))
