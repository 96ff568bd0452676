"""The tables as a graph, and their queries as text: what can be known without Spark."""

import subprocess
import sys
from dataclasses import replace
from itertools import groupby

import duckdb
import pytest
import sqlglot
from sqlglot import exp

from bench.duck import translated
from medallion.errors import MedallionError, UsageError
from medallion.expect.vocabulary import in_set, no_rows, not_null, unique
from medallion.model.dropped_rows import split_dropped_rows
from medallion.model.table import Feed, Node, Table
from tests.shop import build, registry

FEEDS = {
    *("bronze_clickstream_events", "bronze_customers", "bronze_inventory_events", "bronze_order_items"),
    *("bronze_orders", "bronze_products", "bronze_suppliers"),
}

EVERY = registry(extras=True)

# What users of each table rely on: its columns, in order.
LINE_COLUMNS = """
    order_item_id order_id product_id quantity unit_price discount_pct line_gross_revenue line_net_revenue
    line_gross_margin product_name category brand cost_price list_price supplier_id supplier_name supplier_country
    lead_time_days order_created_at order_status user_id customer_tier
"""
RISK_COLUMNS = """
    product_id product_name category brand supplier_name lead_time_days total_stock_all_warehouses units_sold
    avg_daily_units days_of_stock_remaining stock_risk_level net_revenue gross_margin
"""
COLUMNS = {
    "silver_customers": "customer_id email signup_date customer_tier geo_country geo_region updated_at",
    "silver_products": "product_id product_name category brand list_price",
    "silver_enriched_clickstream": """
        event_id user_id session_id event_type page_url product_id device_type geo_country geo_region event_timestamp
    """,
    "silver_orders_enriched": """
        order_id user_id order_status order_total discount_amount shipping_cost payment_method coupon_code created_at
        updated_at customer_tier customer_country customer_region signup_date item_count total_quantity
        gross_item_revenue avg_discount_pct
    """,
    "silver_order_items_enriched": LINE_COLUMNS,
    "silver_confirmed_order_items": LINE_COLUMNS,
    "silver_inventory_current": """
        product_id warehouse_id product_name category brand supplier_id supplier_name lead_time_days current_stock
        total_restocked total_sold total_returned
    """,
    "silver_inventory_by_supplier": """
        supplier_id supplier_name total_current_stock total_sold total_restocked total_returned
    """,
    "gold_supplier_performance": """
        supplier_id supplier_name supplier_country lead_time_days products_sold orders_fulfilled total_units_sold
        total_net_revenue total_gross_margin avg_margin_pct avg_discount_applied reliability_score
        total_current_stock inventory_units_sold inventory_units_restocked inventory_units_returned
    """,
    "gold_inventory_risk": RISK_COLUMNS,
    "gold_order_status_summary": "order_status order_count total_revenue avg_order_value unique_customers",
    "gold_weekly_revenue_trend": """
        week_start category weekly_net_revenue weekly_gross_margin order_count units_sold revenue_wow_change
        revenue_wow_pct_change revenue_4wk_moving_avg margin_4wk_moving_avg cumulative_ytd_revenue
    """,
    "gold_cancellation_impact": """
        category week_start weekly_cancelled_orders weekly_total_orders weekly_cancelled_revenue weekly_total_revenue
        cumulative_cancellation_rate cumulative_cancelled_revenue cancellation_rate_4wk
    """,
    "gold_realtime_inventory_alerts": RISK_COLUMNS,
    "gold_product_demand_surge": """
        product_id recent_views recent_add_to_carts recent_checkouts product_name product_category product_brand
        total_stock_all_warehouses lead_time_days days_of_stock_cover view_to_checkout_rate demand_alert
    """,
}

# What would give another answer another time, and functions that no other engine knows: to sqlglot they are anonymous.
UNSTABLE = (exp.CurrentTimestamp, exp.CurrentDate, exp.CurrentTime, exp.Localtimestamp, exp.Rand, exp.Uuid)
UNKNOWN = (exp.Anonymous, exp.AnonymousAggFunc)
OFFSETS = (exp.Lag, exp.Lead)


