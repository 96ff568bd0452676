"""Every promise of every table can be kept, and every one of them can be broken and is then seen."""

from collections.abc import Iterator
from datetime import UTC, datetime
from string import Formatter
from typing import Any

import duckdb
import pytest

from bench.duck import translated
from medallion.checks.context import bind
from medallion.checks.result import Verdict
from medallion.checks.suites import suites
from medallion.expect.vocabulary import Expectation
from medallion.model.table import Table
from tests.shop import SHOP, registry

QUERY = "unexpected_rows_query"
TABLES = registry(extras=True)
PROMISES = [
    (table, expectation)
    for layer in SHOP.layers
    for table, suite in suites(SHOP, layer, TABLES).items()
    for expectation in suite
    if not table.startswith("quarantine_")  # what it holds is what breaks a promise: test_tables.py
]
OWN = [(table, expectation) for table, expectation in PROMISES if expectation in TABLES[table].expectations]
ACROSS = [(table, expectation) for table, expectation in PROMISES if expectation not in TABLES[table].expectations]

# Two weeks of a small shop: everything that Silver drops is here once, and is not enough to worry about.
BRONZE = """
    INSERT INTO bronze_suppliers BY NAME
        SELECT id AS supplier_id, 'Supplier ' || id AS supplier_name, 'DE' AS country, 5 AS lead_time_days,
            TIMESTAMPTZ '2025-11-01 00:00:00+00' AS updated_at
        FROM range(3) AS t(id);
    INSERT INTO bronze_products BY NAME
        SELECT id AS product_id, 'Product ' || id AS product_name,
            CASE WHEN id % 4 > 0 THEN 'c' || id % 2 END AS category,
            id % 3 AS supplier_id, 20 AS list_price, 10 AS cost_price, id <> 5 AS is_active,
            TIMESTAMPTZ '2025-11-01 00:00:00+00' AS updated_at
        FROM range(8) AS t(id);
    INSERT INTO bronze_customers BY NAME
        SELECT id AS customer_id, CASE WHEN id = 9 THEN 'vip' ELSE 'gold' END AS customer_tier,
            TIMESTAMPTZ '2025-11-01 00:00:00+00' AS updated_at
        FROM range(10) AS t(id);
    INSERT INTO bronze_orders BY NAME
        SELECT id AS order_id, id % 10 AS user_id, 30 + id AS order_total, 'card' AS payment_method,
            ['pending', 'confirmed', 'shipped', 'delivered', 'cancelled', 'returned'][1 + id % 6] AS order_status,
            TIMESTAMPTZ '2025-11-17 00:00:00+00' + to_hours(id * 8) AS created_at, created_at AS updated_at,
            created_at AS ingested_at
        FROM range(40) AS t(id);
    INSERT INTO bronze_order_items BY NAME
        SELECT id AS order_item_id, id % 40 AS order_id, id % 8 AS product_id, CAST(1 + id % 3 AS INT) AS quantity,
            15 AS unit_price, CASE WHEN id % 2 = 0 THEN 10 END AS discount_pct,
            TIMESTAMPTZ '2025-11-17 00:00:00+00' AS ingested_at
        FROM range(80) AS t(id);
    INSERT INTO bronze_inventory_events BY NAME
        SELECT id AS inventory_event_id, id % 8 AS product_id, id % 2 AS warehouse_id,
            ['restock', 'sale_reserve'][1 + id // 16] AS event_type,
            CASE WHEN id < 16 THEN 9 ELSE -2 END AS quantity_change,
            TIMESTAMPTZ '2025-11-17 00:00:00+00' AS event_timestamp, event_timestamp AS ingested_at
        FROM range(32) AS t(id);
    INSERT INTO bronze_clickstream_events BY NAME
        SELECT id AS event_id, CASE WHEN id <> 7 THEN id % 10 END AS user_id, id % 8 AS product_id,
            ['page_view', 'product_view', 'add_to_cart', 'begin_checkout', 'purchase', 'noise'][1 + id % 6]
                AS event_type,
            TIMESTAMPTZ '2025-11-29 00:00:00+00' + to_hours(id) AS event_timestamp, event_timestamp AS ingested_at
        FROM range(40) AS t(id);
"""

