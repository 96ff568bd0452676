"""medallion explain says what a change touches and why nothing else is done, without Spark where refresh.lock knows."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from medallion.cli.main import cli
from medallion.derive.explain import Explanation
from medallion.errors import MedallionError, UsageError
from medallion.model.methods import ByKey, Full, Kept, KeptItem, KeptPart, Via
from medallion.model.needs import Needs, Read
from medallion.model.table import Feed, Table
from medallion.ui.table import _explained
from tests.shop import registry

CONTRACT = {"table", "policy", "method", "keys", "paths", "parts", "refused", "cost"}


def explained(*arguments: str) -> str:
    done = CliRunner().invoke(cli, ["explain", *arguments], catch_exceptions=False, env={"COLUMNS": ""})
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture(autouse=True)
def _without_a_lake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What a table costs depends on the lake, which a checkout may have from a demo."""
    monkeypatch.setenv("MEDALLION_LAKE", str(tmp_path / "lake"))


def as_json(*arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(explained(*arguments, "--format", "json"))
    assert found.keys() >= CONTRACT
    return found


def test_an_upsert_names_its_key_and_how_each_input_leads_to_it() -> None:
    found = as_json("silver_order_items_enriched")
    assert (found["method"], found["policy"], found["keys"]) == ("upsert", "auto", ["order_id"])
    assert found["paths"]["silver_customers"] == [
        ["silver_customers.customer_id", "bronze_orders.user_id", "bronze_orders.order_id"]
    ]
    assert any("not pruned by user_id" in note for note in found["cost"]["notes"]), "a step that reads all files"
    assert "a change of bronze_products touches the rows with its order_id" in explained("silver_order_items_enriched")


def test_an_incremental_aggregate_names_its_parts_and_the_rest_in_sql() -> None:
    found = as_json("gold_weekly_revenue_trend")
    assert found["method"] == "incremental aggregate"
    assert found["keys"] == ["week_start", "category"]
    assert [*found["parts"]] == ["weeks", ""]
    assert "{silver_confirmed_order_items}" in found["parts"]["weeks"]
    assert "{weeks}" in found["parts"][""] and "{silver_confirmed_order_items}" not in found["parts"][""]


def test_rows_that_matter_are_named_where_every_part_of_the_query_agrees() -> None:
    condition = "\"status\" = 'open'"
    item = KeptItem("k", "key", "status", "", "string")
    by = ByKey("order_id", {}, {"bronze_orders": "order_id"})
    by_key = KeptPart("_kept_0", "", "FROM {bronze_orders}", (item,), is_grouped=True, by=by)
    row_by_row = replace(by_key, name="_kept_1", by=None)
    needs = {"_kept_0": Needs((Read("bronze_orders", condition),))}

    def needed(*parts: KeptPart) -> dict[str, str]:
        method = Kept(parts, "SELECT 1")
        table = Table(keys=("k",), query="SELECT * FROM {bronze_orders}", method=method, name="gold_x")
        explanation = Explanation(table, "a reason", {}, {}, {}, needs=needs)
        assert ("only these rows matter" in "\n".join(explanation.lines())) == bool(explanation.needed())
        return explanation.needed()

    assert needed(by_key) == {"bronze_orders": condition}
    assert needed(by_key, row_by_row) == {}, "the second part follows every row"
    assert needed(replace(by_key, whole=("bronze_orders",))) == {}, "any change of it rebuilds the state"


def test_reading_all_files_of_a_small_table_is_not_called_costly() -> None:
    by = ByKey("order_id", {"bronze_users": Via("id", "bronze_orders", "user_id")}, {"bronze_orders": "order_id"})
    table = Table(("order_id",), "SELECT * FROM {bronze_orders} JOIN {bronze_users}", method=by, name="silver_x")
    orders = Feed(keys=("order_id",), schema="order_id BIGINT NOT NULL, user_id BIGINT", name="bronze_orders", doc="")
    explanation = Explanation(table, "a reason", {}, {"bronze_orders": orders}, {})
    assert "  costly: a change of bronze_users reads every file of bronze_orders" in "\n".join(explanation.lines())
    assert "costly" not in "\n".join(replace(explanation, small=frozenset({"bronze_orders"})).lines())


@pytest.mark.parametrize(
    ("policy", "refused", "advice"),
    [
        ("full", {}, "take refresh='full' out of its declaration"),
        ("auto", {"upsert": "a reason", "latest rows": "a reason"}, "nothing, unless it takes long"),
        ("auto", {"upsert": "it has a window"}, "nothing, unless it takes long; then see 'Why a table is full' in"),
    ],
)
def test_a_table_that_is_full_says_what_can_be_done(policy: Any, refused: dict[str, str], advice: str) -> None:
    query = "SELECT * FROM {bronze_orders}"
    table = Table(keys=("k",), query=query, method=Full("a reason"), refresh=policy, name="gold_x")
    lines = [*Explanation(table, "a reason", refused, {}, {}).lines()]
    (said,) = (line for line in lines if line.startswith("  what you can do: "))
    assert said.startswith(f"  what you can do: {advice}")
    assert [line for line in lines if line.startswith("  no ")] == [
        f"  no {method}: {why}" for method, why in refused.items() if why != "a reason"
    ], "the reason is told once"


def test_latest_rows_name_their_span_in_the_units_of_the_query() -> None:
    assert "from the 1 day of silver_enriched_clickstream before" in explained("gold_product_demand_surge")


def test_input_that_is_read_twice_leads_to_the_key_by_two_paths() -> None:
    also = Via("user_id", "bronze_items", "product_id")
    method = ByKey("order_id", {"bronze_users": Via("user_id", "bronze_orders", "user_id", also=(also,))})
    table = Table(keys=("order_id",), query="SELECT * FROM {bronze_users}", method=method, name="silver_orders")
    found = Explanation(table, "a reason", {}, {}, {})
    assert found.paths() == {
        "bronze_users": [
            ["bronze_users.user_id", "bronze_orders.user_id", "bronze_orders.order_id"],
            ["bronze_users.user_id", "bronze_items.product_id", "bronze_items.order_id"],
        ]
    }


def test_what_is_recomputed_says_why_and_why_not_otherwise() -> None:
    found = as_json("platinum_top_customers_by_region")
    assert found["method"] == "full recompute"
    assert "a window that is not partitioned by user_id" in found["refused"]["upsert"]
    assert {*found["refused"]} == {"upsert", "incremental aggregate", "latest rows"}


def test_every_table_of_the_shop_is_explained_on_its_page_and_in_the_documentation_of_the_dag() -> None:
    from medallion.airflow.table_graph import lineage

    tables = registry(extras=True)
    text = lineage(tables)
    for table in tables:
        if isinstance(table, Table):
            entry = _explained(tables, table.name)
            assert entry is not None and entry.reason, table.name
        assert table.refresh_method.replace("_", r"\_") in text.replace(r"\\", "\\") or table.refresh_method in text


def test_wrong_use_is_refused_in_words(tmp_path: Path) -> None:
    query = tmp_path / "new.sql"
    query.write_text("SELECT 1 AS one FROM {silver_nothing}")
    for arguments, message in (
        (["bronze_orders"], "bronze_orders is fed by a source, and not computed: merged by order_id"),
        ([], "name a table, or a file with a query"),
        (["silver_custmers"], "did you mean silver_customers"),
        (["--sql", str(query)], "reads silver_nothing, which is no table"),
    ):
        with pytest.raises(UsageError, match=message):
            CliRunner().invoke(cli, ["explain", *arguments], catch_exceptions=False, standalone_mode=False)


def test_a_query_that_is_in_no_table_yet_is_explained_from_its_file(tmp_path: Path) -> None:
    query = tmp_path / "by_day.sql"
    query.write_text(
        """
        WITH days AS (
            SELECT CAST(created_at AS DATE) AS day, SUM(order_total) AS revenue -- of all orders
            FROM {silver_orders_enriched}
            GROUP BY CAST(created_at AS DATE)
        )
        SELECT day, revenue FROM days
        """
    )
    found = as_json("--sql", str(query))
    assert (found["table"], found["method"], [*found["parts"]]) == ("by_day", "incremental aggregate", ["days", ""])


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (
            "SELECT\n  product_idd\nFROM {silver_products}",
            "q/new.sql, line 2: silver_products has no column product_idd",
        ),
        ("SELECT product_id\nFROM {silver_products}\nWHRE product_id > 1", "(q/new.sql, line 3)"),
    ],
)
def test_a_query_that_spark_refuses_is_named_by_its_file_and_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, query: str, message: str
) -> None:
    project = Path.cwd()
    monkeypatch.setenv("MEDALLION_PROJECT", str(project))
    monkeypatch.chdir(tmp_path)
    Path("q").mkdir()
    Path("q/new.sql").write_text(query)
    with pytest.raises(MedallionError) as refused:
        CliRunner().invoke(cli, ["explain", "--sql", "q/new.sql"], catch_exceptions=False, standalone_mode=False)
    assert message in str(refused.value) and "spark_jobs" not in str(refused.value)


