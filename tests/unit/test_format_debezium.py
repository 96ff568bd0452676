"""Change events of Debezium, as the documentation of its connectors shows them."""

import json
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from medallion.errors import MedallionError
from medallion.ingest.decode import Decoded, decode_file, why_unfit
from medallion.ingest.parts import Part, Parts
from medallion.ingest.quarantine import read_rejected
from medallion.model.delivery import Delivery, Layout
from medallion.model.table import Feed
from tests.unit.small_lake import H0, H1, ORDERS, TABLES, Shop, load, without_spark
from tests.unit.test_layouts import KAFKA, delivered, kafka, write

DEBEZIUM = Delivery(format="debezium")
CUSTOMERS = Feed(
    name="bronze_customers",
    keys=("id",),
    schema="id INT NOT NULL, first_name STRING NOT NULL, last_name STRING, email STRING",
    delivery=DEBEZIUM,
)
THINGS = Feed(
    name="bronze_things",
    keys=("id",),
    schema="""
        id BIGINT NOT NULL, price DECIMAL(10,2), seen_at TIMESTAMP, day DATE, data BINARY, tags ARRAY<DECIMAL(4,1)>
    """,
    delivery=DEBEZIUM,
)
ANNE = {"id": 1, "first_name": "Anne", "last_name": "Kretchmar", "email": "annek@noanswer.org"}
SOURCE = {  # of the create event in "Data change events" of the PostgreSQL connector
    "version": "3.0.0.Final",
    "connector": "postgresql",
    "name": "PostgreSQL_server",
    "ts_ms": 1559033904863,
    "ts_us": 1559033904863123,
    "ts_ns": 1559033904863123000,
    "snapshot": True,
    "db": "postgres",
    "sequence": '["24023119","24023128"]',
    "schema": "public",
    "table": "customers",
    "txId": 555,
    "lsn": 24023128,
    "xmin": None,
}


def event(op: str, before: Any = None, after: Any = None, **source: Any) -> dict[str, Any]:
    return {"before": before, "after": after, "source": SOURCE | source, "op": op, "ts_ms": 1559033904863}


