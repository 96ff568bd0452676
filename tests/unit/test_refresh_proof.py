"""A refresh method that could give other rows than the query is refused, with the construct that is in the way."""

import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from medallion.errors import MedallionError
from medallion.model.dimension import dimension
from medallion.model.methods import Additive, ByKey, Recent, Via
from medallion.model.plan import Node, Plan, Unprovable
from medallion.model.proof_by_key import prove_keyed
from medallion.model.table import Feed, Table
from medallion.ops.event_log import EventLog
from medallion.pipeline.driver import Driver
from medallion.pipeline.refresh import refresh_layer
from medallion.pipeline.run import Run
from medallion.settings import Settings
from tests.proving import prove
from tests.proving import refusal as refusal_over
from tests.shop import build, registry

ITEMS = Feed(
    keys=("item_id",),
    schema="item_id BIGINT NOT NULL, order_id BIGINT, product_id BIGINT, n INT, price DECIMAL(10,2), weight DOUBLE,"
    " sold_at TIMESTAMP",
    name="bronze_items",
)
ORDERS = Feed(
    keys=("order_id",), schema="order_id BIGINT NOT NULL, user_id BIGINT, status STRING", name="bronze_orders"
)
USERS = Feed(keys=("user_id",), schema="user_id BIGINT NOT NULL, tier STRING", name="bronze_users")
LINES = Table(
    keys=("item_id",),
    query="SELECT item_id, order_id, product_id, n, price, weight, sold_at FROM {bronze_items}",
    method=ByKey("order_id"),
    name="silver_lines",
)
DAYS = Table(
    keys=("product_id", "day"),
    query="SELECT product_id, CAST(sold_at AS DATE) AS day, COUNT(*) AS n FROM {bronze_items} GROUP BY ALL",
    name="silver_days",
)
NODES = {node.name: node for node in (ITEMS, ORDERS, USERS, LINES, DAYS)}
TO_USERS = {"bronze_users": Via("user_id", "bronze_orders", "user_id")}


pytestmark = pytest.mark.usefixtures("spark")  # which reads every query


refusal = partial(refusal_over, nodes=NODES)


def of_part(body: str, rest: str = "SELECT * FROM a") -> str:
    return refusal(f"WITH a AS ({body}) {rest}", Additive(("a",)))


def by_order(query: str, **via: Via) -> str:
    return refusal(query, ByKey("order_id", via=via))


GROUPED = "FROM {bronze_items} GROUP BY product_id"
OF_ORDER = "{bronze_items} AS i WHERE i.order_id = o.order_id"


@pytest.mark.parametrize(
    "condition",
    [
        f"EXISTS (SELECT 1 FROM {OF_ORDER})",
        f"NOT EXISTS (SELECT 1 FROM {OF_ORDER} AND i.n > 2)",
        f"o.user_id = 1 OR NOT EXISTS (SELECT 1 FROM {OF_ORDER})",
        f"(SELECT AVG(i.n) FROM {OF_ORDER}) > 2",
        "o.order_id IN (SELECT order_id FROM {bronze_items} GROUP BY order_id HAVING SUM(n) > 3)",
        "o.order_id NOT IN (SELECT order_id FROM {bronze_orders} WHERE status = 'x')",
        f"o.user_id NOT IN (SELECT i.product_id FROM {OF_ORDER})",
        f"(SELECT COUNT(*) FROM {OF_ORDER} AND i.n < (SELECT MAX(e.n) FROM {{bronze_items}} AS e"
        " WHERE e.order_id = i.order_id)) > 1",
    ],
)
def test_a_subquery_that_is_asked_for_rows_of_the_same_key_is_followed(condition: str) -> None:
    assert by_order(f"SELECT o.order_id, o.status FROM {{bronze_orders}} AS o WHERE {condition}") == ""


def test_a_table_that_is_read_twice_leads_to_the_key_by_each_of_its_ways() -> None:
    query = (
        "SELECT o.order_id, a.tier, b.tier AS other FROM {bronze_orders} AS o INNER JOIN {bronze_items} AS i ON"
        " i.order_id = o.order_id INNER JOIN {bronze_users} AS a ON a.user_id = o.user_id INNER JOIN {bronze_users} AS"
        " b ON b.user_id = i.product_id"
    )
    first, other = TO_USERS["bronze_users"], Via("user_id", "bronze_items", "product_id")
    assert "bronze_users is not joined on its user_id" in by_order(query, bronze_users=first)
    assert by_order(query, bronze_users=replace(first, also=(other,))) == ""