def test_values_that_the_state_counts_are_named(tmp_path: Path) -> None:
    query = tmp_path / "by_day.sql"
    query.write_text(
        "SELECT order_status, MAX(order_total) AS largest, COUNT(DISTINCT user_id) AS users, COUNT(*) AS orders"
        " FROM {silver_orders_enriched} GROUP BY order_status"
    )
    text = explained("--sql", str(query))
    assert "`_kept_0` also counts how often each value of order_total occurs in a group, for MAX(order_total)" in text
    assert "each value of user_id occurs in a group, for COUNT(DISTINCT user_id)" in text
    assert text.count("also counts") == 2


@pytest.mark.parametrize(
    "function",
    [
        *("RAND()", "RAND(42)", "RANDN()", "UNIFORM(1, 5)", "UUID()", "SHUFFLE(lines)", "SHUFFLE(ARRAY(1, 2))"),
        *("RANDSTR(4)", "MONOTONICALLY_INCREASING_ID()", "SPARK_PARTITION_ID()"),
    ],
)
def test_a_random_function_is_named_as_it_was_written(tmp_path: Path, function: str) -> None:
    """Spark adds a seed to one without."""
    query = tmp_path / "by_day.sql"
    query.write_text(f"SELECT {function} AS chance, lines FROM (SELECT ARRAY(1, 2) AS lines FROM {{silver_products}})")
    with pytest.raises(MedallionError) as refused:
        CliRunner().invoke(cli, ["explain", "--sql", str(query)], catch_exceptions=False, standalone_mode=False)
    assert str(refused.value).startswith(f"by_day cannot be refreshed: {function} is not deterministic")


