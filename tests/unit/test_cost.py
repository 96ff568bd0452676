"""When recomputing a table is cheaper than touching what changed, going by the event log."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from medallion.model.methods import ByKey
from medallion.ops.event_schema import EventRow
from medallion.refresh import by_key
from medallion.refresh.cost import BEFORE_RETRY, MIN_SAMPLES, RETRY_SPREAD, TRIAL_SPREAD, Costs, costs_of
from medallion.refresh.plan import FullRecompute, Refresh
from medallion.storage.lake import state_of


def row(
    strategy: str,
    seconds: float,
    changed: int | None = None,
    table: str | None = "gold_x",
    hour: str | None = "2026-01-01T00",
    status: str = "succeeded",
    **details: object,
) -> EventRow:
    details |= {} if changed is None else {"changed": changed}
    at = {"table_name": table, "hour": hour}
    return EventRow.of({**at, "status": status, "strategy": strategy, "seconds": seconds, "details": details})


def load(seconds: float) -> EventRow:
    return row("full", seconds, hour=None)


def known(*rows: EventRow) -> Costs:
    return costs_of(rows)["gold_x"]


GROWING = [row("incremental", 1 + size, size * 1_000_000) for size in (1, 2, 4)]


def test_what_is_expected_grows_with_the_change() -> None:
    costs = known(*GROWING)
    assert round(costs.predict_seconds(3_000_000), 6) == 4
    assert round(costs.predict_seconds(20_000_000), 6) == 21
    assert costs.predict_seconds(0) == 2, "but less than any known refresh is not expected"


def test_prediction_grows_at_most_with_the_size_when_known_sizes_lie_close_together() -> None:
    close = [row("incremental", seconds, size) for seconds, size in ((5.0, 1_000), (6.0, 1_001), (12.0, 1_002))]
    assert known(*close).predict_seconds(1_503) == 18
    assert known(*close).predict_seconds(900) == 5


def test_a_large_change_is_recomputed_and_the_reason_has_both_figures() -> None:
    costs = known(load(30.0), row("full", 10.0), *GROWING)
    assert costs.reason_to_recompute(5_000_000, "a change") is None
    assert costs.reason_to_recompute(9_900_000, "a change") is None, "10.9 seconds against 10 are within the margin"
    assert costs.reason_to_recompute(20_000_000, "a change") == (
        "a change would take about 21.0 s, a full recompute 10.0 s (from the last 3 incremental and 1 full refreshes)"
    )


def test_a_full_recompute_that_is_known_from_the_load_alone_is_tried_once() -> None:
    """The load runs on a cold Spark, so what it took says little of what an hour would take."""
    due = [*GROWING, *[GROWING[0]] * (TRIAL_SPREAD - 1)]  # all tables have had their turn
    assert known(load(8.1), *due).reason_to_try_full(1, "a change") is None, "one took less than a quarter"
    reason = known(load(7.9), *due).reason_to_try_full(1, "a change")
    assert reason is not None and reason.endswith("a full recompute is tried once")
    assert known(load(7.9), *due, row("full", 7.0)).reason_to_try_full(1, "a change") is None
    assert known(load(7.9), *due, row("full", 1.0)).reason_to_recompute(1, "a change") is not None
    assert known(row("full", 7.0), *due).reason_to_try_full(1, "a change") is None, "the load was long ago"
    assert known(*due).reason_to_try_full(1, "a change") is None


def test_nothing_is_tried_after_a_failed_refresh() -> None:
    """The hour has to end first, and incremental refreshes are known to do it."""
    due = [load(7.9), *GROWING, *[GROWING[0]] * (TRIAL_SPREAD - 1)]
    own, of_layer = row("full", 1.0, status="failed"), row("full", 1.0, status="failed", table=None)
    for failed in (own, of_layer):
        assert known(*due, failed).reason_to_try_full(1, "a change") is None
        assert known(*due, failed, GROWING[0]).reason_to_try_full(1, "a change") is not None
    assert known(*due, row("full", 1.0, status="failed", table="gold_y")).reason_to_try_full(1, "a change") is not None


def test_a_full_recompute_that_was_tried_and_failed_is_tried_again_a_day_later() -> None:
    due = [load(7.9), *GROWING, *[GROWING[0]] * (TRIAL_SPREAD - 1)]
    failed = row("incremental", 3.0, 1_000_000, status="warned", full_failed=True)
    day = [row("incremental", 2.0, 1_000_000)] * known(*due).retry_after
    assert known(*due, failed).reason_to_try_full(1, "") is None
    assert known(*due, failed, *day[1:]).reason_to_try_full(1, "") is None
    assert known(*due, failed, *day).reason_to_try_full(1, "") is not None


def test_a_full_recompute_that_failed_is_no_price_of_full() -> None:
    """An hour that was recomputed for its cost, and failed, would be recomputed again each time it is tried."""
    cheap, dear = row("full", 1.0), row("incremental", 8.0, 1_000_000)
    failed = row("incremental", 9.0, 1_000_000, status="warned", full_failed=True)
    assert known(cheap, dear, dear, dear).reason_to_recompute(1_000_000, "a change") is not None
    costs = known(cheap, dear, dear, dear, failed)
    assert (costs.full, costs.reason_to_recompute(1_000_000, "a change")) == ((1.0,), None)
    assert known(load(1.0), dear, dear, dear, failed).reason_to_recompute(1_000_000, "a change") is None
    day = [dear] * costs.retry_after
    assert known(cheap, dear, failed, *day).reason_to_recompute(1_000_000, "a change") is not None
    assert known(cheap, dear, dear, dear, failed, cheap).reason_to_recompute(1_000_000, "a change") is not None


def test_tables_try_full_in_different_hours() -> None:
    """One hour would cost more than full if all tables were recomputed after it is known what changed in each."""
    tried: dict[int, int] = {}
    for table in (f"gold_{number}" for number in range(100)):
        hours = [row("incremental", 2.0, 1_000_000, table=table)]
        while costs_of([row("full", 7.9, table=table, hour=None), *hours])[table].reason_to_try_full(1, "") is None:
            hours += hours[:1]
        tried[len(hours)] = tried.get(len(hours), 0) + 1
    assert set(tried) == set(range(MIN_SAMPLES, MIN_SAMPLES + TRIAL_SPREAD)) and max(tried.values()) < 50
    assert {Costs(f"gold_{number}").retry_after for number in range(100)} == {
        *range(BEFORE_RETRY, BEFORE_RETRY + RETRY_SPREAD)
    }


def test_change_far_larger_than_any_known_one_is_judged_by_its_share_of_the_inputs() -> None:
    usual = [row("incremental", seconds, size) for seconds, size in ((3.0, 50), (3.4, 52), (3.9, 55))]
    costs = known(row("full", 10.0), *usual)
    assert costs.reason_to_recompute(30_000, "a change", 30_000 / 600_000) is None
    assert costs.reason_to_recompute(300_000, "a change", 300_000 / 600_000) is not None
    dear = known(row("full", 2.0), *usual)
    assert dear.reason_to_recompute(30_000, "a change", 30_000 / 600_000) is not None, "small ones were dearer already"


def test_changes_of_one_size_are_expected_to_take_what_they_took() -> None:
    same = [row("incremental", seconds, 1_000_000) for seconds in (30.0, 5.0, 6.0)]
    assert known(row("full", 5.6), *same).reason_to_recompute(1_000_000, "a change") is None, (
        "the first one had a cold driver"
    )
    assert known(row("full", 2.0), *same).reason_to_recompute(1_000_000, "a change") is not None


def test_nothing_is_given_up_before_it_is_known() -> None:
    assert Costs("gold_x").reason_to_recompute(10**12, "a change") is None
    assert known(row("full", 0.1), *GROWING[:2]).reason_to_recompute(10**12, "a change") is None
    assert known(*GROWING).reason_to_recompute(10**12, "a change") is None


def test_after_a_day_in_full_incremental_is_tried_again() -> None:
    rows = [*GROWING, *[row("full", 0.1)] * (BEFORE_RETRY - 1)]
    assert known(*rows).reason_to_recompute(1, "a change") is not None
    day = [*rows, row("full", 0.1)]
    assert known(*day).reason_to_recompute(1, "a change") is None


@pytest.mark.parametrize("state", [{}, {"state": "state rebuilt"}])
def test_a_retry_of_incremental_is_judged_by_the_refresh_after_the_one_that_catches_up(state: dict[str, Any]) -> None:
    day = [*GROWING, *[row("full", 1.0)] * BEFORE_RETRY, row("incremental", 9.0, 1, **state)]
    assert known(*day).reason_to_recompute(1, "a change") is None, "it had to follow a day of changes"
    assert known(*day, row("incremental", 5.0, 1)).reason_to_recompute(1, "a change") is not None
    steady = [*day, row("incremental", 0.1, 1)]
    assert known(*steady).reason_to_recompute(1, "a change") is None, "what it took a day ago counts no more"


def test_a_full_recompute_that_warned_counts_too() -> None:
    """For example of a table with a feature that somebody switched on."""
    due = [load(7.9), *GROWING, *[GROWING[0]] * (TRIAL_SPREAD - 1)]
    assert known(*due, row("full", 3.0, status="warned")).reason_to_try_full(1, "a change") is None


def test_refreshes_by_another_method_are_not_compared() -> None:
    """One counts bytes, the other values of a key."""
    by_bytes = [row("incremental", 9.0, size, method="incremental aggregate") for size in (10**6, 2 * 10**6, 3 * 10**6)]
    by_key = row("incremental", 5.0, 1_000, method="upsert")
    assert known(row("full", 1.0), *by_bytes).reason_to_recompute(10**6, "") is not None
    assert known(row("full", 1.0), *by_bytes, by_key).reason_to_recompute(1_000, "") is None
    assert known(row("full", 1.0), *by_bytes, by_key, by_key, by_key).reason_to_recompute(1_000, "") is not None


def test_after_a_day_of_incremental_refreshes_full_is_tried_again_where_it_is_within_reach() -> None:
    """What a full recompute took may have been on a Spark that was cold."""
    after = Costs("gold_x").retry_after
    day = [row("incremental", 2.0, 1_000_000)] * after
    due = known(row("full", 3.9), *day)
    assert due.reason_to_try_full(1, "a change", may_retry=True) == (
        f"a change would take about 2.0 s, a full recompute took about 3.9 s {after} refreshes ago: it is tried again"
    )
    assert due.reason_to_try_full(1, "a change") is None, "it would overwrite a large table as a whole"
    for others in ([*day[1:]], [*day, row("full", 3.9), *day[1:]]):
        early = known(row("full", 3.9), *others)
        assert early.reason_to_try_full(1, "a change", may_retry=True) is None, "less than a day"
    dear = known(row("full", 4.1), *day)
    assert dear.reason_to_try_full(1, "a change", may_retry=True) is None, "twice as dear"


def test_what_full_took_before_it_was_tried_again_no_longer_counts() -> None:
    day = [row("incremental", 2.0, 1_000_000)] * BEFORE_RETRY
    assert known(row("full", 3.0), row("full", 2.9), *day, row("full", 1.2)).full_seconds == 1.2
    assert known(row("full", 3.0), *day[1:], row("full", 1.2)).full_seconds == 2.1, "less than a day"


@pytest.mark.parametrize(
    ("rows", "size", "policy", "tries"),
    [
        (50_000, 64 << 20, "auto", True),
        (50_001, 64 << 20, "auto", False),
        (50_000, (64 << 20) + 1, "auto", False),
        (50_000, 64 << 20, "incremental", False),
    ],
)
def test_full_is_tried_again_only_where_it_writes_no_more_than_differs(
    rows: int, size: int, policy: str, tries: bool, tmp_path: Path
) -> None:
    """Overwriting a large table as a whole would have all its readers recomputed too."""
    write_deltalake(str(tmp_path), pa.table({"k": [1]}))
    former = replace(state_of(DeltaTable(str(tmp_path))), rows=rows, bytes=size)
    costs = known(row("full", 3.0), *[row("incremental", 2.0, 1)] * (BEFORE_RETRY + RETRY_SPREAD))
    refresh: Any = SimpleNamespace(
        table=SimpleNamespace(name="gold_x", refresh=policy),
        run=SimpleNamespace(costs=SimpleNamespace(of={"gold_x": costs}.get), judges_cost=True),
        former=former,
    )
    with pytest.raises(FullRecompute, match="it is tried again") if tries else nullcontext():
        Refresh.require_cheap(refresh, 1, 100, "a change")


@pytest.mark.parametrize(
    ("values", "rows", "policy", "recomputes"),
    [
        (500_001, 2 * 10_000_000, "auto", True),
        (500_000, 2 * 10_000_000, "auto", False),  # as many rows as this process writes
        (50_000, 40 * 10_000_000, "auto", False),  # half a percent of the keys
        (50_001, 40 * 10_000_000, "auto", True),
        (500_001, 2 * 10_000_000, "incremental", False),
    ],
)
def test_many_rows_of_many_keys_are_recomputed_only_where_cost_decides(
    values: int, rows: int, policy: str, recomputes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    former = SimpleNamespace(rows=rows, bytes=rows)
    trace = SimpleNamespace(values=lambda: range(values), key_count=10_000_000)
    refresh: Any = SimpleNamespace(
        table=SimpleNamespace(refresh=policy),
        run=SimpleNamespace(judges_cost=True),
        former=former,
        changes={},
        inputs={},
        require_cheap=lambda *_: None,
    )
    monkeypatch.setattr(by_key, "_trace", lambda *_: trace)
    assert by_key.MAX_LOCAL_ROWS == 1_000_000
    with pytest.raises(FullRecompute, match="would take longer") if recomputes else nullcontext():
        assert by_key.find_touched_keys(refresh, ByKey("order_id")) == range(values)


def test_a_change_has_no_more_rows_than_the_table_though_its_inputs_are_empty_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    former = SimpleNamespace(rows=2_000, bytes=2_000)
    refresh: Any = SimpleNamespace(
        table=SimpleNamespace(refresh="auto"),
        run=SimpleNamespace(judges_cost=True),
        former=former,
        changes={},
        inputs={},
        require_cheap=lambda *_: None,
    )
    monkeypatch.setattr(by_key, "_trace", lambda *_: SimpleNamespace(values=lambda: range(3_000), key_count=0))
    assert by_key.find_touched_keys(refresh, ByKey("order_id")) == range(3_000)


def test_a_refresh_that_set_up_state_tries_incremental_too() -> None:
    """It costs more than others and is no sample; another the hour after would be the second dear hour."""
    rows = [*GROWING, *[row("full", 0.1)] * 3, row("incremental", 9.0, 1, state="state rebuilt")]
    assert known(*rows).reason_to_recompute(1, "a change") is not None
    assert known(*rows).full_since_incremental == 0


def test_only_tables_count_and_only_what_was_done_by_changes() -> None:
    assert costs_of([row("full", 1.0, table=None)]) == {}
    assert known(row("incremental", 1.0)) == Costs("gold_x")