def test_every_table_of_the_project_is_refreshed_by_a_method_that_is_proven() -> None:
    every = registry(extras=True)
    prove([table for table in every if isinstance(table, Table)], every.tables)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (f"SELECT product_id, SUM(n) AS n {GROUPED} HAVING SUM(n) > 5", "HAVING: filter the groups in the rest"),
        ("SELECT DISTINCT product_id FROM {bronze_items}", "DISTINCT: group by the columns"),
        (f"SELECT product_id, SUM(n) AS n {GROUPED} ORDER BY n LIMIT 3", "LIMIT"),
        (f"SELECT product_id, SUM(n) AS n {GROUPED} LIMIT 3 OFFSET 1", "LIMIT"),
        (f"SELECT product_id, SUM(SUM(n)) OVER (PARTITION BY product_id) AS n {GROUPED}", "window"),
        (
            "SELECT i.product_id, COUNT(*) AS n FROM {bronze_items} AS i INNER JOIN {bronze_items} AS j"
            " ON j.order_id = i.order_id GROUP BY i.product_id",
            "JOIN: join in the rest",
        ),
        (
            "SELECT i.product_id, COUNT(*) AS n FROM {bronze_items} AS i LEFT JOIN {bronze_orders} AS o"
            " ON o.order_id = i.order_id GROUP BY i.product_id",
            "JOIN: join in the rest",
        ),
        (
            "SELECT i.product_id, COUNT(*) AS n FROM {bronze_items} AS i, {bronze_orders} AS o GROUP BY i.product_id",
            "JOIN: join in the rest",
        ),
        (
            f"SELECT product_id, COUNT(*) AS n {GROUPED} UNION ALL SELECT product_id, 1 FROM {{bronze_items}}",
            "it has a UNION or the like: only a plain SELECT adds up",
        ),
        (f"(SELECT product_id, COUNT(*) AS n {GROUPED})", "only a plain SELECT adds up"),
        ("SELECT product_id, n FROM {bronze_items}", "it is no SELECT with SUM and COUNT by groups"),
        ("SELECT k, COUNT(*) AS n FROM VALUES (1) AS t(k) GROUP BY k", "it has LOCAL RELATION"),
        (
            f"SELECT product_id, COUNT(*) FILTER (WHERE n > (SELECT AVG(n) FROM {{bronze_items}})) AS n {GROUPED}",
            "it has a subquery",
        ),
        (
            f"SELECT product_id, SUM(sold_at - TIMESTAMP '2025-12-01') AS n {GROUPED}",
            "n is a sum of INTERVAL DAY TO SECOND: only integers and DECIMAL are kept",
        ),
        (
            "SELECT product_id, COUNT(*) AS n FROM (SELECT product_id FROM {bronze_items}) AS i GROUP BY product_id",
            "subquery",
        ),
        (
            "SELECT product_id, COUNT(*) AS n FROM {bronze_items} WHERE n > (SELECT AVG(n) FROM {bronze_items})"
            " GROUP BY product_id",
            "subquery",
        ),
        (
            "SELECT product_id, COUNT(*) AS n FROM {bronze_items} WHERE order_id IN (SELECT order_id FROM"
            " {bronze_orders}) GROUP BY product_id",
            "subquery",
        ),
        (f"SELECT product_id, MAX(n) AS n {GROUPED}", "n is neither a SUM nor a COUNT"),
        (f"SELECT product_id, MIN(n) AS n {GROUPED}", "n is neither a SUM nor a COUNT"),
        (f"SELECT product_id, AVG(n) AS n {GROUPED}", "n is neither a SUM nor a COUNT"),
        (f"SELECT product_id, SUM(n) / 2 AS n {GROUPED}", "n is neither a SUM nor a COUNT"),
        (f"SELECT product_id, COALESCE(SUM(n), 0) AS n {GROUPED}", "n is neither a SUM nor a COUNT"),
        (f"SELECT product_id, SUM(DISTINCT n) AS n {GROUPED}", "n is a SUM of DISTINCT values"),
        (f"SELECT product_id, COUNT(DISTINCT order_id) AS n {GROUPED}", "counts DISTINCT values of which a change"),
        (
            "SELECT day, COUNT(DISTINCT n) AS m FROM {silver_days} GROUP BY day",  # rows that differ are written alone
            "counts DISTINCT values of which a change brings only some rows: group by day and product_id too",
        ),
        (f"SELECT product_id, SUM(weight) AS n {GROUPED}", "floating-point"),
        (f"SELECT product_id, SUM(n / 2) AS n {GROUPED}", "floating-point"),
        (f"SELECT product_id, SUM(CAST(n AS DOUBLE) * price) AS n {GROUPED}", "floating-point"),
        ("SELECT COUNT(*) AS n FROM {bronze_items}", "without GROUP BY it has a row even where its input has none"),
        (
            "SELECT product_id, order_id, COUNT(*) AS n FROM {bronze_items} GROUP BY ROLLUP (product_id, order_id)",
            "ROLL",
        ),
        (
            "SELECT product_id, order_id, COUNT(*) AS n FROM {bronze_items} GROUP BY product_id, order_id WITH CUBE",
            "CUBE",
        ),
        (
            "SELECT product_id, COUNT(*) AS n FROM {bronze_items} GROUP BY product_id GROUPING SETS ((product_id), ())",
            "GROUPING SETS",
        ),
        (
            "SELECT product_id % 2 AS k, COUNT(*) AS n FROM {bronze_items} GROUP BY product_id",
            "k is neither",
        ),
        ("SELECT COUNT(*) AS n FROM {bronze_items} GROUP BY product_id", "groups by product_id and does not select it"),
        ("SELECT product_id, COUNT(*) AS n FROM {bronze_items} GROUP BY ALL", "GROUP BY must list its columns"),
        (f"SELECT product_id, SUM(n) {GROUPED}", "every column needs a name"),
    ],
)
def test_a_part_is_refused_when_it_does_not_add_up(body: str, reason: str) -> None:
    refused = of_part(body)
    assert refused.startswith("gold_x cannot be refreshed by incremental aggregate of a: `a` does not add up: ")
    assert reason in refused


@pytest.mark.parametrize(
    "function",
    [
        *(
            "RAND()",
            "RANDN()",
            "UUID()",
            "NOW()",
            "CURRENT_TIMESTAMP()",
            "CURRENT_DATE",
            "MONOTONICALLY_INCREASING_ID()",
        ),
        *("MONOTONICALLY_INCREASING_ID()", "UNIX_TIMESTAMP()", "SPARK_PARTITION_ID()", "INPUT_FILE_NAME()"),
        *(
            "CURRENT_USER()",
            "LOCALTIMESTAMP()",
            "TIMESTAMP 'now'",
            "CAST(' Today' AS DATE)",
            "sold_at > 'yesterday UTC'",
        ),
    ],
)
@pytest.mark.parametrize("method", [None, ByKey("order_id"), Additive(("a",))])
def test_a_query_is_refused_whatever_its_method_when_it_is_not_deterministic(
    function: str, method: ByKey | Additive | None
) -> None:
    query = f"WITH a AS (SELECT order_id, COUNT(*) AS n, COUNT({function}) AS m FROM {{bronze_items}} GROUP BY 1)"
    assert "deterministic" in refusal(f"{query} SELECT order_id, n, m FROM a", method).lower()


