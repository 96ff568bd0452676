"""gold_cancellation_impact: cancelled orders and money by week, with running rates."""

from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from medallion.testing import Found, Given, Run

MONDAY = datetime(2025, 11, 3)
INSTANT = timedelta(microseconds=1)
WEEK = timedelta(days=7)


def impact(run: "Run", *lines: "Given") -> "Found":
    """The impact of ``lines``, each an order line of its own."""
    numbered = [{"order_item_id": i, **line} for i, line in enumerate(lines)]
    return run("gold_cancellation_impact", silver_order_items_enriched=numbered)


def line(
    order_id: int, status: str = "delivered", when: datetime = MONDAY, revenue: str = "1.000000", **columns: str | None
) -> "Given":
    order = {"order_id": order_id, "order_status": status, "order_created_at": when}
    return {**order, "line_net_revenue": Decimal(revenue), **columns}


def test_orders_count_once_however_many_lines_they_have(run: "Run") -> None:
    impact(run, line(1, "cancelled"), line(1, "cancelled"), line(2), line(2), line(3)).gives(
        "weekly_cancelled_orders, weekly_total_orders, cumulative_cancellation_rate, cancellation_rate_4wk",
        (1, 3, 1 / 3, 1 / 3),
    )


def test_returned_orders_are_not_cancelled_and_every_valid_status_counts(run: "Run") -> None:
    statuses = ["pending", "confirmed", "shipped", "delivered", "cancelled", "returned"]
    impact(run, *(line(i, status) for i, status in enumerate(statuses))).gives(
        "weekly_cancelled_orders, weekly_total_orders", (1, 6)
    )


def test_order_counts_in_each_of_its_categories_and_in_none_as_a_category(run: "Run") -> None:
    impact(
        run,
        line(1, "cancelled", category="home"),
        line(1, "cancelled", category=None),
        line(2, category=None),
        line(2, category=None, when=MONDAY + WEEK),
    ).gives(
        "category, week_start, weekly_cancelled_orders, weekly_total_orders, cumulative_cancellation_rate",
        ("home", MONDAY, 1, 1, 1.0),
        (None, MONDAY, 1, 2, 0.5),
        (None, MONDAY + WEEK, 0, 1, 1 / 3),
    )


def test_money_is_exact_and_zero_without_cancellation(run: "Run") -> None:
    impact(
        run,
        line(1, "cancelled", revenue="26.268705"),
        line(1, "cancelled", revenue="0.008766"),
        line(2, "returned", revenue="0.000001"),
        line(3, "shipped", revenue="5.000000", when=MONDAY + WEEK),
        line(4, "cancelled", revenue="0.000001", when=MONDAY + 8 * WEEK),
    ).gives(
        "week_start, weekly_cancelled_revenue, weekly_total_revenue, cumulative_cancelled_revenue",
        (MONDAY, Decimal("26.277471"), Decimal("26.277472"), Decimal("26.277471")),
        (MONDAY + WEEK, Decimal("0.000000"), Decimal("5.000000"), Decimal("26.277471")),
        (MONDAY + 8 * WEEK, Decimal("0.000001"), Decimal("0.000001"), Decimal("26.277472")),
    )


def test_running_rates_weigh_orders_and_the_short_one_reaches_three_weeks_back_by_date(run: "Run") -> None:
    # cancelled of total orders: 1 of 1, nothing, 0 of 3, nothing, 1 of 2
    weeks = {0: ["cancelled"], 2: ["shipped"] * 3, 4: ["cancelled", "pending"]}
    impact(
        run,
        *(
            line(10 * week + i, status, when=MONDAY + week * WEEK)
            for week, statuses in weeks.items()
            for i, status in enumerate(statuses)
        ),
    ).gives(
        "week_start, cumulative_cancellation_rate, cancellation_rate_4wk",
        (MONDAY, 1.0, 1.0),
        (MONDAY + 2 * WEEK, 0.25, 0.25),
        (MONDAY + 4 * WEEK, 2 / 6, 1 / 5),
    )


def test_a_week_exactly_three_weeks_back_is_in_the_short_rate(run: "Run") -> None:
    impact(run, line(1, "cancelled"), line(2, when=MONDAY + 3 * WEEK), line(3, when=MONDAY + 4 * WEEK)).gives(
        "week_start, cancellation_rate_4wk", (MONDAY, 1.0), (MONDAY + 3 * WEEK, 0.5), (MONDAY + 4 * WEEK, 0.0)
    )


def test_running_figures_do_not_restart_with_the_year(run: "Run") -> None:
    sunday = datetime(2026, 1, 4, 23, 59, 59, 999999)
    impact(run, line(1, "cancelled", when=sunday), line(2, when=sunday + INSTANT)).gives(
        "week_start, cumulative_cancellation_rate, cumulative_cancelled_revenue",
        (datetime(2025, 12, 29), 1.0, Decimal("1.000000")),
        (datetime(2026, 1, 5), 0.5, Decimal("1.000000")),
    )
