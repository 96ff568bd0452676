"""Incremental equals full, whatever happens: random histories that bend every join, filter and group of the tables.

MEDALLION_HISTORY is how many changes of the lake are made (6), MEDALLION_SEED which they are (1).
"""

import json
import os
import random
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pytest

from bench.declarative import run_pipeline
from medallion.declarative.specification import differing_views
from medallion.errors import MedallionError
from medallion.ingest import apply, change_log
from medallion.ingest.arrow_types import arrow_type
from medallion.ingest.decode import DELETED, LINE, change_schema
from medallion.model.additive_split import split_of
from medallion.model.methods import Additive, ByKey, Full
from medallion.model.refresh_method import RefreshMethod, StateWork
from medallion.model.selection import select_tables
from medallion.model.table import ChangeLog, Feed, Table
from medallion.ops.lake_tables import TableRecord, write_record
from medallion.ops.releases import Release
from medallion.pipeline.driver import Driver
from medallion.pipeline.maintain import Retention, maintain
from medallion.pipeline.run import Run
from medallion.refresh import by_key
from medallion.refresh.cost import Costs
from medallion.refresh.full import refresh_full
from medallion.refresh.incremental import refresh_incremental
from medallion.refresh.inputs import input_states, read_inputs
from medallion.refresh.refresh_run import Written
from medallion.refresh.state_log import StateLog
from medallion.settings import Settings
from medallion.spark.collect import collect
from medallion.spark.configuration import TABLE_PROPERTIES
from medallion.spark.delta_reads import read_changes
from medallion.storage import added_up, deletion_vectors, delta_writes
from medallion.storage.change_feed import actions_of, changes
from medallion.storage.delta_writes import properties, replace_rows
from medallion.storage.fence import LeaseLost
from medallion.storage.foreign_commits import provenance, stamped
from medallion.storage.lake import Lake, state_of
from medallion.storage.live_rows import read_live_rows
from medallion.storage.merge_on_read import FileLayout
from medallion.storage.replaced_rows import bronze_metadata
from tests.refresh_run import refresh_run
from tests.shop import registry

Rows = dict[int, dict[str, Any]]
START = datetime(2025, 12, 20, tzinfo=UTC)
STATUSES = ("pending", "confirmed", "shipped", "delivered", "cancelled", "returned", "lost", None)