@pytest.mark.parametrize("source", ["{bronze_items}", "(SELECT * FROM {bronze_items})"])
@pytest.mark.parametrize("method", [None, ByKey("order_id")])
def test_a_sample_is_refused_whatever_the_method(source: str, method: ByKey | None) -> None:
    assert "TABLESAMPLE" in refusal(f"SELECT order_id FROM {source} TABLESAMPLE (10 PERCENT)", method)


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        (
            "WITH bronze_items AS (SELECT * FROM {bronze_items} WHERE n > 1), a AS (SELECT product_id, COUNT(*) AS n"
            " FROM bronze_items GROUP BY product_id) SELECT * FROM a",
            "`bronze_items` is a common table expression and an input",
        ),
        (
            f"WITH a AS (SELECT product_id, COUNT(*) AS n {GROUPED}) SELECT * FROM a UNION ALL SELECT * FROM"
            f" (WITH a AS (SELECT order_id, COUNT(*) AS n FROM {{bronze_items}} GROUP BY order_id) SELECT * FROM a)",
            "two common table expressions are called `a`",
        ),
        (
            f"WITH a(k, m) AS (SELECT product_id, COUNT(*) AS n {GROUPED}) SELECT * FROM a",
            "`a` renames its columns from outside",
        ),
    ],
)
def test_a_name_that_means_two_things_is_refused_for_aggregate_state(query: str, reason: str) -> None:
    assert reason in refusal(query, Additive(("a",)))


def test_a_table_that_is_not_named_in_braces_is_refused_with_the_way_to_name_it() -> None:
    place = "spark_jobs/gold/x.py (gold_x)"
    assert refusal("SELECT order_id FROM Bronze_Items", None) == (
        f"{place}: it reads Bronze_Items without braces: write {{bronze_items}}"
    )
    for query, example in (
        ("SELECT order_id FROM lines", "silver_lines"),
        ("SELECT order_id FROM x", "silver_lines"),
        ("SELECT order_id FROM {bronze_items} WHERE order_id IN (SELECT order_id FROM x)", "bronze_items"),
    ):
        assert refusal(query, None).startswith(f"{place}: it reads {query.split()[-1].strip(')')}, which is neither")
        assert refusal(query, None).endswith(f"name a table in braces, as in FROM {{{example}}}")


def test_a_table_that_is_not_named_in_braces_is_refused_with_its_line(tmp_path: Path) -> None:
    module = tmp_path / "spark_jobs" / "gold" / "x.py"
    module.parent.mkdir(parents=True)
    query = "SELECT order_id\nFROM bronze_items\n"
    module.write_text(f'"""X."""\n\nQUERY = """{query}"""\n')
    table = Table(keys=("order_id",), query=query, name="gold_x", layer="gold", module=module)
    with pytest.raises(MedallionError, match=r"^spark_jobs/gold/x\.py, line 4: it reads bronze_items without braces"):
        prove([table], NODES)


@pytest.mark.parametrize("method", [None, ByKey("order_id")])
def test_a_function_that_spark_does_not_know_is_refused_by_its_name(method: ByKey | None) -> None:
    refused = refusal("SELECT order_id, MY_FUNCTION(n) AS m FROM {bronze_items}", method)
    assert refused.startswith("gold_x: Spark cannot analyse its query: ") and "MY_FUNCTION" in refused.upper()


@pytest.mark.parametrize(
    "body",
    [
        f"SELECT product_id, SUM(n) FILTER (WHERE n > 0) AS m, COUNT(*) FILTER (WHERE n > 0) AS n {GROUPED}",
        f"SELECT product_id, SUM(n * price) AS revenue, COUNT(price) AS n {GROUPED}",
        f"SELECT product_id, COUNT(DISTINCT item_id) AS n {GROUPED}",
        "SELECT order_id, COUNT(DISTINCT product_id) AS n FROM {silver_lines} GROUP BY order_id",
        "SELECT product_id, COUNT(DISTINCT order_id) AS n FROM {silver_lines} GROUP BY product_id",
        "SELECT day, COUNT(DISTINCT product_id) AS m FROM {silver_days} GROUP BY day",
        "SELECT i.product_id, SUM(i.n) AS n FROM {bronze_items} AS i GROUP BY product_id",
        "SELECT product_id AS p, SUM(n) AS n FROM {bronze_items} GROUP BY 1",
        "SELECT product_id % 2 AS odd, SUM(n) AS n FROM {bronze_items} GROUP BY odd",
    ],
)
def test_sums_and_counts_of_rows_that_come_whole_are_proven(body: str) -> None:
    assert of_part(body) == ""


def test_groups_of_groups_add_up_only_where_a_change_brings_all_rows_of_a_group() -> None:
    groups = """
        WITH groups AS (SELECT {by}, product_id, SUM(n) AS n FROM {{silver_lines}} GROUP BY {by}, product_id),
        a AS (SELECT product_id, COUNT(*) AS groups FROM groups WHERE n > 3 GROUP BY product_id)
        SELECT * FROM a
    """
    assert refusal(groups.format(by="order_id"), Additive(("a",))) == ""
    refused = refusal(groups.format(by="sold_at"), Additive(("a",)))
    assert "reads groups of `groups` of which a change brings only some rows: group by order_id too" in refused


