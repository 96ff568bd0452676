"""A source tried before anything is written: what is there, what would be refused, and a declaration of a new feed."""

import base64
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from deltalake import write_deltalake

from medallion.cli.main import cli, run
from medallion.errors import UsageError
from medallion.ingest.source import FolderSource
from medallion.inspect.source_check import SourceCheck, check_source
from medallion.inspect.source_inference import infer_declaration
from medallion.model.delivery import Completeness, Delivery, Layout
from medallion.model.table import Feed
from tests.unit.small_lake import ARROW, H0, H1, feeds, lines_of
from tests.unit.test_layouts import KAFKA, kafka, write

DEBEZIUM = Delivery(format="debezium", layout=Layout(KAFKA))


def snapshot(root: Path, *topics: str) -> None:
    for topic in topics:
        write_deltalake(str(root / "snapshot" / f"bronze_{topic}"), ARROW.empty_table())


def checked(root: Path, delivery: Delivery, *topics: str, hour: str | None = None) -> SourceCheck:
    declared = [replace(feed, delivery=delivery) for feed in feeds(*topics)]
    return check_source(FolderSource(str(root)), declared, hour, 0.01)


def test_check_decodes_the_newest_whole_hour_of_each_feed(tmp_path: Path) -> None:
    snapshot(tmp_path, "orders", "items")
    write(tmp_path, kafka("orders", H0, 0, 0), json.dumps({"op": "c", "after": {"id": 1, "name": "a"}}))
    write(tmp_path, kafka("orders", H1, 0, 1), json.dumps({"op": "c", "after": {"id": 2, "name": "b", "more": 1}}))
    found = checked(tmp_path, DEBEZIUM, "orders", "items")
    orders, items = found.feeds
    assert (found.whole, found.is_fine) == ((H0, H1), True)
    assert (orders.hours, orders.hour, orders.files, orders.changes) == (2, H1, 1, 1)
    assert orders.first == {"": "inserts or updates", "id": 2, "name": "b"}
    assert "orders has a column more" in orders.notes[0]
    assert (items.hours, items.hour, items.snapshot) == (0, None, "a Delta table of 0 rows")
    assert [*checked(tmp_path, DEBEZIUM, "orders", hour=H0).feeds[0].first.values()] == ["inserts or updates", 1, "a"]


def test_check_says_what_would_be_rejected_and_why_the_hour_would_be_refused(tmp_path: Path) -> None:
    snapshot(tmp_path, "orders")
    write(tmp_path, kafka("orders", H0, 0, 0), lines_of({1: "a"}))
    found = checked(tmp_path, DEBEZIUM, "orders")
    (orders,) = found.feeds
    assert not found.is_fine
    assert orders.rejected == ((f"{kafka('orders', H0, 0, 0)}:1", "a record of format insert_delete, not of debezium"),)
    assert "no line that is a record" in orders.problems[0]
    assert "/tmp" not in orders.problems[0]


def test_check_names_hours_that_wait_and_files_that_are_not_understood(tmp_path: Path) -> None:
    delivery = Delivery(complete=Completeness("next hour"))
    write(tmp_path, f"cdc/orders/{H0}.json", lines_of({1: "a"}))
    write(tmp_path, f"cdc/orders/{H1}.csv", "")
    write(tmp_path, f"cdc/orders/{H1}.json", lines_of({1: "a"}))
    found = checked(tmp_path, delivery, "orders")
    assert found.waiting[H1].startswith("orders has no file of a later hour")
    assert (found.whole, [*found.waiting]) == ((H0,), [H1])
    assert f"{H1} is refused" in found.refused[0]
    assert "has no snapshot/bronze_orders" in found.feeds[0].problems[0]


# A declaration


def inferred(root: Path, delivery: Delivery, topic: str = "orders") -> str:
    feed = Feed(keys=(), schema="", name=f"bronze_{topic}", layer="bronze", delivery=delivery)
    return infer_declaration(FolderSource(str(root)), feed)


def declared(text: str) -> Feed:
    """What the module declares, as the project would read it."""
    scope: dict[str, Any] = {}
    exec(compile(text, "inferred.py", "exec"), scope)
    feed: Feed = scope["TABLE"]
    return feed


