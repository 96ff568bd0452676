"""Lines in quarantine are replayed in their old place, or it is said why not; landed files are what they were."""

import json
from typing import Any

import pytest

from medallion.errors import HourOutOfOrder, MedallionError, UsageError
from medallion.ingest import apply, quarantine
from medallion.ingest.landing import decode_hour
from medallion.inspect.status import lake_status
from medallion.model.table import Feed
from medallion.pipeline import difference, operations
from medallion.pipeline.run import Run
from medallion.storage.lake import Lake
from tests.unit.small_lake import H0, H1, TABLES, Shop, lines_of

ORDERS = quarantine.feed_of(TABLES.feeds, "orders")
BAD = '{"insert": {"id": "seven", "name": "x"}}\n'
MENDED = '{"insert": {"id": 7, "name": "mended"}}'
MANY = dict.fromkeys(range(100, 300), "x")  # so that one bad line is few enough


def with_bad_line(shop: Shop) -> None:
    """Refresh two hours; the second line of the first has an id that is no number."""
    shop.put(H0, lines_of({1: "a"}) + BAD + lines_of(MANY))
    shop.refresh()
    shop.put(H1, {2: "b"})
    shop.refresh()


def replay(shop: Shop, said: list[str] | None = None) -> None:
    operations.replay(Run(shop.settings, H0, "replay"), shop.driver(said), "orders", {2: MENDED})


def test_corrected_line_is_applied_at_its_old_place(shop: Shop) -> None:
    with_bad_line(shop)
    replay(shop)
    assert shop.published()[7] == "mended"
    assert quarantine.read_rejected(shop.lake, ORDERS) == []


def test_a_replay_is_refused_when_the_source_has_changed_the_file(shop: Shop) -> None:
    with_bad_line(shop)
    shop.put(H0, lines_of({3: "new"}) + lines_of({1: "a"}) + BAD + lines_of(MANY))
    with pytest.raises(MedallionError, match=f"orders/{H0}.json has changed at the source") as refusal:
        replay(shop)
    assert f"medallion refresh --restate {H0}" in str(refusal.value)
    assert shop.applied == H1, "nothing was taken back"
    shop.restate(H0)
    (line,) = quarantine.read_rejected(shop.lake, ORDERS)
    assert line.line_number == 3, "as the new file has it"


def test_corrected_lines_of_a_file_that_changed_later_are_reported_when_their_hour_is_restated(shop: Shop) -> None:
    with_bad_line(shop)
    replay(shop)
    shop.put(H0, lines_of({3: "new"}) + BAD + lines_of(MANY))
    said: list[str] = []
    shop.restate(H0, said)
    assert any(f"1 corrected lines of orders/{H0}.json are left out" in s for s in said)
    assert len(quarantine.read_rejected(shop.lake, ORDERS)) == 1


def test_a_landed_file_of_the_same_size_and_another_content_is_not_applied(shop: Shop) -> None:
    shop.put(H0, {1: "a"})
    shop.step("land", H0)
    file = shop.lake.landing / "orders" / f"{H0}.json"
    file.write_text(file.read_text().replace('"a"', '"b"'))
    with pytest.raises(MedallionError, match=f"run medallion step land --hour {H0} again"):
        shop.step("apply", H0)
    assert shop.applied is None
    shop.step("land", H0)
    shop.step("apply", H0)
    assert shop.rows() == {1: "a"}


