"""Slowly changing dimensions: what a plain model makes of each customer's changes, in whatever order they came."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from medallion.testing import Run

HOUR = timedelta(hours=1)
START = datetime(2025, 11, 30)
TIERS, REGIONS = ("standard", "gold", None), ("north", "south")


@dataclass(frozen=True)
class Change:
    """A line of the log; hour: None for a row that was there when it began."""

    hour: datetime | None
    line: int
    deleted: bool
    at: datetime
    tier: str | None
    region: str

    def row(self, customer: int) -> dict[str, Any]:
        """As the log has it."""
        told = {"customer_id": customer, "customer_tier": self.tier, "geo_region": self.region, "updated_at": self.at}
        return told | {"_deleted": self.deleted, "_hour": self.hour, "_line": self.line}

    @property
    def moment(self) -> datetime:
        """When it counts."""
        return self.hour + HOUR if self.deleted and self.hour else self.at


def history(chance: random.Random) -> list[Change]:
    """Changes of one customer in the order they came: early and late, doubled, deleted, brought back, in few hours."""
    changes = []
    if chance.random() < 0.8:
        changes.append(Change(None, 1, False, START - timedelta(days=9), chance.choice(TIERS), "north"))
    for line in range(chance.randrange(7)):
        hour = START + HOUR * sorted((line // 2, chance.randrange(4)))[0]
        if changes and changes[-1].hour:
            hour = max(hour, changes[-1].hour)
        # some at the same moment, some of another day, some in the hour of the file
        at = chance.choice((hour, hour + timedelta(minutes=5), START - timedelta(days=chance.randrange(1, 12))))
        deleted = chance.random() < 0.3
        changes.append(Change(hour, 10 + line, deleted, at, chance.choice(TIERS), chance.choice(REGIONS)))
    return changes


def states(changes: list[Change]) -> list[Change]:
    """What held from which moment on, in order of time: of each moment the last to come."""
    effective = [
        change
        for place, change in enumerate(changes)
        if not (change.deleted and any(later.hour == change.hour for later in changes[place + 1 :]))
    ]
    return sorted({change.moment: change for change in effective}.values(), key=lambda change: change.moment)


def type_2(changes: list[Change]) -> Iterator[tuple[str | None, str, datetime, datetime | None]]:
    """Tier and region by span of time."""
    spans: list[list[Change]] = []
    for state in states(changes):
        last = spans[-1][-1] if spans else None
        same = last is not None and (
            (state.deleted and last.deleted)
            or (not state.deleted and not last.deleted and (state.tier, state.region) == (last.tier, last.region))
        )
        if same:
            spans[-1].append(state)
        else:
            spans.append([state])
    for place, span in enumerate(spans):
        if not span[0].deleted:
            end = spans[place + 1][0].moment if place + 1 < len(spans) else None
            yield span[-1].tier, span[-1].region, span[0].moment, end


SHOP = {customer: history(random.Random(customer)) for customer in range(400)}
ROWS = [change.row(customer) for customer, changes in SHOP.items() for change in changes]
THERE = {customer: found for customer, changes in SHOP.items() if (found := states(changes)) and not found[-1].deleted}


def test_type_2_has_a_row_for_each_time_in_which_nothing_changed(run: Run) -> None:
    run("silver_customers_history", bronze_customers_log=ROWS).gives(
        "customer_id, customer_tier, geo_region, __START_AT, __END_AT",
        *((customer, *span) for customer, changes in SHOP.items() for span in type_2(changes)),
    )


def test_type_1_is_the_newest_by_time_and_not_by_arrival(run: Run) -> None:
    rows = [
        {"product_id": row["customer_id"], "category": row["customer_tier"], "brand": row["geo_region"]}
        | {name: row[name] for name in ("updated_at", "_deleted", "_hour", "_line")}
        for row in ROWS
    ]
    run("silver_products_latest", bronze_products_log=rows).gives(
        "product_id, category, brand",
        *((customer, found[-1].tier, found[-1].region) for customer, found in THERE.items()),
    )


def test_type_0_stays_as_it_first_was(run: Run) -> None:
    first = {customer: next(state for state in found if not state.deleted) for customer, found in THERE.items()}
    run("silver_customers_at_signup", bronze_customers_log=ROWS).gives(
        "customer_id, customer_tier, geo_region",
        *((customer, state.tier, state.region) for customer, state in first.items()),
    )


def test_type_3_knows_the_value_before_and_when_it_changed(run: Run) -> None:
    expected = []
    for customer, found in THERE.items():
        alive = [state for state in found if not state.deleted]
        now = alive[-1]
        place = max((n for n, state in enumerate(alive) if state.tier != now.tier), default=None)
        before, since = (None, None) if place is None else (alive[place].tier, alive[place + 1].moment)
        expected.append((customer, now.tier, now.region, before, since))
    run("silver_customers_tier_before", bronze_customers_log=ROWS).gives(
        "customer_id, customer_tier, geo_region, previous_customer_tier, customer_tier_changed_at", *expected
    )


def test_the_model_meets_what_it_is_to_judge() -> None:
    """Late changes, deletions, returns and changes that change nothing are all among the histories."""
    kinds = {
        "late": any(a.moment > b.moment for c in SHOP.values() for a, b in pairwise(c)),
        "ended": any(end is not None for c in SHOP.values() for *_, end in type_2(c)),
        "gone": len(THERE) < sum(map(bool, SHOP.values())),
        "returned": any(
            a.deleted and not b.deleted for c in SHOP.values() for found in [states(c)] for a, b in pairwise(found)
        ),
        "the same": any(len([*type_2(c)]) < len([s for s in states(c) if not s.deleted]) for c in SHOP.values()),
    }
    assert all(kinds.values()), kinds


DAY = timedelta(days=1)
LINE = {"order_item_id": 1, "order_id": 1, "user_id": 1, "product_id": 1, "order_created_at": START}


@pytest.mark.parametrize(
    ("ordered_at", "version"),
    [
        (START - DAY, "first"),
        (START, "first"),
        (START + DAY, "second"),
        (START + 2 * DAY, None),
        (START + 9 * DAY, "third"),
    ],
)
def test_a_sale_is_joined_to_the_version_of_its_time(run: Run, ordered_at: datetime, version: str | None) -> None:
    """From its start on, up to and without its end; in a gap there is none, and the sale is not lost."""
    versions = (
        ("first", datetime(1900, 1, 1), START + DAY),
        ("second", START + DAY, START + 2 * DAY),
        ("third", START + 5 * DAY, None),
    )
    customers = [
        {"customer_key": key, "customer_id": 1, "valid_from": since, "valid_to": until}
        for key, since, until in versions
    ]
    products = [
        {"product_key": key, "product_id": 1, "valid_from": since, "valid_to": until} for key, since, until in versions
    ]
    run(
        "gold_fact_sales",
        silver_order_items_enriched=[LINE | {"order_created_at": ordered_at}],
        gold_dim_customer=customers,
        gold_dim_product=products,
    ).gives("order_item_id, customer_key, product_key", (1, version, version))


def test_the_first_known_version_holds_for_all_that_was_before(run: Run) -> None:
    rows = [
        {"customer_id": 1, "__START_AT": START, "__END_AT": START + DAY},
        {"customer_id": 1, "__START_AT": START + DAY, "__END_AT": None},
    ]
    found = run("gold_dim_customer", silver_customers_history=rows)
    found.gives(
        "customer_id, valid_from, valid_to, is_current",
        (1, datetime(1900, 1, 1), START + DAY, False),
        (1, START + DAY, None, True),
    )
    again = run("gold_dim_customer", silver_customers_history=rows[::-1])
    assert {row.customer_key for row in found.rows} == {row.customer_key for row in again.rows}, "a rebuild keeps keys"


def test_days_know_their_iso_week(run: Run) -> None:
    """2024-12-30 is a Monday of the first week of 2025; 2027-01-01 a Friday of the last week of 2026."""
    days = [{"day": datetime(2024, 12, 29).date()}, {"day": datetime(2027, 1, 1).date()}]
    rows = {row.date_key: row for row in run("gold_dim_date", gold_daily_orders=days).rows}
    assert len(rows) == 734
    told = [(key, rows[key].iso_year, rows[key].iso_week, rows[key].day_of_week) for key in (20241230, 20270101)]
    assert told == [(20241230, 2025, 1, 1), (20270101, 2026, 53, 5)]
    assert rows[20241230].quarter == 4
