"""The format insert_delete beyond inserts and deletes: updates, lists, letter case, forms of moments."""

import json
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from medallion.errors import MedallionError
from medallion.ingest.decode import Decoded, decode_file, why_unfit
from medallion.ingest.quarantine import read_rejected
from medallion.model.delivery import Delivery
from medallion.model.table import Feed
from tests.unit.small_lake import H0, H1, ORDERS, Shop, load, without_spark

# Records as the format's definition shows them: docs.feldera.com/formats/json.
PARTS = Feed(
    name="bronze_parts",
    keys=("part", "vendor"),
    schema="part BIGINT NOT NULL, vendor BIGINT NOT NULL, price DECIMAL(8,2)",
)
FEED = Feed(name="bronze_things", keys=("id",), schema="id BIGINT NOT NULL, name STRING, day DATE, seen_at TIMESTAMP")


def decode(tmp_path: Path, feed: Feed, *lines: str) -> tuple[Decoded, list[dict[str, Any]]]:
    path = tmp_path / f"{H0}.json"
    path.write_text("".join(f"{line}\n" for line in lines))
    result = decode_file(path, feed, H0, tmp_path / "decoded.parquet")
    return result, pq.read_table(tmp_path / "decoded.parquet").to_pylist()


def test_list_of_records_on_a_line_is_a_change_each_in_order(tmp_path: Path) -> None:
    result, changes = decode(
        tmp_path,
        PARTS,
        '[{"delete": {"part": 1, "vendor": 2, "price": 10000}}, {"insert": {"part": 1, "vendor": 2, "price": 30000}}]',
        '[{"insert": {"part": 2, "vendor": 3, "price": 34000}}, {"delete": {"part": 3, "vendor": 1, "price": 5000}}]',
        '{"insert": {"part": 4, "vendor": 1, "price": "1.5"}}',
    )
    assert [(c["part"], c["_deleted"]) for c in changes] == [(1, True), (1, False), (2, False), (3, True), (4, False)]
    places = [change["_line"] for change in changes]
    assert places == sorted(set(places)), "a log knows each change by its place"
    assert [result.lines_of.get(place, place) for place in places] == [1, 1, 2, 2, 3]
    assert (result.records, result.changes, result.rejected) == (3, 5, [])


def test_list_with_one_record_that_does_not_fit_is_rejected_whole(tmp_path: Path) -> None:
    line = '[{"insert": {"part": 1, "vendor": 2}}, {"insert": {"part": 1}}]'
    result, changes = decode(tmp_path, PARTS, line, '{"insert": {"part": 7, "vendor": 7}}')
    assert [c["part"] for c in changes] == [7]
    assert [(n, why) for n, why, _ in result.rejected] == [(1, "vendor is null but must have a value")]


def test_columns_are_found_in_other_letter_case_and_are_null_where_they_are_missing(tmp_path: Path) -> None:
    result, changes = decode(tmp_path, FEED, '{"insert": {"ID": 1, "Name": "x"}}', '{"insert": {"id": 2}}')
    assert [(c["id"], c["name"], c["seen_at"]) for c in changes] == [(1, "x", None), (2, None, None)]
    assert result.unknown == {}


def test_fields_of_a_struct_are_found_in_other_letter_case_as_columns_are(tmp_path: Path) -> None:
    feed = replace(FEED, schema="id BIGINT NOT NULL, at STRUCT<x: INT, y: STRING>")
    result, changes = decode(
        tmp_path,
        feed,
        '{"insert": {"id": 1, "at": {"X": 5, "y": "u", "Z": 1}}}',
        '{"insert": {"id": 2, "at": {"X": 5, "x": 6}}}',
    )
    assert [(change["id"], change["at"]) for change in changes] == [(1, {"x": 5, "y": "u"})]
    assert [(n, why) for n, why, _ in result.rejected] == [
        (2, "at: a nested object is not a STRUCT<x: INT, y: STRING>")
    ]
    assert [*result.unknown] == ["at.Z"]


def test_line_is_rejected_when_a_column_stands_there_twice_in_two_letter_cases(tmp_path: Path) -> None:
    result, _ = decode(tmp_path, FEED, '{"insert": {"Id": 1, "ID": 2}}', '{"insert": {"id": 2, "ID": 3}}')
    assert [(n, why) for n, why, _ in result.rejected] == [(1, "a column appears twice, as Id and ID")]
    assert result.unknown == {"ID": 1}, "beside the declared name it is another column"