def test_a_restatement_does_not_compare_large_tables_and_names_the_command(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_bad_line(shop)
    monkeypatch.setattr(difference, "DIFF_MAX_ROWS", 100)
    said: list[str] = []
    shop.put(H0, lines_of({3: "new"}) + lines_of(MANY))
    shop.restate(H0, said)
    (sentence,) = [line for line in said if line.startswith("not compared, being large or rebuilt since: ")]
    assert "bronze_orders, silver_orders, gold_orders; run medallion release diff 3 4 --table NAME" in sentence
    said.clear()
    monkeypatch.setattr(difference, "DIFF_MAX_ROWS", 1000)
    shop.put(H0, lines_of({3: "newer"}) + lines_of(MANY))
    shop.restate(H0, said)
    assert "gold_orders: 0 added, 0 removed, 1 changed" in said


def test_replay_changes_nothing_when_lines_are_not_in_quarantine(shop: Shop) -> None:
    shop.put(H0, {1: "a"})
    shop.refresh()
    with pytest.raises(UsageError, match="quarantine has no line of orders"):
        replay(shop)
    assert json.loads(MENDED)["insert"]["id"] == 7


def test_rejected_line_stays_in_quarantine_when_its_applied_hour_is_applied_again(shop: Shop) -> None:
    with_bad_line(shop)
    quarantine.record_corrections(shop.lake, ORDERS, H0, {2: MENDED})  # its replay ended before Bronze was rewound
    shop.step("apply", H0)
    assert 7 not in shop.rows()
    assert [line.line_number for line in quarantine.read_rejected(shop.lake, ORDERS)] == [2]


def test_rejected_line_is_quarantined_when_a_crash_left_its_table_behind_another(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.put(H0, lines_of({1: "a"}) + BAD + lines_of(MANY))
    shop.put(H0, lines_of({1: "a"}) + BAD + lines_of(MANY), "items")
    real = apply.apply_feed

    def apply_items_alone(sessions: Any, lake: Lake, feed: Feed, *rest: Any) -> Any:
        if feed.topic == "orders":
            raise MedallionError("killed")
        return real(sessions, lake, feed, *rest)

    shop.step("land", H0)
    with monkeypatch.context() as killed:
        killed.setattr(apply, "apply_feed", apply_items_alone)
        with pytest.raises(MedallionError, match="killed"):
            shop.step("apply", H0)
    for feed in TABLES.feeds:
        quarantine.record_corrections(shop.lake, feed, H0, {2: MENDED})
    shop.step("apply", H0)
    assert (shop.rows()[7], quarantine.read_rejected(shop.lake, ORDERS)) == ("mended", [])
    items = quarantine.feed_of(TABLES.feeds, "items")
    assert 7 not in shop.rows("bronze_items")
    assert [line.line_number for line in quarantine.read_rejected(shop.lake, items)] == [2]


@pytest.mark.parametrize(("bad_lines", "is_refused"), [(1, False), (2, True)])
def test_hour_is_refused_when_more_than_one_line_of_a_small_file_is_bad(
    shop: Shop, bad_lines: int, is_refused: bool
) -> None:
    shop.put(H0, lines_of({1: "a"}) + BAD * bad_lines)
    shop.step("land", H0)
    if is_refused:
        with pytest.raises(MedallionError, match="2 of 3 lines are bad, more than the 1.0% of MEDALLION_MAX_BAD_LINES"):
            shop.step("apply", H0)
    else:
        shop.step("apply", H0)
    assert shop.rows() == ({} if is_refused else {1: "a"})
    assert len(quarantine.read_rejected(shop.lake, ORDERS)) == (not is_refused)


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        ("<html><body><h1>503 Slow Down</h1></body></html>\n", "an HTML or XML page"),
        ('<?xml version="1.0"?>\n<Error><Code>AccessDenied</Code></Error>\n', "an HTML or XML page"),
        ('[{"id": 1}, {"id": 2}]\n', "one JSON array"),
        ('{"insert": {"id": 1}}{"insert": {"id": 2}}\n', "JSON whose records have '' between them"),
        ("oops\n" * 2, "has no line that is a record: line 1 is not JSON"),
        ("null\nnull\n", "has no line that is a record: line 1 is not an object with either insert or delete"),
        ("503\n", "has no line that is a record: line 1 is not an object with either insert or delete"),
        ('{"upsert": {"id": 1}}\n', "has no line that is a record: line 1 is operation 'upsert'"),
    ],
)
def test_hour_is_refused_when_no_line_of_a_file_is_a_record(shop: Shop, content: str, kind: str) -> None:
    shop.put(H0, content)
    shop.put(H0, {1: "a"}, "items")
    with pytest.raises(MedallionError, match=f"orders of {H0} is refused: .*/orders/{H0}.json ") as refused:
        shop.refresh(H0)
    assert kind in str(refused.value)
    assert (shop.applied, shop.rows("bronze_items")) == (None, {})
    (problem,) = [line for line in lake_status(shop.settings).problems if H0 in line]
    assert kind in problem
    shop.put(H0, {1: "a"})
    shop.refresh(H0)
    assert shop.published() == {1: "a"}
    assert not [line for line in lake_status(shop.settings).problems if H0 in line]


def test_hour_is_refused_when_the_only_line_of_a_file_is_bad(shop: Shop) -> None:
    shop.put(H0, '{"insert": {"id": null}}\n')
    shop.step("land", H0)
    with pytest.raises(MedallionError, match="1 of 1 lines are bad"):
        shop.step("apply", H0)
    assert shop.applied is None


@pytest.mark.parametrize("name", [f"{H0}.json.gz", f"{H0}.JSON", f"{H0}/part-0.json"])
def test_hour_is_refused_when_a_file_of_its_name_is_not_understood(shop: Shop, name: str) -> None:
    shop.put(H0, {1: "a"}, "items")
    shop.put(H1, {2: "b"})
    stray = shop.root / "source" / "cdc" / "orders" / name
    stray.parent.mkdir(parents=True, exist_ok=True)
    stray.write_bytes(b"whatever")
    for hour in (None, H0):
        with pytest.raises(MedallionError, match=f"hour {H0} is refused: 'cdc/orders/{name}' at the source"):
            shop.refresh(hour)
    with pytest.raises(HourOutOfOrder):
        shop.refresh(H1)
    assert any("is refused" in line for line in lake_status(shop.settings).problems)
    stray.unlink()
    shop.refresh()
    assert shop.rows("bronze_items") == {1: "a"}
    assert not [line for line in lake_status(shop.settings).problems if "is refused" in line]
    stray.write_bytes(b"whatever")
    shop.refresh(H1)
    assert shop.published() == {2: "b"}, "an hour that is applied keeps no other back"
    with pytest.raises(MedallionError, match="is refused"):
        shop.restate(H0)
    assert shop.published() == {2: "b"}


def test_hour_is_refused_for_one_bad_line_where_none_is_allowed(shop: Shop) -> None:
    shop.put(H0, lines_of({1: "a"}) + BAD)
    shop.step("land", H0)
    with pytest.raises(MedallionError, match="1 of 2 lines are bad"):
        decode_hour(shop.lake, shop.tables.feeds, H0, max_bad_lines=0.0)