def test_a_part_over_a_part_takes_its_groups_as_rows() -> None:
    query = """
        WITH days AS (SELECT product_id, sold_at, SUM(n) AS n FROM {bronze_items} GROUP BY product_id, sold_at),
        a AS (SELECT product_id, SUM(n) AS n, COUNT(*) AS days FROM days GROUP BY product_id)
        SELECT * FROM a
    """
    assert refusal(query, Additive(("days", "a"))) == ""
    assert "group by item_id too" in refusal(query, Additive(("a",))), "days without it are made of some of their rows"
    assert "group by item_id too" in refusal(query, Additive(("a", "days"))), "of those before it"
    assert "`weeks` is no common table expression" in refusal(query, Additive(("weeks",)))


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELECT order_id, n, RANK() OVER (ORDER BY n) AS r FROM {bronze_items}", "window that is not partitioned by"),
        (
            "SELECT order_id, SUM(n) OVER w AS r FROM {bronze_items} WINDOW w AS (PARTITION BY product_id)",
            "window that is not partitioned by order_id",
        ),
        ("SELECT order_id, n FROM {bronze_items} LIMIT 5", "it has LIMIT, which looks at all rows"),
        ("SELECT order_id, n FROM {bronze_items} ORDER BY n LIMIT 5", "LIMIT"),
        (
            "SELECT product_id, MAX(order_id) AS order_id FROM {bronze_items} GROUP BY product_id",
            "not grouped by order_id",
        ),
        ("SELECT COUNT(*) AS n FROM {bronze_items}", "not grouped by order_id"),
        ("SELECT item_id, n FROM {bronze_items}", "order_id is not passed through unchanged"),
        ("SELECT order_id + 1 AS order_id, n FROM {bronze_items}", "order_id is not passed through unchanged"),
        (
            "SELECT a.order_id FROM {bronze_items} AS a LEFT SEMI JOIN {bronze_orders} AS b ON b.user_id = a.n",
            "it joins b without order_id = order_id",
        ),
        ("SELECT product_id AS order_id, n FROM {bronze_items}", "order_id is not passed through unchanged"),
        ("SELECT user_id FROM {bronze_users}", "no input has a column order_id"),
        (
            "SELECT i.order_id, j.n FROM {bronze_items} AS i JOIN {bronze_items} AS j ON j.product_id = i.product_id",
            "it joins j without order_id = order_id",
        ),
        (
            "SELECT i.order_id, o.status FROM {bronze_items} AS i CROSS JOIN {bronze_orders} AS o",
            "it joins o without order_id = order_id",
        ),
        (
            "SELECT order_id, i.n FROM {bronze_items} AS i RIGHT JOIN {bronze_orders} AS o USING (order_id)",
            "RIGHT JOIN",
        ),
        (
            "SELECT COALESCE(o.order_id, i.order_id) AS order_id FROM {bronze_items} AS i"
            " FULL JOIN {bronze_orders} AS o ON o.order_id = i.order_id",
            "FULL JOIN",
        ),
        (
            "SELECT o.order_id, i.n FROM {bronze_items} AS i LEFT JOIN {bronze_orders} AS o ON o.order_id = i.order_id",
            "order_id is not passed through unchanged",
        ),
        (
            "SELECT i.order_id, i.n FROM {bronze_items} AS i LEFT JOIN {bronze_orders} AS o"
            " ON o.user_id = i.product_id WHERE o.order_id = i.order_id",
            "it joins o without order_id = order_id",
        ),
        (
            "SELECT order_id, n FROM {bronze_items} WHERE n > (SELECT AVG(n) FROM {bronze_items})",
            "aggregates that are not grouped by order_id",
        ),
        (
            "SELECT order_id FROM {bronze_orders} AS o WHERE EXISTS (SELECT 1 FROM {bronze_items} AS i"
            " WHERE i.product_id = o.user_id)",
            "a subquery over i without order_id = order_id",
        ),
        (
            "SELECT order_id FROM {bronze_orders} AS o WHERE order_id NOT IN (SELECT order_id FROM {bronze_items})",
            "a subquery over bronze_items without order_id = order_id",
        ),
        (
            "SELECT order_id FROM {bronze_orders} AS o WHERE user_id = 1 OR order_id IN (SELECT order_id FROM"
            " {bronze_items})",
            "a subquery over bronze_items without order_id = order_id",
        ),
        (
            "SELECT order_id FROM {bronze_orders} AS o WHERE user_id + 1 IN (SELECT order_id FROM {bronze_items})",
            "a subquery over bronze_items without order_id = order_id",
        ),
        (
            "SELECT o.order_id FROM {bronze_orders} AS o INNER JOIN {bronze_items} AS i ON i.order_id = o.order_id AND"
            " i.n > (SELECT MAX(e.n) FROM {bronze_items} AS e)",
            "subquery outside",
        ),
        ("SELECT order_id, n FROM {bronze_items} GROUP BY ROLLUP (order_id, n)", "ROLLUP"),
        (
            "SELECT order_id, n FROM (SELECT order_id, n FROM {bronze_items} UNION ALL SELECT order_id, 1 FROM"
            " {bronze_orders}) GROUP BY ROLLUP (order_id, n)",
            "it has ROLLUP, CUBE or GROUPING SETS of which Spark does not tell the rows",
        ),
        ("SELECT order_id, n FROM {bronze_items} UNION ALL SELECT 1, 2", "a UNION with rows that do not have order_id"),
        ("SELECT order_id, n FROM {bronze_items} EXCEPT SELECT 1, 2", "an EXCEPT with rows that do not have order_id"),
        (
            "SELECT order_id FROM {bronze_items} UNION ALL SELECT product_id AS order_id FROM {bronze_items}",
            "order_id is not passed through unchanged",
        ),
        (
            "WITH best AS (SELECT DISTINCT product_id FROM {bronze_items}) SELECT i.order_id FROM {bronze_items} AS i"
            " INNER JOIN best AS b ON b.product_id = i.product_id",
            "DISTINCT without order_id",
        ),
        (
            "WITH RECURSIVE r AS (SELECT order_id, n FROM {bronze_items} UNION ALL SELECT order_id, n - 1 FROM r"
            " WHERE n > 0) SELECT order_id, n FROM r",
            "it has UNION LOOP, which is not known to be refreshed rightly",
        ),
        (
            "SELECT o.order_id, x.s FROM {bronze_orders} AS o, LATERAL (SELECT o.status AS s) AS x",
            "it has LATERAL JOIN, which is not known to be refreshed rightly",
        ),
    ],
)
def test_a_query_is_refused_by_key_when_rows_of_other_keys_matter(query: str, reason: str) -> None:
    assert reason in by_order(query)


