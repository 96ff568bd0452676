"""Nothing is published but what a check of every layer has passed, at exactly the versions that it read."""

from dataclasses import replace
from datetime import UTC, datetime
from math import inf
from pathlib import Path
from unittest.mock import patch

import pytest
from deltalake import DeltaTable, write_deltalake

from medallion.checks.result import CheckResult, ExpectationResult, TableResult
from medallion.checks.volumes import ROW_COUNT_IN_HISTORY, DropRule, RowCountRule, extend_history
from medallion.errors import CheckFailed, MedallionError
from medallion.expect.vocabulary import in_set
from medallion.model.dropped_rows import split_dropped_rows
from medallion.model.table import Drop, Table
from medallion.ops import event_log, releases
from medallion.ops.check_records import CheckedTable, History, read_check_record
from medallion.ops.event_log import EventLog
from medallion.storage.delta_writes import properties
from medallion.storage.lake import table_id
from medallion.storage.log_entries import identity_at
from tests.unit.small_lake import ARROW, H0, H1, Shop, load, without_spark

UP_TO_GOLD = (("land", None), ("apply", None), ("refresh", "silver"), ("refresh", "gold"))


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """A shop with one published hour of two rows, and a second hour that waits at its source."""
    without_spark(monkeypatch)
    made = load(tmp_path)
    made.put(H0, {0: "a", 1: "b"})
    made.put(H0, {0: "x"}, "items")
    made.refresh(H0)
    made.put(H1, {2: "c"})
    return made


def work(shop: Shop, *, checked: tuple[str, ...] = ("bronze", "silver", "gold")) -> None:
    """The second hour, step by step, up to the checks of these layers."""
    for name, layer in UP_TO_GOLD:
        shop.step(name, H1, layer)
    for layer in checked:
        shop.step("check", H1, layer)


def empty(shop: Shop, table: str) -> None:
    """Take all rows out of a table, as if its refresh had made none from the same inputs."""
    path = shop.lake.path(table)
    delta = DeltaTable(path)
    commit = properties(delta.history(1)[0]["userMetadata"], upon=delta)
    write_deltalake(delta, ARROW.empty_table(), mode="overwrite", commit_properties=commit)


def hours(shop: Shop) -> list[str | None]:
    return [release.hour for release in releases.read_all(shop.lake)]


def test_an_hour_that_every_check_passed_is_published_with_its_row_counts(shop: Shop) -> None:
    work(shop)
    assert shop.step("publish", H1).status == "succeeded"
    release = releases.require_release(shop.lake, None)
    assert dict(release.row_counts) == {"bronze_items": 1, "bronze_orders": 3, "gold_orders": 3, "silver_orders": 3}


@pytest.mark.parametrize("left_out", ["bronze", "silver", "gold"])
def test_a_layer_that_was_not_checked_at_these_versions_is_not_published(shop: Shop, left_out: str) -> None:
    work(shop, checked=tuple(layer for layer in ("bronze", "silver", "gold") if layer != left_out))
    with pytest.raises(CheckFailed, match=rf"the {left_out} layer was checked with version \d+ of {left_out}_\w+"):
        shop.step("publish", H1)
    assert hours(shop) == [None, H0]
    shop.step("check", H1, left_out)
    shop.step("publish", H1)
    assert hours(shop) == [None, H0, H1]


def test_a_layer_without_any_check_is_not_published(shop: Shop) -> None:
    work(shop)
    (Path(shop.lake.root) / "ops/checks/silver.json").unlink()
    with pytest.raises(CheckFailed, match="the silver layer has not been checked: nothing is published"):
        shop.step("publish", H1)


def test_after_a_failed_check_publish_fails_and_readers_keep_the_last_release(shop: Shop) -> None:
    work(shop)
    empty(shop, "gold_orders")
    with pytest.raises(CheckFailed):
        shop.step("check", H1, "gold")
    with pytest.raises(CheckFailed, match="the last gold check failed: gold_orders: .*: nothing is published; see "):
        shop.step("publish", H1)
    assert (hours(shop), shop.published()) == ([None, H0], {0: "a", 1: "b"})


def test_what_was_written_after_the_check_is_not_published(shop: Shop) -> None:
    work(shop)
    empty(shop, "gold_orders")
    with pytest.raises(
        CheckFailed, match="the gold layer was checked with version 2 of gold_orders, which is at 3 now"
    ):
        shop.step("publish", H1)