# How each promise across tables is broken: by what a source or a refresh could get wrong.
ASIDE = ", tolerance 5 %"
BREAKS: dict[tuple[str, str], str] = {
    ("bronze_orders", f"every user_id is in bronze_customers{ASIDE}"):
        "DELETE FROM bronze_customers WHERE customer_id = 1",
    ("bronze_orders", "at most 5 % of orders have a status that Silver does not know"):
        "UPDATE bronze_orders SET order_status = 'lost' WHERE order_id < 3",
    ("bronze_order_items", f"every order_id is in bronze_orders{ASIDE}"):
        "DELETE FROM bronze_orders WHERE order_id < 3",
    ("bronze_order_items", f"every product_id is in bronze_products{ASIDE}"):
        "DELETE FROM bronze_products WHERE product_id = 1",
    ("bronze_clickstream_events", f"every product_id is in bronze_products{ASIDE}"):
        "DELETE FROM bronze_products WHERE product_id = 1",
    ("bronze_inventory_events", f"every product_id is in bronze_products{ASIDE}"):
        "DELETE FROM bronze_products WHERE product_id = 1",
    ("bronze_products", f"every supplier_id is in bronze_suppliers{ASIDE}"):
        "DELETE FROM bronze_suppliers WHERE supplier_id = 1",
    ("silver_customers", "every customer_id is in bronze_customers"):
        "DELETE FROM bronze_customers WHERE customer_id = 1",
    ("silver_customers", "there are as many customers as bronze_customers has of the four tiers"):
        "DELETE FROM silver_customers WHERE customer_id = 1",
    ("silver_products", "every product_id is in bronze_products"):
        "UPDATE silver_products SET product_id = 99 WHERE product_id = 1",
    ("silver_products", "there are as many products as in bronze_products"):
        "DELETE FROM silver_products WHERE product_id = 1",
    ("silver_enriched_clickstream",
     "there are as many clicks as bronze_clickstream_events has of known users in the five steps"):
        "DELETE FROM silver_enriched_clickstream WHERE event_id = 1",
    ("silver_orders_enriched", "every user is in silver_customers, with the same tier"):
        "UPDATE silver_customers SET customer_tier = 'silver' WHERE customer_id = 1",
    ("silver_orders_enriched", "every order is as it is in bronze_orders"):
        "UPDATE bronze_orders SET order_status = 'returned' WHERE order_id = 2",
    ("silver_orders_enriched", "items and units of each order are those of its valid lines in bronze_order_items"):
        "UPDATE bronze_order_items SET quantity = quantity + 1 WHERE order_id = 2",
    ("silver_orders_enriched", "at least half of the orders of Bronze arrive in Silver"):
        "DELETE FROM silver_orders_enriched WHERE order_id > 18",
    ("silver_order_items_enriched", "every user is in silver_customers, with the same tier"):
        "DELETE FROM silver_customers WHERE customer_id = 1",
    ("silver_order_items_enriched", "every supplier is in bronze_suppliers, with the same name and lead time"):
        "UPDATE bronze_suppliers SET lead_time_days = 10000 WHERE supplier_id = 1",
    ("silver_order_items_enriched", "every order_item_id is in bronze_order_items"):
        "DELETE FROM bronze_order_items WHERE order_item_id = 2",
    ("silver_order_items_enriched", "every line has the status that its order has in bronze_orders"):
        "UPDATE bronze_orders SET order_status = 'returned' WHERE order_id = 2",
    ("silver_confirmed_order_items",
     "lines and net revenue equal those of silver_order_items_enriched neither cancelled nor returned"):
        "DELETE FROM silver_confirmed_order_items WHERE order_item_id = 2",
    ("silver_inventory_current", "every supplier is in bronze_suppliers, with the same name and lead time"):
        "UPDATE bronze_suppliers SET supplier_name = 'Renamed' WHERE supplier_id = 1",
    ("silver_inventory_current", "every product_id is in silver_products"):
        "DELETE FROM silver_products WHERE product_id = 1",
    ("silver_inventory_current", "stock adds up to the movements of supplied products in bronze_inventory_events"):
        "DELETE FROM bronze_inventory_events WHERE inventory_event_id = 2",
    ("silver_inventory_by_supplier", "stock and movements of each supplier add up from silver_inventory_current"):
        "DELETE FROM silver_inventory_by_supplier WHERE supplier_id = 1",
    ("gold_order_status_summary", "orders and revenue of each status equal those of silver_orders_enriched"):
        "DELETE FROM gold_order_status_summary WHERE order_status = 'pending'",
    ("gold_weekly_revenue_trend", "units and net revenue add up to silver_confirmed_order_items"):
        "DELETE FROM gold_weekly_revenue_trend WHERE category IS NULL",
    ("gold_cancellation_impact", "total and cancelled revenue add up to silver_order_items_enriched"):
        "UPDATE gold_cancellation_impact SET weekly_cancelled_revenue = weekly_cancelled_revenue + 1",
    ("gold_cancellation_impact", "no week has more cancelled orders than orders"):
        "UPDATE gold_cancellation_impact SET weekly_cancelled_orders = weekly_total_orders + 1",
    ("gold_supplier_performance",
     "units and net revenue of each supplier with stock equal those of silver_confirmed_order_items"):
        "DELETE FROM silver_inventory_by_supplier WHERE supplier_id = 1",
    ("gold_inventory_risk", "units of each stocked product equal those of silver_confirmed_order_items"):
        "DELETE FROM gold_inventory_risk WHERE product_id = 1",
    ("gold_inventory_risk", "stock of each product equals that of silver_inventory_current"):
        "UPDATE silver_inventory_current SET current_stock = current_stock + 1 WHERE product_id = 1",
    ("gold_realtime_inventory_alerts",
     "the alerts are the CRITICAL rows of gold_inventory_risk, all of them and no others"):
        "UPDATE gold_inventory_risk SET stock_risk_level = 'OK' WHERE stock_risk_level = 'CRITICAL'",
    ("gold_product_demand_surge", f"every product_id is in silver_products{ASIDE}"):
        "DELETE FROM silver_products WHERE product_id = 1",
    ("gold_product_demand_surge", "views, carts and checkouts add up to the last day of silver_enriched_clickstream"):
        "UPDATE gold_product_demand_surge SET recent_views = recent_views + 1",
}  # fmt: skip


