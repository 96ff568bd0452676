"""The types of a feed's columns: which are declared, which values of JSON fit, and how they are merged and stored."""

import json
import math
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from medallion.errors import MedallionError
from medallion.ingest.arrow_merge import merge_into
from medallion.ingest.arrow_types import arrow_type, is_wider, same_type
from medallion.ingest.decode import DELETED, LINE, change_schema, decode_file
from medallion.ingest.schema_evolution import arrow_schema
from medallion.model.column_types import parse_type, spark_type
from medallion.model.columns import Column
from medallion.model.table import Feed
from medallion.storage.delta_writes import rows_with_keys
from tests.shop import build

HOUR = "2025-11-30T00"
FEED = Feed(
    keys=("id",),
    schema="id SMALLINT NOT NULL, name STRING, c DOUBLE",
    name="bronze_things",
    doc="One row per id.",
)
NESTED = "STRUCT<at: TIMESTAMP, lines: ARRAY<STRUCT<price: DECIMAL(6,2), qty: SMALLINT>>, notes: MAP<STRING, DOUBLE>>"


def decoded(tmp_path: Path, kind: str, *values: str) -> tuple[list[Any], list[str]]:
    """What a column of type ``kind`` holds after lines with these values of JSON, and why the others are rejected."""
    path = tmp_path / f"{HOUR}.json"
    path.write_text("".join(f'{{"insert": {{"id": {n}, "c": {value}}}}}\n' for n, value in enumerate(values)))
    feed = replace(FEED, schema=f"id SMALLINT NOT NULL, c {kind}")
    result = decode_file(path, feed, HOUR, tmp_path / "decoded.parquet")
    return pq.read_table(tmp_path / "decoded.parquet")["c"].to_pylist(), [why for _, why, _ in result.rejected]


@pytest.mark.parametrize(
    ("kind", "value", "stored"),
    [
        ("TINYINT", "-128", -128),
        ("SMALLINT", "32767", 32767),
        ("DOUBLE", "0.1", 0.1),
        ("DOUBLE", "1", 1.0),
        ("DOUBLE", "1.7976931348623157e308", 1.7976931348623157e308),
        ("FLOAT", "0.1", 0.10000000149011612),
        ("BINARY", '"AAH/"', b"\x00\x01\xff"),
        ("BINARY", '""', b""),
        ("ARRAY<INT>", "[1, null, 3]", [1, None, 3]),
        ("ARRAY<INT>", "[]", []),
        ("ARRAY<INT>", "null", None),
        ("ARRAY<ARRAY<DATE>>", '[["2025-01-31"], []]', [[date(2025, 1, 31)], []]),
        ("MAP<STRING, INT>", '{"b": 1, "a": null}', [("a", None), ("b", 1)]),
        ("STRUCT<a: INT, b STRING>", '{"b": "x"}', {"a": None, "b": "x"}),
        (
            NESTED,
            '{"at": "2025-11-30T01:00:00+01:00", "lines": [{"price": "1.5", "qty": 2}], "notes": {"x": 0.5}}',
            {
                "at": datetime(2025, 11, 30, tzinfo=UTC),
                "lines": [{"price": Decimal("1.50"), "qty": 2}],
                "notes": [("x", 0.5)],
            },
        ),
    ],
)
def test_value_of_each_type_is_stored_as_it_is(tmp_path: Path, kind: str, value: str, stored: Any) -> None:
    assert decoded(tmp_path, kind, value) == ([stored], [])


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("TINYINT", "128"),
        ("SMALLINT", "1.0"),
        *(("DOUBLE", value) for value in ('"0.1"', "true", "1e400", "-1e400", "1e-400", '"NaN"', "1" * 400)),
        ("FLOAT", "1e39"),
        ("FLOAT", "1e-50"),
        *(("BINARY", value) for value in ('"AAH"', '"AAH_"', '"A A="', "1", '"AB=="', '"é"')),
        *(("ARRAY<INT>", value) for value in ("1", "{}", '["1"]', "[[1]]", '"[1]"')),
        *(("MAP<STRING, INT>", value) for value in ("[]", '{"a": "1"}', '{"a\\u0000": 1}', '{"\\ud800": 1}')),
        *(("STRUCT<a: INT>", value) for value in ("[]", '{"a": 1.5}', '"a"')),
        (NESTED, '{"lines": [{"price": "1.234"}]}'),
    ],
)
def test_value_that_does_not_fit_its_type_is_rejected(tmp_path: Path, kind: str, value: str) -> None:
    values, (why,) = decoded(tmp_path, kind, "null", value)
    assert values == [None]
    article = "an" if kind.startswith(("ARRAY", "INT")) else "a"
    assert why.startswith("c: ") and why.endswith(f" is not {article} {parse_type(kind)}")


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity"])
def test_what_is_no_number_of_json_is_rejected(tmp_path: Path, value: str) -> None:
    assert decoded(tmp_path, "DOUBLE", value) == ([], [f"{value} is not a JSON number"])


