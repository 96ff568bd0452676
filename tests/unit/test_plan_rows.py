"""Two queries are one to a proof only where they give the same rows for any rows of their inputs."""

from functools import partial

import pytest

from medallion.model.plan import declared_columns
from medallion.settings import Settings
from medallion.spark import plans
from medallion.spark.plans import analyse_here
from tests.unit.test_kept_relations import NODES

pytestmark = pytest.mark.usefixtures("spark")

ITEMS, ORDERS = "{bronze_items}", "{bronze_orders}"
UNCLEAR = {"X'01'", "FROM_JSON(status, 'a INT, b INT').a"}  # Spark does not tell all that they are
GROUPS = f"SELECT status, SUM(n) AS n, COUNT(*) AS c FROM {ITEMS} GROUP BY status"


def is_same(left: str, right: str) -> bool:
    columns = {name: declared_columns(node) for name, node in NODES.items()}
    read = {name: found for name, found in columns.items() if name in left + right}
    return partial(analyse_here, Settings.from_environment())(left, read, same_as=right).is_same


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (
            "SELECT status, SUM(n) AS n, SUM(n) / SUM(SUM(n)) OVER (PARTITION BY status) AS share"
            f" FROM {ITEMS} GROUP BY status",
            f"SELECT status AS status, n AS n, n / SUM(n) OVER (PARTITION BY status) AS share FROM ({GROUPS})",
        ),
        (
            f"SELECT status FROM {ORDERS} WHERE user_id = (SELECT DISTINCT (n) FROM {ITEMS} WHERE item_id = 1)",
            f"WITH d AS (SELECT DISTINCT n AS _0 FROM {ITEMS} WHERE item_id = 1)"
            f" SELECT status FROM {ORDERS} WHERE user_id = (SELECT _0 AS x FROM d)",
        ),
        (
            f"SELECT SUBSTR(status, 1, 2) AS s, COUNT(*) AS c FROM {ITEMS} GROUP BY status"
            " ORDER BY SUBSTR(status, 1, 2), c, status LIMIT 3",
            f"SELECT SUBSTR(status, 1, 2) AS s, c AS c FROM ({GROUPS}) ORDER BY s, c, status LIMIT 3",
        ),
        (
            f"SELECT CASE WHEN (SELECT COUNT(*) FROM {ITEMS}) > 3 THEN (SELECT SUM(n) FROM {ITEMS}) END AS x"
            f" FROM {ORDERS}",
            f"WITH a AS (SELECT COUNT(*) AS _0 FROM {ITEMS}), b AS (SELECT SUM(n) AS _0 FROM {ITEMS})"
            f" SELECT CASE WHEN (SELECT _0 FROM a) > 3 THEN (SELECT _0 FROM b) END AS x FROM {ORDERS}",
        ),
        (
            f"SELECT o.status FROM {ORDERS} AS o WHERE EXISTS (SELECT 1 FROM {ITEMS} AS i WHERE i.order_id ="
            " o.order_id) OR EXISTS (SELECT 1 FROM {bronze_users} AS u WHERE u.user_id = o.user_id)",
            f"SELECT p.status FROM (SELECT status, order_id AS a, user_id AS b FROM {ORDERS}) AS p WHERE EXISTS"
            f" (SELECT 1 FROM {ITEMS} AS i WHERE i.order_id = p.a) OR EXISTS (SELECT 1 FROM {{bronze_users}} AS u"
            " WHERE u.user_id = p.b)",
        ),
        (
            f"SELECT status, SUM(n) / COUNT(*) AS pace FROM {ITEMS} GROUP BY status HAVING COUNT(*) > 1",
            f"SELECT status, n / c AS pace FROM ({GROUPS}) WHERE c > 1",
        ),
        (
            f"SELECT status, CASE WHEN GROUPING(n) = 1 THEN 'all' END AS level FROM {ITEMS}"
            " GROUP BY ROLLUP (status, n) HAVING COUNT(*) > 1",
            "SELECT status, CASE WHEN any_n = 1 THEN 'all' END AS level FROM (SELECT status, n, GROUPING(n) AS any_n,"
            f" COUNT(*) AS c FROM {ITEMS} GROUP BY ROLLUP (status, n)) WHERE c > 1",
        ),
    ],
    ids=["window", "distinct", "order", "merged subqueries", "existence", "measure of few groups", "levels"],
)
def test_queries_that_differ_in_names_and_in_what_is_passed_on_are_the_same(left: str, right: str) -> None:
    assert is_same(left, right)


CONSTANTS = (
    f"(SELECT item_id, order_id, UPPER(status) AS s, 'x' AS a FROM {ITEMS} WHERE n > 1 LIMIT 9) AS i LEFT JOIN"
    f" (SELECT order_id, 'x' AS b FROM {ORDERS} LIMIT 9) AS o ON o.order_id = i.order_id"
)


