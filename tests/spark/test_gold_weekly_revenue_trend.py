"""gold_weekly_revenue_trend: ISO weeks, their change, averages over dates and the sum of the year."""

from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from medallion.testing import Found, Given, Run

MONDAY = datetime(2025, 11, 3)
INSTANT = timedelta(microseconds=1)
WEEK = timedelta(days=7)


def trend(run: "Run", *lines: "Given") -> "Found":
    """The trend of ``lines``, each an order line of its own."""
    numbered = [{"order_item_id": i, **line} for i, line in enumerate(lines)]
    return run("gold_weekly_revenue_trend", silver_confirmed_order_items=numbered)


def sale(when: datetime, revenue: str, **columns: int | str | Decimal | None) -> "Given":
    return {"order_created_at": when, "line_net_revenue": Decimal(revenue), **columns}


def money(text: str) -> Decimal:
    """``text`` with the six digits of net revenue."""
    return Decimal(text).quantize(Decimal("0.000001"))


def test_a_week_starts_on_monday_at_midnight(run: "Run") -> None:
    trend(run, sale(MONDAY - INSTANT, "1"), sale(MONDAY, "2"), sale(MONDAY + WEEK - INSTANT, "3")).gives(
        "week_start, weekly_net_revenue", (MONDAY - WEEK, money("1")), (MONDAY, money("5"))
    )


def test_lines_add_up_exactly_and_an_order_counts_once_per_category(run: "Run") -> None:
    trend(
        run,
        sale(MONDAY, "26.268705", order_id=1, category="home", quantity=2, line_gross_margin=Decimal("14.97")),
        sale(MONDAY, "0.008766", order_id=1, category="home", quantity=3, line_gross_margin=None),
        sale(MONDAY, "1", order_id=2, category="home", quantity=1, line_gross_margin=Decimal("-4.99")),
        sale(MONDAY, "7", order_id=1, category="toys", quantity=1, line_gross_margin=None),
    ).gives(
        "category, weekly_net_revenue, weekly_gross_margin, order_count, units_sold",
        ("home", Decimal("27.277471"), Decimal("9.98"), 2, 6),
        ("toys", Decimal("7.000000"), None, 1, 1),
    )


def test_lines_without_a_category_are_a_group_with_a_history_of_its_own(run: "Run") -> None:
    trend(
        run,
        sale(MONDAY, "1", category=None),
        sale(MONDAY + WEEK, "4", category=None),
        sale(MONDAY, "2", category="home"),
        sale(MONDAY + WEEK, "8", category="home"),
    ).gives(
        "week_start, category, revenue_wow_change, revenue_4wk_moving_avg, cumulative_ytd_revenue",
        (MONDAY, None, None, 1.0, money("1")),
        (MONDAY + WEEK, None, money("3"), 2.5, money("5")),
        (MONDAY, "home", None, 2.0, money("2")),
        (MONDAY + WEEK, "home", money("6"), 5.0, money("10")),
    )


def test_change_is_against_the_previous_row_even_when_weeks_lie_between(run: "Run") -> None:
    revenues = {0: "4", 5: "3", 6: "0", 7: "9"}
    trend(run, *(sale(MONDAY + week * WEEK, revenue) for week, revenue in revenues.items())).gives(
        "week_start, revenue_wow_change, revenue_wow_pct_change",
        (MONDAY, None, None),
        (MONDAY + 5 * WEEK, money("-1"), -0.25),
        (MONDAY + 6 * WEEK, money("-3"), -1.0),
        (MONDAY + 7 * WEEK, money("9"), None),
    )


def test_moving_averages_reach_three_weeks_back_by_date_and_skip_missing_weeks(run: "Run") -> None:
    def at(week: int, revenue: str, margin: str | None) -> "Given":
        return sale(MONDAY + week * WEEK, revenue, line_gross_margin=margin and Decimal(margin))

    # weeks 1 and 3 have no sale; week 2 has no known margin
    trend(run, at(0, "10", "1.00"), at(2, "20", None), at(4, "60", "4.00"), at(5, "0.01", "8.00")).gives(
        "week_start, revenue_4wk_moving_avg, margin_4wk_moving_avg",
        (MONDAY, 10.0, 1.0),
        (MONDAY + 2 * WEEK, 15.0, 1.0),
        (MONDAY + 4 * WEEK, 40.0, 4.0),
        (MONDAY + 5 * WEEK, 80.01 / 3, 6.0),
    )


def test_a_week_exactly_three_weeks_back_is_averaged_and_one_of_four_is_not(run: "Run") -> None:
    trend(run, sale(MONDAY, "10"), sale(MONDAY + WEEK, "20"), sale(MONDAY + 4 * WEEK, "60")).gives(
        "week_start, revenue_4wk_moving_avg", (MONDAY, 10.0), (MONDAY + WEEK, 15.0), (MONDAY + 4 * WEEK, 40.0)
    )


def test_an_average_without_any_known_margin_is_null(run: "Run") -> None:
    trend(run, sale(MONDAY, "1", line_gross_margin=None)).gives("margin_4wk_moving_avg", None)


def test_the_sum_of_the_year_restarts_with_the_first_monday_of_january(run: "Run") -> None:
    december, january = datetime(2025, 12, 29), datetime(2026, 1, 5)
    # New Year's Day 2026 lies in the week of 29 December, which counts for 2025
    trend(
        run,
        sale(december - WEEK, "1"),
        sale(datetime(2026, 1, 1), "2"),
        sale(january - INSTANT, "4"),
        sale(january, "8"),
        sale(january + WEEK, "16"),
    ).gives(
        "week_start, weekly_net_revenue, cumulative_ytd_revenue, revenue_wow_change",
        (december - WEEK, money("1"), money("1"), None),
        (december, money("6"), money("7"), money("5")),
        (january, money("8"), money("8"), money("2")),
        (january + WEEK, money("16"), money("24"), money("8")),
    )


def test_the_largest_lines_add_up_exactly(run: "Run") -> None:
    largest = sale(MONDAY, "2362210536627308946.313647", line_gross_margin=Decimal("429496729357050327.06"))
    revenue = Decimal("7086631609881926838.940941")
    trend(run, largest, largest, largest).gives(
        "weekly_net_revenue, weekly_gross_margin, cumulative_ytd_revenue",
        (revenue, Decimal("1288490188071150981.18"), revenue),
    )
