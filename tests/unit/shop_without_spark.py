"""The shop's own lake without Spark: loaded by delta-rs, computed by DuckDB, checked by Great Expectations, published.

Every step is the real one but for the queries, which DuckDB computes, so a whole lake takes seconds.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from deltalake import DeltaTable, write_deltalake

from bench.duck import refresh_duckdb
from demo.generate import generate
from medallion.ingest import change_log
from medallion.ingest.schema_evolution import arrow_schema
from medallion.ingest.snapshot import feed_properties
from medallion.model.columns import Column
from medallion.model.registry import Registry
from medallion.model.table import Table
from medallion.pipeline import operations, steps
from medallion.pipeline.driver import Driver
from medallion.pipeline.run import Outcome, Report, Run
from medallion.refresh.strategies import ENGINE_STRATEGIES
from medallion.spark.configuration import TABLE_PROPERTIES
from medallion.storage.delta_writes import cast_to_schema, properties
from medallion.storage.replaced_rows import bronze_metadata
from tests.shop import SHOP
from tests.unit.small_lake import InFolder


@dataclass(frozen=True)
class Shop(InFolder):
    """The shop's source, and the lake that is loaded from it."""

    @cached_property
    def tables(self) -> Registry:
        return self.driver().tables

    def driver(self, report: Report = lambda _: None) -> Driver:
        """A new one, as a process of its own would have."""
        return Driver(self.settings, report, {**ENGINE_STRATEGIES, "duckdb": refresh_duckdb})

    def run(self, hour: str | None, run_id: str) -> Run:
        return Run(self.settings, hour, run_id, strategy="duckdb")

    def refresh(self, hour: str) -> Outcome:
        return operations.refresh_hour(self.run(hour, f"refresh-{hour}"), self.driver())

    def restate(self, hour: str) -> Outcome:
        return operations.restate(self.run(hour, "restate"), self.driver())

    def load(self) -> None:
        """Load the snapshot, and publish the first release."""
        made = self.driver()
        made.record_tables()
        for feed in made.tables.feeds:
            rows = DeltaTable(str(self.root / "source" / "snapshot" / feed.name)).to_pyarrow_table()
            schema = arrow_schema(feed.columns)
            delta = DeltaTable.create(
                self.lake.path(feed.name),
                schema,
                configuration=feed_properties(feed),
                commit_properties=properties(),
            )
            rows = cast_to_schema(rows, schema).sort_by([(key, "ascending") for key in feed.keys])
            commit = properties(bronze_metadata(None, "load"), upon=delta)
            write_deltalake(delta, rows, mode="append", commit_properties=commit)
        for log in made.tables.logs:
            change_log.begin_log(self.lake, log)
        proofs = {proof.table: proof for proof in made.locked_proofs().values()}
        for table in made.tables:
            if isinstance(table, Table):
                columns = [Column(name, kind.upper(), False) for name, kind, _ in proofs[table.name].columns]
                path = self.lake.path(table.name)
                DeltaTable.create(
                    path, arrow_schema(columns), configuration=TABLE_PROPERTIES, commit_properties=properties()
                )
        steps.refresh_onward(self.run(None, "load"), self.driver())


def generated(root: Path, days: int = 2, hours: int = 4, scale: float = 0.02) -> Shop:
    """A shop with a source of so many days before its hours."""
    with SHOP.entered():
        generate(root / "source", days=days, hours=hours, scale=scale, seed=1)
        return Shop(root)
