"""How a table is refreshed follows from its query and from those that read it; who declares it is nobody."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from medallion.errors import MedallionError
from medallion.model.dimension import dimension
from medallion.model.methods import Additive, ByKey, Full, Kept, Recent, Via
from medallion.model.table import ChangeLog, Feed, Table
from tests.proving import derivation, derived
from tests.shop import build, registry

ITEMS = Feed(
    keys=("item_id",),
    schema="item_id BIGINT NOT NULL, order_id BIGINT, product_id BIGINT, n INT, price DECIMAL(10,2), sold_at TIMESTAMP",
    name="bronze_items",
    doc="One row per item.",
)
ORDERS = Feed(
    keys=("order_id",),
    schema="order_id BIGINT NOT NULL, customer BIGINT, status STRING",
    name="bronze_orders",
    doc="One row per order.",
)
USERS = Feed(
    keys=("user_id",), schema="user_id BIGINT NOT NULL, tier STRING", name="bronze_users", doc="One row per user."
)
NODES = {feed.name: feed for feed in (ITEMS, ORDERS, USERS)}


def table(name: str, query: str, *keys: str, **more: Any) -> Table:
    layer = name.partition("_")[0]
    return Table(keys=keys, query=query, name=name, layer=layer, doc="Rows.", **more)


def methods(*tables: Table) -> dict[str, Any]:
    found = derived(build([*NODES.values(), *tables]))
    return {node.name: node.method for node in found if isinstance(node, Table)}


# what the shop had declared until methods were derived: each is found, and for the same columns of inputs
DECLARED = {
    "silver_confirmed_order_items": ByKey("order_id"),
    "silver_customers": ByKey("customer_id"),
    "silver_customers_at_signup": ByKey("customer_id"),
    "silver_customers_history": ByKey("customer_id"),
    "silver_customers_tier_before": ByKey("customer_id"),
    "silver_enriched_clickstream": ByKey("event_id"),
    "silver_inventory_by_supplier": Full(),
    "silver_inventory_current": Additive(("stock",)),
    "silver_order_items_enriched": ByKey(
        "order_id",
        via={
            "silver_customers": Via("customer_id", "bronze_orders", "user_id"),
            "bronze_products": Via("product_id", "bronze_order_items", "product_id"),
            "bronze_suppliers": Via("supplier_id", "bronze_products", "supplier_id"),
        },
    ),
    "silver_orders": ByKey("order_id"),
    "quarantine_silver_orders": ByKey("order_id"),
    "silver_orders_enriched": ByKey(
        "order_id", via={"silver_customers": Via("customer_id", "bronze_orders", "user_id")}
    ),
    "silver_products": ByKey("product_id"),
    "silver_products_history": ByKey("product_id"),
    "silver_products_latest": ByKey("product_id"),
    "gold_cancellation_impact": Additive(("weeks",)),
    # a changed customer is looked for by its own id; it had been over gold_customer_orders_summary
    "gold_customer_ltv": ByKey("user_id"),
    "gold_customer_orders_summary": ByKey("user_id"),
    "gold_daily_orders": Additive(("days",)),
    "gold_dim_customer": ByKey("customer_id"),
    "gold_dim_date": Full(),
    "gold_dim_product": ByKey("product_id"),
    "gold_fact_sales": ByKey(
        "order_id",
        via={
            "gold_dim_customer": Via("customer_id", "silver_order_items_enriched", "user_id"),
            "gold_dim_product": Via("product_id", "silver_order_items_enriched", "product_id"),
        },
    ),
    "gold_inventory_risk": Additive(("days", "sales")),
    "gold_order_status_summary": Additive(("customers",)),
    "gold_product_demand_surge": "latest rows by event_timestamp",
    "gold_realtime_inventory_alerts": Full(),
    "gold_revenue_by_region": Additive(("days",)),
    "gold_supplier_performance": Additive(("products", "orders")),
    "gold_weekly_revenue_trend": Additive(("weeks",)),
    "platinum_top_customers_by_region": Full(),
}


def test_the_shop_is_refreshed_as_cheaply_as_it_was_declared() -> None:
    found = {node.name: node for node in registry(extras=True) if isinstance(node, Table)}
    assert found.keys() == DECLARED.keys()
    for name, declared in DECLARED.items():
        method = found[name].method
        if isinstance(method, ByKey):
            assert isinstance(declared, ByKey), name
            assert (method.column, method.via) == (declared.column, declared.via), name
        elif isinstance(method, Recent):
            assert found[name].refresh_method == declared, name
        else:
            assert method == declared, name


def test_the_lock_is_what_is_derived_anew() -> None:
    unlocked = registry(extras=True).with_methods(dict.fromkeys(DECLARED))
    assert derived(unlocked).tables == registry(extras=True).tables


def test_a_key_is_found_under_other_names_and_a_path_over_several_joins() -> None:
    found = derivation(
        """
        SELECT i.item_id AS line, o.status, u.tier
        FROM {bronze_items} AS i
        INNER JOIN {bronze_orders} AS o ON o.order_id = i.order_id
        INNER JOIN {bronze_users} AS u ON u.user_id = o.customer
        """,
        NODES,
        ("line",),
    )
    via = {
        "bronze_orders": Via("order_id", "bronze_items", "order_id"),
        "bronze_users": Via("user_id", "bronze_orders", "customer"),
    }
    assert found.method == ByKey("line", via, {"bronze_items": "item_id"})
    other = derivation(
        "SELECT u.user_id AS who, o.status FROM {bronze_users} AS u LEFT JOIN {bronze_orders} AS o"
        " ON o.customer = u.user_id",
        NODES,
        ("who",),
    )
    assert other.method == ByKey("who", {}, {"bronze_users": "user_id", "bronze_orders": "customer"})


LINES = "SELECT i.item_id, i.order_id, i.product_id, i.n, o.status FROM {bronze_items} AS i INNER JOIN {bronze_orders} AS o ON o.order_id = i.order_id"  # noqa: E501


def test_readers_that_count_distinct_values_choose_the_key_of_what_they_read() -> None:
    lines = table("silver_lines", LINES, "item_id")
    counts = table(
        "gold_counts",
        """
        WITH products AS (
            SELECT product_id, COUNT(DISTINCT order_id) AS orders, SUM(n) AS units
            FROM {silver_lines}
            GROUP BY product_id
        )
        SELECT product_id, orders, units FROM products
        """,
        "product_id",
    )
    alone, read = methods(lines), methods(lines, counts)
    assert alone["silver_lines"].column == "item_id"
    assert read["silver_lines"].column == "order_id"
    assert read["gold_counts"] == Additive(("products",))


DAYS = """
    days AS (
        SELECT CAST(sold_at AS DATE) AS day, product_id, SUM(n) AS units
        FROM {bronze_items}
        GROUP BY CAST(sold_at AS DATE), product_id
    )"""


def test_parts_are_taken_from_the_outside_in_and_inner_ones_where_an_outer_one_needs_them() -> None:
    outer = ", totals AS (SELECT product_id, COUNT(*) AS days, SUM(units) AS units FROM days GROUP BY product_id)"
    both = derivation(f"WITH {DAYS}{outer} SELECT product_id, units / days AS pace FROM totals", NODES, ("product_id",))
    assert both.method == Additive(("days", "totals"))
    largest = ", totals AS (SELECT product_id, MAX(units) AS units FROM days GROUP BY product_id)"
    inner = derivation(f"WITH {DAYS}{largest} SELECT product_id, units FROM totals", NODES, ("product_id",))
    assert inner.method == Additive(("days",))


def test_a_table_over_rows_that_are_all_computed_each_time_is_computed_too_unless_its_policy_says_otherwise() -> None:
    products = table(
        "silver_products", f"WITH {DAYS} SELECT product_id, SUM(units) AS n FROM days GROUP BY product_id", "product_id"
    )
    busy = "SELECT product_id, n FROM {silver_products} WHERE n > 10"
    by_policy = {
        policy: methods(products, table("gold_busy", busy, "product_id", refresh=policy))["gold_busy"]
        for policy in ("auto", "incremental", "incremental strict", "full")
    }
    by_product = ByKey("product_id", {}, {"silver_products": "product_id"})
    assert by_policy == {
        "auto": Full(),
        "incremental": by_product,
        "incremental strict": by_product,
        "full": Full(),
    }


def test_a_strict_policy_that_cannot_be_kept_is_refused_with_each_reason() -> None:
    query = "SELECT status, COLLECT_SET(customer) IS NULL AS none FROM {bronze_orders} GROUP BY status LIMIT 3"
    with pytest.raises(MedallionError, match="not deterministic"):
        derivation(query, NODES, ("status",), refresh="full")
    others = (
        "SELECT order_id FROM {bronze_orders}"
        " WHERE customer NOT IN (SELECT customer FROM {bronze_orders} WHERE status = 'x')"
    )
    with pytest.raises(
        MedallionError,
        match=r"gold_x declares refresh='incremental strict', and no incremental method is proven right for its query:"
        r" .*upsert: .*subquery over",
    ):
        derivation(others, NODES, ("order_id",), refresh="incremental strict")
    found = derivation(others, NODES, ("order_id",), refresh="incremental")
    assert isinstance(found.method, Full)
    assert "a subquery over bronze_orders without order_id = order_id" in found.refused["upsert"]


def test_relations_are_kept_rather_than_most_rows_replaced_where_a_key_has_few_values() -> None:
    query = "SELECT status, COUNT(*) AS n, MAX(order_id) AS newest FROM {bronze_orders} GROUP BY status"
    found = derivation(query, NODES, ("status",), refresh="incremental")
    assert isinstance(found.method, Kept)
    assert "costs more than the incremental aggregate" in found.refused["upsert"]


def test_a_query_that_is_wrong_is_refused_and_what_reads_it_waits() -> None:
    wrong = table("silver_wrong", "SELECT nothing FROM {bronze_orders}", "nothing")
    reader = table("gold_reader", "SELECT nothing FROM {silver_wrong}", "nothing")
    with pytest.raises(MedallionError, match=r"wrong\.py \(silver_wrong\): bronze_orders has no column nothing"):
        methods(wrong, reader)


@pytest.mark.parametrize("wrong", ["FORM {bronze_orders} GROUP", "FROM {bronze_orders} WHERE status > ARRAY(1)"])
def test_what_spark_cannot_read_is_named_by_the_line_of_the_module(tmp_path: Path, wrong: str) -> None:
    query = f"\n    SELECT status\n    {wrong}\n"
    module = tmp_path / "wrong.py"
    module.write_text(f'DOC = 1\nQUERY = """{query}"""\n')
    with pytest.raises(MedallionError, match=r"silver_wrong: .*\(spark_jobs/silver/wrong\.py, line 4\)"):
        methods(replace(table("silver_wrong", query, "status"), module=module))


def test_a_dimension_of_two_keys_is_refreshed_by_the_first() -> None:
    feed = Feed(
        keys=("a", "b"),
        schema="a BIGINT NOT NULL, b STRING NOT NULL, name STRING, at TIMESTAMP NOT NULL",
        name="bronze_things",
        doc="One row per a and b.",
    )
    log = ChangeLog(of="bronze_things", source_system="shop", name="bronze_things_log", doc="A log.")
    history = dimension("bronze_things_log", key=("a", "b"), sequence_by="at", scd_type=2, columns=("name",))
    values = vars(history) | {"name": "silver_history", "doc": "One row per key and time."}
    found = derived(build([feed, log, Table(**values)]))["silver_history"]
    assert isinstance(found, Table)
    assert found.method == ByKey("a", {}, {"bronze_things_log": "a"})


def test_latest_rows_are_found_with_the_shortest_span_that_is_right() -> None:
    query = """
        SELECT product_id, COUNT(*) AS sales
        FROM {bronze_items}
        WHERE sold_at > (SELECT MAX(sold_at) FROM {bronze_items}) - INTERVAL '36' HOURS
        GROUP BY product_id
    """
    found = derivation(query, NODES, ("product_id",))
    assert isinstance(found.method, Recent)
    assert (found.method.input, found.method.column, found.method.span.total_seconds()) == (
        "bronze_items",
        "sold_at",
        36 * 3600,
    )


def test_what_is_not_known_to_be_followed_is_recomputed_and_says_so() -> None:
    found = derivation("SELECT product_id, PERCENTILE(n, 0.5) AS mid FROM {bronze_items} GROUP BY product_id", NODES)
    assert isinstance(found.method, Full | ByKey)
    sessions = "SELECT SESSION_WINDOW(sold_at, '5 minutes') AS s, COUNT(*) AS n FROM {bronze_items} GROUP BY 1"
    held = derivation(sessions, NODES, ("s",))
    assert isinstance(held.method, Full)
    assert "SESSION_WINDOW" in held.reason
