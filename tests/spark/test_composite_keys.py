"""Feeds and dimensions with two keys: Spark merges as this process does, and incremental equals full."""

import random
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from medallion.ingest import apply, change_log, landing
from medallion.ingest.schema_evolution import arrow_schema
from medallion.model.dimension import dimension
from medallion.model.methods import ByKey
from medallion.model.table import ChangeLog, Feed, Table
from medallion.refresh.full import refresh_full
from medallion.refresh.incremental import refresh_incremental
from medallion.spark.configuration import TABLE_PROPERTIES
from medallion.spark.sessions import Sessions
from medallion.storage import delta_writes
from medallion.storage.lake import Lake
from tests.refresh_run import refresh_run
from tests.shop import build
from tests.unit.test_composite_keys import land

FEED = Feed(
    keys=("a", "b"),
    schema="a BIGINT NOT NULL, b STRING NOT NULL, name STRING, price DECIMAL(9,2), at TIMESTAMP NOT NULL",
    name="bronze_things",
    doc="One row per a and b.",
)
HISTORY = replace(
    dimension("bronze_things_log", key=("a", "b"), sequence_by="at", scd_type=2, columns=("name", "price")),
    method=ByKey("a"),
)
TABLES = build(
    [
        FEED,
        ChangeLog(of="bronze_things", source_system="shop", name="bronze_things_log", doc="A log."),
        *(
            type(HISTORY)(**(vars(HISTORY) | {"name": name, "doc": "One row per key and time."}))
            for name in ("silver_by_full", "silver_by_incremental")
        ),
    ]
)
CHEAP = Table(
    keys=("is_cheap",),
    nullable_keys=("is_cheap",),
    query="SELECT price < 2 AS is_cheap, COUNT(*) AS things FROM {bronze_things} GROUP BY price < 2",
    name="silver_cheap",
    doc="One row for those that are cheap, and one for the others.",
)
HOURS = [f"2025-11-30T{hour:02}" for hour in range(4)]


def lines_of(chance: random.Random, hour: str) -> list[dict[str, Any]]:
    lines = []
    for minute in range(25):
        key = {"a": chance.randrange(6), "b": chance.choice(["x", "it's", ""])}
        row = key | {"name": chance.choice(["n", None]), "price": "1.50", "at": f"{hour}:{minute:02}:00Z"}
        lines.append({"delete": key} if chance.random() < 0.3 else {"insert": row})
    return lines


def rows(lake: Lake, name: str) -> list[str]:
    return sorted(map(str, pa.table(lake.opened(lake.path(name)).to_pyarrow_table()).to_pylist()))


def test_spark_and_this_process_merge_alike_and_a_dimension_refreshed_by_key_equals_one_in_full(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lakes = {way: Lake(str(tmp_path / way)) for way in ("here", "spark")}
    for lake in lakes.values():
        DeltaTable.create(lake.path(FEED.name), arrow_schema(FEED.columns), configuration=TABLE_PROPERTIES)
    log, chance, strategies = TABLES.logs[0], random.Random(5), set()
    change_log.begin_log(lakes["here"], log)
    for hour in HOURS:
        lines = lines_of(chance, hour)
        for way, lake in lakes.items():
            land(lake, hour, lines)
            decoded = landing.decode_hour(lake, (FEED,), hour, 0)
            if way == "here":
                change_log.append_lines(lake, log, hour, decoded[FEED.name])
            with monkeypatch.context() as patch:
                if way == "spark":
                    patch.setattr(delta_writes, "MAX_LOCAL_TABLE_BYTES", -1)
                apply.apply_feed(lambda: Sessions(spark), lake, FEED, hour, decoded[FEED.name])
        assert rows(lakes["here"], FEED.name) == rows(lakes["spark"], FEED.name)
        for name, refresh in (("silver_by_full", refresh_full), ("silver_by_incremental", refresh_incremental)):
            written = refresh(refresh_run(lakes["here"], spark, hour=hour, run_id=hour, tables=TABLES), TABLES[name])  # type: ignore[arg-type, operator]
        strategies.add(written.strategy)
        assert rows(lakes["here"], "silver_by_full") == rows(lakes["here"], "silver_by_incremental")
    assert "incremental" in strategies


def test_table_keyed_by_a_boolean_of_which_delta_keeps_no_bounds_is_written(spark: Any, tmp_path: Path) -> None:
    lake, tables = Lake(str(tmp_path)), build([FEED, CHEAP])
    moment = datetime(2025, 11, 30, tzinfo=UTC)
    prices = [Decimal("1.00"), Decimal("1.50"), Decimal("9.00"), None]
    things = [{"a": n, "b": "x", "name": None, "price": price, "at": moment} for n, price in enumerate(prices)]
    write_deltalake(lake.path(FEED.name), pa.Table.from_pylist(things, schema=arrow_schema(FEED.columns)))
    refresh_full(refresh_run(lake, spark, hour=HOURS[0], run_id=HOURS[0], tables=tables), CHEAP)
    assert rows(lake, CHEAP.name) == [
        "{'is_cheap': False, 'things': 1}",
        "{'is_cheap': None, 'things': 1}",
        "{'is_cheap': True, 'things': 2}",
    ]
