"""Lines about erased persons: dropped or blanked as a file lands, and never again in the lake."""

import json
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any

import pytest

from medallion.errors import DamagedFile, UsageError
from medallion.ingest import ledger
from medallion.ingest.erased_lines import ErasedLines, LineCleaner
from medallion.ingest.erased_subjects import (
    PERSON,
    ErasedSubjects,
    Registered,
    parse_subjects,
    subject_text,
    subjects_in,
)
from medallion.ingest.landing import ToLand, changed_files, copy_change_files
from medallion.ingest.needles import Needles
from medallion.ingest.source import FolderSource
from medallion.inspect.person import Person
from medallion.model.table import Feed
from medallion.pipeline.erase_plan import Plan
from medallion.pipeline.erase_search import search
from medallion.storage import files
from medallion.storage.lake import Lake
from tests.shop import build

HOUR = "2025-11-30T00"
SCHEMA = "id BIGINT NOT NULL, user_id BIGINT, coupon STRING, total DECIMAL(9,2)"


def feed(**declared: Any) -> Feed:
    return Feed(keys=("id",), schema=SCHEMA, subject="user_id", name="bronze_orders", doc="One row per id.", **declared)


DELETED, BLANKED = feed(), feed(personal=("coupon",), erase="blank")


def cleaned(line: str, of: Feed = DELETED, *needles: str) -> str | None:
    return LineCleaner(of, lambda value: subject_text(value) == "42", Needles.of(needles)).clean_text(line)


@pytest.mark.parametrize(
    "line",
    [
        '{"insert": {"id": 1, "user_id": 42, "total": 1.10}}',
        '{"delete": {"id": 1, "USER_ID": "42"}}',
        '{"insert": {"id": 1, "USER_ID": 7, "user_id": 42}}',
        '{"insert": {"id": 1, "user_id": "+042"}}',
        '{"insert": {"id": 1, "user_id": 42, "user_id": 7}}',
        '{"insert": {"id": 1, "user\\u005fid": 42}}',
        '{"before": {"user_id": 42}, "after": {"user_id": 42}, "op": "u"}',
        '{"payload": {"before": null, "after": {"user_id": 42.0}, "op": "c"}}',
        '[{"insert": {"user_id": 42}}, {"delete": {"user_id": 42}}]',
        '{"insert": {"id": 1, "user_id": 42, "total": ',
        '{"insert": {"id": "x", "user_id": 420, "coupon": "someone@example.com"}}',
    ],
)
def test_line_about_an_erased_person_is_dropped_in_every_form(line: str) -> None:
    assert cleaned(line, DELETED, "someone@example.com") is None


@pytest.mark.parametrize(
    "line",
    [
        '{"insert": {"id": 42, "user_id": 420, "total": 42}}',
        '{"delete": {"id": 42}}',
        '{"insert": {"id": 1, "user_id": null}}',
        '{"insert": {"id": 1, "other_user_id": 42}}',
        "no JSON at all, 42",
    ],
)
def test_line_about_nobody_who_was_erased_stays_as_it_is(line: str) -> None:
    assert cleaned(line) == line


def test_line_is_blanked_and_keeps_every_digit_of_the_rest() -> None:
    line = '{"insert": {"id": 9007199254740993, "user_id": 42, "coupon": "ABC", "total": 12.10, "note": "Zürich"}}'
    assert (
        cleaned(line, BLANKED)
        == '{"insert": {"id": 9007199254740993, "user_id": null, "coupon": null, "total": 12.10, "note": "Zürich"}}\n'
    )


def test_row_that_went_over_to_somebody_else_loses_its_former_image_alone() -> None:
    line = '{"before": {"user_id": 42}, "after": {"user_id": 7}, "op": "u"}'
    assert json.loads(cleaned(line) or "") == {"before": None, "after": {"user_id": 7}, "op": "u"}
    both = '[{"insert": {"user_id": 42}}, {"insert": {"user_id": 7}}]'
    assert json.loads(cleaned(both) or "") == [{"insert": {"user_id": 7}}]


def remembered(lake: Lake, *values: Any) -> ErasedSubjects:
    register = Registered(lake)
    known = register.read_or_begin().with_erased({PERSON: values})
    register.write(known)
    return known