def parsed(table: Table) -> exp.Query:
    """The query with each ``{silver_customers}`` as a plain name."""
    query = sqlglot.parse_one(table.query.format_map({name: name for name in table.inputs}), dialect="spark")
    assert isinstance(query, exp.Query)
    return query


@pytest.fixture(params=[table.name for table in EVERY if isinstance(table, Table)])
def table(request: pytest.FixtureRequest) -> Table:
    found = EVERY[request.param]
    assert isinstance(found, Table)
    return found


of_the_contract = pytest.mark.parametrize("table", COLUMNS, indirect=True)


# the queries


def test_a_query_names_no_table_but_its_placeholders(table: Table) -> None:
    query = parsed(table)
    own = {cte.alias for cte in query.find_all(exp.CTE)}
    assert {found.name for found in query.find_all(exp.Table)} - own == set(table.inputs)
    assert not own & set(EVERY.tables), "a CTE that hides a table"
    assert {found.db + found.catalog for found in query.find_all(exp.Table)} == {""}, "a table in a database or path"


@of_the_contract
def test_the_final_select_is_the_schema(table: Table) -> None:
    query = parsed(table)
    assert query.named_selects == COLUMNS[table.name].split()
    assert not any(star for select in query.find_all(exp.Select) for star in select.expressions if star.is_star)


@of_the_contract
def test_keys_and_expectations_speak_of_columns_that_are_there(table: Table) -> None:
    columns = set(COLUMNS[table.name].split())
    assert set(table.keys) <= columns
    assert set(table.nullable_keys) <= set(table.keys)
    assert {e.arguments["column"] for e in table.expectations if "column" in e.arguments} <= columns


def test_a_query_depends_on_its_inputs_alone_and_speaks_sql_that_others_know(table: Table) -> None:
    assert not list(parsed(table).find_all(*UNSTABLE, *UNKNOWN))


def test_every_window_says_its_frame(table: Table) -> None:
    for window in parsed(table).find_all(exp.Window):
        # a named window has its frame where it is declared; the frame of LAG is its offset
        if not window.args.get("alias") and not isinstance(window.this, OFFSETS):
            assert window.args.get("spec"), window.sql("spark")


def test_joins_say_what_they_are_and_on_what(table: Table) -> None:
    for join in parsed(table).find_all(exp.Join):
        assert join.side or join.kind, join.sql("spark")
        assert join.args.get("on"), join.sql("spark")


# the graph


def test_the_tables_are_those_of_the_contract() -> None:
    assert set(registry(extras=False).tables) >= FEEDS | set(COLUMNS)
    assert {feed.name for feed in registry().feeds} >= FEEDS


def test_every_table_comes_after_its_inputs_and_each_layer_after_the_one_below() -> None:
    seen: list[str] = []
    for table in EVERY:
        assert set(table.inputs) <= set(seen), table.name
        seen.append(table.name)
    layers = ["bronze", "silver", "gold", "platinum"]
    assert [layer for layer, _ in groupby(EVERY, key=lambda table: table.layer)] == layers


def test_every_table_says_what_one_row_is() -> None:
    for table in EVERY:
        assert f"One row per {' and '.join(table.keys)}." in " ".join(table.doc.split()), table.name


def test_gold_answers_from_silver_and_gold_alone() -> None:
    above = (*EVERY.queries("gold"), *EVERY.queries("platinum"))
    assert not {name for table in above for name in table.inputs if name.startswith("bronze_")}


def test_the_graph_is_read_without_spark_or_great_expectations() -> None:
    heavy = "import sys; from medallion.project import find_project; find_project().registry()"
    heavy += "; print({'pyspark', 'great_expectations', 'airflow'} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", heavy], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "set()"


