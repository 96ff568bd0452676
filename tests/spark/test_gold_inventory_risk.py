"""gold_inventory_risk: days of stock against lead time, decided on whole numbers."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from medallion.testing import Found, Given, Run

NOON = datetime(2025, 11, 3, 12)


def risk(run: "Run", stock: Iterable["Given"], sales: Iterable["Given"]) -> "Found":
    """The risk of products with ``stock`` and ``sales`` rows."""
    numbered = [{"order_item_id": i, **line} for i, line in enumerate(sales)]
    return run("gold_inventory_risk", silver_inventory_current=stock, silver_confirmed_order_items=numbered)


def sold(units: int, days: int, product_id: int = 1) -> list["Given"]:
    """``units`` sold over ``days`` days: all but a unit a day on the first."""
    first = {"product_id": product_id, "quantity": units - days + 1, "order_created_at": NOON}
    later = ({**first, "quantity": 1, "order_created_at": NOON + timedelta(days=day)} for day in range(1, days))
    return [first, *later]


def test_a_product_exactly_on_a_border_is_not_below_it(run: "Run") -> None:
    # 14 units on 3 days, lead time 5: 35 in stock last exactly 7.5 days = 1.5 x 5, 70 last 15 = 3 x 5.
    # In DOUBLE 35 / (14 / 3) is 7.499999999999999, which would be CRITICAL.
    cases = {1: (34, "CRITICAL"), 2: (35, "WARNING"), 3: (69, "WARNING"), 4: (70, "OK")}
    risk(
        run,
        stock=[{"product_id": i, "current_stock": stock, "lead_time_days": 5} for i, (stock, _) in cases.items()],
        sales=[line for i in cases for line in sold(14, 3, product_id=i)],
    ).gives(
        "product_id, units_sold, avg_daily_units, days_of_stock_remaining, stock_risk_level",
        *((i, 14, 14 / 3, stock * 3 / 14, level) for i, (stock, level) in cases.items()),
    )


def test_empty_and_negative_stock_are_critical_unless_nothing_has_to_be_waited_for(run: "Run") -> None:
    cases = {1: (0, 1, "CRITICAL"), 2: (-3, 1, "CRITICAL"), 3: (0, 0, "OK"), 4: (-3, 0, "CRITICAL")}
    risk(
        run,
        stock=[{"product_id": i, "current_stock": s, "lead_time_days": lead} for i, (s, lead, _) in cases.items()],
        sales=[{"product_id": i} for i in cases],
    ).gives(
        "product_id, days_of_stock_remaining, stock_risk_level",
        *((i, float(stock), level) for i, (stock, _, level) in cases.items()),
    )


def test_an_unknown_lead_time_is_no_risk(run: "Run") -> None:
    risk(run, stock=[{"current_stock": -5, "lead_time_days": None}], sales=[{}]).gives(
        "lead_time_days, days_of_stock_remaining, stock_risk_level", (None, -5.0, "OK")
    )


def test_a_lead_time_of_years_makes_large_stock_critical(run: "Run") -> None:
    slow = {"current_stock": 14999, "lead_time_days": 10000}
    risk(run, stock=[slow], sales=[{}]).gives("stock_risk_level", "CRITICAL")


def test_the_largest_numbers_do_not_overflow(run: "Run") -> None:
    # the largest INT as units and lead time: 3 x lead time x units is beyond BIGINT, and odd, so half a unit decides
    largest = 2**31 - 1
    border = 3 * largest * largest // 2
    cases = {1: (border, "CRITICAL"), 2: (border + 1, "WARNING")}
    risk(
        run,
        stock=[{"product_id": i, "current_stock": s, "lead_time_days": largest} for i, (s, _) in cases.items()],
        sales=[{"product_id": i, "quantity": largest} for i in cases],
    ).gives("product_id, stock_risk_level", *((i, level) for i, (_, level) in cases.items()))


def test_stock_is_of_all_warehouses_and_a_day_counts_once(run: "Run") -> None:
    last_moment = datetime(2025, 11, 3, 23, 59, 59, 999999)
    risk(
        run,
        stock=[{"warehouse_id": 1, "current_stock": 12}, {"warehouse_id": 2, "current_stock": -2}],
        sales=[
            {"quantity": 2, "order_created_at": datetime(2025, 11, 3)},
            {"quantity": 1, "order_created_at": last_moment},
            {"quantity": 2, "order_created_at": last_moment + timedelta(microseconds=1)},
        ],
    ).gives(
        "total_stock_all_warehouses, units_sold, avg_daily_units, days_of_stock_remaining",
        (10, 5, 2.5, 4.0),
    )


def test_a_product_needs_both_stock_and_sales(run: "Run") -> None:
    risk(
        run,
        stock=[{"product_id": 1, "current_stock": 1}, {"product_id": 2, "current_stock": 1}],
        sales=[{"product_id": 1}, {"product_id": 3}],
    ).gives("product_id", 1)


def test_without_units_no_days_are_told_and_nothing_is_at_risk(run: "Run") -> None:
    risk(run, stock=[{"current_stock": -1, "lead_time_days": 5}], sales=[{"quantity": 0}]).gives(
        "units_sold, avg_daily_units, days_of_stock_remaining, stock_risk_level", (0, 0.0, None, "OK")
    )


def test_money_is_exact_and_the_product_is_described(run: "Run") -> None:
    described = {"category": "home", "brand": "Lux", "lead_time_days": 5}
    risk(
        run,
        stock=[{"warehouse_id": warehouse, "current_stock": 1, **described} for warehouse in (1, 2)],
        sales=[
            {"line_net_revenue": Decimal("26.268705"), "line_gross_margin": Decimal("14.97")},
            {"line_net_revenue": Decimal("0.008766"), "line_gross_margin": None},
        ],
    ).gives(
        "product_id, product_name, category, brand, supplier_name, lead_time_days, net_revenue, gross_margin",
        (1, "lamp", "home", "Lux", "Acme", 5, Decimal("26.277471"), Decimal("14.97")),
    )