def test_declaration_has_types_nullability_and_the_keys_that_deletions_name(tmp_path: Path) -> None:
    row = {"shop": 1, "order": 2, "total": "12.50", "rate": 0.125, "day": "2025-11-30", "ok": True, "note": None}
    row |= {"seen_at": "2025-11-30T01:02:03Z", "tags": ["a"], "place": {"lat": 1, "name": "x"}}
    records = [{"insert": row | {"order": n}} for n in range(100)] + [{"delete": {"shop": 1, "order": 2}}]
    write(tmp_path, f"cdc/orders/{H0}.json", "".join(f"{json.dumps(record)}\n" for record in records))
    text = inferred(tmp_path, Delivery())
    feed = declared(text)
    assert feed.keys == ("shop", "order")
    assert [(c.name, c.type, c.required) for c in feed.columns] == [
        ("shop", "BIGINT", True),
        ("order", "BIGINT", True),
        ("total", "DECIMAL(18,2)", True),
        ("rate", "DECIMAL(18,3)", True),
        ("day", "DATE", True),
        ("ok", "BOOLEAN", True),
        ("note", "STRING", False),
        ("seen_at", "TIMESTAMP", True),
        ("tags", "ARRAY<STRING>", True),
        ("place", "STRUCT<lat: BIGINT, name: STRING>", True),
    ]
    assert "# note was null in all 100 rows: its type is a guess" in text


def test_declaration_goes_by_the_schema_of_records(tmp_path: Path) -> None:
    decimal = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}}
    kinds = {
        "id": {"type": "int64"},
        "total": decimal,
        "at": {"type": "int64", "name": "io.debezium.time.MicroTimestamp"},
    }
    kinds["day"] = {"type": "int32", "name": "io.debezium.time.Date"}
    fields = [{**kind, "field": name} for name, kind in kinds.items()]
    schema = {"type": "struct", "fields": [{"type": "struct", "fields": fields, "field": "after"}]}
    payload = {"op": "c", "before": None, "after": {"id": 1, "total": "MDk=", "at": 1764460923123456, "day": 20000}}
    write(tmp_path, kafka("orders", H0, 0, 0), json.dumps({"schema": schema, "payload": payload}))
    text = inferred(tmp_path, DEBEZIUM)
    assert [(c.name, c.type) for c in declared(text).columns] == [
        ("id", "BIGINT"),
        ("total", "DECIMAL(18,2)"),
        ("at", "TIMESTAMP"),
        ("day", "DATE"),
    ]
    assert "# the key id is a guess" in text


def test_declaration_is_refused_where_nothing_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "cdc").mkdir()
    with pytest.raises(UsageError, match=r"has no change file of orders: none is named cdc/orders/\{hour\}.json"):
        inferred(tmp_path, Delivery())
    write(tmp_path, f"cdc/orders/{H0}.json", "nonsense\n")
    with pytest.raises(
        UsageError, match=f"no change of orders could be read.*line 1 of {H0} could not be read: not JSON"
    ):
        inferred(tmp_path, Delivery())


@pytest.mark.parametrize("row", [{}, {"a b": 1}, {"_line": 1, "_deleted": 2}])
def test_declaration_is_refused_where_no_column_can_be_declared(tmp_path: Path, row: dict[str, Any]) -> None:
    write(tmp_path, f"cdc/orders/{H0}.json", json.dumps({"insert": row}) + "\n")
    with pytest.raises(UsageError, match="the changes of orders have no column that can be declared"):
        inferred(tmp_path, Delivery())


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["1e999999999"], "DOUBLE"),
        (["1e-999999999"], "DOUBLE"),
        (["1e30"], "DECIMAL(38,0)"),
        (["1e60"], "DOUBLE"),
        (["9223372036854775807", "-9223372036854775808"], "BIGINT"),
        (["9223372036854775808", "1"], "DECIMAL(38,0)"),
        (["12345678901234567", "0.25"], "DECIMAL(38,2)"),
        (["12345678901234567890123456789012345678", "0.25"], "DOUBLE"),
        (['"2025-11-30"', '"2024-02-29"'], "DATE"),
        (['"2025-11-30"', '"2025-02-29"'], "STRING"),
        (['"0000-00-00"'], "STRING"),
    ],
)
def test_declared_type_holds_every_value(tmp_path: Path, values: list[str], kind: str) -> None:
    lines = "".join(f'{{"insert": {{"id": {key}, "n": {value}}}}}\n' for key, value in enumerate(values))
    write(tmp_path, f"cdc/orders/{H0}.json", lines)
    assert {c.name: c.type for c in declared(inferred(tmp_path, Delivery())).columns}["n"] == kind


def test_declaration_of_a_decimal_has_no_more_digits_than_there_may_be(tmp_path: Path) -> None:
    scale = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "9999"}}
    fields = [{"field": "id", "type": "int64"}, {"field": "n", **scale}]
    record = {"schema": {"type": "struct", "fields": fields}, "payload": {"id": 1, "n": "AQ==", "__op": "c"}}
    write(tmp_path, f"cdc/orders/{H0}.json", json.dumps(record) + "\n")
    text = inferred(tmp_path, Delivery(format="debezium"))
    assert {c.name: c.type for c in declared(text).columns}["n"] == "DECIMAL(38,38)"


