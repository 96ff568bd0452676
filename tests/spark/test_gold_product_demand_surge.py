"""gold_product_demand_surge: the last day of clicks against the stock."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from medallion.testing import Found, Given, Run

NEWEST = datetime(2025, 11, 30, 12)
DAY = timedelta(days=1)
INSTANT = timedelta(microseconds=1)


def surge(run: "Run", *clicks: "Given", stock: Iterable["Given"] = (), products: Iterable["Given"] = ()) -> "Found":
    """The surge of ``clicks``, all as new as the newest unless they say so."""
    numbered = [{"event_id": i, "event_timestamp": NEWEST, **click} for i, click in enumerate(clicks)]
    return run(
        "gold_product_demand_surge",
        silver_enriched_clickstream=numbered,
        silver_inventory_current=stock,
        silver_products=products,
    )


def carts(product_id: int, count: int) -> list["Given"]:
    return [{"product_id": product_id, "event_type": "add_to_cart"}] * count


def test_a_click_exactly_one_day_before_the_newest_is_too_old(run: "Run") -> None:
    times = [NEWEST, NEWEST - DAY + INSTANT, NEWEST - DAY, NEWEST - 2 * DAY]
    surge(run, *({"event_type": "product_view", "event_timestamp": time} for time in times)).gives(
        "product_id, recent_views", (1, 2)
    )


def test_the_newest_click_sets_the_window_even_without_a_product(run: "Run") -> None:
    surge(
        run,
        {"product_id": None, "event_type": "page_view", "event_timestamp": NEWEST},
        {"product_id": 1, "event_type": "product_view", "event_timestamp": NEWEST - DAY},
        {"product_id": 2, "event_type": "product_view", "event_timestamp": NEWEST - DAY + INSTANT},
    ).gives("product_id", 2)


def test_views_carts_and_checkouts_are_counted_apart_and_any_click_makes_a_row(run: "Run") -> None:
    kinds = ["product_view", "product_view", "add_to_cart", "begin_checkout", "page_view", "purchase"]
    surge(
        run,
        *({"product_id": 1, "event_type": kind} for kind in kinds),
        {"product_id": 2, "event_type": "purchase"},
    ).gives("product_id, recent_views, recent_add_to_carts, recent_checkouts", (1, 2, 1, 1), (2, 0, 0, 0))


def test_without_views_there_is_no_rate_and_without_carts_no_cover(run: "Run") -> None:
    surge(
        run,
        *({"product_id": 1, "event_type": kind} for kind in ("product_view", "product_view", "begin_checkout")),
        {"product_id": 2, "event_type": "begin_checkout"},
        *carts(3, 3),
        stock=[{"product_id": product, "current_stock": 7} for product in (1, 2, 3)],
    ).gives("product_id, view_to_checkout_rate, days_of_stock_cover", (1, 0.5, None), (2, None, None), (3, None, 7 / 3))


def test_stock_is_of_all_warehouses_with_the_longest_lead_time_and_none_is_zero(run: "Run") -> None:
    surge(
        run,
        *carts(1, 2),
        *carts(2, 1),
        stock=[
            {"product_id": 1, "warehouse_id": 1, "current_stock": 8, "lead_time_days": 3},
            {"product_id": 1, "warehouse_id": 2, "current_stock": -3, "lead_time_days": 4},
            {"product_id": 1, "warehouse_id": 3, "current_stock": 2, "lead_time_days": None},
        ],
    ).gives(
        "product_id, total_stock_all_warehouses, lead_time_days, days_of_stock_cover",
        (1, 7, 4, 3.5),
        (2, 0, None, 0.0),
    )


def test_cover_exactly_on_a_border_is_not_below_it(run: "Run") -> None:
    # 3 carts a day and a lead time of 5 days: 15 in stock last one lead time, 30 two
    cases = {
        1: (14, "SURGE_STOCKOUT_RISK"),
        2: (15, "WARNING"),
        3: (29, "WARNING"),
        4: (30, "OK"),
    }
    surge(
        run,
        *(click for product in cases for click in carts(product, 3)),
        stock=[{"product_id": i, "current_stock": stock, "lead_time_days": 5} for i, (stock, _) in cases.items()],
    ).gives(
        "product_id, days_of_stock_cover, demand_alert",
        *((i, stock / 3, alert) for i, (stock, alert) in cases.items()),
    )


def test_an_unknown_lead_time_is_a_week(run: "Run") -> None:
    cases = {1: (6, "SURGE_STOCKOUT_RISK"), 2: (7, "WARNING"), 3: (13, "WARNING"), 4: (14, "OK")}
    surge(
        run,
        *(click for product in cases for click in carts(product, 1)),
        stock=[{"product_id": i, "current_stock": stock, "lead_time_days": None} for i, (stock, _) in cases.items()],
    ).gives("product_id, lead_time_days, demand_alert", *((i, None, alert) for i, (_, alert) in cases.items()))


def test_no_stock_is_a_risk_even_without_a_lead_time_and_cover_is_never_negative(run: "Run") -> None:
    surge(
        run,
        *carts(1, 2),
        *carts(2, 2),
        *carts(3, 2),
        stock=[
            {"product_id": 1, "current_stock": 0, "lead_time_days": 0},
            {"product_id": 2, "current_stock": -9, "lead_time_days": 0},
        ],
    ).gives(
        "product_id, total_stock_all_warehouses, days_of_stock_cover, demand_alert",
        (1, 0, 0.0, "SURGE_STOCKOUT_RISK"),
        (2, -9, 0.0, "SURGE_STOCKOUT_RISK"),
        (3, 0, 0.0, "SURGE_STOCKOUT_RISK"),
    )


def test_without_carts_nothing_is_alerted_even_without_stock(run: "Run") -> None:
    surge(run, {"event_type": "product_view"}, stock=[{"current_stock": -1, "lead_time_days": 5}]).gives(
        "recent_add_to_carts, total_stock_all_warehouses, demand_alert", (0, -1, "OK")
    )


def test_a_lead_time_of_the_largest_int_does_not_overflow(run: "Run") -> None:
    surge(run, *carts(1, 3), stock=[{"current_stock": 10**10, "lead_time_days": 2**31 - 1}]).gives(
        "demand_alert", "WARNING"
    )


def test_unknown_product_has_no_name(run: "Run") -> None:
    surge(
        run,
        {"product_id": 1, "event_type": "product_view"},
        {"product_id": 2, "event_type": "product_view"},
        products=[{"product_id": 1, "category": "home", "brand": "Lux"}],
    ).gives(
        "product_id, product_name, product_category, product_brand", (1, "lamp", "home", "Lux"), (2, None, None, None)
    )