def test_error_for_an_unknown_table_names_those_like_it_or_where_all_are_listed() -> None:
    with pytest.raises(UsageError, match=r"no table is called 'silver_customer': did you mean silver_customers"):
        registry()["silver_customer"]
    with pytest.raises(UsageError, match="'nope': medallion tables lists"):
        registry()["nope"]


FEED = Feed(keys=("id",), schema="id BIGINT NOT NULL, name STRING", name="bronze_a", doc="One row per id.")
SILVER = Table(
    keys=("id",), query="SELECT id FROM {bronze_a}", name="silver_a", layer="silver", doc="A. One row per id."
)


def gold(*inputs: str, name: str = "gold_a", doc: str = "One row per id.") -> Table:
    """A Gold table that reads ``inputs``."""
    query = " UNION ALL ".join(f"SELECT id FROM {{{table}}}" for table in inputs)
    return Table(keys=("id",), query=query, name=name, layer="gold", doc=doc)


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ([gold("silver_b")], r"spark_jobs/gold/a\.py reads silver_b, which is no table: did you mean silver_a\?"),
        ([gold("x")], r"spark_jobs/gold/a\.py reads x, which is no table: there are bronze_a, "),
        ([gold("bronze_a")], r"spark_jobs/gold/a\.py reads bronze_a: a gold table may not read bronze"),
        ([gold("silver_a", doc="")], r"spark_jobs/gold/a\.py has no docstring"),
        (
            [gold("gold_b"), gold("gold_a", name="gold_b")],
            r"the tables gold_\w -> gold_\w -> gold_\w read each other in a circle",
        ),
        (
            [replace(gold("silver_a"), values={"states": ("a",)})],
            r"spark_jobs/gold/a\.py names a list of values states",
        ),
        ([replace(gold("silver_a"), values={"STATES": ()})], r"spark_jobs/gold/a\.py has no value in the list STATES"),
        ([gold("STATES")], r"spark_jobs/gold/a\.py names \{STATES\}, a list that it does not have: add it to values="),
        (
            [replace(gold("silver_a"), keys=("id", "k.k"))],
            r"spark_jobs/gold/a\.py declares its key 'k\.k', .* give the column a name of letters",
        ),
        ([replace(gold("silver_a"), keys=("a-b",))], r"spark_jobs/gold/a\.py declares its key 'a-b'"),
        ([replace(gold("silver_a"), keys=("größe",))], r"spark_jobs/gold/a\.py declares its key 'größe'"),
        ([replace(gold("silver_a"), pruned_by=("a b",))], r"a\.py declares its column of pruned_by 'a b'"),
        (
            [Feed(keys=("key",), schema="id BIGINT", name="bronze_b", doc="One row per key.")],
            r"spark_jobs/bronze/b\.py declares no column for its key key",
        ),
        (
            [Feed(("id",), "id BIGINT NOT NULL, at DATE", event_time=("at",), name="bronze_b", doc="One row per id.")],
            r"spark_jobs/bronze/b\.py declares the event time at, which is no TIMESTAMP column of its schema",
        ),
        (
            [Feed(keys=("id",), schema="id bigint", name="bronze_b", doc="One row per id.")],
            r"column 'id bigint' cannot be read: write name TYPE, or name TYPE NOT NULL",
        ),
    ],
)
def test_a_wrong_graph_is_refused_by_the_name_of_its_module(tables: list[Node], message: str) -> None:
    with pytest.raises(MedallionError, match=message):
        build([FEED, SILVER, *tables])


def test_silver_may_not_read_gold() -> None:
    reader = replace(SILVER, name="silver_b", query="SELECT id FROM {gold_a}")
    with pytest.raises(MedallionError, match=r"spark_jobs/silver/b\.py reads gold_a: a silver table may not read gold"):
        build([FEED, SILVER, gold("silver_a"), reader])