def test_digests_name_nobody_and_are_for_their_owner_alone(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path / "lake"))
    known = remembered(lake, "someone@example.com", 42)
    assert known.forbids(PERSON, 42)
    assert known.forbids(PERSON, "42")
    assert not known.forbids(PERSON, 43)
    assert not known.forbids("bronze_orders", 42)
    folder = tmp_path / "lake" / "ops" / "erasure"
    assert {file.name: file.stat().st_mode & 0o777 for file in folder.iterdir()} == {
        "key": 0o600,
        "subjects.json": 0o600,
    }
    assert "someone" not in (folder / "subjects.json").read_text()
    other = Lake(str(tmp_path / "other"))
    assert remembered(other, 42).digests.keys().isdisjoint(known.digests)  # each lake has a key of its own
    for name in ("key", "subjects.json"):
        content = (folder / name).read_bytes()
        (folder / name).unlink()
        with pytest.raises(DamagedFile, match=f"{name} is gone: without it no erased person is known again"):
            Registered(lake).read()
        (folder / name).write_bytes(content)
    assert Registered(lake).read() == known


def test_register_that_was_begun_and_not_finished_knows_nobody(tmp_path: Path) -> None:
    register = Registered(Lake(str(tmp_path)))
    register.read_or_begin()
    (tmp_path / "ops" / "erasure" / "key").unlink()  # it was killed before it wrote the key
    assert register.read() == ErasedSubjects()
    assert register.read_or_begin().key


def test_lifted_person_is_allowed_from_that_hour_on(tmp_path: Path) -> None:
    known = remembered(Lake(str(tmp_path)), 42).with_lifted([42], "2025-11-30T05")
    assert known.forbids(PERSON, 42, "2025-11-30T04")
    assert not known.forbids(PERSON, 42, "2025-11-30T05")
    with pytest.raises(UsageError, match="subject 2 was not erased"):
        known.with_lifted([42, 43], "2025-11-30T05")


def test_lines_of_a_file_are_subjects_without_its_byte_order_mark() -> None:
    assert subjects_in("\ufeff42\r\n\n 7 \n") == ["42", "7"]


def test_subject_of_the_wrong_type_is_refused_by_its_place_and_not_by_its_value() -> None:
    tables = build([DELETED])
    assert parse_subjects(tables, ["42", "42", "7"]) == ["42", "7"]
    with pytest.raises(UsageError, match=r"subject 2 is of no type .* bronze_orders has BIGINT") as refused:
        parse_subjects(tables, ["42", "someone@example.com"])
    assert "someone" not in str(refused.value)
    with pytest.raises(UsageError, match="declares no subject"):
        parse_subjects(build([Feed(keys=("id",), schema=SCHEMA, name="bronze_orders", doc="Rows.")]), ["42"])


def test_landed_file_has_no_line_of_an_erased_person_and_its_source_still_counts_as_unchanged(tmp_path: Path) -> None:
    lake, source = Lake(str(tmp_path / "lake")), FolderSource(str(tmp_path / "source"))
    remembered(lake, 42)
    file = tmp_path / "source" / "cdc" / "orders" / f"{HOUR}.json"
    file.parent.mkdir(parents=True)
    lines = [json.dumps({"insert": {"id": n, "user_id": user}}) for n, user in enumerate((7, 42, 8, 42))]
    file.write_text("\n".join(lines))
    names = {"orders": (f"cdc/orders/{HOUR}.json",)}
    forget = ErasedLines.of(lake, [DELETED], HOUR)
    manifest = copy_change_files(source, lake, HOUR, ToLand(names, forget=forget))
    landed = tmp_path / "lake" / "landing" / "orders" / f"{HOUR}.json"
    assert landed.read_text().split("\n") == [lines[0], "", lines[2], "", ""]
    assert forget.describe() == "2 lines of orders dropped, as they are about erased persons"
    assert ledger.read_manifest(lake, HOUR) == manifest
    assert not changed_files(source, names, manifest)
    file.write_text("\n".join(lines[:3]))
    assert changed_files(source, names, manifest) == ["orders"]


LINES = Feed(
    keys=("id",),
    schema="id BIGINT NOT NULL, order_id BIGINT",
    subject="order_id",
    subject_of="bronze_orders",
    name="bronze_lines",
    doc="Lines of orders.",
)


def test_name_that_landing_leaves_in_a_line_about_another_order_is_not_called_out_of_reach(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path / "lake"))
    plan = Plan("", "", ("42",), ("user_id",), hints=("John Smith",), keys={"bronze_orders": (9,)})
    landed = {topic: lake.landing / topic / f"{HOUR}.json" for topic in ("lines", "orders")}
    for place in landed.values():
        files.write_text(place, '{"insert": {"id": 1, "order_id": 8, "note": "as John Smith had it"}}')
    cleaner = LineCleaner(LINES, lambda value: str(value) == "9", hints=Needles.of(plan.hints))
    assert cleaner.clean_text(landed["lines"].read_text()) is not None
    assert search(lake, build([LINES, DELETED]), plan).beside == [landed["orders"]]


