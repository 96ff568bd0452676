"""Random queries that pick rows by an order: each is refused, or gives the same rows however the input lies.

In DuckDB, over few values, so that many rows tie. MEDALLION_QUERIES and MEDALLION_SEED as for test_refresh_property.
"""

import random
from collections import Counter

import pytest

from medallion.model.table import Table
from tests.unit.test_refresh_property import QUERIES, SEED, Engine, World, is_refused

COLUMNS = ("item_id", "order_id", "product_id", "n")
SOURCES = (
    "SELECT item_id, order_id, product_id, n FROM {items}",
    "SELECT item_id, order_id, product_id, n FROM {items} WHERE order_id = 3",
    "SELECT MAX(item_id) AS item_id, order_id, product_id, SUM(n) AS n FROM {items} GROUP BY order_id, product_id",
    "SELECT DISTINCT 1 AS item_id, order_id, product_id, n FROM {items}",
    "SELECT item_id, order_id, product_id, n FROM {items} UNION ALL SELECT item_id, order_id, 1, n FROM {items}",
    "SELECT a.item_id, b.order_id, a.product_id, b.user_id AS n FROM {items} AS a LEFT JOIN {orders} AS b"
    " ON b.order_id = a.order_id",
    "SELECT a.item_id, b.order_id, a.product_id, b.user_id AS n FROM {items} AS a INNER JOIN {orders} AS b"
    " ON b.user_id = a.product_id",
    "SELECT 1 AS item_id, b.order_id, c.user_id AS product_id, a.n FROM {orders} AS b INNER JOIN {users} AS c"
    " USING (user_id) LEFT JOIN {items} AS a ON a.item_id = b.order_id",
    "SELECT a.item_id, a.order_id, a.product_id, b.n FROM {items} AS a LEFT JOIN {items} AS b"
    " ON b.item_id = a.n AND b.product_id = 2",
    "SELECT item_id, order_id, product_id, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY order_id, product_id"
    " ORDER BY n, item_id) AS r FROM {items}) AS ranked WHERE r = 1",
    "SELECT r AS item_id, order_id, product_id, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY order_id"
    " ORDER BY n, item_id) AS r FROM {items}) AS ranked",
    "SELECT a.item_id, a.order_id, a.product_id, a.n FROM {items} AS a LEFT SEMI JOIN {orders} AS b"
    " ON b.user_id = a.product_id",
)


def order_query(chance: random.Random) -> str:
    """A query that picks rows of one of the sources by some of its columns."""

    def some(most: int) -> str:
        return ", ".join(chance.sample(COLUMNS, chance.randint(1, most)))

    order, partition, value = some(3), some(2), chance.choice(COLUMNS)
    window = f"PARTITION BY {partition} ORDER BY {order}"
    shape = chance.choice(
        (
            f"SELECT {value}, ROW_NUMBER() OVER ({window}) AS r FROM x",
            f"SELECT {value}, ROW_NUMBER() OVER (ORDER BY {order}) AS r FROM x",
            f"SELECT item_id, n, LAG({value}) OVER ({window}) AS r FROM x",
            f"SELECT item_id, n, FIRST_VALUE({value}) OVER ({window}) AS r FROM x",
            f"SELECT n, SUM(n) OVER ({window} ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS r FROM x",
            f"SELECT n, SUM(n) OVER ({window}) AS r, RANK() OVER ({window}) AS s FROM x",
            f"SELECT {some(4)} FROM x ORDER BY {order} LIMIT 4",
            f"SELECT {partition}, SUM(n) AS s FROM x GROUP BY {partition}"
            f" ORDER BY {chance.choice(('s', partition))} LIMIT 2",
            f"SELECT {partition}, MAX_BY({value}, STRUCT({order})) AS r FROM x GROUP BY {partition}",
            f"SELECT order_id, SUM(n) AS s, ROW_NUMBER() OVER (ORDER BY {chance.choice(('SUM(n)', 'order_id'))}) AS r"
            " FROM x GROUP BY order_id",
            "SELECT a.item_id, LAG(a.n) OVER (ORDER BY a.item_id, b.order_id) AS r FROM x AS a INNER JOIN {orders} AS b"
            f" ON b.{chance.choice(('order_id', 'user_id'))} = a.{value}",
        )
    )
    return f"WITH x AS ({chance.choice(SOURCES)}) {shape}"


def results(query: str, world: World, engine: Engine, chance: random.Random) -> set[str]:
    """What the query gives, with the rows of its inputs in several orders."""
    found = set()
    for _ in range(4):
        shuffled = {name: chance.sample([*rows.items()], len(rows)) for name, rows in world.after.items()}
        engine.load({name: dict(rows) for name, rows in shuffled.items()})
        found.add(repr(sorted(engine.rows(query).items())))
    return found


@pytest.mark.slow
def test_random_orders_are_refused_or_give_the_same_rows_however_the_input_lies() -> None:
    chance, engine, seen = random.Random(SEED), Engine(), Counter[str]()
    engine.connection.execute("SET threads = 1")
    differing = []
    for _ in range(4 * QUERIES):
        query = order_query(chance)
        table = Table(keys=("item_id",), query=query, name="gold_x", layer="gold")
        reason, differs = is_refused(table), len(results(query, World(chance), engine, chance)) > 1
        seen["refused" if reason else "proven"] += 1
        seen["refused and differs"] += bool(reason) and differs
        if differs and not reason:
            differing.append(query)
    assert differing == []
    assert min(seen.values()) > QUERIES / 5, seen
