"""A lake of two feeds, one Silver and one Gold table, refreshed by the real steps, without Spark.

Silver is a copy of the first feed and Gold a copy of Silver, written by delta-rs; a check passes every table at its
current version. So a step takes a few dozen milliseconds, and orders of steps can be enumerated.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from medallion.checks import checkpoint
from medallion.checks.result import CheckResult, TableResult
from medallion.ingest import ledger
from medallion.model.registry import Registry
from medallion.model.table import Feed, Table
from medallion.ops import releases
from medallion.pipeline import analysis, operations, steps
from medallion.pipeline.driver import Driver
from medallion.pipeline.rollback import rollback
from medallion.pipeline.run import Outcome, Report, Run
from medallion.refresh.inputs import input_states
from medallion.refresh.refresh_run import RefreshRun, Written
from medallion.refresh.strategies import ENGINE_STRATEGIES
from medallion.settings import Settings
from medallion.storage import fence
from medallion.storage.delta_writes import properties
from medallion.storage.files import Place
from medallion.storage.lake import Lake, open_table, state_of, table_id
from medallion.storage.live_rows import read_live_rows
from tests.shop import build

H0, H1, H2, H3, H4 = (f"2025-11-30T{n:02}" for n in range(5))
COLUMNS = "id BIGINT NOT NULL, name STRING"
TABLES: Registry = build(
    [
        Feed(keys=("id",), schema=COLUMNS, name="bronze_orders", layer="bronze", doc="One row per id."),
        Feed(keys=("id",), schema=COLUMNS, name="bronze_items", layer="bronze", doc="One row per id."),
        Table(keys=("id",), query="SELECT * FROM {bronze_orders}", name="silver_orders", layer="silver", doc="A copy."),
        Table(keys=("id",), query="SELECT * FROM {silver_orders}", name="gold_orders", layer="gold", doc="A copy."),
    ]
)
ORDERS: Feed = next(feed for feed in TABLES.feeds if feed.topic == "orders")
ARROW = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])
CHANGE_FEED = {"delta.enableChangeDataFeed": "true"}
BY_A_LOAD = CommitProperties(custom_metadata={fence.KEY: "0"})  # so that the first commit is known as ours
Rows = Mapping[int, str]


def feeds(*topics: str) -> tuple[Feed, ...]:
    """Feeds of these names, delivered as a source is by default."""
    return tuple(Feed(keys=("id",), schema=COLUMNS, name=f"bronze_{topic}") for topic in topics)


def lines_of(rows: Rows) -> str:
    """A change file that inserts these rows."""
    return "".join(f"{json.dumps({'insert': {'id': key, 'name': name}})}\n" for key, name in rows.items())


def copied(run: RefreshRun, table: Table, rows_kept: int | None = None) -> Written:
    """Refresh a table that is a copy of its one input, or of its first rows, as a full refresh does."""
    lake, (name,) = run.lake, table.inputs
    delta, former = input_states(lake, table)[name].delta, lake.open(lake.path(table.name))
    rows = read_live_rows(delta, lake.folder(name))[:rows_kept]
    lineage = {"hour": run.hour, "run": run.run_id, "query": table.fingerprint, "inputs": {name: delta.version()}}
    commit = properties(json.dumps(lineage), upon=former)
    mode, options = None if former is None else "overwrite", lake.storage_options
    write_deltalake(
        *(lake.path(table.name), rows),
        mode="overwrite",
        schema_mode=mode,
        commit_properties=commit,
        storage_options=options,
    )
    version = lake.version(table.name) or 0
    inputs = {name: delta.version()}
    return Written(rows_in=len(rows), rows_out=len(rows), bytes_out=0, version=version, inputs=inputs)


def passed(
    checked: checkpoint.CheckedLayer, tables: Mapping[str, Any], *, suites: Mapping[str, Any], **about: Any
) -> CheckResult:
    """A check that looks at the current version of each table of a layer, and judges row counts alone."""
    states = {name: state_of(_opened(at.folder)) for name, at in tables.items() if name in suites}
    context = about.pop("context")
    counted: Any = SimpleNamespace(rows={name: state.rows for name, state in states.items()})
    about.pop("reports")
    results = tuple(
        TableResult(
            *(name, state.version, state.rows, 0.0),
            tuple(context.trace(result, name) for result in context.judge_volumes(name, counted)),
        )
        for name, state in states.items()
    )
    seen = {
        "versions": {name: state.version for name, state in states.items()},
        "table_ids": {name: table_id(state.delta) for name, state in states.items()},
        "rows": {name: state.rows for name, state in states.items()},
    }
    times = {"started_at": datetime.now(UTC), "seconds": 0.0, "startup_seconds": 0.0}
    return CheckResult(tables=results, **(vars(checked) | about | times | seen))


def _opened(folder: Place) -> DeltaTable:
    delta = open_table(folder)
    assert delta is not None
    return delta


STRATEGIES = {**ENGINE_STRATEGIES, "full": copied}


@dataclass(frozen=True)
class InFolder:
    """A source and a lake in one folder."""

    root: Path

    @cached_property
    def settings(self) -> Settings:
        return Settings(lake=str(self.root / "lake"), source=str(self.root / "source"), lock_wait=0)

    @cached_property
    def lake(self) -> Lake:
        return Lake.of(self.settings)


@dataclass(frozen=True)
class Shop(InFolder):
    """A source of two feeds, and a lake that was loaded from it."""

    tables: Registry = TABLES

    def put(self, hour: str, rows: Rows | str, topic: str = "orders") -> Path:
        """Have the source deliver a file: these rows inserted, or this very text."""
        file = self.root / "source" / "cdc" / topic / f"{hour}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(rows if isinstance(rows, str) else lines_of(rows))
        return file

    def drop(self, hour: str, topic: str = "orders") -> None:
        """Have the source forget a file."""
        (self.root / "source" / "cdc" / topic / f"{hour}.json").unlink()

    def driver(self, said: list[str] | None = None) -> Driver:
        """A new one, as a process of its own would have. said: gets what it reports."""
        report: Report = said.append if said is not None else lambda _: None
        made = Driver(self.settings, report, STRATEGIES)
        made.tables = self.tables
        return made

    def step(self, name: str, hour: str | None = None, layer: Any = None, run_id: str = "run") -> Outcome:
        """One step, in a process of its own."""
        return steps.run_step(name, Run(self.settings, hour, run_id), self.driver(), layer)

    def refresh(self, hour: str | None = None, said: list[str] | None = None) -> Outcome:
        """One hour, in one process."""
        return operations.refresh_hour(Run(self.settings, hour, "refresh"), self.driver(said))

    def restate(self, hour: str, said: list[str] | None = None) -> Outcome:
        return operations.restate(Run(self.settings, hour, "restate"), self.driver(said))

    def roll_back(self, number: int | None = None) -> Outcome:
        return rollback(Run(self.settings, None, "back"), self.driver(), number)

    def rows(self, table: str = "bronze_orders", version: int | None = None) -> dict[int, str]:
        """What a table holds, by id."""
        delta = self.lake.opened(self.lake.path(table), version)
        return {row["id"]: row["name"] for row in read_live_rows(delta, self.lake.folder(table)).to_pylist()}

    def published(self, table: str = "gold_orders") -> dict[int, str]:
        """What readers see of a table."""
        return self.rows(table, releases.require_release(self.lake, None).versions[table])

    @property
    def applied(self) -> str | None:
        return ledger.applied_hour(self.lake, self.tables)


def load(root: Path, tables: Registry = TABLES) -> Shop:
    """A shop with an empty snapshot, published as the first release."""
    shop = Shop(root, tables)
    (root / "source" / "cdc").mkdir(parents=True)
    for feed in tables.feeds:
        write_deltalake(
            *(shop.lake.path(feed.name), ARROW.empty_table()), configuration=CHANGE_FEED, commit_properties=BY_A_LOAD
        )
    operations.refresh_onward(Run(shop.settings, None, "load"), shop.driver())
    return shop


def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the steps check without Great Expectations, and start no session."""
    monkeypatch.setattr(checkpoint, "run_checkpoint", passed)
    without_session(monkeypatch)


def without_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the steps start no session."""
    monkeypatch.setattr(analysis, "problems_by_spark", lambda *_: {})
    for name in ("spark", "sessions"):
        monkeypatch.setattr(Driver, name, lambda *_: None)
