"""What a refresh would do is said from older events and the hour's files, and stands beside what it did."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from medallion.inspect.forecast import Forecast, _forecasts, as_expected
from medallion.model.methods import Additive, ByKey, Full
from medallion.model.refresh_method import RefreshMethod
from medallion.model.table import ChangeLog, Feed, Table
from medallion.ops.event_schema import EventRow
from medallion.refresh.additive import SMALL_INPUTS
from medallion.refresh.cost import BEFORE_RETRY, RETRY_SPREAD
from tests.shop import build

ORDERS = Feed(keys=("id",), schema="id BIGINT NOT NULL", name="bronze_orders", doc="One row per id.")
USERS = Feed(keys=("id",), schema="id BIGINT NOT NULL", name="bronze_users", doc="One row per id.")
HISTORY = ChangeLog(of="bronze_orders", source_system="shop", name="bronze_orders_log", doc="A log.")
SILVER = Table(("id",), "SELECT id FROM {bronze_orders}", method=ByKey("id"), name="silver_orders", doc="Rows.")
USED = Table(("id",), "SELECT id FROM {bronze_users}", method=Full("it is small"), name="silver_users", doc="Rows.")
DAYS = Table(
    ("id",),
    "SELECT id FROM {silver_orders}",
    method=Additive(("days",)),
    name="gold_days",
    layer="gold",
    doc="Rows.",
)
PAST = Table(("id",), "SELECT id FROM {bronze_orders_log}", method=ByKey("id"), name="silver_past", doc="Rows.")
TABLES = build([ORDERS, USERS, HISTORY, SILVER, USED, PAST, DAYS])
SUMMED = "WITH days AS (SELECT id, COUNT(*) AS n FROM {silver_orders} GROUP BY id) SELECT id, n FROM days"
START = datetime(2025, 11, 30, tzinfo=UTC)


def event(table: str, method: RefreshMethod, seconds: float, **more: Any) -> EventRow:
    at = START + timedelta(minutes=len(more))
    details = {"method": method, **{name: more.pop(name) for name in ("changed",) if name in more}}
    strategy = "full" if method == RefreshMethod.FULL_RECOMPUTE else "incremental"
    columns = {"table_name": table, "seconds": seconds, "details": details, "status": "succeeded", "rows_out": 10}
    return EventRow.of({"event_timestamp": at, "hour": f"{at:%Y-%m-%dT%H}", "strategy": strategy, **columns, **more})


def forecast(
    lines: dict[str, int],
    before: list[EventRow],
    outcomes: dict[str, EventRow] | None = None,
    tables: Any = TABLES,
    sizes: dict[str, int] | None = None,
    small: frozenset[str] = frozenset(),
) -> dict[str, Forecast]:
    return {found.table: found for found in _forecasts(tables, lines, before, outcomes or {}, sizes or {}, small)}


def test_a_table_that_no_changed_feed_leads_to_stays_as_it_is() -> None:
    found = forecast({"bronze_orders": 7, "bronze_users": 0}, [])
    assert (found["silver_users"].method, found["silver_users"].rows) == (RefreshMethod.UNCHANGED, 0)
    assert found["gold_days"].lines == found["silver_past"].lines == {"bronze_orders": 7}
    assert found["gold_days"].method == RefreshMethod.INCREMENTAL_AGGREGATE
    assert (found["gold_days"].rows, found["gold_days"].seconds) == (None, None), "nothing like it was seen"


def test_rows_and_seconds_are_those_of_recent_refreshes_by_the_same_method() -> None:
    before = [
        event("silver_orders", RefreshMethod.UPSERT, seconds, changed=5, rows_out=rows)
        for seconds, rows in ((9.0, 90), (1.0, 10), (2.0, 20), (3.0, 30), (2.0, 40), (1.0, 20))
    ]
    before.append(event("silver_orders", RefreshMethod.FULL_RECOMPUTE, 50.0, rows_out=1_000))
    found = forecast({"bronze_orders": 7}, before)["silver_orders"]
    assert (found.method, found.rows, found.seconds) == (RefreshMethod.UPSERT, 20, 2.0)


def test_what_cost_decides_at_run_time_is_expected_too_unless_the_policy_does_not_go_by_cost() -> None:
    before = [event("silver_orders", RefreshMethod.UPSERT, 30.0, changed=5) for _ in range(3)]
    before += [event("silver_orders", RefreshMethod.FULL_RECOMPUTE, 1.0)]
    dear = forecast({"bronze_orders": 7}, before)["silver_orders"]
    assert dear.method == RefreshMethod.FULL_RECOMPUTE
    assert dear.reason is not None and "a full recompute 1.0 s" in dear.reason
    always = build([ORDERS, replace(SILVER, refresh="incremental")])
    assert forecast({"bronze_orders": 7}, before, tables=always)["silver_orders"].method == RefreshMethod.UPSERT


def test_a_small_table_is_expected_to_be_recomputed_again_when_full_is_due() -> None:
    before = [event("silver_orders", RefreshMethod.FULL_RECOMPUTE, 3.0)]
    before += [event("silver_orders", RefreshMethod.UPSERT, 2.0, changed=5) for _ in range(BEFORE_RETRY + RETRY_SPREAD)]
    due = forecast({"bronze_orders": 7}, before, small=frozenset({"silver_orders"}))["silver_orders"]
    assert due.method == RefreshMethod.FULL_RECOMPUTE
    assert due.reason is not None and due.reason.endswith("it is tried again")
    assert forecast({"bronze_orders": 7}, before)["silver_orders"].method == RefreshMethod.UPSERT


def test_aggregate_of_small_inputs_is_expected_to_be_recomputed_unless_the_policy_does_not_go_by_cost() -> None:
    tables = build([ORDERS, SILVER, replace(DAYS, query=SUMMED)])
    small, large = {"silver_orders": 11 << 20}, {"silver_orders": 13 << 20}
    found = forecast({"bronze_orders": 7}, [], tables=tables, sizes=small)["gold_days"]
    assert (found.method, found.reason) == (RefreshMethod.FULL_RECOMPUTE, SMALL_INPUTS)
    found = forecast({"bronze_orders": 7}, [], tables=tables, sizes=large)["gold_days"]
    assert (found.method, found.reason) == (RefreshMethod.INCREMENTAL_AGGREGATE, None)
    strict = build([ORDERS, SILVER, replace(DAYS, query=SUMMED, refresh="incremental")])
    found = forecast({"bronze_orders": 7}, [], tables=strict, sizes=small)["gold_days"]
    assert found.method == RefreshMethod.INCREMENTAL_AGGREGATE


def test_expectation_and_outcome_stand_side_by_side() -> None:
    outcomes = {
        "silver_orders": event("silver_orders", RefreshMethod.UPSERT, 4.0, rows_out=12),
        "gold_days": event("gold_days", RefreshMethod.FULL_RECOMPUTE, 8.0, rows_out=99),
    }
    found = forecast({"bronze_orders": 7}, [], outcomes)
    assert (found["silver_orders"].ran, found["silver_orders"].ran_rows) == (RefreshMethod.UPSERT, 12)
    assert as_expected(found.values()) == (1, 2)