def test_declaration_of_decimals_with_a_scale_of_their_own_has_room_for_each(tmp_path: Path) -> None:
    price = {"field": "price", "type": "struct", "name": "io.debezium.data.VariableScaleDecimal"}
    schema = {"type": "struct", "fields": [{"field": "id", "type": "int64"}, price]}
    value = base64.b64encode((12345).to_bytes(2, "big")).decode()
    rows = [{"id": number, "price": {"scale": scale, "value": value}} for number, scale in enumerate((4, 1))]
    lines = [json.dumps({"schema": schema, "payload": row | {"__op": "c"}}) + "\n" for row in rows]
    write(tmp_path, f"cdc/orders/{H0}.json", "".join(lines))
    columns = declared(inferred(tmp_path, Delivery(format="debezium"))).columns
    assert {column.name: column.type for column in columns} == {"id": "BIGINT", "price": "DECIMAL(18,4)"}


def test_declaration_of_decimals_in_bytes_has_room_for_their_digits_in_arrays_too(tmp_path: Path) -> None:
    wide = base64.b64encode((10**20).to_bytes(9, "big")).decode()
    decimal = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}}
    fields = [{"field": "n", **decimal}, {"field": "all", "type": "array", "items": decimal}]
    record = {"schema": {"type": "struct", "fields": fields}, "payload": {"n": wide, "all": ["AQ=="], "__op": "c"}}
    write(tmp_path, f"cdc/orders/{H0}.json", json.dumps(record) + "\n")
    columns = declared(inferred(tmp_path, Delivery(format="debezium"))).columns
    assert {c.name: c.type for c in columns} == {"n": "DECIMAL(38,2)", "all": "ARRAY<DECIMAL(18,2)>"}


@pytest.mark.parametrize(
    ("row", "key"),
    [
        ({"name": "a", "order_id": 7}, "order_id"),
        ({"code": "x", "id": None}, "code"),
        ({"name": None, "x": None}, "name"),
    ],
)
def test_key_is_guessed_by_name_and_from_columns_without_null(tmp_path: Path, row: dict[str, Any], key: str) -> None:
    write(tmp_path, f"cdc/orders/{H0}.json", json.dumps({"insert": row}) + "\n")
    assert f"# the key {key} is a guess" in inferred(tmp_path, Delivery())


# As commands


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path / "bikes"
    assert CliRunner().invoke(cli, ["init", str(made)], catch_exceptions=False).exit_code == 0
    for name in ("MEDALLION_LAKE", "MEDALLION_SOURCE", "MEDALLION_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(made)
    return made


def test_commands_try_the_source_of_a_project(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = CliRunner().invoke(cli, ["source", "check"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert "3 whole hours" in done.output
    assert "trips: insert_delete, cdc/{feed}/{hour}.json, 3 hours" in done.output
    assert "first change: inserts or updates, trip_id 1021" in done.output
    assert not (project / "lake").exists(), "nothing is written"
    (project / "source" / "cdc" / "trips" / "2025-11-30T02.json").write_text("nonsense\n")
    done = CliRunner().invoke(cli, ["source", "check", "--hour", "2025-11-30T02"], catch_exceptions=False)
    assert done.exit_code == 1
    assert "refused: trips of 2025-11-30T02 is refused" in done.output
    monkeypatch.setattr(sys, "argv", ["medallion", "source", "check"])
    assert run(cli) == 1, "the process of a shell ends with it too"


def test_new_feed_is_declared_by_a_command(project: Path) -> None:
    trips = (project / "source" / "cdc" / "trips" / "2025-11-30T00.json").read_text()
    write(project / "source", "cdc/journeys/2025-11-30T00.json", trips)
    done = CliRunner().invoke(cli, ["source", "infer", "journeys"], catch_exceptions=False)
    assert "trip_id BIGINT NOT NULL" in done.output
    assert "fare DECIMAL(18,2)" in done.output
    assert declared(done.output).columns[0].name == "trip_id"


def test_cells_of_a_csv_are_inferred_as_the_numbers_that_they_are(tmp_path: Path) -> None:
    rows = "Op,id,code,ok,price\nI,1,007,true,2.50\nU,-20,008,false,3.00\n"
    write(tmp_path, f"hr/trips/{H0}.csv", rows)
    feed = Feed(name="bronze_trips", keys=("id",), schema="id BIGINT NOT NULL")
    feed = replace(feed, delivery=Delivery(format="dms", layout=Layout("hr/{feed}/{hour}.csv")))
    declared = infer_declaration(FolderSource(str(tmp_path)), feed)
    for column in ("id BIGINT NOT NULL", "code STRING", "ok BOOLEAN", "price DECIMAL(18,2)"):
        assert column in declared