def test_a_table_rebuilt_after_the_check_is_not_published(shop: Shop) -> None:
    work(shop)
    path, version = shop.lake.path("bronze_items"), shop.lake.version("bronze_items")
    former = DeltaTable(path).to_pyarrow_table()
    shop.lake.move_damaged_table("bronze_items")
    for _ in range((version or 0) + 1):
        write_deltalake(path, former, mode="overwrite")
    with pytest.raises(MedallionError, match="nothing is published|Bronze is at"):
        shop.step("publish", H1)
    assert hours(shop) == [None, H0]


def test_files_merged_after_the_check_are_published_as_they_were_checked(shop: Shop) -> None:
    work(shop)
    record = read_check_record(shop.lake, "bronze")
    assert record is not None
    DeltaTable(shop.lake.path("bronze_orders")).optimize.compact()
    assert shop.lake.version("bronze_orders") == record.tables["bronze_orders"].version + 1
    shop.step("publish", H1)
    assert releases.require_release(shop.lake, None).versions["bronze_orders"] == record.tables["bronze_orders"].version


def test_a_check_records_what_it_read_though_the_event_log_cannot_be_written(shop: Shop) -> None:
    work(shop, checked=())
    with patch.object(EventLog, "flush", lambda *_: None), patch.object(EventLog, "write_waiting", lambda *_: None):
        for layer in ("bronze", "silver", "gold"):
            shop.step("check", H1, layer)
    record = read_check_record(shop.lake, "gold")
    assert record is not None
    assert (record.hour, record.status) == (H1, "succeeded")
    assert record.history["gold_orders"][ROW_COUNT_IN_HISTORY] == {H0: 2, H1: 3}, "what the next check compares with"
    gold = DeltaTable(shop.lake.path("gold_orders"))
    commit = identity_at(shop.lake.folder("gold_orders"), gold.version())
    assert record.tables["gold_orders"] == CheckedTable(gold.version(), table_id(gold), 3, commit)
    shop.step("publish", H1)
    assert hours(shop) == [None, H0, H1]


# -- row counts


RULES = {
    "plain": RowCountRule(before=2_000, release_id=5, max_change=0.5, may_be_empty=False),
    "free": RowCountRule(before=2_000, release_id=5, max_change=inf, may_be_empty=True),
    "small": RowCountRule(before=100, release_id=5, max_change=0.5, may_be_empty=False),
    "alerts": RowCountRule(before=100, release_id=5, max_change=0.5, may_be_empty=True),
    "was empty": RowCountRule(before=0, release_id=5, max_change=0.5, may_be_empty=False),
}


@pytest.mark.parametrize(
    ("table", "rows", "broken"),
    [
        ("plain", 2_000, []),
        ("plain", 3_000, []),
        ("plain", 3_001, ["warned"]),
        ("plain", 20_000, ["warned"]),
        ("plain", 999, ["warned"]),
        ("plain", 0, ["warned", "failed"]),
        ("free", 0, []),
        ("free", 20_000, []),
        ("small", 600, []),
        ("small", 601, ["warned"]),
        ("small", 50, []),
        ("small", 49, ["warned"]),
        ("small", 0, ["warned", "failed"]),
        ("alerts", 1, []),
        ("alerts", 0, []),
        ("alerts", 601, ["warned"]),
        ("was empty", 0, []),
        ("was empty", 9_000, []),
    ],
)
def test_a_row_count_is_judged_against_the_last_release(table: str, rows: int, broken: list[str]) -> None:
    assert [result.status for result in RULES[table].judge(rows) if not result.success] == broken


GROWING = tuple(10_000 + 1_000 * hour for hour in range(8))


@pytest.mark.parametrize(
    ("history", "rows", "status"),
    [
        (GROWING, 18_100, "succeeded"),
        (GROWING, 19_000, "warned"),
        (GROWING[-6:], 19_000, "succeeded"),
        ((100, 101, 102, 103, 104, 105, 106, 107), 600, "succeeded"),
        ((200,) * 8, 0, "warned"),
        ((200,) * 8, 20, "warned"),
        ((200,) * 8, 150, "succeeded"),
    ],
    ids=["as usual", "jump", "short history", "few rows", "emptied", "nearly emptied", "a quarter lost"],
)
def test_a_row_count_warns_when_it_jumps_from_its_own_history(
    history: tuple[float, ...], rows: int, status: str
) -> None:
    before = int(history[-1])
    rule = RowCountRule(before, release_id=5, max_change=0.5, may_be_empty=False, history=history)
    found = rule.judge(rows)[0]
    assert (found.status, found.measure) == (status, rows)
    assert ("were expected from its history" in found.observed) == (status == "warned")
    assert ("not compared" in found.observed) == (len(history) < 7)