def test_of_the_two_zeros_there_is_one(tmp_path: Path) -> None:
    (zero,), _ = decoded(tmp_path, "DOUBLE", "-0.0")
    assert math.copysign(1, zero) == 1


def test_field_that_is_not_declared_is_left_out_and_counted_once_a_line(tmp_path: Path) -> None:
    path = tmp_path / f"{HOUR}.json"
    path.write_text(
        '{"insert": {"id": 1, "c": [{"a": 1, "z": 2}, {"z": 3}]}}\n{"insert": {"id": 2, "c": [{"a": 1}]}}\n'
    )
    feed = replace(FEED, schema="id SMALLINT NOT NULL, c ARRAY<STRUCT<a: INT>>")
    result = decode_file(path, feed, HOUR, tmp_path / "decoded.parquet")
    assert (result.rejected, result.unknown) == ([], {"c.z": 1})


def test_type_is_named_in_plans_as_spark_names_it() -> None:
    inner = "seen_At:timestamp,lines:array<struct<price:decimal(6,2)>>,notes:map<string,double>"
    declared = "STRUCT<seen_At TIMESTAMP, lines: ARRAY<STRUCT<price: DECIMAL(6, 2)>>, notes: MAP<STRING,DOUBLE>>"
    assert spark_type(parse_type(declared)) == f"struct<{inner}>"


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("id INTEGER NOT NULL", "is of type INTEGER, which is not supported: use BOOLEAN, TINYINT"),
        (
            "id BIGINT NOT NULL, v VARIANT",
            "column 'v VARIANT': VARIANT is not supported, as only Spark reads and writes it: declare STRING",
        ),
        ("id BIGINT NOT NULL, v TIMESTAMP_NTZ", "is of type TIMESTAMP_NTZ, which is not supported"),
        ("id BIGINT NOT NULL, v ARRAY<LONG>", "is of type LONG, which is not supported"),
        ("id BIGINT NOT NULL, v ARRAY", "column 'v ARRAY' cannot be read"),
        ("id BIGINT NOT NULL, v ARRAY<INT", "cannot be read"),
        ("id BIGINT NOT NULL, v ARRAY<INT>>", "cannot be read"),
        ("id BIGINT NOT NULL, v MAP<INT, INT>", "cannot be read"),
        ("id BIGINT NOT NULL, v STRUCT<>", "the field '>' is no name"),
        ("id BIGINT NOT NULL, v STRUCT<a: INT, A: INT>", "stands there twice"),
        ("id BIGINT NOT NULL, v STRUCT<a: INT NOT NULL>", "cannot be read"),
        ("id BIGINT NOT NULL, v DECIMAL", "is of type DECIMAL, which is not supported: use .* DECIMAL\\(p,s\\)"),
        ("id BIGINT NOT NULL, v DECIMAL(39,2)", "a DECIMAL has 1 to 38 digits"),
        ("id BIGINT NOT NULL, v DECIMAL(2,3)", "a DECIMAL has 1 to 38 digits"),
        ("id BIGINT NOT NULL, v INT DEFAULT 1", "cannot be read"),
        ("id BIGINT NOT NULL, id INT", "declares a column twice"),
        ("id BIGINT NOT NULL, _line INT", "declares _line, which every change has beside its columns"),
        *((f"id {kind} NOT NULL", "declares its key id as") for kind in ("DOUBLE", "FLOAT", "BINARY", "ARRAY<INT>")),
        *((f"id {kind} NOT NULL", "declares its key id as") for kind in ("MAP<STRING, INT>", "STRUCT<a: INT>")),
    ],
)
def test_feed_is_refused_when_the_registry_is_built(schema: str, message: str) -> None:
    with pytest.raises(MedallionError, match=rf"spark_jobs/bronze/things\.py.*{message}"):
        build([replace(FEED, schema=schema)])