WITH_TIER = "SELECT o.order_id, u.tier FROM {{bronze_orders}} AS o {join} JOIN {{bronze_users}} AS u ON {on}"


@pytest.mark.parametrize(
    ("query", "via", "reason"),
    [
        (WITH_TIER.format(join="LEFT", on="u.user_id = o.user_id"), TO_USERS, ""),
        (WITH_TIER.format(join="INNER", on="u.user_id = o.user_id"), TO_USERS, ""),
        (WITH_TIER.format(join="LEFT SEMI", on="u.user_id = o.user_id").replace(", u.tier", ""), TO_USERS, ""),
        (
            WITH_TIER.format(join="INNER", on="u.user_id = o.user_id"),
            {},
            "bronze_users has no order_id, and no join leads",
        ),
        (WITH_TIER.format(join="INNER", on="u.tier = o.status"), TO_USERS, "bronze_users is not joined on its user_id"),
        (
            WITH_TIER.format(join="INNER", on="u.user_id = o.user_id"),
            {"bronze_users": Via("tier", "bronze_orders", "status")},
            "bronze_users is not joined on its tier = bronze_orders.status, as via says",
        ),
        (
            WITH_TIER.format(join="INNER", on="u.user_id = o.user_id"),
            {"bronze_users": Via("user_id", "bronze_orders", "customer")},
            "a path names customer, which is no column of bronze_orders",
        ),
        (
            WITH_TIER.format(join="INNER", on="u.user_id = o.user_id"),
            TO_USERS | {"bronze_items": Via("order_id", "bronze_orders", "order_id")},
            "a path names bronze_items, which its query does not read",
        ),
        (
            WITH_TIER.format(join="INNER", on="u.user_id = o.user_id"),
            TO_USERS | {"bronze_orders": Via("user_id", "bronze_users", "user_id")},
            "a path names bronze_orders, which has order_id itself",
        ),
        (
            WITH_TIER.format(join="INNER", on="u.user_id = o.user_id"),
            {"bronze_users": Via("user_id", "bronze_items", "product_id")},
            "a path leads from bronze_users to bronze_items, which is not another of its inputs",
        ),
        (
            "SELECT o.order_id, d.n FROM {bronze_orders} AS o CROSS JOIN {bronze_users} AS u INNER JOIN {silver_days}"
            " AS d ON d.product_id = u.user_id",
            {
                "bronze_users": Via("user_id", "silver_days", "product_id"),
                "silver_days": Via("product_id", "bronze_users", "user_id"),
            },
            "a path leads from silver_days to bronze_users, which is not another of its inputs",
        ),
        *(
            (
                f"SELECT o.order_id, u.tier FROM {{bronze_orders}} AS o INNER JOIN ({grouped}) AS u"
                " ON u.user_id = o.user_id",
                TO_USERS,
                f"it has {looks} over bronze_users, whose changes then lead to other rows too",
            )
            for grouped, looks in (
                ("SELECT DISTINCT user_id, tier FROM {bronze_users}", "DISTINCT"),
                ("SELECT user_id, MAX(tier) AS tier FROM {bronze_users} GROUP BY user_id", "GROUP BY"),
            )
        ),
        (
            "WITH ranked AS (SELECT user_id, RANK() OVER (ORDER BY tier) AS r FROM {bronze_users}) SELECT o.order_id,"
            " u.r FROM {bronze_orders} AS o INNER JOIN ranked AS u ON u.user_id = o.user_id",
            TO_USERS,
            "it has a window over bronze_users, whose changes then lead to other rows too",
        ),
        (
            "WITH known AS (SELECT user_id, UPPER(tier) AS tier FROM {bronze_users}) SELECT o.order_id, u.tier"
            " FROM {bronze_orders} AS o INNER JOIN known AS u ON u.user_id = o.user_id",
            TO_USERS,
            "",
        ),
        (
            "SELECT u.tier, order_id FROM {bronze_users} AS u LEFT JOIN {bronze_orders} AS o ON o.user_id = u.user_id",
            TO_USERS,
            "left side does not have order_id",
        ),
        (
            "SELECT o.order_id, u.tier FROM {bronze_orders} AS o LEFT JOIN {bronze_users} AS u"
            " ON u.user_id <=> o.user_id",
            TO_USERS,
            "bronze_users is not joined on its user_id",
        ),
    ],
)
def test_an_input_without_the_key_is_joined_where_via_says(query: str, via: dict[str, Via], reason: str) -> None:
    refused = by_order(query, **via)
    assert reason in refused and bool(reason) == bool(refused), refused


