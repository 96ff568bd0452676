"""Names, positions and types are Spark's to resolve: what only looks right by its names is refused or right."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from medallion.errors import MedallionError
from medallion.model.additive_split import Split, split_of
from medallion.model.methods import Additive, ByKey, Recent, Via
from medallion.model.proven import Proof
from medallion.model.table import Feed, Node, Table
from tests.proving import keyed, prove

pytestmark = pytest.mark.usefixtures("spark")  # which reads every query

ITEMS = Feed(
    keys=("item_id",),
    schema="item_id BIGINT NOT NULL, order_id BIGINT, product_id BIGINT, n INT, price DECIMAL(10,2), weight DOUBLE,"
    " status STRING, day DATE, sold_at TIMESTAMP",
    name="bronze_items",
)
ORDERS = Feed(
    keys=("order_id",),
    schema="order_id BIGINT NOT NULL, user_id BIGINT, status STRING, sold_at TIMESTAMP",
    name="bronze_orders",
)
USERS = Feed(keys=("user_id",), schema="user_id BIGINT NOT NULL, tier STRING", name="bronze_users")
NOTES = Feed(keys=("note_id",), schema="note_id BIGINT NOT NULL, order_id STRING, text STRING", name="bronze_notes")
LINES = Table(
    keys=("item_id",),
    query="SELECT item_id, order_id, product_id, n, status, day, sold_at FROM {bronze_items}",
    method=ByKey("order_id"),
    name="silver_lines",
)
CASED = Table(
    keys=("item_id",), query="SELECT item_id, order_id AS Order_Id, n FROM {bronze_items}", name="silver_cased"
)
TWICE = Table(
    keys=("item_id",), query="SELECT item_id, order_id, n AS Order_Id, n FROM {bronze_items}", name="silver_twice"
)
NODES: dict[str, Node] = {node.name: node for node in (ITEMS, ORDERS, USERS, NOTES, LINES, CASED, TWICE)}
Method = ByKey | Additive | Recent | None
KEY, PART = ByKey("order_id"), Additive(("a",))


def proof(query: str, method: Method) -> Proof:
    table = Table(keys=("k",), query=query, method=method, name="gold_x", layer="gold")
    return prove([keyed(table, NODES)], NODES)["gold_x"]


def refusal(query: str, method: Method) -> str:
    try:
        proof(query, method)
    except MedallionError as error:
        return str(error)
    return ""


SUMS = "a AS (SELECT product_id, SUM(n) AS n FROM {bronze_items} GROUP BY product_id)"
NOT_PASSED, UNGROUPED = "order_id is not passed through unchanged", "aggregates that are not grouped by order_id"


@pytest.mark.parametrize(
    ("query", "method", "reason"),
    [
        ("SELECT order_id, n FROM {bronze_orders} AS x(n, order_id, a, b)", KEY, NOT_PASSED),
        ("SELECT product_id AS order_id, * EXCEPT (order_id, product_id) FROM {bronze_items}", KEY, NOT_PASSED),
        (
            "SELECT order_id, COUNT(*) AS c FROM (SELECT n, n, order_id FROM {bronze_items} UNION ALL"
            " SELECT product_id, order_id, n FROM {bronze_items}) AS u GROUP BY order_id",
            KEY,
            UNGROUPED,
        ),
        (
            "WITH i AS (SELECT item_id, order_id, product_id FROM {bronze_items}), o AS (SELECT order_id, user_id FROM"
            " {bronze_orders}), j AS (SELECT * FROM i INNER JOIN o USING (order_id)) SELECT order_id FROM"
            " (SELECT item_id AS a, order_id, product_id, n FROM {bronze_items} UNION ALL SELECT * FROM j) AS u",
            KEY,
            NOT_PASSED,
        ),
        ("SELECT product_id AS order_id2, order_id2 AS order_id FROM {bronze_items}", KEY, NOT_PASSED),
        (
            "SELECT s.order_id FROM (SELECT STRUCT(product_id AS order_id) AS s FROM {bronze_items}) AS x",
            KEY,
            NOT_PASSED,
        ),
        ("SELECT * FROM {silver_cased}", KEY, "order_id is spelled Order_Id in its query"),
        ("SELECT item_id, n FROM {silver_twice}", KEY, "its query gives order_id twice (order_id, Order_Id)"),
        (
            "SELECT o.order_id, n.text FROM {bronze_orders} AS o LEFT JOIN {bronze_notes} AS n"
            " ON n.order_id = o.order_id",
            KEY,
            "it joins n without order_id = order_id",
        ),
        (
            "SELECT o.order_id FROM {bronze_orders} AS o WHERE o.user_id > 1 EXCEPT"
            " SELECT CAST(order_id AS BIGINT) AS order_id FROM {bronze_notes}",
            KEY,
            "of rows that do not have order_id in the same place",
        ),
        (
            "SELECT c.order_id, a.user_id FROM {bronze_orders} AS a LEFT JOIN ({bronze_items} AS b INNER JOIN"
            " {bronze_items} AS c ON b.order_id = c.order_id) ON b.order_id = a.order_id",
            KEY,
            NOT_PASSED,
        ),
        (
            "SELECT order_id, price FROM {bronze_items} AS i LEFT JOIN {bronze_users} AS u ON u.user_id = i.n",
            ByKey("order_id", via={"bronze_users": Via("user_id", "bronze_items", "n")}),
            "a path leads from bronze_users.user_id, BIGINT, to bronze_items.n, INT: declare them with one type",
        ),
        ("SELECT weight, n FROM {bronze_items}", ByKey("weight"), "weight is DOUBLE, whose values cannot be listed"),
        (
            "WITH a AS (SELECT UPPER(status) AS status, COUNT(*) AS n FROM {bronze_items} GROUP BY status)"
            " SELECT status, n FROM a",
            PART,
            "`a` does not add up: status is neither grouped by nor an aggregate",
        ),
        (
            "WITH a AS (SELECT product_id, COUNT(DISTINCT order_id) AS n FROM {silver_lines} AS"
            " x(item_id, product_id, order_id, n, status, day, sold_at) GROUP BY product_id) SELECT * FROM a",
            PART,
            "`a` cannot be computed on its own",
        ),
        (
            "WITH a AS (SELECT product_id, SUM(ROUND(weight, 2)) AS n FROM {bronze_items} GROUP BY product_id)"
            " SELECT product_id, n FROM a",
            PART,
            "n is a sum of floating-point numbers",
        ),
        (
            "WITH a AS (SELECT product_id, COUNT(*) AS _rows FROM {bronze_items} GROUP BY product_id) SELECT * FROM a",
            PART,
            "`a` has a column _rows, which the refresh adds",
        ),
        (
            "WITH a AS (SELECT product_id + 1, COUNT(*) AS n FROM {bronze_items} GROUP BY product_id + 1)"
            " SELECT * FROM a",
            PART,
            "the columns of `a` are not those that its text lists: name each with AS",
        ),
        (
            "WITH a AS (SELECT product_id, `sum`(n) AS n FROM {bronze_items} GROUP BY product_id) SELECT * FROM a",
            PART,
            "`a` has n, which is no key as Spark reads it",
        ),
        (
            f"WITH n AS (SELECT 1 AS x), {SUMS} SELECT a.product_id, a.n FROM a",
            PART,
            "`n` does not add up: it reads no table",
        ),
        (
            f"WITH n AS (SELECT order_id FROM {{bronze_orders}}), {SUMS} SELECT a.* FROM a INNER JOIN n"
            " ON n.order_id = a.product_id",
            PART,
            "`a` does not add up: it must read one table",
        ),
        (
            f"WITH RECURSIVE {SUMS} SELECT product_id, n FROM a",
            PART,
            "its common table expression RECURSIVE cannot be cut from its text",
        ),
        (
            "WITH a AS (SELECT product_id, SUM(n) AS n FROM {bronze_items} -- a comment that Spark reads on \\\n (\n"
            " GROUP BY product_id) SELECT * FROM a",
            PART,
            "its parentheses do not close",
        ),
        (
            "WITH a AS (SELECT product_id, SESSION_WINDOW(sold_at, '5 minutes') AS w, COUNT(*) AS n FROM {bronze_items}"
            " GROUP BY product_id, SESSION_WINDOW(sold_at, '5 minutes')) SELECT product_id, w.start AS s, n FROM a",
            PART,
            "it has SESSION_WINDOW",
        ),
        ("SELECT order_id, SUM(weight) AS w FROM {bronze_items} GROUP BY order_id", KEY, "cast them to DECIMAL"),
        ("SELECT order_id, STDDEV(n) AS w FROM {bronze_items} GROUP BY order_id", None, "compute it from COUNT(x)"),
        ("SELECT order_id, CURDATE() AS d FROM {bronze_items}", None, "is not deterministic"),
        ("SELECT order_id AS k, NULL AS v FROM {bronze_items}", None, "v has no type, as its value is NULL: write"),
        ("SELECT order_id AS k, ARRAY(STRUCT(NULL AS v)) AS w FROM {bronze_items}", None, "w has no type"),
        (
            "SELECT order_id, HLL_SKETCH_AGG(n) AS s FROM {bronze_items} GROUP BY order_id",
            KEY,
            "HLL_SKETCH_AGG(n, 12) is not known to be deterministic",
        ),
        (
            "SELECT order_id, reflect('java.util.UUID', 'randomUUID') AS d FROM {bronze_items}",
            None,
            "not deterministic",
        ),
        (
            "SELECT o.order_id FROM {bronze_orders} AS o LEFT ANTI JOIN {bronze_items} AS i ON i.order_id = o.order_id"
            " WHERE sold_at > (SELECT MAX(sold_at) FROM {bronze_items}) - INTERVAL 7 DAYS",
            Recent("bronze_items", "sold_at", timedelta(days=7)),
            "bronze_items is read without the condition",
        ),
        (
            "SELECT item_id, x FROM {bronze_items}, LATERAL (SELECT n + 1 AS x) WHERE"
            " sold_at > (SELECT MAX(sold_at) FROM {bronze_items}) - INTERVAL 7 DAYS",
            Recent("bronze_items", "sold_at", timedelta(days=7)),
            "it has LATERAL JOIN, which is not known to be refreshed rightly",
        ),
        (
            "SELECT item_id, n FROM {bronze_items} WHERE n > 1",
            Recent("bronze_items", "n", timedelta(days=7)),
            "bronze_items.n is no TIMESTAMP or DATE",
        ),
        (
            "SELECT item_id, n FROM {bronze_items} WHERE n > 1",
            Recent("bronze_orders", "sold_at", timedelta(days=7)),
            "its query does not read bronze_orders",
        ),
    ],
)
def test_a_query_is_refused_where_its_names_mean_something_else_to_spark(
    query: str, method: Method, reason: str
) -> None:
    assert reason in refusal(query, method)


@pytest.mark.parametrize(
    ("query", "method"),
    [
        (
            "SELECT * FROM (SELECT * FROM {bronze_orders} AS o JOIN (SELECT order_id, item_id FROM {bronze_items}) AS i"
            " USING (order_id)) AS u",
            KEY,
        ),
        (
            "SELECT /*+ BROADCAST(o) */ i.order_id, i.n FROM {bronze_items} AS i INNER JOIN {bronze_orders} AS o"
            " ON o.order_id = i.order_id",
            KEY,
        ),
        (
            "WITH a AS (SELECT /*+ SHUFFLE_HASH(o) */ o.status, SUM(i.n) AS n FROM {bronze_items} AS i INNER JOIN"
            " {bronze_orders} AS o ON o.order_id = i.order_id GROUP BY o.status) SELECT * FROM a",
            None,
        ),
        ("WITH a AS (SELECT SUM(n) AS n, product_id FROM {bronze_items} GROUP BY product_id) SELECT * FROM a", PART),
        (
            "WITH c AS (SELECT * FROM {bronze_items} WHERE n > 0), a AS (SELECT product_id, SUM(n) AS n FROM c"
            " GROUP BY product_id) SELECT product_id, n FROM a",
            PART,
        ),
        (
            "WITH a AS (SELECT status, COUNT(*) FILTER (WHERE status = 'won''t') AS n FROM {bronze_items}"
            " GROUP BY status) SELECT status, n FROM a WHERE status <> 'won''t, FROM (a)'",
            PART,
        ),
        (
            "WITH a AS (SELECT product_id, SUM(n) AS n FROM {bronze_items} GROUP BY product_id) SELECT 'all' AS k,"
            " PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY n) AS m, MAX(TO_CHAR(n, '99G999')) AS t FROM a",
            PART,
        ),
        (
            "SELECT item_id, n, day FROM {bronze_items} WHERE day >= (SELECT MAX(day) FROM {bronze_items})"
            " - INTERVAL 7 DAYS",
            Recent("bronze_items", "day", timedelta(days=7)),
        ),
    ],
)
def test_a_query_is_accepted_whatever_its_names_where_spark_reads_it_so(query: str, method: Method) -> None:
    assert refusal(query, method) == ""


def test_a_proof_says_what_the_refresh_goes_by() -> None:
    query = (
        "SELECT o.order_id, u.tier FROM {bronze_orders} AS o INNER JOIN {bronze_users} AS u ON u.user_id = o.user_id"
    )
    found = proof(query, ByKey("order_id", via={"bronze_users": Via("user_id", "bronze_orders", "user_id")}))
    assert found.restricted == {"bronze_orders": "order_id"}, "users are read whole, whatever columns their files have"
    assert found.inputs["bronze_users"] == (("user_id", "bigint", False), ("tier", "string", True))
    assert [column[:2] for column in found.columns] == [("order_id", "bigint"), ("tier", "string")]


RULES: dict[str, tuple[str, Any, str, Method]] = {
    "one type of key": (
        "medallion.model.proof_by_key.require_one_type",
        lambda *_: None,
        "SELECT weight, n FROM {bronze_items}",
        ByKey("weight"),
    ),
    "rows of one key meet": (
        "medallion.model.keyed_relations._merged",
        lambda groups, _: (frozenset().union(*groups),) if groups else (),
        "SELECT o.order_id, i.n FROM {bronze_orders} AS o CROSS JOIN {bronze_items} AS i",
        KEY,
    ),
    "subqueries of a join": (
        "medallion.model.proof_by_key._Proof._require_no_subquery",
        lambda *_: None,
        "SELECT o.order_id FROM {bronze_orders} AS o INNER JOIN {bronze_items} AS i ON i.order_id = o.order_id AND"
        " i.n > (SELECT MAX(e.n) FROM {bronze_items} AS e)",
        KEY,
    ),
    "subqueries of one key": (
        "medallion.model.proof_by_key.asked_of",
        lambda left, *_: left,
        "SELECT order_id FROM {bronze_orders} AS o WHERE EXISTS (SELECT 1 FROM {bronze_items} AS i WHERE"
        " i.product_id = o.user_id)",
        KEY,
    ),
    "null among the values of IN": (
        "medallion.model.proof_by_key.matters_if_null",
        lambda *_: False,
        "SELECT order_id FROM {bronze_orders} WHERE order_id NOT IN (SELECT order_id FROM {bronze_items})",
        KEY,
    ),
    "row by row of a free input": (
        "medallion.model.proof_by_key._Proof._require_rowwise",
        lambda *_: None,
        "WITH r AS (SELECT user_id, RANK() OVER (ORDER BY tier) AS r FROM {bronze_users}) SELECT o.order_id, r.r FROM"
        " {bronze_orders} AS o INNER JOIN r ON r.user_id = o.user_id",
        ByKey("order_id", via={"bronze_users": Via("user_id", "bronze_orders", "user_id")}),
    ),
    "via is joined": (
        "medallion.model.keyed_relations.Relation.waiting",
        lambda *_: frozenset(),
        "SELECT o.order_id, u.tier FROM {bronze_orders} AS o INNER JOIN {bronze_users} AS u ON u.tier = o.status",
        ByKey("order_id", via={"bronze_users": Via("user_id", "bronze_orders", "user_id")}),
    ),
    "newest rows": (
        "medallion.model.proof_recent._Proof.require_bound",
        lambda *_: None,
        "SELECT item_id, n FROM {bronze_items} WHERE n > 1",
        Recent("bronze_items", "sold_at", timedelta(days=7)),
    ),
    "sums": (
        "medallion.model.proof_additive._Part._sum_or_count",
        lambda *_: None,
        "WITH a AS (SELECT product_id, COUNT(DISTINCT order_id) AS n FROM {bronze_items} GROUP BY product_id)"
        " SELECT * FROM a",
        PART,
    ),
    "subqueries of a part": (
        "medallion.model.proof_additive._require_no_subquery",
        lambda *_: None,
        "WITH a AS (SELECT product_id, COUNT(*) AS n FROM {bronze_items} WHERE n > (SELECT AVG(n) FROM {bronze_items})"
        " GROUP BY product_id) SELECT * FROM a",
        PART,
    ),
    "aggregates": (
        "medallion.model.proof.prove_aggregates",
        lambda *_, **__: None,
        "SELECT order_id, COLLECT_LIST(n) AS n FROM {bronze_items} GROUP BY order_id",
        KEY,
    ),
    "functions": (
        "medallion.model.determinism._prove_function",
        lambda *_, **__: None,
        "SELECT order_id, NOW() AS n FROM {bronze_items}",
        KEY,
    ),
    "moments": (
        "medallion.model.determinism._require_fixed_moments",
        lambda *_: None,
        "SELECT order_id, TIMESTAMP 'now' AS n FROM {bronze_items}",
        KEY,
    ),
    "order": (
        "medallion.model.proof.prove_order",
        lambda *_: None,
        "SELECT item_id FROM {bronze_items} LIMIT 5",
        None,
    ),
}


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_that_is_switched_off_is_noticed(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place, nothing, query, method = RULES[rule]
    assert refusal(query, method), "the rule refuses it"
    monkeypatch.setattr("medallion.model.proof._PROVEN", {})
    monkeypatch.setattr(place, nothing)
    assert refusal(query, method) == "", "and nothing else does"


def with_text(piece: str, text: str, changed: str) -> Any:
    return lambda part: replace(part, **{piece: getattr(part, piece).replace(text, changed)})


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (with_text("query", "SUM(n)", "SUM(n + 1)"), "`a` has n, of which it cannot be seen how many values it is of"),
        (with_text("query", "COUNT(n)", "COUNT(product_id)"), "`a` has n, of which it cannot be seen how many"),
        (lambda part: replace(part, sums=("n", "product_id")), "`a` has product_id, which is no sum as Spark reads it"),
        (with_text("query", "{bronze_items}", "{bronze_items} WHERE n > 1"), "`a` on its own is not what it is in"),
        (with_text("query", "BY product_id", "BY product_id HAVING SUM(n) > 1"), "`a` on its own is not what it is in"),
        (with_text("query_by_commit", "SUM(n)", "SUM(n + 1)"), "`a` by commit is not what it is in the query"),
    ],
)
def test_a_part_that_spark_reads_otherwise_is_refused(
    change: Any, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def split(table: Table) -> Split:
        whole = split_of(table)
        return replace(whole, parts={"a": change(whole.parts["a"])})

    query = f"WITH {SUMS} SELECT product_id, n FROM a"
    assert refusal(query, PART) == ""
    monkeypatch.setattr("medallion.model.proof._PROVEN", {})
    monkeypatch.setattr("medallion.model.proof_additive.split_of", split)
    assert reason in refusal(query, PART)


def test_a_rest_that_spark_reads_otherwise_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def split(table: Table) -> Split:
        whole = split_of(table)
        return replace(whole, rest=whole.rest.replace("SELECT product_id, n", "SELECT product_id, n + 1 AS n"))

    query = f"WITH {SUMS} SELECT product_id, n FROM a"
    monkeypatch.setattr("medallion.model.proof._PROVEN", {})
    monkeypatch.setattr("medallion.model.proof_additive.split_of", split)
    assert "the query without its parts is not what it is with them, as Spark reads it" in refusal(query, PART)
