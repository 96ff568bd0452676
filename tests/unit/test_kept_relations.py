"""State is kept of any relation that adds up by key, and what stands above it is computed from that."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from medallion.model.kept_text import relation_text, state_text, whole_text
from medallion.model.methods import ByKey, Full, Kept, Via
from medallion.model.refresh_lock import _method_of, describe_method
from medallion.model.table import Feed
from tests.proving import derivation, refusal

ITEMS = Feed(
    keys=("item_id",),
    schema="item_id BIGINT NOT NULL, order_id BIGINT, product_id BIGINT, n INT, price DECIMAL(10,2),"
    " wide DECIMAL(38,18), weight DOUBLE, status STRING, sold_at TIMESTAMP",
    name="bronze_items",
    doc="One row per item.",
)
ORDERS = Feed(
    keys=("order_id",),
    schema="order_id BIGINT NOT NULL, user_id BIGINT, giver_id BIGINT, status STRING",
    name="bronze_orders",
    doc="One row per order.",
)
USERS = Feed(
    keys=("user_id",), schema="user_id BIGINT NOT NULL, tier STRING", name="bronze_users", doc="One row per user."
)
NODES = {feed.name: feed for feed in (ITEMS, ORDERS, USERS)}
BOTH = "{bronze_items} AS i INNER JOIN {bronze_orders} AS o ON o.order_id = i.order_id"
SELF = "SELECT i.status AS k, COUNT(*) AS n FROM {bronze_items} AS i"

pytestmark = pytest.mark.usefixtures("spark")  # which reads every query


def kept(query: str, *keys: str) -> Kept:
    found = derivation(query, NODES, keys or ("k",))
    assert isinstance(found.method, Kept), found.refused
    return found.method


def reason(query: str) -> str:
    found = derivation(query, NODES)
    assert isinstance(found.method, Full), found.method
    return found.refused["incremental aggregate"]


def test_groups_of_one_input_are_kept_row_by_row_and_what_is_computed_of_them_is_the_rest() -> None:
    method = kept("SELECT status AS k, CAST(SUM(n) AS DOUBLE) / COUNT(*) AS pace FROM {bronze_items} GROUP BY status")
    (part,) = method.parts
    assert part.by is None
    assert relation_text(part) == "SELECT status AS k, SUM(n) AS _1, COUNT(*) AS _2 FROM {bronze_items} GROUP BY status"
    assert method.rest == "SELECT k AS k, CAST(_1 AS DOUBLE) / _2 AS pace FROM {_kept_0}"
    assert state_text(part).startswith("SELECT status AS _k0, SUM(n) AS _s1, COUNT(n) AS _v1, COUNT(*) AS _v2,")


def test_rows_of_a_join_are_followed_by_the_key_that_they_have_in_common() -> None:
    method = kept(f"SELECT o.status AS k, SUM(i.n) AS n FROM {BOTH} GROUP BY o.status")
    to_items = {"bronze_orders": Via("order_id", "bronze_items", "order_id")}
    assert method.parts[0].by == ByKey("item_id", to_items, {"bronze_items": "item_id"})
    three = f"SELECT u.tier AS k, SUM(i.n) AS n FROM {BOTH} INNER JOIN {{bronze_users}} AS u ON u.user_id = o.user_id"
    by = kept(f"{three} GROUP BY u.tier").parts[0].by
    assert by is not None and by.via == {**to_items, "bronze_users": Via("user_id", "bronze_orders", "user_id")}


def test_an_input_that_is_read_twice_is_followed_on_both_ways() -> None:
    method = kept(
        f"SELECT a.tier AS k, b.tier AS giver, COUNT(*) AS n FROM {BOTH} INNER JOIN {{bronze_users}} AS a ON a.user_id"
        " = o.user_id INNER JOIN {bronze_users} AS b ON b.user_id = o.giver_id GROUP BY a.tier, b.tier"
    )
    by = method.parts[0].by
    assert by is not None and {way.as_column for way in by.via["bronze_users"].ways} == {"user_id", "giver_id"}


EITHER = "SELECT order_id, user_id AS who FROM {{bronze_orders}} UNION ALL SELECT order_id, {} FROM {{bronze_orders}}"
OF_EITHER = "SELECT u.tier AS k, COUNT(*) AS n FROM ({}) AS o INNER JOIN {{bronze_users}} AS u ON u.user_id = o.who"


def test_an_input_that_is_looked_up_for_a_union_is_followed_through_each_of_its_branches() -> None:
    method = kept(f"{OF_EITHER.format(EITHER.format('giver_id'))} GROUP BY u.tier")
    by = method.parts[0].by
    assert by is not None and {way.as_column for way in by.via["bronze_users"].ways} == {"user_id", "giver_id"}


def test_an_input_that_cannot_be_followed_through_a_branch_of_a_union_rebuilds_what_is_kept() -> None:
    (part,) = kept(f"{OF_EITHER.format(EITHER.format('giver_id + 1'))} GROUP BY u.tier").parts
    assert part.whole == ("bronze_users",)


LIKE_SOME_USER = (
    f"SELECT o.status AS k, SUM(i.n) AS n FROM {BOTH} INNER JOIN {{bronze_users}} AS u ON u.user_id = o.user_id"
    " WHERE u.tier IN (SELECT s.tier FROM {bronze_users} AS s WHERE s.user_id < 3) GROUP BY o.status"
)


def test_input_of_which_every_row_may_matter_rebuilds_what_is_kept_and_the_others_are_followed() -> None:
    (part,) = kept(LIKE_SOME_USER).parts
    assert part.whole == ("bronze_users",)
    to_items = {"bronze_orders": Via("order_id", "bronze_items", "order_id")}
    assert part.by == ByKey("item_id", to_items, {"bronze_items": "item_id"})
    assert derivation(LIKE_SOME_USER, NODES, ("k",)).reason.endswith("a change of bronze_users rebuilds what is kept")


def test_input_that_others_do_not_look_up_by_its_key_is_never_one_that_rebuilds_what_is_kept() -> None:
    assert "a subquery over s without" in reason(
        f"SELECT o.status AS k, SUM(i.n) AS n FROM {BOTH}"
        " WHERE i.status IN (SELECT s.status FROM {bronze_items} AS s WHERE s.n < 3) GROUP BY o.status"
    )


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT o.status AS k, AVG(i.n) AS n, AVG(i.price) AS p, MIN(i.n) AS m FROM {BOTH} GROUP BY o.status",
        f"SELECT o.status AS k, COUNT(DISTINCT i.product_id) AS n, MAX(i.sold_at) AS m FROM {BOTH} GROUP BY 1",
        f"SELECT 'all' AS k, SUM(i.n) FILTER (WHERE o.status = 'x') AS n, COALESCE(SUM(i.price), 0) AS p FROM {BOTH}",
        f"SELECT o.status AS k, SUM(i.n) AS n FROM {BOTH} GROUP BY o.status HAVING SUM(i.n) > 3"
        " ORDER BY n DESC, k LIMIT 5",
        f"SELECT DISTINCT o.status AS k, i.product_id FROM {BOTH}",
        f"SELECT i.item_id AS k, o.status FROM {BOTH} ORDER BY o.status, i.item_id, o.order_id LIMIT 5",
        f"SELECT i.item_id AS k, RANK() OVER (ORDER BY o.user_id) AS r FROM {BOTH}",
        "SELECT CASE WHEN n > 1 THEN 'many' ELSE 'few' END AS k, COUNT(*) AS c FROM {bronze_items} GROUP BY k",
        "SELECT status AS k, COUNT(*) AS n FROM {bronze_orders} AS o WHERE NOT EXISTS (SELECT 1 FROM {bronze_items}"
        " AS i WHERE i.order_id = o.order_id) GROUP BY status",
        "WITH sizes AS (SELECT o.order_id, COUNT(i.item_id) AS size FROM {bronze_orders} AS o LEFT JOIN {bronze_items}"
        " AS i ON i.order_id = o.order_id GROUP BY o.order_id) SELECT size AS k, COUNT(*) AS n FROM sizes GROUP BY 1",
    ],
)
def test_what_stands_above_groups_or_rows_is_computed_from_what_is_kept_of_them(query: str) -> None:
    method = kept(query)
    assert "bronze" not in method.rest
    assert whole_text(method.parts, method.rest).startswith("WITH _kept_0 AS (")


def test_hint_for_a_join_keeps_nothing_from_being_kept() -> None:
    method = kept(f"SELECT /*+ BROADCAST(o) */ o.status AS k, SUM(i.n) AS n FROM {BOTH} GROUP BY o.status")
    assert [part.is_grouped for part in method.parts] == [True]


def test_groups_that_are_compared_with_groups_are_kept_both() -> None:
    query = (
        f"SELECT i.product_id AS k, SUM(i.n) AS n FROM {BOTH} GROUP BY i.product_id HAVING SUM(i.n) >"
        f" (SELECT SUM(i.n) * 0.1 FROM {BOTH})"
    )
    method = kept(query)
    assert len(method.parts) == 2 and "{_kept_0}" in method.rest and "{_kept_1}" in method.rest


def test_rows_that_are_compared_with_groups_are_kept_before_that() -> None:
    above = "n > (SELECT AVG(n) FROM {bronze_items})"
    method = kept(f"SELECT status AS k, COUNT(*) AS n FROM {{bronze_items}} WHERE {above} GROUP BY status")
    assert [part.is_grouped for part in method.parts] == [True, False]
    assert "bronze" not in method.rest


def test_part_with_an_input_that_is_read_whole_is_read_from_the_lock_as_it_was_written() -> None:
    method = kept(LIKE_SOME_USER)
    assert _method_of(json.loads(json.dumps(describe_method(method)))) == method


def test_what_is_kept_is_read_from_the_lock_as_it_was_written() -> None:
    method = kept(f"SELECT o.status AS k, SUM(i.n) AS n FROM {BOTH} GROUP BY o.status")
    assert _method_of(json.loads(json.dumps(describe_method(method)))) == method


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (f"SELECT o.status AS k, BIT_OR(i.n) AS n FROM {BOTH} GROUP BY o.status", "BIT_OR(i.n) is no aggregate"),
        (f"SELECT o.status AS k, COUNT(DISTINCT i.weight) AS n FROM {BOTH} GROUP BY o.status", "DOUBLE"),
        (f"SELECT o.status AS k, AVG(i.wide) AS n FROM {BOTH} GROUP BY o.status", "too many digits"),
        (
            f"SELECT o.status AS k, SUM(i.sold_at - TIMESTAMP '2025-12-01') AS n FROM {BOTH} GROUP BY o.status",
            "is of INTERVAL DAY TO SECOND, of which sums drift: only integers and DECIMAL are kept",
        ),
        (
            f"SELECT o.status AS k, MIN(i.n) AS n FROM {BOTH} GROUP BY ROLLUP (o.status)",
            "MIN(i.n) does not add up over ROLLUP",
        ),
        (
            f"SELECT UPPER(o.status) AS k, COUNT(*) AS n FROM {BOTH} GROUP BY CUBE (k)",
            "not their aliases or positions",
        ),
        (
            f"{SELF} CROSS JOIN {{bronze_users}} AS u GROUP BY i.status",
            "JOIN",
        ),
        (
            "SELECT status AS k, COUNT(*) AS n FROM {bronze_items} WHERE status <> 'won''t' GROUP BY status",
            "are not the same query to Spark",
        ),
        (
            "SELECT i.item_id AS k, RANK() OVER (ORDER BY i.n + t.total) AS place FROM {bronze_items} AS i"
            " CROSS JOIN (SELECT SUM(n) AS total FROM {bronze_items}) AS t",
            "beside what is kept, its query still reads all rows of bronze_items",
        ),
        (
            "SELECT t.total AS k, p.flags FROM (SELECT SUM(n) AS total FROM {bronze_items}) AS t"
            " CROSS JOIN (SELECT BIT_OR(user_id) AS flags FROM {bronze_orders}) AS p",
            "beside what is kept, its query still groups all rows of bronze_orders",
        ),
    ],
)
def test_what_is_not_kept_says_why(query: str, said: str) -> None:
    assert said in reason(query)


RULES: dict[str, tuple[str, Any, str]] = {
    "pieces are the query": (
        "medallion.spark.plans._have_one_plan",
        lambda *_: True,
        "SELECT status AS k, COUNT(*) AS n FROM {bronze_items} WHERE status <> 'won''t' GROUP BY status",
    ),
    "values that are told apart": (
        "medallion.model.proof_kept._require_exact",
        lambda *_: None,
        f"SELECT o.status AS k, COUNT(DISTINCT i.weight) AS n FROM {BOTH} GROUP BY o.status",
    ),
    "digits of an average": (
        "medallion.model.proof_kept._require_digits",
        lambda *_: None,
        f"SELECT o.status AS k, AVG(i.wide) AS n FROM {BOTH} GROUP BY o.status",
    ),
    "row by row": (
        "medallion.model.proof_kept._require_row_by_row",
        lambda *_: None,
        "SELECT status AS k, COUNT(*) AS n FROM (SELECT status, ROW_NUMBER() OVER (PARTITION BY status ORDER BY"
        " item_id) AS r FROM {bronze_items}) AS i WHERE r < 3 GROUP BY status",
    ),
    "rows of one key": (
        "medallion.model.proof_kept.prove_keyed",
        lambda *_: None,
        f"{SELF} INNER JOIN {{bronze_items}} AS j ON j.product_id = i.product_id GROUP BY i.status",
    ),
    "subqueries of one key": (
        "medallion.model.proof_by_key.asked_of",
        lambda left, *_: left,
        f"{SELF} WHERE EXISTS (SELECT 1 FROM {{bronze_items}} AS j WHERE j.product_id = i.product_id)"
        " GROUP BY i.status",
    ),
    "null among the values of IN": (
        "medallion.model.proof_by_key.matters_if_null",
        lambda *_: False,
        f"SELECT o.status AS k, COUNT(*) AS n FROM {BOTH} WHERE o.order_id NOT IN"
        " (SELECT order_id FROM {bronze_items}) GROUP BY o.status",
    ),
}


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_that_is_switched_off_is_noticed(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place, nothing, query = RULES[rule]
    assert reason(query), "the rule refuses it"
    monkeypatch.setattr("medallion.model.proof._PROVEN", {})
    monkeypatch.setattr("medallion.model.proof._ANALYSED", {})
    monkeypatch.setattr(place, nothing)
    assert isinstance(derivation(query, NODES).method, Kept), "and nothing else does"
    monkeypatch.undo()
    monkeypatch.setattr("medallion.model.proof._ANALYSED", {})
    assert reason(query)


@pytest.mark.parametrize(
    ("text", "changed", "said"),
    [
        ("SUM(i.n) AS _s1", "SUM(i.n + 1) AS _s1", "SUM(i.n) is not counted by what it is of"),
        ("COUNT(i.n) AS _v1", "COUNT(i.price) AS _v1", "SUM(i.n) is not counted by what it is of"),
        ("COUNT(i.n) AS _v1", "SUM(i.n) AS _v1", "_v1 of its state does not count"),
        ("COUNT(*) AS _rows", "COUNT(i.n) AS _rows", "its state does not count rows"),
        ("o.status AS _k0", "UPPER(o.status) AS _k0", "is not of the same rows and values"),
        ("GROUP BY o.status", "GROUP BY i.n, o.status", "what is kept of it has other groups"),
        ("i.price END", "i.price + 1 END", "is not of the same rows and values"),
        ("CASE WHEN i.n > 0 THEN i.price END", "i.price", "the values of i.price are not kept by its condition"),
        ("SELECT o.status", "SELECT DISTINCT o.status", "its state is not one of groups"),
        ("ON o.order_id = i.order_id", "ON o.order_id = i.item_id", "is not of the same rows and values"),
    ],
)
def test_state_that_is_of_something_else_than_its_relation_is_refused(
    text: str, changed: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = "MAX(i.price) FILTER (WHERE i.n > 0) AS m"
    query = f"SELECT o.status AS k, SUM(i.n) AS n, {most} FROM {BOTH} GROUP BY o.status"
    found = kept(query)
    assert text in state_text(found.parts[0])
    monkeypatch.setattr("medallion.model.proof_kept.state_text", lambda part: state_text(part).replace(text, changed))
    assert said in reason(query)


SUMS = f"SELECT o.status AS k, SUM(i.n) AS n FROM {BOTH} GROUP BY o.status"


def with_part(method: Kept, **changed: Any) -> Kept:
    return replace(method, parts=(replace(method.parts[0], **changed),))


def with_last_item(method: Kept, **changed: Any) -> Kept:
    *items, last = method.parts[0].items
    return with_part(method, items=(*items, replace(last, **changed)))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (lambda found: replace(found, rest=found.rest.replace("{_kept_0}", "{bronze_users}")), "neither kept nor"),
        (lambda found: replace(found, rest=f"{found.rest} WHERE n > 3"), "are not the same query to Spark"),
        (lambda found: with_last_item(found, type="int"), "other types now"),
        (lambda found: with_last_item(found, text="i.product_id"), "are not the same query to Spark"),
        (lambda found: with_last_item(found, condition="i.n > 0"), "are not the same query to Spark"),
        (lambda found: with_last_item(found, kind="STDDEV"), "no aggregate of which state is kept"),
        (lambda found: with_last_item(found, kind="key"), "other types now"),
        (lambda found: with_part(found, by=None), "it has JOIN"),
        (lambda found: with_part(found, by=ByKey("order_id", {}, {"bronze_items": "order_id"})), "no join leads"),
        (lambda found: with_part(found, by=ByKey("item_id", {}, {"bronze_items": "item_id"})), "no join leads"),
        (lambda found: with_part(found, is_grouped=False), "a part of it cannot be computed on its own"),
        (
            lambda found: with_part(found, source=found.parts[0].source.replace("i.order_id", "i.item_id")),
            "is not joined on",
        ),
        (
            lambda found: with_part(
                with_last_item(found, text="o.user_id"),
                ctes="WITH i AS (SELECT * FROM {bronze_items}) ",
                source="FROM {bronze_orders} AS o",
            ),
            "its rows do not follow from item_id",
        ),
        (
            lambda found: with_part(found, by=ByKey("weight", found.parts[0].by.via, {"bronze_items": "weight"})),
            "weight is DOUBLE, whose values cannot be listed",
        ),
    ],
)
def test_a_method_that_is_not_right_for_its_query_is_refused(changed: Any, said: str) -> None:
    method = kept(SUMS)
    assert refusal(SUMS, method, NODES) == ""
    assert said in refusal(SUMS, changed(method), NODES)


def test_a_key_that_has_two_types_is_refused() -> None:
    rows = "SELECT user_id AS who FROM {bronze_orders} UNION ALL SELECT product_id FROM {bronze_items}"
    query = f"{OF_EITHER.format(rows)} GROUP BY u.tier"
    via = Via("user_id", "bronze_orders", "user_id", also=(Via("user_id", "bronze_items", "product_id"),))
    keys = {"bronze_orders": "order_id", "bronze_items": "order_id"}
    by = ByKey("order_id", {"bronze_users": via}, keys)
    method = with_part(kept(query), by=by)
    assert refusal(query, method, NODES) == ""
    other = with_part(method, by=replace(by, columns={**keys, "bronze_items": "status"}))
    said = "order_id is BIGINT in bronze_orders, STRING in bronze_items: declare it with one type"
    assert said in refusal(query, other, NODES)


DISTINCT = f"SELECT DISTINCT o.status AS k FROM {BOTH}"


@pytest.mark.parametrize(
    ("query", "text", "changed", "said"),
    [
        (SUMS, "SUM(i.n) AS n", "AVG(i.n) AS n", "no aggregate of which state is kept"),
        (SUMS, "SUM(i.n) AS n", "SUM(i.n) + 1 AS n", "is not the aggregate that its text says"),
        (SUMS, "SUM(i.n) AS n", "SUM(DISTINCT i.n) AS n", "no aggregate of which state is kept"),
        (SUMS, "SUM(i.n) AS n", "SUM(i.n) FILTER (WHERE i.n > 1) AS n", "has another FILTER"),
        (SUMS, "o.status AS k", "MAX(o.status) AS k", "is no value of rows"),
        (SUMS, "BY o.status", "BY o.status HAVING SUM(i.n) > 1", "it has FILTER where groups or rows are kept"),
        (DISTINCT, "DISTINCT", "", "it is no DISTINCT of plain rows"),
    ],
)
def test_a_relation_that_spark_reads_otherwise_than_its_text_says_is_refused(
    query: str, text: str, changed: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert text in relation_text(kept(query).parts[0])
    monkeypatch.setattr(
        "medallion.model.proof_kept.relation_text", lambda part: relation_text(part).replace(text, changed)
    )
    assert said in reason(query)


def test_tables_of_tpch_declare_no_method_and_all_are_refreshed_by_what_changed() -> None:
    lock = Path(__file__).parents[2] / "examples" / "tpch" / "refresh.lock"
    methods = {
        record["table"]: record["method"]["kind"] for record in map(json.loads, lock.read_text().splitlines()[1:])
    }
    assert len(methods) == 22 and {*methods.values()} == {"incremental aggregate"}


def test_inputs_with_commas_between_them_are_followed_as_those_that_are_joined() -> None:
    query = "SELECT o.status AS k, SUM(i.n) AS n FROM {bronze_items} AS i, {bronze_orders} AS o"
    method = kept(f"{query} WHERE i.order_id = o.order_id GROUP BY o.status")
    assert method.parts[0].by == kept(f"SELECT o.status AS k, SUM(i.n) AS n FROM {BOTH} GROUP BY o.status").parts[0].by


def test_columns_are_equal_where_each_side_of_an_or_says_so() -> None:
    query = "SELECT o.status AS k, SUM(i.n) AS n FROM {bronze_items} AS i, {bronze_orders} AS o WHERE"
    sides = "(i.order_id = o.order_id AND i.n > 3) OR (i.n < 1 AND o.order_id = i.order_id)"
    assert kept(f"{query} {sides} GROUP BY o.status").parts[0].by is not None
    other = sides.replace("AND o.order_id = i.order_id", "AND o.user_id = i.order_id")
    assert reason(f"{query} {other} GROUP BY o.status")


def test_a_window_over_groups_is_computed_of_what_is_kept() -> None:
    share = "SUM(price) * 100 / SUM(SUM(price)) OVER (PARTITION BY status)"
    query = f"SELECT product_id AS k, status, SUM(price) AS paid, {share} AS share FROM {{bronze_items}}"
    assert kept(f"{query} GROUP BY product_id, status", "k", "status").parts[0].by is None


def test_rows_are_looked_up_beside_what_is_kept_of_another_input() -> None:
    paid = "SELECT order_id, SUM(price) AS paid FROM {bronze_items} GROUP BY order_id"
    query = f"SELECT o.order_id AS k, o.status, p.paid FROM ({paid}) AS p, {{bronze_orders}} AS o"
    top = kept(f"{query} WHERE p.order_id = o.order_id ORDER BY paid, k LIMIT 5")
    assert [relation_text(part).split(" FROM ")[1] for part in top.parts] == ["{bronze_items} GROUP BY order_id"]


@pytest.mark.parametrize(
    "grouping",
    [
        "ROLLUP (o.status, i.product_id)",
        "CUBE (o.status, i.product_id)",
        "GROUPING SETS ((o.status, i.product_id), (o.status))",
        "o.status, ROLLUP (i.product_id)",
    ],
)
def test_groups_of_several_levels_are_kept_with_what_tells_them_apart(grouping: str) -> None:
    shown = "CASE WHEN GROUPING(i.product_id) = 1 THEN 'all' ELSE CAST(i.product_id AS STRING) END AS p"
    method = kept(
        f"SELECT o.status AS k, {shown}, SUM(i.n) / COUNT(*) AS pace FROM {BOTH} GROUP BY {grouping}"
        " HAVING COUNT(*) > 1 ORDER BY GROUPING_ID(), k, i.product_id LIMIT 5"
    )
    (part,) = method.parts
    assert part.grouping == grouping
    assert "GROUPING_ID() AS _k2" in state_text(part) and state_text(part).endswith(f" GROUP BY {grouping}")
    assert "bronze" not in method.rest and "GROUPING" not in method.rest
    assert _method_of(json.loads(json.dumps(describe_method(method)))) == method


def test_a_window_over_groups_of_several_levels_is_computed_of_what_is_kept() -> None:
    level = "GROUPING(status) + GROUPING(product_id)"
    rank = f"RANK() OVER (PARTITION BY {level} ORDER BY SUM(price) DESC) AS rank"
    query = f"SELECT status AS k, product_id, {level} AS level, {rank} FROM {{bronze_items}}"
    assert kept(f"{query} GROUP BY ROLLUP (status, product_id)").parts[0].by is None


def test_groups_that_stand_twice_among_the_sets_are_not_kept() -> None:
    twice = "GROUPING SETS ((status), (status))"
    assert "other groups" in reason(f"SELECT status AS k, COUNT(*) AS n FROM {{bronze_items}} GROUP BY {twice}")


def test_rollup_over_a_union_is_told_in_words() -> None:
    """Spark does not tell the rows of some of them."""
    union = "SELECT status AS a, n AS b FROM {bronze_items} UNION ALL SELECT status, 1 FROM {bronze_orders}"
    found = reason(f"SELECT a AS k, SUM(b) AS n FROM ({union}) GROUP BY ROLLUP (a, b)")
    assert "ROLLUP" in found
