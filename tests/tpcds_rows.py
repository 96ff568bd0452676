"""TPC-DS's queries over hours of changed sales and returns: those refreshed by what changed have the rows of the query.

``python -m tests.tpcds_rows --scale 0.01 --hours 2``; queries may be named: ``q20 q72``. Each hour cancels, corrects
and adds some orders. After it each table is refreshed, and its rows are compared with those that its query gives then.
It prints query, method and seconds of both, and ends with 1 where anything differs.
"""

import argparse
import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa

from bench.tpcds import derived
from bench.tpcds_project import FACTS, tpcds, write_project
from medallion.ingest.arrow_types import arrow_type
from medallion.model.registry import Registry
from medallion.model.table import Feed, Table
from medallion.project import project_at
from medallion.refresh import additive, plan
from medallion.refresh.full import refresh_full
from medallion.refresh.incremental import refresh_incremental
from medallion.refresh.inputs import input_states, read_inputs
from medallion.settings import Settings
from medallion.spark.configuration import TABLE_PROPERTIES
from medallion.spark.session import spark_session
from medallion.storage.delta_writes import properties, replace_rows
from medallion.storage.lake import Lake
from medallion.storage.merge_on_read import FileLayout
from medallion.storage.replaced_rows import bronze_metadata
from tests.random_queries import rows_of
from tests.refresh_run import refresh_run

STEP = 997  # one order in so many is changed in each way, each hour
CORRECTED = {
    "store_sales": ("ss_quantity", "ss_ext_sales_price", "ss_net_paid", "ss_net_profit"),
    "catalog_sales": ("cs_quantity", "cs_ext_sales_price", "cs_net_paid", "cs_net_profit"),
    "web_sales": ("ws_quantity", "ws_ext_sales_price", "ws_net_paid", "ws_net_profit"),
    "store_returns": ("sr_return_amt", "sr_net_loss"),
    "catalog_returns": ("cr_return_amount", "cr_net_loss"),
    "web_returns": ("wr_return_amt", "wr_net_loss"),
}


class Shop:
    """TPC-DS's tables in DuckDB, and the same in Bronze of a lake."""

    def __init__(self, spark: Any, lake: Lake, database: Any, tables: Registry) -> None:
        self.spark, self.lake, self.database, self.tables = spark, lake, database, tables
        for feed in tables.feeds:
            self._create(feed, self._rows(feed, ""))

    def hour(self, number: int) -> None:
        """Change it as the hour with this number, from 0 on, does."""
        for table, (order, _) in FACTS.items():
            cancelled, corrected, added = (f"{order} % {STEP} = {(number * 7 + kind) % STEP}" for kind in range(3))
            touched = self._orders(table, order, f"{cancelled} OR {corrected}")
            self.database.execute(f"DELETE FROM {table} WHERE {cancelled}")
            changes = ", ".join(f"{column} = {column} + 1" for column in CORRECTED[table])
            self.database.execute(f"UPDATE {table} SET {changes} WHERE {corrected}")
            new = f"SELECT * REPLACE ({order} + {number + 1}000000000 AS {order}) FROM {table} WHERE {added}"
            self.database.execute(f"INSERT INTO {table} {new} AND {order} < 1000000000")
            touched |= self._orders(table, order, f"{order} > {number + 1}000000000")
            if touched:
                self._replace(self.tables[f"bronze_{table}"], order, sorted(touched))

    def _orders(self, table: str, order: str, condition: str) -> set[int]:
        found = self.database.execute(f"SELECT DISTINCT {order} FROM {table} WHERE {condition}").fetchall()
        return {number for (number,) in found}

    def _rows(self, feed: Any, where: str) -> pa.Table:
        schema = pa.schema([(column.name, arrow_type(column)) for column in feed.columns])
        columns = [f"CAST({c.name} AS INT) AS {c.name}" if c.sql_type == "INT" else c.name for c in feed.columns]
        table = feed.name.removeprefix("bronze_")
        return self.database.execute(f"SELECT {', '.join(columns)} FROM {table} {where}").to_arrow_table().cast(schema)

    def _create(self, feed: Feed, rows: pa.Table) -> None:
        writer = self.spark.createDataFrame(rows).coalesce(1).write.format("delta").options(**TABLE_PROPERTIES)
        writer.option("userMetadata", bronze_metadata(feed.keys)).save(self.lake.path(feed.name))

    def _replace(self, feed: Any, order: str, orders: list[int]) -> None:
        rows = self._rows(feed, f"WHERE {order} IN ({', '.join(map(str, orders))})")
        path, commit = self.lake.path(feed.name), properties(bronze_metadata(feed.keys))
        replace_rows(self.lake.opened(path), rows, order, orders, commit, FileLayout(self.lake.at(path), 1 << 20, None))


def differs(shop: Shop, table: Table, *, first: bool) -> str:
    """Refresh a table, print what that took, and say how its rows differ from those of its query; empty if not."""
    run, start = refresh_run(shop.lake, shop.spark, tables=shop.tables), time.monotonic()
    written = (refresh_full if first else refresh_incremental)(run, table)
    taken, start = time.monotonic() - start, time.monotonic()
    frames = read_inputs(shop.spark, shop.lake, input_states(shop.lake, table), run.proof_of(table))
    wanted = rows_of(shop.spark.sql(table.query, **frames).toArrow())
    query = time.monotonic() - start
    stored = rows_of(shop.lake.opened(shop.lake.path(table.name)).to_pyarrow_table())
    print(f"{table.name}: {written.method}, {len(stored)} rows, {taken:.1f} s, query {query:.1f} s", flush=True)
    if written.warning:
        return written.warning
    return "" if wanted == stored else f"{[*set(stored) - {*wanted}][:2]} where {[*set(wanted) - {*stored}][:2]}"


def main() -> int:
    """Refresh the queries over some hours, and compare."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("queries", nargs="*", help="such as q20; all that are refreshed by what changed if none")
    options.add_argument("--scale", type=float, default=0.01)
    options.add_argument("--hours", type=int, default=2)
    asked = options.parse_args()
    os.environ["TZ"] = "UTC"
    time.tzset()
    plan.MAX_CHANGED_SHARE, additive.MIN_STATE_INPUT_BYTES = 10, 0  # so small a shop would be recomputed
    settings = Settings.from_environment().replace(spark_master="local[2]", driver_memory="3g", spark_connect=None)
    spark = spark_session(settings, "tpcds")
    wrong: dict[str, str] = {}
    with TemporaryDirectory(prefix="tpcds-") as folder, tpcds(asked.scale) as database:
        write_project(Path(folder) / "project", database)
        every = project_at(Path(folder) / "project").registry(extras=True)
        kept = {name: t for name, t in every.tables.items() if t.layer == "bronze" or not asked.queries}
        kept |= {f"gold_{query}": every[f"gold_{query}"] for query in asked.queries}
        found = derived(replace(every, tables=kept))
        tables = replace(every, tables={name: node for name, node in found.nodes.items() if name not in found.errors})
        shop = Shop(spark, Lake(str(Path(folder) / "lake")), database, tables)
        followed = [table for table in tables if isinstance(table, Table) and table.is_incremental]
        for hour in range(asked.hours + 1):
            if hour:
                shop.hour(hour - 1)
            for table in followed:
                if table.name not in wrong and (reason := differs(shop, table, first=hour == 0)):
                    wrong[table.name] = reason
                    print(f"WRONG {table.name}, hour {hour}: {reason}", flush=True)
    print(f"{len(followed)} queries, {asked.hours} hours: {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