def test_feed_pruned_by_what_has_no_order_is_refused() -> None:
    feed = replace(FEED, schema="id INT NOT NULL, v ARRAY<INT>", pruned_by=("v",))
    with pytest.raises(MedallionError, match="is pruned by v, a ARRAY<INT>"):
        build([feed])


@pytest.mark.parametrize(
    ("kind", "before", "now"),
    [
        ("ARRAY<INT>", [1], [1, None]),
        ("MAP<STRING, INT>", [("a", 1)], [("a", 2)]),
        ("STRUCT<a: ARRAY<INT>>", {"a": [1]}, {"a": None}),
        ("BINARY", b"a", b"b"),
        ("DOUBLE", 1.0, 2.0),
    ],
)
def test_merge_updates_rows_whose_value_differs_and_no_others(kind: str, before: Any, now: Any) -> None:
    feed = replace(FEED, schema=f"id SMALLINT NOT NULL, c {kind}")
    rows = [{"id": n, "c": value} for n, value in enumerate([before, before, before, None, None])]
    values = [before, now, None, now, None]
    last = [{LINE: n, DELETED: False, "id": n, "c": value} for n, value in enumerate([*values, now])]
    known = pa.Table.from_pylist(rows, arrow_schema(feed.columns))
    merge = merge_into(known, pa.Table.from_pylist(last, change_schema(feed)), ["id"])
    assert (merge.inserted, merge.updated, merge.rows["id"].to_pylist()) == (1, 3, [1, 2, 3, 5])


def test_table_keeps_its_declared_types_in_delta(tmp_path: Path) -> None:
    kinds = ["TINYINT", "SMALLINT", "FLOAT", "DOUBLE", "BINARY", "ARRAY<INT>", "MAP<STRING, INT>", NESTED]
    feed = replace(FEED, schema=", ".join(f"c{n} {kind}" for n, kind in enumerate(kinds)))
    wanted = arrow_schema(feed.columns)
    delta = DeltaTable.create(str(tmp_path / "table"), wanted)
    for field in pa.schema(delta.schema().to_arrow()):
        assert same_type(field.type, wanted.field(field.name).type), field


def test_rows_with_nested_values_are_found_by_keys_of_several_columns(tmp_path: Path) -> None:
    feed = replace(FEED, keys=("id", "name"), schema=f"id SMALLINT NOT NULL, name STRING NOT NULL, c {NESTED}")
    rows = [{"id": n, "name": name, "c": {"at": None, "lines": [], "notes": None}} for n in (1, 2) for name in "ab"]
    write_deltalake(str(tmp_path / "table"), pa.Table.from_pylist(rows, arrow_schema(feed.columns)))
    keys = pa.Table.from_pylist([{"id": 1, "name": "b"}, {"id": 2, "name": "a"}], arrow_schema(feed.columns[:2]))
    found = rows_with_keys(DeltaTable(str(tmp_path / "table")), tmp_path / "table", keys, ["id", "name", "c"])
    assert sorted((row["id"], row["name"]) for row in found.to_pylist()) == [(1, "b"), (2, "a")]


@pytest.mark.parametrize(
    ("given", "wanted", "wider"),
    [
        ("TINYINT", "SMALLINT", True),
        ("SMALLINT", "BIGINT", True),
        ("BIGINT", "INT", False),
        ("INT", "DOUBLE", True),
        ("BIGINT", "DOUBLE", False),
        ("FLOAT", "DOUBLE", True),
        ("DOUBLE", "FLOAT", False),
        ("ARRAY<INT>", "ARRAY<BIGINT>", True),
        ("STRUCT<a: INT>", "STRUCT<a: BIGINT, b: STRING>", True),
        ("STRUCT<a: INT, b: STRING>", "STRUCT<a: INT>", False),
        ("MAP<STRING, INT>", "MAP<STRING, BIGINT>", True),
        ("ARRAY<INT>", "STRUCT<a: INT>", False),
        ("BINARY", "STRING", False),
    ],
)
def test_type_is_wider_when_it_holds_each_value(given: str, wanted: str, wider: bool) -> None:
    before, after = (arrow_type(Column("c", kind, required=False)) for kind in (given, wanted))
    assert is_wider(before, after) == wider


def test_snapshot_line_of_json_comes_back_as_it_was_written(tmp_path: Path) -> None:
    value = json.dumps({"at": "2025-11-30T00:00:00.123456Z", "lines": [], "notes": {"b": 1.5, "a": None}})
    assert decoded(tmp_path, NESTED, value)[1] == []
