"""Erasing customers of the shop: by either strategy, the lake is as one that never had them."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake

from medallion.ingest.needles import Needles
from medallion.inspect.person_search import Person
from medallion.inspect.verify_erased import names_of_subjects, traces
from medallion.ops import releases
from medallion.pipeline import erasure, operations
from medallion.pipeline.driver import Driver
from medallion.pipeline.run import Run
from tests.spark.conftest import driver_of

H0, H1, H2 = (f"2025-11-30T{n:02}" for n in range(3))
SUBJECT = {"customers": ("customer_id", ()), "clickstream_events": ("user_id", ())}
BLANKED = ("user_id", "coupon_code")


def rows(driver: Driver, name: str) -> pa.Table:
    return DeltaTable(driver.lake.path(name)).to_pyarrow_table()


def differing(one: Driver, other: Driver) -> list[str]:
    """The tables with other rows."""
    found = []
    for table in one.tables:
        a, b = rows(one, table.name), rows(other, table.name)
        b = b.select(a.column_names)
        both = duckdb.connect()
        both.register("a", a)
        both.register("b", b)
        left = both.execute("SELECT * FROM a EXCEPT ALL SELECT * FROM b").fetchall()
        right = both.execute("SELECT * FROM b EXCEPT ALL SELECT * FROM a").fetchall()
        if left or right:
            found.append(f"{table.name}: {left[:2]} {right[:2]}")
    return found


def without(source: Path, persons: set[int]) -> None:
    """Have a source never have had these customers, but for what the shop keeps of their orders."""
    for topic, (column, _) in SUBJECT.items():
        path = source / "snapshot" / f"bronze_{topic}"
        table = DeltaTable(str(path)).to_pyarrow_table()
        kept = table.filter(pc.fill_null(pc.invert(pc.is_in(table[column], pa.array(sorted(persons)))), True))
        shutil.rmtree(path)
        write_deltalake(str(path), kept)
    path = source / "snapshot" / "bronze_orders"
    table = DeltaTable(str(path)).to_pyarrow_table()
    theirs = pc.fill_null(pc.is_in(table["user_id"], pa.array(sorted(persons))), False)
    for name in BLANKED:
        place = table.schema.get_field_index(name)
        blank = pa.scalar(None, table.schema.field(name).type)
        table = table.set_column(place, name, pc.if_else(theirs, blank, table[name]))
    shutil.rmtree(path)
    write_deltalake(str(path), table)
    for file in (source / "cdc").rglob("*.json"):
        lines = []
        for line in file.read_text().splitlines():
            ((operation, row),) = json.loads(line).items()
            topic = file.parent.name
            if topic in SUBJECT and row.get(SUBJECT[topic][0]) in persons:
                continue
            if topic == "orders" and row.get("user_id") in persons:
                row |= dict.fromkeys(BLANKED)
                line = json.dumps({operation: row})
            lines.append(line + "\n")
        file.write_text("".join(lines))


def customers_with_most(driver: Driver, count: int) -> list[int]:
    """Customers with orders and clicks, also in the hours to come."""
    clicks = rows(driver, "bronze_clickstream_events").group_by("user_id").aggregate([("event_id", "count")])
    known = {*rows(driver, "bronze_customers")["customer_id"].to_pylist()}
    known &= {*rows(driver, "bronze_orders")["user_id"].to_pylist()}
    ranked = sorted(clicks.to_pylist(), key=lambda row: -row["event_id_count"])
    return [row["user_id"] for row in ranked if row["user_id"] in known][:count]


def refresh(driver: Driver, hour: str, strategy: str) -> None:
    operations.refresh_hour(Run(driver.settings, hour, f"refresh-{hour}", strategy=strategy), driver)


@pytest.mark.slow
def test_lake_equals_one_that_never_had_the_customers_whatever_the_strategy(
    spark: Any, refreshed_shop: Path, copied_shop: Callable[[Path], Driver], tmp_path: Path
) -> None:
    lakes = {strategy: copied_shop(refreshed_shop) for strategy in ("full", "incremental")}
    persons = customers_with_most(lakes["full"], 3)
    emails = [
        row["email"] for row in rows(lakes["full"], "bronze_customers").to_pylist() if row["customer_id"] in persons
    ]
    shutil.copytree(refreshed_shop / "source", tmp_path / "source")
    without(tmp_path / "source", {*persons})
    never = driver_of(tmp_path, spark)
    operations.load(Run(never.settings, None, "load"), never)
    refresh(never, H0, "full")
    person = Person(frozenset(map(str, persons)), frozenset(names_of_subjects(never.tables)), Needles.of(emails))
    for strategy, driver in lakes.items():
        outcome, done = erasure.erase(
            Run(driver.settings, None, "erase", strategy=strategy), driver, [*map(str, persons)]
        )
        assert not done.left, outcome.message
        assert done.rows["bronze_customers"] == 3
        assert [*traces(driver.lake, driver.tables, person)] == []
        assert differing(driver, never) == []
        (release,) = releases.read_all(driver.lake)
        assert release.hour == H0
    for hour in (H1, H2):
        refresh(never, hour, "full")
        for strategy, driver in lakes.items():
            refresh(driver, hour, strategy)
            assert differing(driver, never) == []
    for driver in lakes.values():  # and nothing of them comes back
        operations.restate(Run(driver.settings, H1, "restate", strategy="incremental"), driver)
        assert differing(driver, never) == []
        assert [*traces(driver.lake, driver.tables, person)] == []