@pytest.mark.parametrize(
    "text",
    [
        "2025-11-30 01:02:03Z",
        "2025-11-30 01:02:03+00",
        "2025-11-30 01:02:03+0000",
        "2025-11-30 01:02:03 +00:00",
        "2025-11-30 01:02:03 UTC",
        "2025-11-29T23:02:03-02",
    ],
)
def test_moment_is_taken_as_the_common_tools_write_it(tmp_path: Path, text: str) -> None:
    _, changes = decode(tmp_path, FEED, json.dumps({"insert": {"id": 1, "seen_at": text}}))
    assert changes[0]["seen_at"] == datetime(2025, 11, 30, 1, 2, 3, tzinfo=UTC)


@pytest.mark.parametrize(
    ("unit", "number"),
    [("seconds", 10**9), ("milliseconds", 10**12), ("microseconds", 10**15), ("nanoseconds", 10**18)],
)
def test_number_is_a_moment_in_the_unit_that_the_project_names(tmp_path: Path, unit: str, number: int) -> None:
    feed = replace(FEED, delivery=Delivery(moments=unit))
    line = json.dumps({"insert": {"id": 1, "seen_at": number, "day": 19_000}})
    _, changes = decode(tmp_path, feed, line)
    assert changes[0]["seen_at"] == datetime(2001, 9, 9, 1, 46, 40, tzinfo=UTC)
    assert changes[0]["day"] == date(2022, 1, 8)
    reason = why_unfit(FEED, H0, line)
    assert reason is not None, "nobody guesses the unit"
    assert "source.moments" in reason


def test_nanoseconds_that_would_be_lost_reject_the_line(tmp_path: Path) -> None:
    feed = replace(FEED, delivery=Delivery(moments="nanoseconds"))
    result, _ = decode(
        tmp_path, feed, json.dumps({"insert": {"id": 1, "seen_at": 10**18 + 1}}), '{"insert": {"id": 2}}'
    )
    assert [number for number, *_ in result.rejected] == [1]


def test_record_of_debezium_says_which_format_reads_it() -> None:
    reason = why_unfit(FEED, H0, '{"before": null, "after": {"id": 1}, "op": "c"}')
    assert reason is not None
    assert "looks like one of Debezium" in reason


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    without_spark(monkeypatch)
    return load(tmp_path)


def update(number: int, **columns: Any) -> str:
    return json.dumps({"update": {"id": number, **columns}}) + "\n"


def test_update_changes_the_columns_that_it_names_and_keeps_the_others(shop: Shop) -> None:
    shop.put(H0, {1: "a", 2: "b"})
    shop.refresh(H0)
    shop.put(H1, update(1) + update(2, name="c") + '{"insert": {"id": 3, "name": "x"}}\n' + update(3))
    shop.refresh(H1)
    assert shop.rows() == {1: "a", 2: "c", 3: "x"}
    shop.put(H1, update(1, name=None) + update(2, name="d"))
    shop.restate(H1)
    assert shop.rows() == {1: None, 2: "d"}


def test_list_with_an_update_of_a_row_that_does_not_exist_is_rejected_whole(shop: Shop) -> None:
    shop.put(H0, {1: "a", 2: "b"})
    shop.refresh(H0)
    of_list = '[{"delete": {"id": 1}}, {"insert": {"id": 5, "name": "x"}}, {"update": {"id": 7, "name": "z"}}]\n'
    follows = '[{"insert": {"id": 8, "name": "h"}}, {"update": {"id": 8}}]\n'
    shop.put(H1, of_list + update(1) + follows)
    shop.refresh(H1)
    assert shop.rows() == {1: "a", 2: "b", 8: "h"}
    assert [rejected.raw.strip() for rejected in read_rejected(shop.lake, ORDERS, H1)] == [of_list.strip()]


def test_update_of_a_row_that_does_not_exist_goes_to_quarantine_with_its_line(shop: Shop) -> None:
    shop.put(H0, {1: "a", 2: "b"})
    shop.refresh(H0)
    shop.put(H1, '{"delete": {"id": 1}}\n' + update(1, name="x") + update(2, name="y"))
    shop.refresh(H1)
    assert shop.rows() == {2: "y"}
    (line,) = read_rejected(shop.lake, ORDERS, H1)
    assert (line.line_number, line.reason) == (2, "updates a row that does not exist")
    assert line.raw == update(1, name="x")


def test_hour_of_updates_is_decoded_alike_when_it_is_applied_again_later(shop: Shop) -> None:
    shop.put(H0, {1: "a", 2: "b"})
    shop.refresh(H0)
    shop.put(H1, update(1, name="x"))
    shop.refresh(H1)
    before = shop.rows()
    shop.restate(H1)
    assert shop.rows() == before == {1: "x", 2: "b"}


def test_hour_is_refused_when_no_line_is_a_record_and_the_message_says_what_was_expected(shop: Shop) -> None:
    shop.put(H0, '{"a": 1}\n')
    with pytest.raises(
        MedallionError, match="no line that is a record: line 1 is operation 'a'.*; format insert_delete has"
    ):
        shop.refresh(H0)
