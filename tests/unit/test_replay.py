"""Lines in quarantine are replayed in their old place, or it is said why not; landed files are what they were."""

import json

import pytest

from medallion.errors import MedallionError, UsageError
from medallion.ingest import quarantine
from medallion.pipeline import difference, operations
from medallion.pipeline.run import Run
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


def test_mended_lines_of_a_file_that_changed_later_are_reported_when_their_hour_is_restated(shop: Shop) -> None:
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
