"""Types: money is exact in every table, only averages, ratios and rates are DOUBLE, sums of units are BIGINT."""

from typing import TYPE_CHECKING, Any

import pytest

from medallion.spark.collect import MAX_ROW_BYTES, collect
from tests.shop import registry

if TYPE_CHECKING:
    from medallion.testing.table_tests import TableTests

# Six decimals where a discount was taken off, two elsewhere; a sum has room for ten digits more, a sum of sums for
# twenty.
MONEY = {
    "silver_products": {"list_price": "decimal(10,2)"},
    "silver_orders_enriched": {
        "order_total": "decimal(12,2)",
        "discount_amount": "decimal(12,2)",
        "shipping_cost": "decimal(12,2)",
        "gross_item_revenue": "decimal(31,2)",
    },
    "silver_order_items_enriched": {
        "unit_price": "decimal(10,2)",
        "discount_pct": "decimal(5,2)",
        "line_gross_revenue": "decimal(21,2)",
        "line_net_revenue": "decimal(31,6)",
        "line_gross_margin": "decimal(22,2)",
        "cost_price": "decimal(10,2)",
        "list_price": "decimal(10,2)",
    },
    "gold_supplier_performance": {"total_net_revenue": "decimal(38,6)", "total_gross_margin": "decimal(38,2)"},
    "gold_inventory_risk": {"net_revenue": "decimal(38,6)", "gross_margin": "decimal(38,2)"},
    "gold_order_status_summary": {"total_revenue": "decimal(32,2)"},
    "gold_weekly_revenue_trend": {
        "weekly_net_revenue": "decimal(38,6)",
        "weekly_gross_margin": "decimal(32,2)",
        "revenue_wow_change": "decimal(38,6)",
        "cumulative_ytd_revenue": "decimal(38,6)",
    },
    "gold_cancellation_impact": {
        "weekly_cancelled_revenue": "decimal(38,6)",
        "weekly_total_revenue": "decimal(38,6)",
        "cumulative_cancelled_revenue": "decimal(38,6)",
    },
}
MONEY["silver_confirmed_order_items"] = MONEY["silver_order_items_enriched"]
MONEY["gold_realtime_inventory_alerts"] = MONEY["gold_inventory_risk"]

RATIOS = {
    "silver_orders_enriched": {"avg_discount_pct"},
    "gold_supplier_performance": {"avg_margin_pct", "avg_discount_applied", "reliability_score"},
    "gold_inventory_risk": {"avg_daily_units", "days_of_stock_remaining"},
    "gold_realtime_inventory_alerts": {"avg_daily_units", "days_of_stock_remaining"},
    "gold_order_status_summary": {"avg_order_value"},
    "gold_weekly_revenue_trend": {"revenue_wow_pct_change", "revenue_4wk_moving_avg", "margin_4wk_moving_avg"},
    "gold_cancellation_impact": {"cumulative_cancellation_rate", "cancellation_rate_4wk"},
    "gold_product_demand_surge": {"days_of_stock_cover", "view_to_checkout_rate"},
}

# The whole numbers that are INT at the source; whatever is counted or summed is BIGINT.
INTEGERS = {"quantity", "lead_time_days"}

COMPUTED = [table.name for layer in ("silver", "gold") for table in registry().queries(layer)]


@pytest.mark.parametrize("name", COMPUTED)
def test_money_is_exact_and_only_ratios_are_double(table_tests: "TableTests", name: str) -> None:
    types = {field.name: field.dataType.simpleString() for field in table_tests.schema(name)}
    assert {column: kind for column, kind in types.items() if kind.startswith("decimal")} == MONEY.get(name, {})
    assert {column for column, kind in types.items() if kind == "double"} == RATIOS.get(name, set())
    assert {column for column, kind in types.items() if kind == "int"} <= INTEGERS
    assert set(types.values()) <= {*MONEY.get(name, {}).values(), "double", "int"} | {
        "bigint",
        "string",
        "date",
        "timestamp",
    }


@pytest.mark.parametrize(
    "value",
    ["'x'", "ARRAY('x')", "MAP('a', 'x')", "CAST(NAMED_STRUCT('a', 'x') AS STRUCT<a: STRING>)", "CAST('x' AS BINARY)"],
)
def test_rows_are_collected_unless_one_of_them_is_wide(spark: Any, value: str) -> None:
    wide = value.replace("'x'", f"REPEAT('x', {MAX_ROW_BYTES + 1})")
    narrow = spark.sql(f"SELECT {value} AS `a.b`, 1 AS n UNION ALL SELECT NULL, 2")
    rows = collect(narrow, 10)
    assert rows is not None and rows.column_names == ["a.b", "n"]
    assert sorted(rows["n"].to_pylist()) == [1, 2] and rows["a.b"].null_count == 1
    assert collect(narrow.unionByName(spark.sql(f"SELECT {wide} AS `a.b`, 3 AS n")), 10) is None
    assert collect(narrow, 1) is None


def test_of_many_rows_each_may_be_less_wide(spark: Any) -> None:
    """Memory holds a few wide rows, and many narrow ones."""
    rows = spark.sql("SELECT REPEAT('x', 3000) AS text")
    assert collect(rows, 500_000) is not None and collect(rows, 1_000_000) is None