def schema_of(**columns: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of an envelope whose rows have these columns, as JsonConverter writes it."""
    fields = [{"optional": True, **kind, "field": name} for name, kind in columns.items()]
    row = {"type": "struct", "fields": fields, "optional": True, "name": "PostgreSQL_server.inventory.customers.Value"}
    return {
        "type": "struct",
        "fields": [
            row | {"field": "before"},
            row | {"field": "after"},
            {"type": "string", "optional": False, "field": "op"},
        ],
        "optional": False,
        "name": "PostgreSQL_server.inventory.customers.Envelope",
    }


def decode(tmp_path: Path, feed: Feed, *records: Any) -> tuple[Decoded, list[dict[str, Any]]]:
    path = tmp_path / f"{H0}.json"
    path.write_text("".join(f"{r if isinstance(r, str) else json.dumps(r)}\n" for r in records))
    result = decode_file(path, feed, H0, tmp_path / "decoded.parquet")
    return result, pq.read_table(tmp_path / "decoded.parquet").to_pylist()


def rows(changes: list[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(change[name] for name in ("_deleted", *names)) for change in changes]


NUMBER, TEXT = {"type": "int32"}, {"type": "string"}


@pytest.mark.parametrize("with_schema", [False, True])
def test_create_read_update_and_delete_are_changes_of_a_row(tmp_path: Path, with_schema: bool) -> None:
    events = [
        event("r", after=ANNE),
        event("c", after=ANNE | {"id": 2}),
        event("u", before={"id": 1}, after=ANNE | {"first_name": "Anne Marie"}),
        event("d", before={"id": 1}),
        event("d", before=ANNE | {"id": 2}),
    ]
    schema = schema_of(id=NUMBER, first_name=TEXT, last_name=TEXT, email=TEXT)
    lines = [{"schema": schema, "payload": payload} for payload in events] if with_schema else events
    result, changes = decode(tmp_path, CUSTOMERS, *lines)
    assert rows(changes, "id", "first_name") == [
        (False, 1, "Anne"),
        (False, 2, "Anne"),
        (False, 1, "Anne Marie"),
        (True, 1, None),
        (True, 2, "Anne"),
    ]
    assert (result.rejected, result.unknown, result.records) == ([], {}, 5)


def test_tombstones_after_deletions_are_passed_over(tmp_path: Path) -> None:
    tombstones: list[Any] = ["null", {"schema": None, "payload": None}]
    result, changes = decode(tmp_path, CUSTOMERS, event("d", before={"id": 1}), *tombstones, event("c", after=ANNE))
    assert rows(changes, "id") == [(True, 1), (False, 1)]
    assert (result.rejected, result.notes, result.records) == ([], [], 4)


def test_truncate_refuses_the_hour_in_words(tmp_path: Path) -> None:
    with pytest.raises(MedallionError) as refused:
        decode(tmp_path, CUSTOMERS, event("c", after=ANNE), event("t"))
    message = str(refused.value)
    assert "truncates the table (op t) and so names no row in line 2; nothing of the hour was applied" in message
    assert "have the rows deleted one by one" in message
    assert "\n" not in message


def test_message_events_change_nothing(tmp_path: Path) -> None:
    message = {"source": SOURCE | {"table": ""}, "op": "m", "ts_ms": 1, "message": {"prefix": "foo", "content": "Ymfy"}}
    result, changes = decode(tmp_path, CUSTOMERS, message)
    assert (changes, result.rejected, result.records) == ([], [], 1)


def test_key_that_changes_is_a_deletion_and_an_insert(tmp_path: Path) -> None:
    result, changes = decode(
        tmp_path, CUSTOMERS, event("u", before=ANNE, after=ANNE | {"id": 7}), event("d", {"id": 8})
    )
    assert rows(changes, "id") == [(True, 1), (False, 7), (True, 8)]
    places = [change["_line"] for change in changes]
    assert len({*places}) == 3
    assert [result.lines_of.get(place, place) for place in places] == [1, 1, 2]


# Flattened by ExtractNewRecordState


def test_flattened_records_are_changes_by_their_operation(tmp_path: Path) -> None:
    result, changes = decode(
        tmp_path,
        CUSTOMERS,
        {**ANNE, "__op": "c", "__table": "customers", "__lsn": "123456789", "__source_ts_ms": "123456789"},
        {**ANNE, "first_name": "Anne Marie", "__deleted": "false"},
        {"id": 1, "first_name": None, "__deleted": "true"},
        {"id": 2, "__op": "d"},
        {"id": 3, "first_name": "x", "__deleted": False},
    )
    expected = [(False, 1, "Anne"), (False, 1, "Anne Marie"), (True, 1, None), (True, 2, None), (False, 3, "x")]
    assert rows(changes, "id", "first_name") == expected
    assert (result.rejected, result.unknown) == ([], {})


def test_tombstones_of_flattened_records_that_name_no_row_are_warned_of(tmp_path: Path) -> None:
    deletion = {"id": 1, "first_name": None, "__deleted": "true"}
    result, _ = decode(tmp_path, CUSTOMERS, {**ANNE}, deletion, "null", {**ANNE, "id": 2}, "null")
    (note,) = result.notes
    assert note.startswith("1 tombstones stand for deletions that name no row")
    assert "delete.tombstone.handling.mode=rewrite" in note


WITH_OP = replace(CUSTOMERS, schema="id INT NOT NULL, op STRING, source STRING")


@pytest.mark.parametrize("value", ["m", "t", "", "tm", "c", "d", None])
@pytest.mark.parametrize("mark", [{"__deleted": "false"}, {"__op": "c"}, {}])
def test_column_named_op_of_a_flattened_record_is_no_operation(tmp_path: Path, value: Any, mark: Any) -> None:
    result, changes = decode(tmp_path, WITH_OP, {"id": 1, "op": value, "source": "shop", **mark})
    assert (rows(changes, "id", "op"), result.rejected) == ([(False, 1, value)], [])


def test_record_that_may_be_an_envelope_or_a_row_is_rejected(tmp_path: Path) -> None:
    feed = replace(CUSTOMERS, schema="id INT NOT NULL, op STRING, source STRUCT<id: INT>")
    result, changes = decode(tmp_path, feed, {"id": 1, "op": "d", "source": {"id": 2}})
    assert changes == []
    assert "set add.fields=op" in result.rejected[0][1]


@pytest.mark.parametrize("mark", [{"__op": ["d"]}, {"__op": "x"}, {"__deleted": [1]}, {"__deleted": "True"}])
def test_mark_of_a_flattened_record_that_is_none_rejects_it(tmp_path: Path, mark: Any) -> None:
    result, changes = decode(tmp_path, CUSTOMERS, ANNE, ANNE | mark)
    assert (len(changes), [line for line, *_ in result.rejected]) == (1, [2])


# What columns hold


def precise(number: int) -> str:
    length = (number.bit_length() + 8) // 8
    return b64encode(number.to_bytes(length, "big", signed=True)).decode()


DECIMAL = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "version": 1}


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ({"type": "string"}, "-1234.50"),
        ({"type": "double"}, -1234.5),
        (DECIMAL | {"parameters": {"scale": "2", "connect.decimal.precision": "10"}}, precise(-123450)),
        (DECIMAL | {"parameters": {"scale": "1"}}, precise(-12345)),
        ({"type": "struct", "name": "io.debezium.data.VariableScaleDecimal"}, {"scale": 3, "value": precise(-1234500)}),
    ],
)
def test_decimals_are_exact_in_each_handling_mode(tmp_path: Path, kind: Any, value: Any) -> None:
    record = {
        "schema": schema_of(id={"type": "int64"}, price=kind),
        "payload": event("c", after={"id": 1, "price": value}),
    }
    _, changes = decode(tmp_path, THINGS, record)
    assert changes[0]["price"] == Decimal("-1234.50")


def test_decimal_with_more_digits_than_the_column_rejects_the_line(tmp_path: Path) -> None:
    schema = schema_of(id={"type": "int64"}, price=DECIMAL | {"parameters": {"scale": "3"}})
    records = [{"schema": schema, "payload": event("c", after={"id": 1, "price": precise(n)})} for n in (1230, 1234)]
    result, changes = decode(tmp_path, THINGS, *records)
    assert [change["price"] for change in changes] == [Decimal("1.23")]
    assert [number for number, *_ in result.rejected] == [2]


def test_precise_decimals_without_a_schema_have_the_declared_scale_once_the_project_says_so(tmp_path: Path) -> None:
    record = event("c", after={"id": 1, "price": precise(123450)})
    assert why_unfit(THINGS, H0, json.dumps(record)), "a text is digits unless the project says otherwise"
    feed = replace(THINGS, delivery=replace(DEBEZIUM, decimals="precise"))
    assert decode(tmp_path, feed, record)[1][0]["price"] == Decimal("1234.50")


MOMENT = datetime(2018, 6, 20, 15, 13, 16, 945000, tzinfo=UTC)  # of "TIMESTAMP type" of the PostgreSQL connector


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ({"type": "int64", "name": "io.debezium.time.Timestamp"}, 1529507596945),
        ({"type": "int64", "name": "org.apache.kafka.connect.data.Timestamp"}, 1529507596945),
        ({"type": "int64", "name": "io.debezium.time.MicroTimestamp"}, 1529507596945000),
        ({"type": "int64", "name": "io.debezium.time.NanoTimestamp"}, 1529507596945000000),
        ({"type": "string", "name": "io.debezium.time.ZonedTimestamp"}, "2018-06-20T15:13:16.945Z"),
        ({"type": "string", "name": "io.debezium.time.ZonedTimestamp"}, "2018-06-20T17:13:16.945+02:00"),
    ],
)
def test_moments_are_read_by_their_schema(tmp_path: Path, kind: Any, value: Any) -> None:
    schema = schema_of(id={"type": "int64"}, seen_at=kind)
    _, changes = decode(tmp_path, THINGS, {"schema": schema, "payload": event("c", after={"id": 1, "seen_at": value})})
    assert changes[0]["seen_at"] == MOMENT


@pytest.mark.parametrize(
    ("unit", "value"),
    [
        ("milliseconds", 1529507596945),
        ("microseconds", 1529507596945000),
        ("nanoseconds", 1529507596945000000),
        (None, "2018-06-20T15:13:16.945Z"),
    ],
)
def test_moments_without_a_schema_are_in_the_unit_that_the_project_names(
    tmp_path: Path, unit: str | None, value: Any
) -> None:
    feed = replace(THINGS, delivery=replace(DEBEZIUM, moments=unit))
    assert decode(tmp_path, feed, event("c", after={"id": 1, "seen_at": value}))[1][0]["seen_at"] == MOMENT


def test_days_since_1970_are_a_date_and_bytes_are_base64(tmp_path: Path) -> None:
    after = {"id": 1, "day": 17_702, "data": "AQI=", "tags": ["1.5", 2]}
    _, changes = decode(tmp_path, THINGS, event("c", after=after))
    assert (changes[0]["day"], changes[0]["data"]) == (date(2018, 6, 20), b"\x01\x02")
    assert changes[0]["tags"] == [Decimal("1.5"), Decimal("2.0")]


def test_moments_in_structs_arrays_and_maps_are_read_by_their_schema(tmp_path: Path) -> None:
    milli = {"type": "int64", "name": "io.debezium.time.Timestamp"}
    feed = replace(
        THINGS,
        schema="id BIGINT NOT NULL, s STRUCT<at: TIMESTAMP, p: DECIMAL(10,2)>, a ARRAY<STRUCT<at: TIMESTAMP>>,"
        " m MAP<STRING, TIMESTAMP>",
        delivery=replace(DEBEZIUM, moments="microseconds"),
    )
    at = {**milli, "field": "at"}
    price = DECIMAL | {"parameters": {"scale": "2"}, "field": "p"}
    schema = schema_of(
        id={"type": "int64"},
        s={"type": "struct", "fields": [at, price]},
        a={"type": "array", "items": {"type": "struct", "fields": [at]}},
        m={"type": "map", "keys": TEXT, "values": milli},
    )
    moment = 1529507596945
    after = {"id": 1, "s": {"at": moment, "p": precise(123450)}, "a": [{"at": moment}], "m": {"x": moment}}
    _, (change,) = decode(tmp_path, feed, {"schema": schema, "payload": event("c", after=after)})
    assert change["s"] == {"at": MOMENT, "p": Decimal("1234.50")}
    assert (change["a"], change["m"]) == ([{"at": MOMENT}], [("x", MOMENT)])


@pytest.mark.parametrize("name", ["io.debezium.time.MicroTime", "io.debezium.time.Time", "io.debezium.time.Year"])
@pytest.mark.parametrize("column", ["seen_at", "day"])
def test_time_of_day_is_neither_moment_nor_date(tmp_path: Path, name: str, column: str) -> None:
    feed = replace(THINGS, delivery=replace(DEBEZIUM, moments="microseconds"))
    schema = schema_of(id={"type": "int64"}, **{column: {"type": "int64", "name": name}})
    record = {"schema": schema, "payload": event("c", after={"id": 1, column: 3600})}
    result, changes = decode(tmp_path, feed, record)
    assert (changes, len(result.rejected)) == ([], 1)


@pytest.mark.parametrize("odd", [{"name": ["x"]}, {"field": ["id"]}, {"type": ["array"]}, {"parameters": 1}])
def test_schema_that_is_none_does_not_break_the_reading(tmp_path: Path, odd: Any) -> None:
    schema = schema_of(id=NUMBER)
    schema["fields"][1]["fields"].append({"type": "int64", "field": "x", **odd})
    _, changes = decode(tmp_path, CUSTOMERS, {"schema": schema, "payload": event("c", after=ANNE)})
    assert rows(changes, "id") == [(False, 1)]


@pytest.mark.parametrize("value", [9223372036825200000, -9223372036832400000])
def test_infinite_moment_of_postgresql_rejects_the_line(tmp_path: Path, value: int) -> None:
    feed = replace(THINGS, delivery=replace(DEBEZIUM, moments="microseconds"))
    result, _ = decode(tmp_path, feed, event("c", after={"id": 1, "seen_at": value}), event("c", after={"id": 2}))
    assert [number for number, *_ in result.rejected] == [1]


def test_schema_that_changes_within_the_hour_is_followed_record_by_record(tmp_path: Path) -> None:
    milli = {"type": "int64", "name": "io.debezium.time.Timestamp"}
    micro = {"type": "int64", "name": "io.debezium.time.MicroTimestamp"}
    number = {"type": "int64"}
    first, then = schema_of(id=number, seen_at=milli), schema_of(id=number, seen_at=micro, colour=TEXT)
    result, changes = decode(
        tmp_path,
        THINGS,
        {"schema": first, "payload": event("c", after={"id": 1, "seen_at": 1529507596945})},
        {"schema": then, "payload": event("c", after={"id": 2, "seen_at": 1529507596945000, "colour": "red"})},
        {"schema": first, "payload": event("c", after={"id": 3, "seen_at": 1529507596945})},
        {"schema": then, "payload": event("d", before={"id": 4, "seen_at": 0})},
    )
    assert [change["seen_at"] for change in changes[:3]] == [MOMENT] * 3
    assert result.unknown == {"colour": 1}


def test_payload_in_a_schema_or_before_it_is_not_taken_for_the_record(tmp_path: Path) -> None:
    odd = schema_of(id={"type": "int32", "parameters": {"payload": "1"}}, first_name=TEXT)
    ordered = {"payload": event("c", after=ANNE | {"id": 3}), "schema": odd}
    records = [{"schema": odd, "payload": event("c", after=ANNE | {"id": n})} for n in (1, 2)]
    _, changes = decode(tmp_path, CUSTOMERS, *records, ordered)
    assert [change["id"] for change in changes] == [1, 2, 3]


# Bad input


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (event("d"), "op d has no before, so no row is named"),
        (event("u"), "op u has no after"),
        (event("x", after=ANNE), "op 'x' is none of c, r, u, d, t and m"),
        ({"insert": ANNE}, "a record of format insert_delete, not of debezium"),
        ({"ddl": "CREATE TABLE x", "databaseName": "inventory"}, "a change of a schema"),
        ([1], "not a change event of Debezium"),
        (event("c", after=ANNE | {"id": "1"}), "id: '1' is not an INT"),
        (event("c", after={"id": 1}), "first_name is null but must have a value"),
    ],
)
def test_record_that_does_not_fit_is_rejected_with_its_reason(tmp_path: Path, record: Any, reason: str) -> None:
    result, changes = decode(tmp_path, CUSTOMERS, event("c", after=ANNE), record)
    assert len(changes) == 1
    ((number, why, _),) = result.rejected
    assert number == 2
    assert reason in why


def test_envelope_for_another_table_is_rejected_where_the_project_names_the_table(tmp_path: Path) -> None:
    records = event("c", after=ANNE, table="customers_1"), event("c", after=ANNE, table="orders")
    assert decode(tmp_path, CUSTOMERS, *records)[0].rejected == []
    feed = replace(CUSTOMERS, delivery=replace(DEBEZIUM, table="customers_*"))
    result, _ = decode(tmp_path, feed, *records)
    assert [(n, why) for n, why, _ in result.rejected] == [
        (2, "a change of the table orders, and customers is fed from customers_*")
    ]


# Order, across files


def parts_of(*streams: tuple[str, list[Any]]) -> tuple[str, list[Part]]:
    text = "".join(f"{json.dumps(record)}\n" for _, records in streams for record in records)
    return text, [Part(name, 1, "x", len(records)) for name, records in streams]


def last_names(tmp_path: Path, *streams: tuple[str, list[Any]]) -> tuple[Decoded, dict[int, str]]:
    """The name that each id has at the end."""
    text, parts = parts_of(*streams)
    path = tmp_path / "x.json"
    path.write_text(text)
    result = decode_file(path, CUSTOMERS, H0, tmp_path / "decoded.parquet", None, Parts(parts))
    changes = pq.read_table(tmp_path / "decoded.parquet").to_pylist()
    assert len({change["_line"] for change in changes}) == len(changes)
    return result, {c["id"]: c["first_name"] for c in sorted(changes, key=lambda change: change["_line"])}


def named(name: str, lsn: int, number: int = 1) -> dict[str, Any]:
    return event("u", after=ANNE | {"id": number, "first_name": name}, lsn=lsn)


def test_records_of_several_partitions_are_in_the_order_of_the_databases_log(tmp_path: Path) -> None:
    first = (kafka("customers", H0, 0, 0), [named("new", 300), named("other", 400, 2)])
    second = (kafka("customers", H0, 1, 0), [named("old", 200), named("x", 250, 3)])
    result, names = last_names(tmp_path, first, second)
    assert names == {1: "new", 2: "other", 3: "x"}
    assert result.notes == []


def test_records_of_one_partition_stay_in_the_order_of_their_offsets(tmp_path: Path) -> None:
    one = (kafka("customers", H0, 0, 0), [named("a", 300), named("b", 200)])
    two = (kafka("customers", H0, 0, 2), [named("c", 100)])
    assert last_names(tmp_path, one, two)[1] == {1: "c"}


def test_files_without_partitions_are_ordered_by_the_databases_log_and_without_it_by_name(tmp_path: Path) -> None:
    one, two = ("in/b.json", [named("new", 300)]), ("in/a.json", [named("old", 200)])
    assert last_names(tmp_path, one, two)[1] == {1: "new"}
    flat = [("in/a.json", [ANNE | {"first_name": "old"}]), ("in/b.json", [ANNE | {"first_name": "new"}])]
    assert last_names(tmp_path, *flat)[1] == {1: "new"}


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ({"file": "mysql-bin.000009", "pos": 900, "row": 0}, {"file": "mysql-bin.000010", "pos": 4, "row": 0}),
        ({"file": "mysql-bin.000009", "pos": 900, "row": 0}, {"file": "mysql-bin.000009", "pos": 900, "row": 1}),
        (
            {"commit_lsn": "00000027:00000ac0:0002", "change_lsn": "00000027:00000ac0:0001", "event_serial_no": 1},
            {"commit_lsn": "00000027:00000ac0:0002", "change_lsn": "00000027:00000ac0:0001", "event_serial_no": 2},
        ),
        ({"scn": "999"}, {"scn": "1000"}),
        ({"ts_ms": 5}, {"ts_ms": 50}),
    ],
)
def test_positions_of_each_database_compare(tmp_path: Path, earlier: Any, later: Any) -> None:
    def at(name: str, source: Any) -> dict[str, Any]:
        return {"before": None, "after": ANNE | {"first_name": name}, "source": source, "op": "u"}

    streams = [
        (kafka("customers", H0, 0, 0), [at("new", later)]),
        (kafka("customers", H0, 1, 0), [at("old", earlier)]),
    ]
    assert last_names(tmp_path, *streams)[1] == {1: "new"}


def test_partitions_of_one_number_are_of_their_topics(tmp_path: Path) -> None:
    one = kafka("customers", H0, 0, 9).replace("+0+", "_2024+0+")
    two = kafka("customers", H0, 0, 0).replace("+0+", "_2025+0+")
    result, names = last_names(tmp_path, (one, [named("new", 300)]), (two, [named("old", 200)]))
    assert (names, result.notes) == ({1: "new"}, [])


def test_record_without_a_position_leaves_the_order_of_the_others(tmp_path: Path) -> None:
    one = ("in/a.json", [named("new", 300)])
    two = ("in/b.json", [named("old", 200), event("r", after=ANNE | {"id": 9}, lsn=None)])
    result, names = last_names(tmp_path, one, two)
    assert names == {1: "new", 9: "Anne"}
    assert result.notes == ["1 changes have no lsn: each follows the one before it in its partition or file"]


def test_positions_of_several_databases_are_warned_of(tmp_path: Path) -> None:
    one, two = ("in/a.json", [named("a", 300)]), ("in/b.json", [event("c", after=ANNE, lsn=None, scn="5")])
    result, _ = last_names(tmp_path, one, two)
    assert result.notes[0].startswith("positions of several kinds (lsn, scn) do not compare")


def test_position_of_many_digits_is_a_text(tmp_path: Path) -> None:
    streams = [("in/a.json", [event("c", after=ANNE, lsn="9" * 5000)]), ("in/b.json", [named("b", 3)])]
    assert len(last_names(tmp_path, *streams)[1]) == 1


def test_offsets_that_leave_a_gap_are_named(tmp_path: Path) -> None:
    streams = [
        (kafka("customers", H0, 0, 0), [named("a", 1), event("d", {"id": 2})]),
        (kafka("customers", H0, 0, 3), [named("b", 2)]),  # a tombstone is missing, as sinks write none
        (kafka("customers", H0, 0, 9), [named("c", 3)]),
    ]
    result, _ = last_names(tmp_path, *streams)
    assert [note.split("topics/")[0] for note in result.notes] == ["offsets of partition 0 leave a gap of 5 before "]


# In a lake


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    without_spark(monkeypatch)
    return load(tmp_path, delivered(TABLES, format="debezium", layout=Layout(KAFKA)))


def change(op: str, number: int, name: str | None = None, lsn: int = 0) -> dict[str, Any]:
    row = {"id": number, "name": name}
    before, after = ({"id": number}, None) if op == "d" else (None, row)
    return {"before": before, "after": after, "source": {"lsn": lsn, "table": "orders"}, "op": op}


def put(shop: Shop, hour: str, partition: int, offset: int, *changes: Any) -> None:
    text = "".join(f"{c if isinstance(c, str) else json.dumps(c)}\n" for c in changes)
    write(shop.root / "source", kafka("orders", hour, partition, offset), text)


def test_hours_of_kafka_connect_are_applied_restated_and_replayed(shop: Shop) -> None:
    put(shop, H0, 0, 0, change("c", 1, "a", 10), change("c", 2, "b", 30))
    put(shop, H0, 1, 0, change("u", 2, "old", 20), "broken", change("c", 3, "c", 40), change("d", 1, lsn=50), "null")
    shop.refresh(H0)
    assert shop.published() == {2: "b", 3: "c"}
    (rejected,) = read_rejected(shop.lake, ORDERS, H0)
    assert rejected.file == f"{kafka('orders', H0, 1, 0)}:2"
    put(shop, H1, 0, 2, change("u", 2, "z", 60))
    shop.refresh(H1)
    put(shop, H0, 1, 0, change("u", 2, "old", 20), change("c", 3, "corrected", 40), change("d", 1, lsn=50), "null")
    shop.restate(H0)
    assert shop.published() == {2: "z", 3: "corrected"}


def test_value_that_the_database_did_not_log_stays_as_it_is(shop: Shop) -> None:
    put(shop, H0, 0, 0, change("c", 1, "a long text", 10))
    shop.refresh(H0)
    put(shop, H1, 0, 1, change("u", 1, "__debezium_unavailable_value", 20))
    shop.refresh(H1)
    assert shop.rows() == {1: "a long text"}


def moved(name: str | None, before_name: str | None = None) -> dict[str, Any]:
    """The row 1 gets the key 2."""
    source = {"lsn": 20, "table": "orders"}
    return {"before": {"id": 1, "name": before_name}, "after": {"id": 2, "name": name}, "source": source, "op": "u"}


UNAVAILABLE = "__debezium_unavailable_value"


def test_row_that_gets_another_key_keeps_its_values_that_were_not_logged(shop: Shop) -> None:
    put(shop, H0, 0, 0, change("c", 1, "a long text", 10), change("c", 2, "in its place", 11))
    shop.refresh(H0)
    put(shop, H1, 0, 2, moved(UNAVAILABLE), change("u", 2, UNAVAILABLE, 30))
    shop.refresh(H1)
    assert shop.rows() == {2: "a long text"}
    assert read_rejected(shop.lake, ORDERS, H1) == []


@pytest.mark.parametrize("partitions", [(0, 0), (0, 1), (1, 0)])
@pytest.mark.parametrize("again", [False, True])
def test_row_whose_key_changes_in_two_records_keeps_its_values_that_were_not_logged(
    shop: Shop, partitions: tuple[int, int], again: bool
) -> None:
    put(shop, H0, 0, 0, change("c", 1, "long text", 10), change("c", 2, "other", 11))
    shop.refresh(H0)
    gone, unlogged = change("d", 1, lsn=20), change("c", 7, "__debezium_unavailable_value", lsn=20)
    records: dict[int, list[Any]] = {0: [], 1: []}
    for _ in range(1 + again):  # as the connector delivers them again when it starts again
        records[partitions[0]] += [gone, "null"]
        records[partitions[1]] += [unlogged]
    for partition, own in records.items():
        if own:
            put(shop, H1, partition, 2, *own)
    shop.refresh(H1)
    assert shop.published() == {2: "other", 7: "long text"}


def test_value_that_was_not_logged_is_taken_from_before(shop: Shop) -> None:
    put(shop, H0, 0, 0, moved(UNAVAILABLE, "of before"))
    shop.refresh(H0)
    assert shop.rows() == {2: "of before"}


def test_record_of_a_row_that_does_not_exist_is_rejected_as_a_whole(shop: Shop) -> None:
    put(shop, H0, 0, 0, change("c", 2, "stays", 10), change("c", 3, "x", 11))
    shop.refresh(H0)
    put(shop, H1, 0, 2, moved(UNAVAILABLE), change("c", 4, "y", 30))
    shop.refresh(H1)
    assert shop.rows() == {2: "stays", 3: "x", 4: "y"}
    assert len(read_rejected(shop.lake, ORDERS, H1)) == 1


def test_hour_of_another_format_is_refused_and_shows_the_first_record(shop: Shop) -> None:
    put(shop, H0, 0, 0, {"insert": {"id": 1, "name": "a"}})
    with pytest.raises(MedallionError) as refused:
        shop.refresh(H0)
    message = str(refused.value)
    assert "no line that is a record: line 1 is a record of format insert_delete, not of debezium" in message
    assert "format debezium has change events such as" in message
    assert 'line 1 begins with \'{"insert"' in message