# What to replace in a row, for a promise that a table makes by a query of its own.
OWN_BREAKS = {
    "every version ends after it began": ["__START_AT AS __END_AT"],
    "no two versions of a customer hold at the same time": ["__START_AT - INTERVAL 1 DAY AS __START_AT"],
    "a customer has one current version at most": ["'another' AS customer_key"],
    "a product has one current version at most": ["'another' AS product_key"],
    "every customer_key is in gold_dim_customer": ["'nobody' AS customer_key"],
    "every product_key is in gold_dim_product": ["'nothing' AS product_key"],
    "every date_key is in gold_dim_date": ["19000101 AS date_key"],
}


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    """The shop in memory, Silver and what is above it made by the tables' own queries, in the words of DuckDB."""
    name = ":memory:shop"
    with duckdb.connect(name) as connection:
        connection.execute("SET GLOBAL TimeZone = 'UTC'")
        for source in (*TABLES.feeds, *TABLES.logs):
            columns = ", ".join(f"{column.name} {_duckdb_type(column.type)}" for column in source.columns)
            connection.execute(f"CREATE TABLE {source.name} ({columns})")
        connection.execute(BRONZE)
        for log in TABLES.logs:
            connection.execute(
                f"INSERT INTO {log.name} BY NAME SELECT *, FALSE AS _deleted, ROW_NUMBER() OVER () AS _line,"
                f" 'snapshot' AS _source_file, 'a system' AS _source_system, NOW() AS _loaded_at FROM {log.of}"
            )
        for table in TABLES:
            if isinstance(table, Table):
                connection.execute(f"CREATE TABLE {table.name} AS {translated(table)}")
        yield name


def _duckdb_type(spark: str) -> str:
    return "TIMESTAMPTZ" if spark == "TIMESTAMP" else spark


@pytest.fixture
def shop(database: str) -> Iterator[duckdb.DuckDBPyConnection]:
    """The shop, as it was before once the test ends."""
    with duckdb.connect(database) as connection:
        connection.begin()
        yield connection
        connection.rollback()


# -- promises across tables


def test_each_promise_across_tables_is_broken_below() -> None:
    assert set(BREAKS) == {(table, expectation.meaning) for table, expectation in ACROSS}


@pytest.mark.parametrize(("table", "expectation"), ACROSS, ids=[f"{t}: {e.meaning}" for t, e in ACROSS])
def test_a_promise_across_tables_holds_and_can_be_broken(
    shop: duckdb.DuckDBPyConnection, table: str, expectation: Expectation
) -> None:
    query = bind(expectation.arguments[QUERY], table)
    assert shop.execute(query).fetchall() == []

    shop.execute(BREAKS[table, expectation.meaning])

    assert shop.execute(query).fetchall() != []


@pytest.mark.parametrize(
    "change",
    [
        "INSERT INTO gold_realtime_inventory_alerts FROM gold_inventory_risk WHERE stock_risk_level <> 'CRITICAL'",
        "DELETE FROM gold_realtime_inventory_alerts WHERE product_id = 1",
        "UPDATE gold_inventory_risk SET lead_time_days = lead_time_days + 1",
    ],
    ids=["too many", "too few", "out of date"],
)
def test_alerts_and_risk_are_compared_both_ways(shop: duckdb.DuckDBPyConnection, change: str) -> None:
    shop.execute("UPDATE gold_inventory_risk SET stock_risk_level = 'OK' WHERE product_id = 2")
    shop.execute("DELETE FROM gold_realtime_inventory_alerts WHERE product_id = 2")
    (expectation,) = (e for table, e in ACROSS if table == "gold_realtime_inventory_alerts")
    query = bind(expectation.arguments[QUERY], "gold_realtime_inventory_alerts")
    assert shop.execute(query).fetchall() == []

    shop.execute(change)

    assert shop.execute(query).fetchall() != []