class Shop:
    """Bronze in Python, and the lake it is written to. Few keys, so that changes meet."""

    def __init__(self, spark: Any, lake: Lake, seed: int) -> None:
        self.spark, self.lake, self.chance = spark, lake, random.Random(seed)
        self.feeds: dict[str, Feed] = {feed.topic: feed for feed in registry().feeds}
        self.rows: dict[str, Rows] = {topic: {} for topic in self.feeds}
        self.changed: dict[str, Rows | dict[int, None]] = {}
        self.hour = START
        for topic, count in (("suppliers", 4), ("products", 12), ("customers", 15), ("orders", 60)):
            for key in range(1, count + 1):
                self.put(topic, key)
        for topic, count in (("order_items", 150), ("clickstream_events", 80), ("inventory_events", 60)):
            for key in range(1, count + 1):
                self.put(topic, key)

    def moment(self) -> datetime:
        """Around the turn of a year, over weeks that are not all there, to the second."""
        return START + timedelta(
            days=self.chance.choice((0, 1, 2, 3, 9, 10, 24)), seconds=self.chance.randrange(86_400)
        )

    def money(self, low: int, high: int) -> Decimal:
        return Decimal(self.chance.randrange(low, high)) / 100

    def put(self, topic: str, key: int, **given: Any) -> None:
        """Insert a row, or change all of it."""
        pick, some = self.chance.choice, self.chance.randrange
        made: dict[str, Any] = {
            "suppliers": lambda: {
                "supplier_name": f"supplier {some(9)}",
                "country": pick(("DE", "US", None)),
                "lead_time_days": pick((None, 0, 2, 7, 10_000)),
            },
            "products": lambda: {
                "product_name": f"product {some(9)}",
                "category": pick(("tools", "toys", None)),
                "supplier_id": some(1, 6),
                "list_price": self.money(100, 9000),
                "cost_price": pick((None, self.money(100, 9000))),
                "is_active": pick((True, True, True, False, None)),
            },
            "customers": lambda: {
                "customer_tier": pick(("standard", "gold", "gold", "unheard of", None)),
                "geo_country": pick(("DE", "US")),
                "signup_date": date(2025, 1, 1 + some(28)),
            },
            "orders": lambda: {
                "user_id": pick((*range(1, 17), None)),
                "order_status": pick(STATUSES),
                "order_total": pick((self.money(0, 99_999), self.money(-500, 0), None)),
                "created_at": self.moment(),
                "payment_method": pick(("card", "card", None)),
            },
            "order_items": lambda: {
                "order_id": some(1, 66),
                "product_id": some(1, 14),
                "quantity": pick((1, 2, 3, 0, -1)),
                "unit_price": self.money(-200, 9000),
                "discount_pct": pick((None, self.money(0, 5000))),
            },
            "clickstream_events": lambda: {
                "user_id": pick((1, 2, None)),
                "product_id": pick((*range(1, 14), None)),
                "event_type": pick(("product_view", "add_to_cart", "begin_checkout", "purchase", "scroll")),
                "event_timestamp": self.moment(),
            },
            "inventory_events": lambda: {
                "product_id": some(1, 14),
                "warehouse_id": some(1, 3),
                "event_type": pick(("restock", "sale_reserve", "cancellation_restock", "return_restock", "audit")),
                "quantity_change": some(-40, 60),
            },
        }[topic]()
        feed = self.feeds[topic]
        always = dict.fromkeys(("ingested_at", "created_at", "event_timestamp"), START) | {"updated_at": self.moment()}
        row = {c.name: (always | made | given | {feed.keys[0]: key}).get(c.name) for c in feed.columns}
        self.rows[topic][key] = row
        self.changed.setdefault(topic, {})[key] = row  # type: ignore[index]

    def drop(self, topic: str, key: int) -> None:
        """Delete a row if it is there."""
        if self.rows[topic].pop(key, None) is not None:
            self.changed.setdefault(topic, {})[key] = None  # type: ignore[index]

    def live(self) -> None:
        """An hour of it: a few changes of every kind."""
        some, pick = self.chance.randrange, self.chance.choice
        for topic, count in (("orders", 4), ("order_items", 6), ("clickstream_events", 5), ("inventory_events", 4)):
            for _ in range(some(count)):
                self.put(topic, some(1, 160 if topic != "orders" else 66))
            for _ in range(some(3)):
                self.drop(topic, some(1, 160 if topic != "orders" else 66))
        special = pick(("tier", "price", "supplier", "outlier", "empty a group", "none", "nothing at all"))
        if special == "tier":
            self.put("customers", some(1, 17))
        elif special == "price":
            self.put("products", some(1, 14))
            self.drop("products", some(1, 14))
        elif special == "supplier":
            self.put("suppliers", some(1, 6))
            self.drop("suppliers", some(1, 6))
        elif special == "outlier":  # the newest click moves the day that counts, and its end moves it back
            key = 900 + some(2)
            late = START + timedelta(days=some(20, 60))
            (self.drop if key in self.rows["clickstream_events"] else self.put)("clickstream_events", key)
            if key in self.rows["clickstream_events"]:
                self.put("clickstream_events", key, event_timestamp=late, user_id=1, event_type="product_view")
        elif special == "empty a group":
            gone = [key for key, row in self.rows["orders"].items() if row["order_status"] == "cancelled"]
            for key in gone:
                self.drop("orders", key)
        elif special == "nothing at all":
            self.changed = {}

    def layout(self, path: str) -> FileLayout:
        """How a change leaves the files of the table in ``path``: files of changed rows are written anew."""
        return FileLayout(self.lake.at(path), 1 << 20)

    def write(self) -> None:
        """Bring the lake to it, in one commit per table that changed, and to each log."""
        from pyspark.sql.types import StructType

        self.hour += timedelta(hours=1)
        for log in registry(extras=True).logs:
            self.log(log, self.changed.get(log.fed_by.topic, {}))
        for topic, rows in self.changed.items():
            feed = self.feeds[topic]
            path = self.lake.path(feed.name)
            declared: Any = StructType.fromDDL(feed.schema)
            fresh = self.lake.version(feed.name) is None
            if fresh:
                frame = self.spark.createDataFrame([tuple(row.values()) for row in rows.values() if row], declared)
                frame.coalesce(1).write.format("delta").options(**TABLE_PROPERTIES).save(path)
                continue
            (key_column,) = feed.keys
            # Each way of writing Bronze tells of its changes in its own way; Spark takes ten times as long.
            if self.chance.random() < 0.75:
                delta = self.lake.open(path)
                assert delta is not None
                there = pa.Table.from_pylist(
                    [row for row in rows.values() if row], pa.schema([(c.name, arrow_type(c)) for c in feed.columns])
                )
                commit = properties(bronze_metadata(feed.keys), upon=delta)
                replace_rows(delta, there, key_column, sorted(rows), commit, self.layout(path))
                continue
            lines: list[Any] = []
            for number, (key, row) in enumerate(rows.items()):
                values = row or {c.name: key if c.name == key_column else None for c in feed.columns}
                lines.append((*values.values(), row is None, number))
            nullable = ", ".join(f"{c.name} {c.type}" for c in feed.columns)
            frame = self.spark.createDataFrame(lines, f"{nullable}, {DELETED} BOOLEAN, {LINE} INT")
            commit = stamped(bronze_metadata(feed.keys), self.lake.open(path))
            self.spark.conf.set("spark.databricks.delta.commitInfo.userMetadata", commit)
            apply.merge_changes(self.spark, path, feed, apply.last_per_key(frame, feed))
            self.spark.conf.unset("spark.databricks.delta.commitInfo.userMetadata")
        self.changed = {}

    def log(self, log: ChangeLog, rows: Mapping[int, dict[str, Any] | None]) -> None:
        """Append what changed to a log: a row that is there already is taken away first, as an update is delivered."""
        if self.lake.version(log.of) is None:
            return
        if self.lake.version(log.name) is None:
            change_log.begin_log(self.lake, log)
        (key,) = log.fed_by.keys
        lines: list[dict[str, Any]] = []
        for number, row in rows.items():
            lines.append({key: number, DELETED: True, LINE: len(lines) + 1})
            if row is not None:
                lines.append(row | {DELETED: False, LINE: len(lines) + 1})
        told = change_log.log_rows(
            log, pa.Table.from_pylist(lines, change_schema(log.fed_by)), f"{self.hour:%Y-%m-%dT%H}", "a file"
        )
        path = self.lake.path(log.name)
        delta = self.lake.opened(path)
        replace_rows(delta, told, key, [], properties(bronze_metadata(log.keys), upon=delta), self.layout(path))