def test_history_of_a_table_outlives_a_check_that_cannot_read_it_and_ends_where_hours_are_undone() -> None:
    growth, unread = (
        ExpectationResult(meaning, "", "warning", success=True, observed="", measure=measure)
        for meaning, measure in ((ROW_COUNT_IN_HISTORY, 3.0), ("not null", None))
    )

    def after(history: History, hour: str | None, *found: ExpectationResult) -> History:
        table = TableResult("silver_x", 1, 3, 0.1, found)
        return extend_history(history, CheckResult("silver", "", "r", 1, datetime.now(UTC), 1, 1, {}, (table,)), hour)

    known = after(after({}, None, growth), H0, growth)
    assert known == {"silver_x": {ROW_COUNT_IN_HISTORY: {"": 3.0, H0: 3.0}}}
    assert after(known, H1, unread) == after(known, H1) == known
    assert after(after(known, H1, growth), H0) == {"silver_x": {ROW_COUNT_IN_HISTORY: {"": 3.0}}}
    assert after({}, H0, unread) == {}


EVEN = (0.010, 0.0101, 0.0099, 0.010, 0.0102, 0.010)


@pytest.mark.parametrize(
    ("history", "max_share", "dropped", "found"),
    [
        ((), None, 300, "300 dropped (30.0 % of silver_x)"),
        (EVEN, None, 10, "10 dropped (1.0 % of silver_x)"),
        (EVEN, None, 50, "50 dropped (5.0 % of silver_x), a jump from the usual 1.0 %"),
        (EVEN, 0.06, 50, "50 dropped (5.0 % of silver_x)"),
        ((), 0.02, 50, "50 dropped (5.0 % of silver_x), more than the declared 2 %"),
        ((), None, 0, "0 dropped (0.0 % of silver_x)"),
    ],
)
def test_dropped_rows_warn_only_when_their_share_jumps_or_passes_its_bound(
    history: tuple[float, ...], max_share: float | None, dropped: int, found: str
) -> None:
    rule = DropRule("silver_x", Drop("id is never null", max_share), history)
    result = rule.judge(dropped, 1000 - dropped)
    assert result.observed == found
    assert result.status == ("succeeded" if found.endswith(")") else "warned")


def test_an_emptied_table_says_what_it_had_and_how_to_allow_it() -> None:
    result = RULES["small"].judge(0)[-1]
    assert result.observed == "0 rows, 100 in release 5: all are gone"
    assert "may_be_empty=True" in result.meaning


def test_an_hour_that_deletes_every_row_fails_and_names_the_lines_of_its_file(shop: Shop) -> None:
    shop.put(
        H1, '{"insert": {"id": 2, "name": "c"}}\n' + "".join(f'{{"delete": {{"id": {key}}}}}\n' for key in (2, 0, 1))
    )
    shop.step("land", H1)
    shop.step("apply", H1)
    with pytest.raises(CheckFailed, match="0 rows, 2 in release 2: all are gone") as failed:
        shop.step("check", H1, "bronze")
    file = f"orders/{H1}.json"
    assert file in str(failed.value)
    assert file not in failed.value.without_data, "an alert leaves the shop"
    (event,) = (row for row in event_log.read(shop.lake, hour=H1, event_type="check") if row.table_name is None)
    assert file in event.details["note"]


def test_a_quarantine_table_may_be_empty() -> None:
    drop = in_set("id", ("a",), severity="drop")
    kept, dropped = split_dropped_rows(Table(keys=("id",), query="SELECT 1 AS id", expect=(drop,), name="silver_x"))
    assert (kept.may_be_empty, dropped.may_be_empty, dropped.max_row_change) == (False, True, inf)


def test_rows_of_a_release_from_before_they_were_recorded_are_read_from_its_tables(shop: Shop) -> None:
    release = replace(releases.require_release(shop.lake, None), row_counts={})
    assert releases.row_counts_of(shop.lake, release, ["gold_orders", "gold_gone"]) == {"gold_orders": 2}