def test_an_empty_shop_keeps_every_promise_across_tables(shop: duckdb.DuckDBPyConnection) -> None:
    for table in TABLES:
        shop.execute(f"DELETE FROM {table.name}")

    found = {e.meaning: shop.execute(bind(e.arguments[QUERY], table)).fetchall() for table, e in ACROSS}

    assert not any(found.values())


def test_a_promise_names_only_tables_of_its_layer_or_below() -> None:
    for table, expectation in ACROSS:
        named = {name for _, name, _, _ in Formatter().parse(expectation.arguments[QUERY]) if name} - {"batch"}
        allowed = {
            "bronze": ["bronze"],
            "silver": ["bronze", "silver"],
            "gold": ["silver", "gold"],
            "platinum": ["gold"],
        }
        for name in named:
            assert TABLES[name].layer in allowed[TABLES[table].layer], f"{table}: {expectation.meaning}"


# -- what each table promises about itself


def bad_rows(expectation: Expectation) -> list[str]:
    """For each way to break ``expectation``, known from its kind alone: what to replace in a row that keeps it."""
    column = expectation.arguments.get("column")
    match expectation.kind:
        case "ExpectColumnValuesToNotBeNull":
            return [f"NULL AS {column}"]
        case "ExpectColumnValuesToBeInSet":
            return [f"'no such value' AS {column}"]
        case "ExpectColumnValuesToBeBetween":
            least, most = expectation.arguments["min_value"], expectation.arguments.get("max_value")
            return [f"{least} - 1 AS {column}"] + ([f"{most} + 1 AS {column}"] if most is not None else [])
        case "UnexpectedRowsExpectation" if expectation.meaning.endswith(" is unique"):
            return [""]  # the same row again
        case "UnexpectedRowsExpectation":
            return OWN_BREAKS[expectation.meaning]
        case "ExpectTableRowCountToBeBetween":
            return []  # broken by no row: test_checks.py has an empty table
    raise AssertionError(f"say how {expectation.meaning!r} is broken")


@pytest.fixture(scope="module")
def judged(database: str) -> dict[tuple[str, str, str], Verdict]:
    """Verdicts by state, table and meaning: on each table as it is, and on one with a bad row for each promise."""
    from medallion.checks import validation

    own = {table.name: [e for name, e in OWN if name == table.name] for table in TABLES}
    told: dict[str, list[Expectation]] = {}
    with duckdb.connect(database) as connection:
        for table, expectations in own.items():
            for state in ("good", "bad"):
                copy = f"{state}_{table}"
                connection.execute(f"CREATE TABLE {copy} AS FROM {table}")
                told[copy] = [_on(copy, expectation) for expectation in expectations]
            for replacement in (bad for expectation in expectations for bad in bad_rows(expectation)):
                row = f"* REPLACE ({replacement})" if replacement else "*"
                connection.execute(f"INSERT INTO bad_{table} SELECT {row} FROM {table} LIMIT 1")
        found = validation.validate(
            database,
            told,
            run_name="all",
            at=datetime(2025, 11, 30, tzinfo=UTC),
        )
    return {
        (state, table, expectation.meaning): verdict
        for state in ("good", "bad")
        for table, expectations in own.items()
        for expectation, verdict in zip(expectations, found.verdicts[f"{state}_{table}"], strict=True)
    }


def _on(table: str, expectation: Expectation) -> Expectation:
    """``expectation`` as it is judged on ``table``, even one bad row counting."""
    arguments: dict[str, Any] = {name: value for name, value in expectation.arguments.items() if name != "mostly"}
    if QUERY in arguments:
        arguments[QUERY] = bind(arguments[QUERY], table)
    return Expectation(expectation.kind, arguments, expectation.meaning, expectation.severity)


@pytest.mark.parametrize(("table", "expectation"), OWN, ids=[f"{t}: {e.meaning}" for t, e in OWN])
def test_a_promise_of_a_table_holds_and_can_be_broken(
    judged: dict[tuple[str, str, str], Verdict], table: str, expectation: Expectation
) -> None:
    good, bad = judged["good", table, expectation.meaning], judged["bad", table, expectation.meaning]

    assert good == Verdict(True)
    if ways := len(bad_rows(expectation)):
        assert (bad.success, bad.error) == (False, None)
        # rows that break another promise may break a query's too
        assert bad.unexpected == ways or (expectation.kind == "UnexpectedRowsExpectation" and bad.unexpected > ways)


def test_great_expectations_knows_every_kind_and_argument() -> None:
    from medallion.checks import validation

    for table, expectation in PROMISES:
        built = validation.build(_on(table, expectation))
        assert built.severity == expectation.severity


def test_expectations_of_a_table_have_distinct_meanings() -> None:
    named = [(table, expectation.meaning) for table, expectation in PROMISES]

    assert sorted(set(named)) == sorted(named)
