"""Columns that no input has are found in a query's SQL, before anything is written, and nothing else is refused."""

from dataclasses import replace
from pathlib import Path

import pytest

from medallion.errors import MedallionError
from medallion.ingest import ledger
from medallion.model.methods import Full
from medallion.model.parsed_query import Schemas
from medallion.model.plan import Analysis
from medallion.model.proof import prove
from medallion.model.table import Feed, Table
from medallion.model.unknown_columns import unknown_columns
from medallion.ops import event_log
from medallion.pipeline import analysis, operations
from medallion.pipeline.run import Run
from tests.shop import graph, registry
from tests.unit.small_lake import H0, H1, Shop

ORDERS = Feed(keys=("id",), schema="id BIGINT NOT NULL, user_id BIGINT, tags STRING", name="bronze_orders")
USERS = Feed(keys=("user_id",), schema="user_id BIGINT NOT NULL, tier STRING", name="bronze_users")


def problems(query: str) -> list[str]:
    table = Table(keys=("id",), query=query, name="silver_x")
    return unknown_columns(table, Schemas({node.name: node for node in (ORDERS, USERS, table)}))


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT idd FROM {bronze_orders}", "bronze_orders has no column idd: did you mean id?"),
        ("SELECT o.usr_id FROM {bronze_orders} AS o", "bronze_orders has no column usr_id: did you mean user_id?"),
        (
            "SELECT o.id FROM {bronze_orders} AS o INNER JOIN {bronze_users} AS u ON u.user_idd = o.user_id",
            "bronze_users has no column user_idd: did you mean user_id?",
        ),
        (
            "WITH big AS (SELECT id, user_id AS who FROM {bronze_orders}) SELECT id, user_id FROM big",
            "big has no column user_id",
        ),
        ("SELECT id FROM {bronze_orders} WHERE id IN (SELECT idd FROM {bronze_users})", "have no column idd"),
        ("SELECT id, ROW_NUMBER() OVER (ORDER BY at) AS n FROM {bronze_orders}", "bronze_orders has no column at"),
    ],
)
def test_a_column_that_no_input_has_is_named_with_the_nearest(query: str, message: str) -> None:
    (problem,) = problems(query)
    assert message in problem and problem.startswith("spark_jobs/silver/x.py")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT ID, o.User_Id FROM {bronze_orders} AS o",
        "SELECT id, user_id + 1 AS next, next * 2 AS twice FROM {bronze_orders} ORDER BY twice",
        "SELECT user_id % 7 AS day, COUNT(*) AS n FROM {bronze_orders} GROUP BY day HAVING n > 1",
        "SELECT id FROM {bronze_orders} AS o WHERE EXISTS (SELECT 1 FROM {bronze_users} AS u WHERE u.user_id = o.id)",
        "SELECT id, TRANSFORM(SPLIT(tags, ','), x -> UPPER(x)) AS tags FROM {bronze_orders}",
        "SELECT s.a FROM (SELECT STRUCT(id AS a) AS s FROM {bronze_orders})",
        "SELECT id, tag FROM {bronze_orders} LATERAL VIEW EXPLODE(SPLIT(tags, ',')) AS tag",
        "SELECT * FROM {bronze_orders} INNER JOIN {bronze_users} USING (user_id)",
        "SELECT id, tier FROM {bronze_orders} UNION ALL SELECT user_id, tier FROM {bronze_users}",
    ],
)
def test_what_spark_understands_is_not_refused(query: str) -> None:
    if "UNION" in query:
        query = query.replace("id, tier FROM {bronze_orders}", "id, tags AS tier FROM {bronze_orders}")
    assert problems(query) == []


def test_what_spark_refuses_when_a_plan_is_derived_is_told_in_the_same_words() -> None:
    def refuse(*_: object, **__: object) -> Analysis:
        raise MedallionError("[UNRESOLVED_COLUMN.WITH_SUGGESTION] ... SQLSTATE: 42703")

    wrong = Table(keys=("id",), query="SELECT id, tagz FROM {bronze_orders}", name="silver_x", method=Full())
    nodes = {node.name: node for node in (ORDERS, wrong)}
    with pytest.raises(MedallionError) as refusal:
        prove([wrong], nodes, refuse)
    assert [str(refusal.value)] == unknown_columns(wrong, Schemas(nodes))


def test_no_table_of_the_project_names_an_unknown_column() -> None:
    tables = registry(extras=True)
    schemas = Schemas(tables.tables)
    assert [line for table in tables if isinstance(table, Table) for line in unknown_columns(table, schemas)] == []


def test_the_line_in_the_module_is_named() -> None:
    tables = registry()
    name, module = "gold_order_status_summary", Path("spark_jobs/gold/order_status_summary.py")
    declared = tables["silver_orders_enriched"]
    assert isinstance(declared, Table)
    # its input lost a column, so that the query stands in its module as it is
    fewer = replace(declared, query="SELECT order_id, order_status, user_id, order_total AS total FROM {bronze_orders}")
    schemas = Schemas({**tables.tables, declared.name: fewer})
    table = tables[name]
    assert isinstance(table, Table)
    line = 1 + module.read_text().splitlines().index("                SUM(order_total) AS revenue,")
    first, *_ = unknown_columns(table, schemas)
    assert first.startswith(f"{module}, line {line}: silver_orders_enriched has no column order_total")


def wrong(shop: Shop, query: str) -> Shop:
    tables = {node.name: node for node in shop.tables}
    gold = tables["gold_orders"]
    assert isinstance(gold, Table)
    return replace(shop, tables=graph({**tables, gold.name: replace(gold, query=query)}))


def test_an_unknown_column_is_refused_before_its_hour_lands(shop: Shop) -> None:
    shop.put(H0, {1: "a"})
    mistaken = wrong(shop, "SELECT id, nam FROM {silver_orders}")
    for attempt in (lambda: mistaken.refresh(H0), lambda: mistaken.step("land", H0)):
        with pytest.raises(MedallionError, match=r"nothing was written: .*has no column nam: did you mean name\?"):
            attempt()
    assert (mistaken.applied, ledger.read_manifest(shop.lake, H0)) == (None, None)
    assert {row.table_name for row in event_log.read(shop.lake) if row.status == "failed"} >= {"gold_orders"}
    shop.refresh(H0)
    assert shop.published() == {1: "a"}


def test_each_definition_is_analysed_once(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    analysed: list[str] = []
    monkeypatch.setattr(
        analysis, "problems_by_spark", lambda _, __, tables: analysed.extend(t.name for t in tables) or {}
    )
    for hour in (H0, H1):
        shop.put(hour, {1: hour})
        shop.refresh(hour)
    first, analysed[:] = [*analysed], []
    assert first == [], "the load has analysed them"
    edited = wrong(shop, "SELECT id, UPPER(name) AS name FROM {silver_orders}")
    operations.refresh_hour(Run(edited.settings, None, "again"), edited.driver())
    assert analysed == ["gold_orders"]