@pytest.fixture(scope="module")
def shop(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Shop:
    """One for all tests: each begins by bringing the tables it is about to where Bronze is."""
    lake = Lake(str(tmp_path_factory.mktemp("shop") / "lake"))
    made = Shop(spark, lake, int(os.environ.get("MEDALLION_SEED", "1")))
    made.write()
    return made


@pytest.fixture(autouse=True)
def state_of_small_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shop is so small that its aggregates would be recomputed."""
    monkeypatch.setattr("medallion.refresh.additive.MIN_STATE_INPUT_BYTES", 0)


def tables(select: str = "", *, extras: bool = False) -> Iterator[Table]:
    """Silver and what is above it, in order; those that are selected."""
    every = registry(extras=extras)
    names = select_tables(every, select) if select else every.tables
    for table in every:
        if isinstance(table, Table) and table.name in names:
            yield table


def refresh(
    shop: Shop, hour: int, strategy: str = "incremental", select: str = "", *, extras: bool = False
) -> dict[str, Written]:
    """All of Silver and what is above it, or the tables that are selected."""
    work = refresh_incremental if strategy == "incremental" else refresh_full
    run = refresh_run(shop.lake, shop.spark, run_id=f"hour {hour}")
    return {table.name: work(run, table) for table in tables(select, extras=extras)}


def way_of(written: Written) -> str:
    """How a table was refreshed; with the reason where that was from all its rows."""
    anew = written.strategy == "full" or "rebuilt" in (written.note or "")
    return f"{written.method} {written.note}" if anew else written.method


def some_orders(shop: Shop, status: str) -> None:
    """Write orders of that status, valid ones among them."""
    for key in range(1, 30):
        shop.put("orders", key, order_status=status, order_total=Decimal("7.00"))
    shop.write()


def differing(shop: Shop, select: str = "", *, extras: bool = False) -> list[str]:
    """Tables whose rows are not exactly those that their query gives; of the extras, or of the others."""
    wrong = []
    run = refresh_run(shop.lake, shop.spark)
    for table in (table for table in tables(select, extras=extras) if table.extra == extras):
        frames = read_inputs(shop.spark, shop.lake, input_states(shop.lake, table), run.proof_of(table))
        wanted = shop.spark.sql(table.query, **frames).toArrow()
        # read by another engine than the one that computes and writes them
        folder = shop.lake.folder(table.name)
        found = read_live_rows(shop.lake.opened(str(folder)), folder, wanted.column_names)
        if texts_of(found) != texts_of(wanted):
            wrong.append(table.name)
    return wrong


def texts_of(rows: pa.Table) -> list[str]:
    """Each row as a text that tells 1.5 from 1.50, sorted."""
    return sorted(repr(tuple(row.values())) for row in rows.to_pylist())


@pytest.mark.timeout(3600)
def test_any_history_gives_the_rows_of_a_full_refresh(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "medallion.refresh.plan.MAX_CHANGED_SHARE", 10
    )  # the shop is small, and nearly all of it changes
    refresh(shop, 0, "full")
    ways: dict[str, set[str]] = {table.name: set() for table in tables()}
    hours = int(os.environ.get("MEDALLION_HISTORY", "6"))  # fewer do not refresh every table in its own way
    for hour in range(1, hours + 1):
        monkeypatch.setattr(
            delta_writes, "MAX_LOCAL_TABLE_BYTES", -1 if hour % 3 == 0 else 1 << 30
        )  # by Spark, and without it
        monkeypatch.setattr(delta_writes, "MAX_LISTED_KEYS", 0 if hour % 3 == 1 else 2_000)
        for _ in range(shop.chance.choice((1, 1, 2))):  # two commits before a refresh: an hour that was cut short
            shop.live()
            shop.write()
        strategy = "full" if hour == 4 else "incremental"
        for name, written in refresh(shop, hour, strategy).items():
            ways[name].add(way_of(written))
        assert differing(shop) == [], f"hour {hour}"
    for table in tables():
        way = {
            ByKey: RefreshMethod.UPSERT,
            Additive: RefreshMethod.INCREMENTAL_AGGREGATE,
            Full: f"full recompute {getattr(table.method, 'reason', '')}",
        }
        assert way.get(type(table.method), RefreshMethod.LATEST_ROWS) in ways[table.name], (
            "it was never refreshed that way"
        )


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_so_it_does_of_history_star_schema_and_views(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("medallion.refresh.plan.MAX_CHANGED_SHARE", 10)
    shop.live()
    shop.write()  # the second commit of a feed begins its log
    extras = ",".join(f"+{table.name}" for table in tables(extras=True) if table.extra)
    refresh(shop, 0, "full", extras, extras=True)
    ways: dict[str, set[str]] = {table.name: set() for table in tables(extras, extras=True)}
    for hour in range(1, 4):
        for _ in range(3):
            shop.live()
        for topic, keys in (("customers", 17), ("products", 14)):
            shop.put(topic, shop.chance.randrange(1, keys))
        shop.write()
        for name, written in refresh(shop, hour, select=extras, extras=True).items():
            ways[name].add(way_of(written))
        assert differing(shop, extras=True) == [], f"hour {hour}"
    for table in tables(extras, extras=True):
        if table.name == "quarantine_silver_orders":
            assert ways[table.name] == {RefreshMethod.UNCHANGED}, "every order that changed has a payment method"
        elif isinstance(table.method, ByKey):
            assert RefreshMethod.UPSERT in ways[table.name], f"{table.name} was never refreshed that way"


@pytest.mark.long
def test_a_declarative_pipeline_of_the_same_tables_gives_the_same_rows(shop: Shop, tmp_path: Path) -> None:
    write_record(shop.lake, TableRecord(extras=True))
    shop.live()
    shop.write()
    refresh(shop, 50, "full", extras=True)
    work = tmp_path / "work with a space"
    run_pipeline(Settings(lake=shop.lake.root, spark_master="local[2]", driver_memory="1g"), work)
    every = registry(extras=True)
    versions = {table.name: shop.lake.version(table.name) or 0 for table in every}
    release = Release(1, None, "a run", "full", datetime.now(UTC), versions)
    assert differing_views(shop.lake, release, every, work) == []
    some_orders(shop, "shipped")
    refresh(shop, 51, "full", extras=True)
    later = replace(release, versions={name: shop.lake.version(name) or 0 for name in versions})
    assert "silver_orders" in differing_views(shop.lake, later, every, work), "and it would be seen if they were others"


def test_what_nothing_changed_in_is_not_written(shop: Shop) -> None:
    refresh(shop, 0)
    before = {t.name: shop.lake.version(t.name) for t in tables()}
    assert {written.method for written in refresh(shop, 1).values()} == {RefreshMethod.UNCHANGED}
    assert {t.name: shop.lake.version(t.name) for t in tables()} == before


def test_upkeep_changes_nothing_of_what_is_known(shop: Shop) -> None:
    refresh(shop, 0)
    driver = Driver(Settings(lake=shop.lake.root), report=lambda _: None)
    maintain(Run(driver.settings, None, "tidy"), driver, Retention(hours=0))
    assert {written.method for written in refresh(shop, 1).values()} == {RefreshMethod.UNCHANGED}
    shop.put("suppliers", 1)
    shop.write()
    refresh(shop, 2)
    assert differing(shop) == []


def test_changes_that_upkeep_has_removed_are_no_reason_to_fail(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    refresh(shop, 0, select="+silver_inventory_current")
    monkeypatch.setattr("medallion.refresh.additive.SMALL_ROWS", -1)
    shop.put("inventory_events", 1)
    shop.put("customers", 1)
    shop.write()
    refresh(shop, 1, "full", "+silver_inventory_current")  # aggregate state that is large stays behind
    driver = Driver(Settings(lake=shop.lake.root), report=lambda _: None)
    maintain(Run(driver.settings, None, "tidy"), driver, Retention(hours=0))
    shop.put("inventory_events", 2)
    shop.write()
    written = refresh(shop, 2, select="+silver_inventory_current")["silver_inventory_current"]
    assert "rebuilt aggregate state for `stock`" in str(written.note)
    assert "what changed in bronze_inventory_events is not known" in str(written.note)
    assert written.state_work == StateWork.REBUILT
    assert differing(shop, "+silver_inventory_current") == []


def test_where_much_changes_the_table_is_recomputed_and_says_why(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    refresh(shop, 0, select="+silver_orders_enriched")
    monkeypatch.setattr("medallion.refresh.touched.MAX_KEYS", 3)
    monkeypatch.setattr("medallion.refresh.touched.MAX_KEY_SHARE", 0)
    for key in range(1, 9):
        shop.put("orders", key, user_id=key, order_status="confirmed", order_total=Decimal(100 + key))
    shop.write()
    written = refresh(shop, 1, select="+silver_orders_enriched")["silver_orders_enriched"]
    assert (written.strategy, written.note) == ("full", "full recompute: more than 3 values of order_id changed")
    assert differing(shop, "+silver_orders_enriched") == []


def test_table_stays_as_it_is_when_the_change_leads_to_none_of_its_keys(shop: Shop) -> None:
    refresh(shop, 0, select="+silver_orders_enriched")
    before = shop.lake.opened(shop.lake.path("silver_orders_enriched"))
    shop.put("customers", 900)  # who has no order
    shop.write()
    written = refresh(shop, 1, select="+silver_orders_enriched")["silver_orders_enriched"]
    assert (written.strategy, written.method, written.rows_out) == ("incremental", RefreshMethod.UNCHANGED, 0)
    after = shop.lake.opened(shop.lake.path("silver_orders_enriched"))
    assert after.file_uris() == before.file_uris()
    shop.put("orders", 900, user_id=900, order_status="confirmed", order_total=Decimal("7.00"))
    shop.write()
    assert refresh(shop, 2, select="+silver_orders_enriched")["silver_orders_enriched"].method == RefreshMethod.UPSERT
    assert differing(shop, "+silver_orders_enriched") == []


def test_aggregate_state_is_added_to_when_an_input_that_is_not_summed_is_rewritten(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    refresh(shop, 0, select="+silver_inventory_current")
    monkeypatch.setattr("medallion.refresh.plan.MIN_INPUT_BYTES", 1)
    for key in range(1, 13):
        shop.put("products", key)
    shop.write()
    written = refresh(shop, 1, select="+silver_inventory_current")
    assert (written["silver_inventory_current"].strategy, written["silver_inventory_current"].method) == (
        "incremental",
        RefreshMethod.INCREMENTAL_AGGREGATE,
    )
    assert differing(shop, "+silver_inventory_current") == []


@pytest.mark.parametrize(("listed", "operation"), [(2_000, "WRITE"), (1, "MERGE")])
def test_rows_beyond_what_this_process_writes_are_written_by_spark(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, listed: int, operation: str
) -> None:
    """Those of few keys by a condition that lists the keys, those of many by a join."""
    monkeypatch.setattr("medallion.refresh.by_key.MAX_MERGED_SHARE", 1)
    some_orders(shop, "pending")
    refresh(shop, 0, select="+silver_orders_enriched")
    collected: list[int | None] = []

    def counted(rows: Any, max_rows: int) -> Any:
        data = collect(rows, max_rows)
        collected.append(None if data is None else data.num_rows)
        return data

    monkeypatch.setattr("medallion.refresh.by_key.MAX_LOCAL_ROWS", 2)
    monkeypatch.setattr("medallion.refresh.by_key.collect", counted)
    monkeypatch.setattr("medallion.refresh.plan.MAX_CHANGED_SHARE", 10)
    monkeypatch.setattr("medallion.storage.delta_writes.MAX_LISTED_KEYS", listed)
    some_orders(shop, "shipped")
    written = refresh(shop, 1, select="+silver_orders_enriched")["silver_orders_enriched"]
    assert (written.strategy, written.method) == ("incremental", RefreshMethod.UPSERT)
    assert None in collected, "no more than three rows were fetched"
    commit = shop.lake.last_commit("silver_orders_enriched")
    assert commit["operation"] == operation and commit["userMetadata"]
    assert differing(shop, "+silver_orders_enriched") == []
    some_orders(shop, "delivered")
    refresh(shop, 2, select="+silver_orders_enriched")
    assert differing(shop, "+silver_orders_enriched") == []


@pytest.mark.parametrize(
    ("changed", "rows"),
    [
        ({"MAX_LOCAL_ROWS": 2}, r"about [\d,]+ rows"),
        ({"collect": lambda *_: None}, "more or wider rows than one process writes"),
    ],
    ids=["expected", "found out when they are collected"],
)
def test_a_table_is_recomputed_rather_than_merged_by_spark_for_many_of_its_keys(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, changed: dict[str, Any], rows: str
) -> None:
    for name, value in changed.items():
        monkeypatch.setattr(by_key, name, value)
    monkeypatch.setattr("medallion.storage.delta_writes.MAX_LISTED_KEYS", 2)
    monkeypatch.setattr("medallion.refresh.plan.MAX_CHANGED_SHARE", 10)
    some_orders(shop, "pending")
    refresh(shop, 0, select="+silver_orders_enriched")
    some_orders(shop, "shipped")
    written = refresh(shop, 1, select="+silver_orders_enriched")["silver_orders_enriched"]
    assert written.method == RefreshMethod.FULL_RECOMPUTE
    assert re.search(
        rf"[\d,]+ values of order_id have {rows}: "
        r"replacing them would take longer than recomputing the table",
        written.note or "",
    )
    assert differing(shop, "+silver_orders_enriched") == []
    shop.put("orders", 1, user_id=1, order_status="delivered", order_total=Decimal(1))
    shop.write()
    assert refresh(shop, 2, select="+silver_orders_enriched")["silver_orders_enriched"].method == RefreshMethod.UPSERT
    assert differing(shop, "+silver_orders_enriched") == []


@pytest.mark.parametrize("reason", ["reason_to_try_full", "reason_to_recompute"])
@pytest.mark.parametrize(
    ("problem", "warning"),
    [
        (MedallionError("out of memory"), "as a full recompute was tried and failed: out of memory"),
        (LeaseLost("another process is the writer"), "as the process of this hour ended while it tried"),
        (KeyboardInterrupt(), "as the process of this hour ended while it tried"),
    ],
)
def test_a_full_recompute_that_is_chosen_does_not_fail_the_hour(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, reason: str, problem: BaseException, warning: str
) -> None:
    def failing(*_: object) -> Written:
        raise problem

    some_orders(shop, "pending")
    refresh(shop, 0, select="+silver_orders_enriched")
    monkeypatch.setattr(Costs, reason, lambda *_, **__: "it costs less")
    monkeypatch.setattr("medallion.refresh.incremental.refresh_full", failing)
    monkeypatch.setattr("medallion.refresh.plan.MAX_CHANGED_SHARE", 10)
    some_orders(shop, "shipped")
    if type(problem) is not MedallionError:
        with pytest.raises(type(problem)):
            refresh(shop, 1, select="+silver_orders_enriched")
    written = refresh(shop, 1, select="+silver_orders_enriched")["silver_orders_enriched"]
    assert (written.method, written.strategy, written.full_failed) == (RefreshMethod.UPSERT, "incremental", True)
    assert warning in (written.warning or "")
    assert not shop.lake.full_by_choice("silver_orders_enriched").exists()
    assert differing(shop, "+silver_orders_enriched") == []


@pytest.mark.parametrize("listed", [2_000, 1])
def test_spark_writes_no_row_of_a_key_that_was_not_touched(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, listed: int
) -> None:
    some_orders(shop, "pending")
    refresh(shop, 0, select="+silver_orders_enriched")
    inputs = by_key.KeyedInputs

    def of_all_orders(*given: Any, **more: Any) -> Any:
        *others, _ = given
        return inputs(*others, [*range(1, 30)], **more)

    monkeypatch.setattr("medallion.refresh.by_key.MAX_LOCAL_ROWS", 2)
    monkeypatch.setattr("medallion.refresh.plan.MAX_CHANGED_SHARE", 10)
    monkeypatch.setattr("medallion.storage.delta_writes.MAX_LISTED_KEYS", listed)
    monkeypatch.setattr("medallion.refresh.by_key.MAX_MERGED_SHARE", 1)
    monkeypatch.setattr("medallion.refresh.by_key.KeyedInputs", of_all_orders)
    monkeypatch.setattr("medallion.refresh.incremental.find_touched_keys", lambda *_: [1, 2, 3])
    some_orders(shop, "shipped")
    written = refresh(shop, 1, select="+silver_orders_enriched")["silver_orders_enriched"]
    assert written.method == RefreshMethod.FULL_RECOMPUTE
    assert "followed from a change of other values of order_id" in (written.note or "")
    assert differing(shop, "+silver_orders_enriched") == []


def test_a_large_change_is_recomputed_and_the_next_small_one_clusters_once(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("medallion.refresh.commits.ROWS_PER_FILE", 5)
    some_orders(shop, "pending")
    refresh(shop, 0, select="+gold_order_status_summary")

    def hour(number: int, large: bool) -> tuple[Written, Written]:
        """How orders, refreshed by key, and a table that keeps sums of them are refreshed."""
        monkeypatch.setattr("medallion.refresh.plan.MAX_CHANGED_SHARE", -1 if large else 10)
        some_orders(shop, "confirmed" if number % 2 else "shipped")
        found = refresh(shop, number, select="+gold_order_status_summary")
        assert differing(shop, "+gold_order_status_summary") == []
        return found["silver_orders_enriched"], found["gold_order_status_summary"]

    assert [written.method for written in hour(1, large=False)] == [
        RefreshMethod.UPSERT,
        RefreshMethod.INCREMENTAL_AGGREGATE,
    ]
    for number in (2, 3):
        orders, sums = hour(number, large=True)
        assert orders.note == "full recompute: most of bronze_orders was rewritten since its last refresh"
        assert sums.note == "full recompute: most of silver_orders_enriched was rewritten since its last refresh"
    state = shop.lake.state("silver_orders_enriched")
    assert state is not None
    assert state.files <= 2, "nothing is made ready for small changes while large ones come"
    orders, sums = hour(4, large=False)
    assert (orders.method, sums.method) == (RefreshMethod.UPSERT, RefreshMethod.INCREMENTAL_AGGREGATE)
    assert "clustered by order_id, which took" in (orders.note or "")
    assert orders.state_work == StateWork.REBUILT, "a run after a full one is no set-up"
    assert (sums.note, sums.state_work) == (None, None), "full hours keep small aggregate state alive"
    orders, sums = hour(5, large=False)
    assert (orders.state_work, sums.state_work) == (None, None)


@pytest.mark.parametrize("max_bytes", [-1, 1 << 30], ids=["by Spark", "without it"])
def test_the_first_incremental_hour_after_a_full_one_changes_only_the_rows_that_differ(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, max_bytes: int
) -> None:
    refresh(shop, 0, select="+silver_orders_enriched")  # a table's first commit is clustered: this is about a later one
    monkeypatch.setattr(delta_writes, "MAX_LOCAL_TABLE_BYTES", max_bytes)
    monkeypatch.setattr("medallion.refresh.commits.ROWS_PER_FILE", 5)
    monkeypatch.setattr("medallion.refresh.commits.SMALL_ROWS", 0)  # as of large tables: all is written
    some_orders(shop, "pending")  # several files of rows, whatever ran before
    refresh(shop, 0, "full", "+silver_orders_enriched")
    monkeypatch.setattr("medallion.refresh.commits.SMALL_ROWS", 50_000)
    before = shop.lake.version("silver_orders_enriched") or 0
    sell(shop, 7)  # one order and its line
    refresh(shop, 7, select="+silver_orders_enriched")
    state = shop.lake.state("silver_orders_enriched")
    assert state is not None
    assert state.version == before + 2, "it was clustered, and then the rows were replaced"
    change = changes(Path(shop.lake.path("silver_orders_enriched")), before, state.version)
    assert len(change.versions) == 1, "clustering is not a change"
    rows = read_changes(shop.spark, shop.lake.path("silver_orders_enriched"), state.delta, change).collect()
    orders_of_one = {row["order_id"] for row in rows if row["user_id"] == 1}
    assert {row["order_id"] for row in rows} == orders_of_one, "the one order, and those of the customer that changed"
    assert differing(shop, "+silver_orders_enriched") == []


def test_a_table_whose_new_rows_are_its_old_ones_lets_nothing_follow(shop: Shop) -> None:
    select = "+gold_realtime_inventory_alerts +silver_inventory_by_supplier"
    refresh(shop, 0, select=select)
    refresh(shop, 1, select=select)
    supplier = dict(shop.rows["suppliers"][1])
    shop.put("suppliers", 1, **{name: value for name, value in supplier.items() if name != "supplier_id"})
    shop.write()  # the same row again: a commit that changed nothing
    before = shop.lake.version("silver_inventory_current") or 0
    found = refresh(shop, 2, select=select)
    newest = shop.lake.version("silver_inventory_current") or 0
    assert found["silver_inventory_current"].method != RefreshMethod.UNCHANGED
    path = Path(shop.lake.path("silver_inventory_current"))
    assert (newest, changes(path, before, newest).versions) == (before + 1, ())
    assert found["silver_inventory_by_supplier"].method == RefreshMethod.UNCHANGED
    assert found["gold_realtime_inventory_alerts"].method == RefreshMethod.UNCHANGED


def test_an_incremental_hour_of_a_small_lake_writes_no_more_than_a_full_one(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()

    def written(hour: int, strategy: str) -> tuple[int, int]:
        """Commits of an hour, and rows in the data files that they added."""
        before = {path: version(path) for path in paths()}
        sell(shop, hour)
        refresh(shop, hour, strategy)
        commits = rows = 0
        for path in paths():
            for number in range(before.get(path, -1) + 1, version(path) + 1):
                commits += 1
                added = (file for kind, file in actions_of(Path(path), number) if kind == "add")
                rows += sum(json.loads(file["stats"])["numRecords"] for file in added)
        return commits, rows

    def paths() -> list[str]:
        kept = (str(path.parent) for path in Path(shop.lake.ops("aggregate_states")).glob("*/_delta_log"))
        return [*(shop.lake.path(table.name) for table in tables()), *kept]

    def version(path: str) -> int:
        return shop.lake.opened(path).version()

    full = written(1, "full")
    for hour in (2, 3):  # the first one after a full one, and another
        commits, rows = written(hour, "incremental")
        assert commits <= 1.1 * full[0]
        assert rows <= 1.1 * full[1]


def test_an_aggregate_of_small_inputs_is_recomputed_and_keeps_no_state(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    refresh(shop, 0, select="+gold_order_status_summary")
    kept = Path(shop.lake.aggregate_state_path("gold_order_status_summary", "customers"))
    shutil.rmtree(kept, ignore_errors=True)
    monkeypatch.setattr("medallion.refresh.additive.MIN_STATE_INPUT_BYTES", 1 << 20)
    some_orders(shop, "returned")
    for strategy in ("incremental", "full"):
        written = refresh(shop, 1, strategy, "+gold_order_status_summary")["gold_order_status_summary"]
        assert (written.strategy, written.method) == ("full", RefreshMethod.FULL_RECOMPUTE)
        some_orders(shop, "cancelled")
    assert not kept.exists()


def test_a_first_write_makes_aggregate_state_and_full_hours_keep_small_state_alive(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    refresh(shop, 0, select="+gold_order_status_summary")
    shutil.rmtree(shop.lake.path("gold_order_status_summary"))
    kept = Path(shop.lake.aggregate_state_path("gold_order_status_summary", "customers"))
    shutil.rmtree(kept, ignore_errors=True)
    refresh(shop, 1, "full", "+gold_order_status_summary")
    assert kept.exists(), "as load leaves it"
    some_orders(shop, "shipped")
    refresh(shop, 2, "full", "+gold_order_status_summary")
    some_orders(shop, "pending")
    monkeypatch.setattr("medallion.refresh.plan.MAX_CHANGED_SHARE", 10)
    written = refresh(shop, 3, select="+gold_order_status_summary")["gold_order_status_summary"]
    assert (written.method, written.note) == (RefreshMethod.INCREMENTAL_AGGREGATE, None)
    assert differing(shop, "+gold_order_status_summary") == []


def test_another_query_is_not_built_upon(shop: Shop) -> None:
    from dataclasses import replace

    refresh(shop, 0, select="silver_customers")
    table = registry()["silver_customers"]
    assert isinstance(table, Table)
    other = replace(table, query=table.query.replace("'standard', ", ""))
    written = refresh_incremental(refresh_run(shop.lake, shop.spark, run_id="other"), other)
    assert written.note == "full recompute: its query has changed"
    found = shop.spark.read.format("delta").load(shop.lake.path("silver_customers"))
    assert found.where("customer_tier = 'standard'").isEmpty()


@pytest.mark.parametrize("what", ["gone", "damaged"])
def test_kept_sums_that_are_lost_are_made_anew(shop: Shop, what: str) -> None:
    some_orders(shop, "pending")
    refresh(shop, 0, select="+gold_order_status_summary")
    some_orders(shop, "confirmed")
    refresh(shop, 1, select="+gold_order_status_summary")
    kept = Path(shop.lake.aggregate_state_path("gold_order_status_summary", "customers"))
    if what == "gone":
        shutil.rmtree(kept)
    else:
        for commit in (kept / "_delta_log").glob("*.json"):
            commit.write_text("{")
    some_orders(shop, "shipped")
    written = refresh(shop, 2, select="+gold_order_status_summary")["gold_order_status_summary"]
    assert "rebuilt aggregate state for `customers`" in (written.note or "")
    assert differing(shop, "+gold_order_status_summary") == []


@pytest.mark.parametrize("strategy", ["incremental", "full"])
@pytest.mark.parametrize("what", ["vector", "data file"])
def test_a_table_of_which_a_file_is_lost_is_rebuilt(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, what: str, strategy: str
) -> None:
    name, marking = "silver_customers", replace(shop.lake, marks_from=1)
    for number in range(1, 60):
        shop.put("customers", number, customer_tier="gold")
    shop.write()
    refresh(shop, 0, select=name)
    shop.put("customers", 2, customer_tier="silver")
    shop.write()
    run = refresh_run(marking, shop.spark, run_id=f"marks {what} {strategy}")
    assert refresh_incremental(run, registry()[name]).method == RefreshMethod.UPSERT
    folder = Path(shop.lake.path(name))
    delta = shop.lake.opened(str(folder))
    lost = next(folder.glob("*.bin")) if what == "vector" else Path(unquote(delta.file_uris()[0]))
    lost.unlink()
    deletion_vectors._remembered.clear()
    shop.put("customers", 2, customer_tier="platinum")
    shop.write()
    written = refresh(shop, 1, strategy, select=name)[name]
    assert written.method == RefreshMethod.FULL_RECOMPUTE
    assert differing(shop, name) == []
    if (what, strategy) != ("data file", "full"):  # which replaces all files of a table without reading one
        assert lost.name in (written.warning or "")


def test_a_log_that_does_not_reach_back_is_no_reason_to_guess(shop: Shop) -> None:
    refresh(shop, 0, select="silver_customers")
    shop.put("customers", 1)
    shop.write()
    path = shop.lake.path("bronze_customers")
    newest = shop.lake.version("bronze_customers") or 0
    commit = Path(path, "_delta_log", f"{newest:020}.json").rename(Path(path, "gone"))
    assert changes(Path(path), newest - 1, newest).unknown == f"its log no longer has version {newest}"
    commit.rename(Path(path, "_delta_log", f"{newest:020}.json"))


def test_sums_may_be_kept_over_sums_that_are_kept() -> None:
    query = """
        WITH days AS (SELECT k, day, SUM(n) AS n FROM {bronze_orders} GROUP BY k, day),
        totals AS (SELECT k, SUM(n) AS n, COUNT(*) AS days FROM days GROUP BY k)
        SELECT k, n / days FROM totals
    """
    table = Table(keys=("k",), query=query, method=Additive(("days", "totals")), name="gold_x")
    halves = split_of(table)
    assert {name: part.input for name, part in halves.parts.items()} == {"days": "bronze_orders", "totals": "days"}
    assert "bronze_orders" not in halves.parts["totals"].query
    assert (halves.inputs, halves.sums) == ((), ("totals",)), "nothing else reads the days"


def test_a_change_adds_to_sums_over_sums_and_only_to_the_groups_it_touches(shop: Shop) -> None:
    path = shop.lake.aggregate_state_path("gold_inventory_risk", "sales")
    for quantity in (1, 2, 3):  # by the second one the sums are there
        before = shop.lake.open(path)
        written = sell_and_refresh(shop, quantity)
    assert before is not None
    assert (written.method, written.note) == (RefreshMethod.INCREMENTAL_AGGREGATE, None)
    assert differing(shop, "+gold_inventory_risk") == []
    added = changes(Path(path), before.version(), shop.lake.opened(path).version())
    rows = read_changes(shop.spark, path, before, added).collect()
    assert [(row["product_id"], row["units_sold"], row["days_sold"]) for row in rows] == [(1, 1, 0)]


def test_a_group_without_rows_is_subtracted_although_upkeep_left_it_out(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process died after it had added to a sum, and before it added to the sum of that; upkeep came first."""
    sell_and_refresh(shop, 1)
    shop.put("products", 77, supplier_id=1, is_active=True)
    shop.put("inventory_events", 777, product_id=77, event_type="restock", quantity_change=10)
    shop.put("order_items", 5001, order_id=777, product_id=77, quantity=3, unit_price=Decimal(5))
    order = {"user_id": 1, "order_status": "confirmed", "order_total": Decimal(15)}
    shop.put("orders", 777, **order, created_at=START)
    shop.write()
    refresh(shop, 2, select="+gold_inventory_risk")
    shop.put("orders", 777, **order, created_at=START + timedelta(days=1))
    shop.write()
    append = StateLog.append

    def dies_at_sales(log: StateLog, *given: Any) -> Any:
        if log.name == "sales":
            raise MedallionError("the process died")
        return append(log, *given)

    with monkeypatch.context() as dying:
        dying.setattr(StateLog, "append", dies_at_sales)
        with pytest.raises(MedallionError, match="the process died"):
            refresh(shop, 3, select="+gold_inventory_risk")
    monkeypatch.setattr(added_up, "MAX_SHARE_LEFT", 1)
    days = Path(shop.lake.aggregate_state_path("gold_inventory_risk", "days"))
    log = shop.lake.opened(str(days))
    rows = state_of(log).rows
    assert added_up.add_up(log, days, ["product_id", "day"], json.dumps(provenance(days, log.version()).origin))
    assert state_of(log).rows < rows
    written = refresh(shop, 3, select="+gold_inventory_risk")["gold_inventory_risk"]
    assert (written.method, written.note) == (RefreshMethod.INCREMENTAL_AGGREGATE, None)
    assert differing(shop, "+gold_inventory_risk") == []


def sell(shop: Shop, quantity: int) -> None:
    """Sell so many of product 1 in order 1."""
    shop.put("suppliers", 1)
    shop.put("customers", 1, customer_tier="gold")
    shop.put("products", 1, supplier_id=1, is_active=True)
    shop.put("orders", 1, user_id=1, order_status="confirmed", order_total=Decimal("7.00"), created_at=START)
    shop.put("order_items", 501, order_id=1, product_id=1, quantity=quantity, unit_price=Decimal("5.00"))
    shop.write()


def sell_and_refresh(shop: Shop, quantity: int) -> Written:
    """Sell so many, and say how inventory risk was refreshed."""
    sell(shop, quantity)
    return refresh(shop, quantity, select="+gold_inventory_risk")["gold_inventory_risk"]


def test_recreated_table_is_not_mistaken_for_the_former(shop: Shop) -> None:
    days, sales = (shop.lake.aggregate_state_path("gold_inventory_risk", name) for name in ("days", "sales"))
    sell_and_refresh(shop, 1)
    shutil.rmtree(days, ignore_errors=True)
    shutil.rmtree(sales, ignore_errors=True)
    sell_and_refresh(shop, 2)
    shutil.rmtree(days)
    written = sell_and_refresh(shop, 3)
    assert shop.lake.opened(days).version() == 0, "as it was when the sales were added up"
    rebuilt = r"rebuilt aggregate state for `sales`, which took [0-9.]+ s: days was rebuilt"
    assert re.search(rebuilt, written.note or "")
    assert differing(shop, "+gold_inventory_risk") == []