def test_query_has_the_lists_that_it_names_as_literals() -> None:
    query = "SELECT id FROM {silver_a} WHERE state IN {STATES} AND note <> '{{STATES}}'"
    table = replace(gold("silver_a"), query=query, values={"STATES": ("it's", "new")})
    assert table.query == "SELECT id FROM {silver_a} WHERE state IN ('it\\'s', 'new') AND note <> '{{STATES}}'"
    assert table.inputs == ("silver_a",)
    assert replace(table, name="gold_b").query == table.query


def test_expectation_has_the_lists_that_it_names_as_literals() -> None:
    query = "SELECT * FROM {batch} WHERE status NOT IN {STATUSES} AND note <> '{{STATUSES}}'"
    expectation = no_rows(query, "every status is known", values={"STATUSES": ("new", "it's")})
    assert expectation.arguments["unexpected_rows_query"] == (
        "SELECT * FROM {batch} WHERE status NOT IN ('new', 'it''s') AND note <> '{{STATUSES}}'"
    )


def test_inputs_are_named_once_in_the_order_of_the_query() -> None:
    assert gold("silver_b", "silver_a", "silver_b").inputs == ("silver_b", "silver_a")
    assert Table(keys=("id",), query="SELECT '{{}}' AS id FROM {silver_a}").inputs == ("silver_a",)


def test_a_feed_knows_its_columns_topic_and_promises() -> None:
    orders = registry()["bronze_orders"]
    assert isinstance(orders, Feed)
    assert orders.topic == "orders"
    assert [(c.name, c.type, c.required) for c in orders.columns[2:4]] == [
        ("order_status", "STRING", False),
        ("order_total", "DECIMAL(12,2)", False),
    ]
    meanings = [promise.meaning for promise in orders.expectations]
    assert meanings[:3] == ["order_id is unique", "order_id is never null", "created_at is never null"]


def test_a_key_that_may_be_null_is_unique_but_not_required() -> None:
    trend = registry()["gold_weekly_revenue_trend"]
    meanings = [promise.meaning for promise in trend.expectations]
    assert meanings[:2] == ["week_start, category is unique", "week_start is never null"]
    assert "category is never null" not in meanings


# rows that are dropped


PICKY = replace(
    SILVER,
    query="SELECT id, name FROM {bronze_a}",
    expect=(not_null("name", severity="drop"), in_set("name", ("it's", "{b}"), severity="drop"), not_null("id")),
)


def test_a_row_that_breaks_a_promise_to_drop_is_kept_beside_the_table_with_all_that_it_breaks() -> None:
    kept, dropped = split_dropped_rows(PICKY)
    assert (kept.name, dropped.name, dropped.keys) == ("silver_a", "quarantine_silver_a", ("id",))
    rows = "INSERT INTO bronze_a VALUES (1, 'it''s'), (2, NULL), (3, 'c'), (4, '{b}')"
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE bronze_a (id BIGINT, name TEXT)").execute(rows)
        found = [connection.execute(f"{translated(table)} ORDER BY id").fetchall() for table in (kept, dropped)]
    assert found[0] == [(1, "it's"), (4, "{b}")]
    assert found[1] == [(2, None, "name is never null"), (3, "c", "name is one of it's, {b}")]


def test_what_is_dropped_is_promised_no_more_and_counted() -> None:
    kept, dropped = split_dropped_rows(PICKY)
    assert [promise.meaning for promise in kept.expect] == ["id is never null"]
    assert [(drop.reason, drop.max_share) for drop in dropped.drops] == [
        ("name is never null", None),
        ("name is one of it's, {b}", None),
    ]
    tolerant = not_null("id", severity="drop", allowed_percent=5)
    (_, beside) = split_dropped_rows(replace(PICKY, expect=(tolerant,)))
    assert [(drop.reason, drop.max_share) for drop in beside.drops] == [("id is never null", 0.05)]
    assert split_dropped_rows(SILVER) == (SILVER,), "a table that drops nothing has nothing beside it"


def test_what_no_single_row_breaks_cannot_drop_one() -> None:
    with pytest.raises(ValueError, match="no single row breaks it"):
        unique("id", severity="drop")