@pytest.mark.parametrize(
    ("function", "remedy"),
    [
        ("RAND()", "compute it in the source, or from a hash of the key"),
        ("CURRENT_DATE()", "write the newest event time of an input"),
        ("NOW()", "write the newest event time of an input"),
    ],
)
def test_what_to_write_instead_of_a_clock_or_chance_is_said(tmp_path: Path, function: str, remedy: str) -> None:
    query = tmp_path / "by_day.sql"
    query.write_text(f"SELECT product_id, {function} AS x FROM {{silver_products}}")
    with pytest.raises(MedallionError, match=rf"is not deterministic: {remedy}"):
        CliRunner().invoke(cli, ["explain", "--sql", str(query)], catch_exceptions=False, standalone_mode=False)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"SELECT '\xe4' FROM {silver_orders_enriched}", "is no text in UTF-8"),
        (b"SELECT * FROM {silver_orders_enriched", "inputs stand in braces"),
        (b"SELECT * FROM {silver_nowhere}", "reads silver_nowhere, which is no table"),
    ],
)
def test_file_that_is_no_query_is_one_line(tmp_path: Path, text: bytes, reason: str) -> None:
    (tmp_path / "silver_orders_enriched.sql").write_bytes(text)
    done = CliRunner().invoke(cli, ["explain", "--sql", str(tmp_path / "silver_orders_enriched.sql")])
    assert isinstance(done.exception, UsageError) and reason in str(done.exception)
    assert "\n" not in str(done.exception)