def test_lines_of_a_later_order_of_an_erased_person_are_dropped_with_it_and_in_later_hours(tmp_path: Path) -> None:
    lake, source = Lake(str(tmp_path / "lake")), FolderSource(str(tmp_path / "source"))
    remembered(lake, 42)

    def land(hour: str, **rows: list[dict[str, Any]]) -> str:
        for topic, own in rows.items():
            file = tmp_path / "source" / "cdc" / topic / f"{hour}.json"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("\n".join(json.dumps({"insert": row}) for row in own))
        names = {topic: (f"cdc/{topic}/{hour}.json",) for topic in rows}
        forget = ErasedLines.of(lake, [LINES, DELETED], hour)
        copy_change_files(source, lake, hour, ToLand(names, forget=forget))
        return forget.describe()

    of_theirs, of_another = {"id": 1, "order_id": 9}, {"id": 2, "order_id": 8}
    orders = [{"id": 9, "user_id": 42}, {"id": 8, "user_id": 7}]
    assert land(HOUR, lines=[of_theirs, of_another], orders=orders) == (
        "1 line of lines dropped, 1 line of orders dropped, as they are about erased persons"
    )
    assert land("2025-11-30T09", lines=[of_theirs, of_another]) == (
        "1 line of lines dropped, as they are about erased persons"
    )


def test_texts_name_different_persons_where_numbers_would_be_equal() -> None:
    people = Feed(keys=("id",), schema="id STRING NOT NULL", subject="id", name="bronze_people", doc="One row per id.")
    assert parse_subjects(build([people]), ["4.0", "042"]) == ["4.0", "042"]
    assert parse_subjects(build([DELETED]), ["042", "-0"]) == ["42", "0"]
    cleaner = LineCleaner(people, lambda value: subject_text(value) == "4")
    assert cleaner.clean_text('{"insert": {"id": "4.0"}}') is not None
    assert cleaner.clean_text('{"insert": {"id": "4"}}') is None


@pytest.mark.parametrize("text", ["Anna M\u00fcller", 'O"Brien', "Anna (Ann) B.", "\U0001f600 smile"])
def test_needle_is_found_in_json_with_escapes(text: str) -> None:
    person = Person(frozenset(), frozenset({"user_id"}), Needles.of([text]))
    for nested in (json.dumps({"name": text}), json.dumps(json.dumps({"name": text}))):
        assert person.is_in(nested)
        assert not person.is_in(nested.replace("nn", "nnn").replace("Br", "br").replace("smile", "smiles"))


@pytest.mark.parametrize("subject", ["a b", 'q"t', "ANNA, X", "M\u00fcller", "4.0"])
def test_subject_of_several_words_is_found_after_its_column(subject: str) -> None:
    person = Person(frozenset({subject}), frozenset({"user_id"}))
    assert person.is_in(json.dumps({"user_id": subject}))
    assert not person.is_in(json.dumps({"user_id": f"{subject}x"}))
    assert not person.is_in(json.dumps({"other": subject}))


def seconds_without_a_find(search: Callable[[Any], bool], content: str | bytes) -> float:
    """CPU seconds of some searches, after one that prepares."""
    assert not search(content)
    began = process_time()
    for _ in range(5):
        search(content)
    return process_time() - began


def test_thousands_of_texts_of_several_words_cost_no_more_than_one() -> None:
    names = ("Anna", "Bert", "Carl", "Dora", "Emil", "Fritz", "Gerd", "Hanna")
    needles = Needles.of([f"{names[number % 8]} Person {number}" for number in range(8_000)])
    text = '{"name": "Ulla Someone", "email": "x@y.z"}' * 1_000
    one = Needles.of(["Fritz Person 77"])
    assert seconds_without_a_find(needles.are_in, text) < 5 * seconds_without_a_find(one.are_in, text)
    assert needles.are_in(f"{text} Fritz Person 77.")
    assert not needles.are_in("Fritz Person 77x, Ofritz Person 77")


def test_thousands_of_texts_are_found_in_bytes_in_the_time_of_one() -> None:
    needles = Needles.of([f"person{number}@example.com" for number in range(20_000)] + ["Müller"])
    content = bytes(range(256)) * 1_000
    one = Needles.of(["person77@example.com"])
    assert seconds_without_a_find(needles.are_in_bytes, content) < 5 * seconds_without_a_find(one.are_in_bytes, content)
    assert needles.are_in_bytes(content + b"person77@example.com" + content)
    assert needles.are_in_bytes("xMüllerx".encode())
    assert not needles.are_in_bytes(b"person20000@example.com, person7")