def outer(condition: str, select: str = "i.item_id, o.status") -> str:
    return f"SELECT {select} FROM {ITEMS} AS i LEFT JOIN {ORDERS} AS o ON {condition}"


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (
            "SELECT i.item_id, COALESCE(o.status, '') AS s"
            f" FROM {ITEMS} AS i LEFT JOIN {ORDERS} AS o ON o.order_id = i.order_id",
            f"SELECT i.item_id, o.s FROM {ITEMS} AS i LEFT JOIN (SELECT order_id, COALESCE(status, '') AS s"
            f" FROM {ORDERS}) AS o ON o.order_id = i.order_id",
        ),
        (
            f"SELECT i.item_id, o.s, COALESCE(o.status, '') AS t FROM {ITEMS} AS i LEFT JOIN (SELECT order_id, status,"
            f" COALESCE(status, '') AS s FROM {ORDERS}) AS o ON o.order_id = i.order_id",
            f"SELECT i.item_id, o.s, o.s AS t FROM {ITEMS} AS i LEFT JOIN (SELECT order_id, status,"
            f" COALESCE(status, '') AS s FROM {ORDERS}) AS o ON o.order_id = i.order_id",
        ),
        (
            f"SELECT n, SUM(n) AS s FROM (SELECT n, SUM(n) AS x FROM {ITEMS} GROUP BY n, status) GROUP BY n",
            f"SELECT n, SUM(x) AS s FROM (SELECT n, SUM(n) AS x FROM {ITEMS} GROUP BY n, status) GROUP BY n",
        ),
        (
            f"SELECT n, SUM(n) AS s FROM (SELECT n, SUM(n) AS x FROM {ITEMS} GROUP BY n) GROUP BY n",
            f"SELECT n, x AS s FROM (SELECT n, SUM(n) AS x FROM {ITEMS} GROUP BY n)",
        ),
        (
            f"SELECT status, SUM(n) / COUNT(*) AS pace FROM {ITEMS} GROUP BY status HAVING COUNT(*) > 1",
            f"SELECT status, n / c AS pace FROM ({GROUPS}) WHERE n > 1",
        ),
        (
            f"SELECT n, COUNT(*) AS c FROM (SELECT n, COUNT(*) AS c FROM {ITEMS} GROUP BY n, status) GROUP BY n",
            f"SELECT n, SUM(c) AS c FROM (SELECT n, COUNT(*) AS c FROM {ITEMS} GROUP BY n, status) GROUP BY n",
        ),
        (
            f"SELECT status, RANK() OVER (ORDER BY item_id) AS r FROM {ITEMS} WHERE n > 1",
            f"SELECT status, r FROM (SELECT *, RANK() OVER (ORDER BY item_id) AS r FROM {ITEMS}) WHERE n > 1",
        ),
        (f"SELECT item_id, n FROM {ITEMS}", f"SELECT item_id, CAST(order_id AS INT) AS n FROM {ITEMS}"),
        (f"SELECT n AS a, n + 1 AS b FROM {ITEMS}", f"SELECT n + 1 AS a, n AS b FROM {ITEMS}"),
        (
            f"SELECT a.item_id FROM {ITEMS} AS a, {ITEMS} AS b WHERE a.n = b.order_id AND a.item_id > 3",
            f"SELECT a.item_id FROM {ITEMS} AS a, {ITEMS} AS b WHERE a.n = b.order_id AND b.item_id > 3",
        ),
        (
            f"SELECT a.item_id FROM {ITEMS} AS a, {ITEMS} AS b WHERE a.n = b.order_id",
            f"SELECT b.item_id FROM {ITEMS} AS a, {ITEMS} AS b WHERE a.n = b.order_id",
        ),
        (
            f"SELECT order_id AS a, status FROM {ITEMS} UNION ALL SELECT order_id, status FROM {ORDERS}",
            f"SELECT order_id AS a, status FROM {ITEMS} UNION ALL SELECT user_id, status FROM {ORDERS}",
        ),
        (
            f"SELECT k, SUM(v) AS v FROM (SELECT n AS k, order_id AS v FROM {ITEMS} UNION ALL SELECT CAST(giver_id AS"
            f" INT), user_id FROM {ORDERS}) GROUP BY k",
            f"SELECT k, SUM(v) AS v FROM (SELECT n AS k, order_id AS v FROM {ITEMS} UNION ALL SELECT CAST(user_id AS"
            f" INT), giver_id FROM {ORDERS}) GROUP BY k",
        ),
        (
            "SELECT status, SUM(n) OVER (PARTITION BY status) AS x"
            f" FROM (SELECT status, n, SUM(n) OVER (PARTITION BY order_id) AS y FROM {ITEMS})",
            "SELECT status, y AS x"
            f" FROM (SELECT status, n, SUM(n) OVER (PARTITION BY order_id) AS y FROM {ITEMS})",
        ),
        (
            f"{GROUPS} ORDER BY n, status LIMIT 3",
            f"{GROUPS} ORDER BY c, status LIMIT 3",
        ),
        (GROUPS, f"{GROUPS}, order_id"),
        (f"SELECT i.s, i.a, o.b FROM {CONSTANTS}", f"SELECT i.s, o.b AS a, i.a AS b FROM {CONSTANTS}"),
        (outer("o.order_id = i.order_id"), outer("o.user_id = i.order_id")),
        (outer("o.order_id = i.order_id"), outer("o.order_id = i.order_id").replace("LEFT", "INNER")),
        (outer("o.order_id = i.order_id"), f"{outer('o.order_id = i.order_id')} WHERE o.status IS NULL OR i.n > 1"),
        (
            f"SELECT status FROM {ORDERS} WHERE user_id = (SELECT MAX(n) FROM {ITEMS})",
            f"SELECT status FROM {ORDERS} WHERE user_id = (SELECT MIN(n) FROM {ITEMS})",
        ),
        (
            f"SELECT status FROM {ORDERS} WHERE user_id IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13)",
            f"SELECT status FROM {ORDERS} WHERE user_id IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14)",
        ),
        (
            f"SELECT status, COUNT(*) AS c FROM {ITEMS} GROUP BY ROLLUP (status, n)",
            f"SELECT status, COUNT(*) AS c FROM {ITEMS} GROUP BY CUBE (status, n)",
        ),
        (
            f"SELECT status, n, COUNT(*) AS c FROM {ITEMS} GROUP BY ROLLUP (status, n)",
            f"SELECT status, n, COUNT(*) AS c FROM {ITEMS} GROUP BY ROLLUP (n, status)",
        ),
        (
            f"SELECT o.status FROM {ORDERS} AS o WHERE EXISTS (SELECT 1 FROM {ITEMS} AS i WHERE i.order_id ="
            " o.order_id) OR EXISTS (SELECT 1 FROM {bronze_users} AS u WHERE u.user_id = o.user_id)",
            f"SELECT o.status FROM {ORDERS} AS o WHERE EXISTS (SELECT 1 FROM {ITEMS} AS i WHERE i.order_id ="
            " o.order_id) AND EXISTS (SELECT 1 FROM {bronze_users} AS u WHERE u.user_id = o.user_id)",
        ),
    ],
)  # fmt: skip
def test_queries_that_can_differ_in_a_row_are_not_the_same(left: str, right: str) -> None:
    assert not is_same(left, right)
    assert is_same(left, left), "else it says little"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("X'01'", "X'02'"),
        ("INTERVAL 1 DAY", "INTERVAL 2 DAYS"),
        ("INTERVAL 1 MONTH", "INTERVAL 2 MONTHS"),
        ("DATE '2025-01-01'", "DATE '2025-01-02'"),
        ("TIMESTAMP '2025-01-01 00:00:00'", "TIMESTAMP '2025-01-01 00:00:01'"),
        ("1.0", "1.1"),
        ("1D", "1.5D"),
        ("'a'", "'A'"),
        ("ARRAY(1, 2)", "ARRAY(2, 1)"),
        ("NAMED_STRUCT('a', 1)", "NAMED_STRUCT('a', 2)"),
        ("true", "false"),
        ("SUM(n) OVER (PARTITION BY status ORDER BY item_id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)",
         "SUM(n) OVER (PARTITION BY status ORDER BY item_id ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)"),
        ("SUM(n) OVER (PARTITION BY status ORDER BY item_id ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)",
         "SUM(n) OVER (PARTITION BY status ORDER BY item_id RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"),
        ("ROW_NUMBER() OVER (ORDER BY n NULLS FIRST, item_id)", "ROW_NUMBER() OVER (ORDER BY n NULLS LAST, item_id)"),
        ("LAG(n, 1) OVER (ORDER BY item_id)", "LAG(n, 2) OVER (ORDER BY item_id)"),
        ("(SELECT COUNT(n) FROM {bronze_items})", "(SELECT COUNT(DISTINCT n) FROM {bronze_items})"),
        ("(SELECT SUM(n) FROM {bronze_items})", "(SELECT SUM(n) FILTER (WHERE n > 1) FROM {bronze_items})"),
        ("ROUND(price, 1)", "ROUND(price, 0)"),
        ("SUBSTR(status, 1)", "SUBSTR(status, 2)"),
        ("CAST(price AS INT)", "CAST(price AS BIGINT)"),
        ("n - order_id", "order_id - n"),
        ("DATE_FORMAT(sold_at, 'yyyy')", "DATE_FORMAT(sold_at, 'YY')"),
        ("FROM_JSON(status, 'a INT, b INT').a", "FROM_JSON(status, 'a INT, b INT').b"),
        ("TRANSFORM(ARRAY(n), x -> x + 1)", "TRANSFORM(ARRAY(n), x -> x + 2)"),
        ("TRANSFORM(ARRAY(n), (x, y) -> x - y)", "TRANSFORM(ARRAY(n), (y, x) -> x - y)"),
    ],
)  # fmt: skip
def test_expressions_that_can_differ_are_not_the_same(one: str, other: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "_are_one_to_spark", lambda *_: False)
    query = "SELECT status AS s, item_id AS k, {} AS v FROM {{bronze_items}}"
    assert not is_same(query.format(one), query.format(other))
    assert is_same(query.format(one), query.format(one)) or one in UNCLEAR, "else it says little"
