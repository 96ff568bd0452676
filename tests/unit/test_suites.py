"""Every promise of every table can be kept, and every one of them can be broken and is then seen."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from string import Formatter
from typing import Any

import duckdb
import pytest

from expectations.checkpoint import bind
from expectations.result import Verdict
from expectations.suites import suites
from expectations.vocabulary import Expectation
from spark_jobs.core.registry import registry
from spark_jobs.core.table import LAYERS, Table

QUERY = "unexpected_rows_query"
PROMISES = [
    (table, expectation)
    for layer in LAYERS
    for table, suite in suites(layer, registry()).items()
    for expectation in suite
]
OWN = [(table, expectation) for table, expectation in PROMISES if expectation in registry()[table].expectations]
ACROSS = [(table, expectation) for table, expectation in PROMISES if expectation not in registry()[table].expectations]

# Two weeks of a small shop: everything that Silver drops is here once, and is not enough to worry about.
BRONZE = """
    INSERT INTO bronze_suppliers BY NAME
        SELECT id AS supplier_id, 'Supplier ' || id AS supplier_name, 'DE' AS country, 5 AS lead_time_days,
            TIMESTAMPTZ '2025-11-01 00:00:00+00' AS updated_at
        FROM range(3) AS t(id);
    INSERT INTO bronze_products BY NAME
        SELECT id AS product_id, 'Product ' || id AS product_name, CASE WHEN id % 4 > 0 THEN 'c' || id % 2 END AS category,
            id % 3 AS supplier_id, 20 AS list_price, 10 AS cost_price, id <> 5 AS is_active,
            TIMESTAMPTZ '2025-11-01 00:00:00+00' AS updated_at
        FROM range(8) AS t(id);
    INSERT INTO bronze_customers BY NAME
        SELECT id AS customer_id, CASE WHEN id = 9 THEN 'vip' ELSE 'gold' END AS customer_tier,
            TIMESTAMPTZ '2025-11-01 00:00:00+00' AS updated_at
        FROM range(10) AS t(id);
    INSERT INTO bronze_orders BY NAME
        SELECT id AS order_id, id % 10 AS user_id, 30 + id AS order_total,
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
            ['restock', 'sale_reserve'][1 + id // 16] AS event_type, CASE WHEN id < 16 THEN 9 ELSE -2 END AS quantity_change,
            TIMESTAMPTZ '2025-11-17 00:00:00+00' AS event_timestamp, event_timestamp AS ingested_at
        FROM range(32) AS t(id);
    INSERT INTO bronze_clickstream_events BY NAME
        SELECT id AS event_id, CASE WHEN id <> 7 THEN id % 10 END AS user_id, id % 8 AS product_id,
            ['page_view', 'product_view', 'add_to_cart', 'begin_checkout', 'purchase', 'noise'][1 + id % 6] AS event_type,
            TIMESTAMPTZ '2025-11-29 00:00:00+00' + to_hours(id) AS event_timestamp, event_timestamp AS ingested_at
        FROM range(40) AS t(id);
"""

# How each promise across tables is broken: by what an incremental refresh, or a source, could get wrong.
BREAKS: dict[tuple[str, str], str] = {
    ("bronze_orders", "at most 5 % of rows have a user_id not in bronze_customers"): "DELETE FROM bronze_customers WHERE customer_id = 1",
    ("bronze_orders", "at most 5 % of orders have a status that Silver does not know"): "UPDATE bronze_orders SET order_status = 'lost' WHERE order_id < 3",
    ("bronze_order_items", "at most 5 % of rows have a order_id not in bronze_orders"): "DELETE FROM bronze_orders WHERE order_id < 3",
}