def test_a_key_in_other_letters_than_the_query_has_it_is_refused() -> None:
    refused = refusal("SELECT order_id, n FROM {bronze_items}", ByKey("ORDER_ID"))
    assert "ORDER_ID is spelled order_id in its query and inputs" in refused


def test_a_query_with_another_literal_has_another_fingerprint() -> None:
    def fingerprint(query: str) -> str:
        return Table(keys=("k",), query=query).fingerprint

    assert fingerprint("SELECT '  k' AS k") != fingerprint("SELECT ' k' AS k")
    assert fingerprint("SELECT k -- a\nWHERE k > 1") != fingerprint("SELECT k -- a WHERE k > 1")
    assert fingerprint("SELECT k\nFROM t") == fingerprint("""
        SELECT k
        FROM t
    """)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT order_id, SUM(n) AS n, MAX(weight) AS w FROM {bronze_items} GROUP BY order_id HAVING SUM(n) > 3",
        "SELECT DISTINCT order_id, product_id FROM {bronze_items}",
        "SELECT order_id, n, RANK() OVER w AS r FROM {bronze_items} WINDOW w AS (PARTITION BY order_id ORDER BY n)",
        "SELECT o.order_id, i.n FROM {bronze_orders} AS o LEFT JOIN {bronze_items} AS i ON i.order_id = o.order_id",
        "SELECT o.order_id FROM {bronze_orders} AS o LEFT ANTI JOIN {bronze_items} AS i ON i.order_id = o.order_id",
        "SELECT order_id, i.n FROM {bronze_orders} AS o INNER JOIN {bronze_items} AS i USING (order_id)",
        "SELECT order_id FROM {bronze_items} UNION SELECT order_id FROM {bronze_orders}",
        "SELECT * FROM (SELECT order_id, n FROM {bronze_items}) AS i WHERE n > 1",
        "SELECT order_id, v.x FROM {bronze_items} CROSS JOIN (VALUES (1), (2)) AS v(x)",
        "SELECT order_id, n FROM {bronze_items} LATERAL VIEW EXPLODE(SEQUENCE(1, n)) AS x",
        "SELECT i.order_id, o.status FROM {bronze_items} AS i, {bronze_orders} AS o WHERE o.order_id = i.order_id",
        "SELECT order_id, n, COUNT(*) AS m FROM {bronze_items} GROUP BY GROUPING SETS ((order_id, n), (order_id))",
    ],
)
def test_a_query_whose_rows_follow_from_the_rows_of_their_key_is_proven(query: str) -> None:
    assert by_order(query) == ""


NEWEST = "(SELECT MAX(sold_at) FROM {bronze_items})"


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        (f"sold_at > {NEWEST} - INTERVAL '1' DAY", ""),
        (f"n > 0 AND sold_at >= {NEWEST} - INTERVAL 24 HOURS", ""),
        (f"{NEWEST} - INTERVAL '12' HOUR < sold_at", ""),
        (f"sold_at > {NEWEST} - INTERVAL '2' DAY", "is read without the condition"),
        (f"sold_at > {NEWEST} - INTERVAL '1' MONTH", "is read without the condition"),
        (f"sold_at > {NEWEST} - INTERVAL '1' DAY OR n > 5", "is read without the condition"),
        ("n > 0", "is read without the condition"),
        ("sold_at > (SELECT MAX(sold_at) FROM {bronze_items} WHERE n > 5) - INTERVAL '1' DAY", "is read without"),
        ("sold_at > (SELECT MIN(sold_at) FROM {bronze_items}) - INTERVAL '1' DAY", "is read without the condition"),
        (f"sold_at >= CAST({NEWEST} AS DATE) - INTERVAL '1' DAY", "is read without the condition"),
        (f"sold_at >= CAST({NEWEST} - INTERVAL '1' DAY AS DATE)", "is read without the condition"),
        (f"sold_at >= CAST(CAST({NEWEST} AS DATE) AS TIMESTAMP) - INTERVAL '1' DAY", "is read without the condition"),
        (f"sold_at >= CAST({NEWEST} AS STRING)", "is read without the condition"),
        (
            f"sold_at > {NEWEST} - INTERVAL '1' DAY AND n > (SELECT AVG(n) FROM {{bronze_items}})",
            "is read without the condition",
        ),
    ],
)
def test_only_the_newest_rows_may_matter_to_a_table_of_the_latest(where: str, reason: str) -> None:
    query = f"SELECT product_id, COUNT(*) AS n FROM {{bronze_items}} WHERE {where} GROUP BY product_id"
    refused = refusal(query, Recent("bronze_items", "sold_at", timedelta(days=1)))
    assert reason in refused and bool(reason) == bool(refused), refused


def test_a_dimension_of_each_type_is_proven_by_key() -> None:
    every = registry(extras=True)
    for scd_type in (0, 1, 2, 3):
        made = dimension(
            *("bronze_customers_log",),
            key="customer_id",
            sequence_by="updated_at",
            scd_type=scd_type,  # type: ignore[arg-type]
            columns=("email", "customer_tier"),
            track=("customer_tier",),
        )
        prove([replace(made, name="silver_x", method=ByKey("customer_id"))], every.tables)


