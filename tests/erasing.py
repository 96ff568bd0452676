"""Lakes that never had some customers, and how a lake differs from one."""

import json
import shutil
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake

from medallion.pipeline.driver import Driver

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