def test_a_layer_is_refused_before_anything_is_written_when_a_table_is_not_proven(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(lake=str(tmp_path / "lake"))
    driver = Driver(settings, report=lambda _: None)
    driver.use(spark)
    wrong = replace(
        LINES, query="SELECT order_id FROM {bronze_items} LIMIT 5", layer="silver", doc="One row per item_id."
    )
    driver.tables = build([replace(ITEMS, doc="One row per item_id."), wrong])
    monkeypatch.setattr("medallion.ingest.ledger.applied_hour", lambda *_: None)
    log = EventLog(driver.lake, run_id="a run", hour=None, strategy="full", attempt=1)
    with pytest.raises(MedallionError, match="silver_lines cannot be refreshed: LIMIT 5 is not deterministic"):
        refresh_layer(driver, Run(settings, None, "a run"), log, "silver")
    assert not (tmp_path / "lake" / "silver").exists()


def test_the_graph_is_read_without_parsing_any_query() -> None:
    code = "import sys; from tests.shop import registry; registry(); print('sqlglot' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False", "the DAG is parsed every half minute"


ORDERED = [
    ("ROW_NUMBER() OVER (PARTITION BY order_id ORDER BY sold_at)", "end its ORDER BY in item_id"),
    ("FIRST_VALUE(n) OVER (PARTITION BY order_id ORDER BY sold_at)", "end its ORDER BY in item_id"),
    ("LAST_VALUE(n) IGNORE NULLS OVER (PARTITION BY order_id ORDER BY sold_at)", "end its ORDER BY in item_id"),
    ("NTH_VALUE(n, 2) OVER (PARTITION BY order_id ORDER BY sold_at)", "end its ORDER BY in item_id"),
    ("LAG(n) OVER (PARTITION BY order_id ORDER BY sold_at)", "end its ORDER BY in item_id"),
    ("NTILE(4) OVER (PARTITION BY order_id ORDER BY sold_at)", "end its ORDER BY in item_id"),
    ("COLLECT_LIST(n) OVER (PARTITION BY order_id)", "end its ORDER BY in item_id"),
    ("ANY_VALUE(n) OVER (PARTITION BY order_id)", "end its ORDER BY in item_id"),
    (
        "SUM(n) OVER (PARTITION BY order_id ORDER BY sold_at ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)",
        "end its ORDER BY in item_id",
    ),
    ("MAX_BY(n, sold_at) OVER (PARTITION BY order_id)", "write MAX_BY(n, STRUCT(sold_at, item_id))"),
    ("PERCENTILE_APPROX(n, 0.5) OVER (PARTITION BY order_id)", "write PERCENTILE(n, 0.5)"),
]


@pytest.mark.parametrize("method", [None, ByKey("order_id")])
@pytest.mark.parametrize(("window", "remedy"), ORDERED)
def test_a_window_is_refused_whatever_the_method_where_rows_tie_in_its_order(
    window: str, remedy: str, method: ByKey | None
) -> None:
    refused = refusal(f"SELECT order_id, n, {window} AS r FROM {{bronze_items}}", method)
    assert "is not deterministic" in refused and refused.endswith(remedy), refused


@pytest.mark.parametrize("method", [None, ByKey("order_id")])
@pytest.mark.parametrize("function", ["ROW_NUMBER()", "NTILE(4)", "LAG(n)", "NTH_VALUE(n, 2)"])
def test_a_window_that_numbers_rows_is_refused_whatever_the_method_where_it_has_no_order(
    function: str, method: ByKey | None
) -> None:
    refused = refusal(f"SELECT order_id, n, {function} OVER (PARTITION BY order_id) AS r FROM {{bronze_items}}", method)
    assert refused.startswith("gold_x: ") and "ORDER BY" in refused and "\n" not in refused, refused


@pytest.mark.parametrize("method", [None, ByKey("order_id")])
@pytest.mark.parametrize(
    ("aggregate", "remedy"),
    [
        ("MAX_BY(n, sold_at)", "where rows tie: write MAX_BY(n, STRUCT(sold_at, item_id))"),
        ("MIN_BY(n, sold_at) FILTER (WHERE n > 1)", "where rows tie: write MIN_BY(n, STRUCT(sold_at, item_id))"),
        ("MAX_BY(n, STRUCT(sold_at, product_id))", "write MAX_BY(n, STRUCT(sold_at, product_id, item_id))"),
        ("COLLECT_LIST(n)", "write SORT_ARRAY(COLLECT_LIST(n))"),
        ("COLLECT_SET(n)", "write SORT_ARRAY(COLLECT_SET(n))"),
        ("ANY_VALUE(n)", "write MAX(n), or MAX_BY(n, STRUCT(...)) with the key columns in it"),
        ("FIRST(n)", "write MAX(n), or MAX_BY(n, STRUCT(...)) with the key columns in it"),
        ("LISTAGG(n, ',')", "add WITHIN GROUP (ORDER BY n)"),
        ("APPROX_PERCENTILE(n, 0.5)", "write PERCENTILE(n, 0.5)"),
        ("HISTOGRAM_NUMERIC(n, 5)", ""),
    ],
)
def test_an_aggregate_is_refused_whatever_the_method_where_it_goes_by_the_order_of_reading(
    aggregate: str, remedy: str, method: ByKey | None
) -> None:
    refused = refusal(f"SELECT order_id, {aggregate} AS r FROM {{bronze_items}} GROUP BY order_id", method)
    assert "is not deterministic" in refused and refused.endswith(remedy), refused


@pytest.mark.parametrize(
    ("query", "remedy"),
    [
        ("SELECT item_id FROM {bronze_items} LIMIT 5", "LIMIT 5 is not deterministic where rows tie"),
        ("SELECT item_id FROM {bronze_items} ORDER BY n LIMIT 5", "end its ORDER BY in item_id"),
        ("SELECT item_id FROM {bronze_items} ORDER BY n OFFSET 5", "end its ORDER BY in item_id"),
        ("SELECT product_id, SUM(n) AS n FROM {bronze_items} GROUP BY 1 ORDER BY n LIMIT 5", "in product_id"),
        (
            "SELECT i.item_id, o.status FROM {bronze_items} AS i JOIN {bronze_orders} AS o ON o.user_id = i.n"
            " ORDER BY i.item_id LIMIT 5",
            "end its ORDER BY in order_id",
        ),
        ("SELECT n FROM {bronze_items} UNION ALL SELECT 1 ORDER BY 1 + n LIMIT 5", "end its ORDER BY in n"),
        ("WITH a AS (SELECT item_id, n FROM {bronze_items} ORDER BY n LIMIT 5) SELECT * FROM a", "in item_id"),
        ("SELECT user_id FROM {bronze_users} WHERE user_id = (SELECT n FROM {bronze_items} LIMIT 1)", "in item_id"),
        ("(SELECT item_id FROM {bronze_items}) LIMIT 5", "in item_id"),
        ("SELECT * FROM ((SELECT item_id FROM {bronze_items}) LIMIT 5) AS x", "in item_id"),
        ("SELECT item_id, EXPLODE(SEQUENCE(1, n)) AS x FROM {bronze_items} ORDER BY item_id LIMIT 5", "in x"),
    ],
)
def test_a_limit_is_refused_where_rows_tie_in_the_order(query: str, remedy: str) -> None:
    assert remedy in refusal(query, None)


@pytest.mark.parametrize("key", ["user_id", "Order_Id"])
def test_a_key_that_the_query_does_not_give_is_refused(key: str) -> None:
    table = Table(keys=(key,), query="SELECT order_id, n FROM {bronze_items}", name="gold_x", layer="gold")
    with pytest.raises(MedallionError, match=f"gold_x: its query gives no column {key}, its key; it gives order_id, n"):
        prove([table], NODES)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT item_id FROM {bronze_items} ORDER BY n DESC, item_id LIMIT 5",
        "SELECT item_id AS i FROM {bronze_items} ORDER BY n DESC, i LIMIT 5",
        "SELECT n FROM {bronze_items} ORDER BY n LIMIT 5",  # those that tie are alike
        "SELECT product_id, SUM(n) AS n FROM {bronze_items} GROUP BY product_id ORDER BY n DESC, product_id LIMIT 5",
        "SELECT product_id, SUM(n) AS n FROM {bronze_items} GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 5",
        "SELECT i.n, o.status FROM {bronze_items} AS i JOIN {bronze_orders} AS o ON o.order_id = i.order_id"
        " ORDER BY i.item_id LIMIT 5",
        "SELECT i.n, o.status FROM {bronze_items} AS i LEFT JOIN {bronze_orders} AS o USING (order_id)"
        " ORDER BY i.item_id LIMIT 5",
        "SELECT n FROM {bronze_items} UNION ALL SELECT 1 ORDER BY n LIMIT 5",
        "SELECT DISTINCT product_id, n FROM {bronze_items} ORDER BY product_id, n LIMIT 5",
        "SELECT MAX(n) AS n FROM {bronze_items} LIMIT 1",
        "SELECT order_id, LAG(n) OVER (PARTITION BY order_id ORDER BY item_id) AS r FROM {bronze_items}",
        "SELECT order_id, FIRST_VALUE(n) OVER w AS r FROM {bronze_items} WINDOW w AS (ORDER BY sold_at, item_id)",
        "SELECT order_id, RANK() OVER (PARTITION BY order_id ORDER BY n) AS r FROM {bronze_items}",
        "SELECT order_id, SUM(n) OVER (PARTITION BY order_id ORDER BY sold_at) AS r FROM {bronze_items}",
        "SELECT order_id, MAX_BY(n, STRUCT(sold_at, item_id)) AS r FROM {bronze_items} GROUP BY order_id",
        "SELECT order_id, MAX_BY(n, item_id) AS r FROM {bronze_items} GROUP BY order_id",
        "SELECT order_id, SORT_ARRAY(COLLECT_LIST(n)) AS r FROM {bronze_items} GROUP BY order_id",
        "SELECT order_id, LISTAGG(n, ',') WITHIN GROUP (ORDER BY n) AS r FROM {bronze_items} GROUP BY order_id",
        "SELECT order_id, PERCENTILE(n, 0.5) AS r FROM {bronze_items} GROUP BY order_id",
        # the newest line of an order and product, of which then each is known by the two
        "WITH newest AS (SELECT order_id, product_id, n, ROW_NUMBER() OVER (PARTITION BY order_id, product_id"
        " ORDER BY sold_at DESC, item_id) AS r FROM {bronze_items}) SELECT order_id, LAG(n) OVER"
        " (PARTITION BY order_id ORDER BY product_id) AS before FROM newest WHERE r = 1",
        "WITH days AS (SELECT CAST(sold_at AS DATE) AS day, SUM(n) AS n FROM {bronze_items} GROUP BY CAST(sold_at AS"
        " DATE)) SELECT day, LAG(n) OVER (ORDER BY day) AS before FROM days",
    ],
)
def test_a_query_that_picks_by_an_order_without_ties_is_accepted(query: str) -> None:
    assert refusal(query, None) == ""


def test_an_operator_that_the_proof_by_key_has_never_heard_of_is_refused_by_its_name() -> None:
    plan = Plan(Node("SideWays", (), {}, ()), {}, (), True)
    inputs = {"bronze_orders": (("order_id", "bigint", False),)}
    with pytest.raises(Unprovable, match="it has SIDE WAYS, which is not known to be refreshed rightly"):
        prove_keyed(plan.root, ByKey("order_id", {}, {"bronze_orders": "order_id"}), plan, inputs)
