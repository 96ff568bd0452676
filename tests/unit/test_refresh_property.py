"""Random queries: each is refused, or gives the same rows incremental and full. In DuckDB, so in seconds.

MEDALLION_QUERIES is how many of each kind are made (30), MEDALLION_SEED which they are (1).
"""

import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import duckdb
import pytest
import sqlglot

from medallion.errors import MedallionError
from medallion.model.additive_split import ROWS, Part, split_of
from medallion.model.methods import Additive, ByKey, Via
from medallion.model.refresh_method import SIDE
from medallion.model.table import Feed, Table
from tests.proving import keyed, prove

QUERIES, SEED = int(os.environ.get("MEDALLION_QUERIES", "30")), int(os.environ.get("MEDALLION_SEED", "1"))
ITEMS = Feed(
    keys=("item_id",), schema="item_id BIGINT NOT NULL, order_id BIGINT, product_id BIGINT, n INT", name="items"
)
ORDERS = Feed(keys=("order_id",), schema="order_id BIGINT NOT NULL, user_id BIGINT, status STRING", name="orders")
USERS = Feed(keys=("user_id",), schema="user_id BIGINT NOT NULL, tier STRING", name="users")
LINES = Table(
    keys=("item_id",),
    query="SELECT item_id, order_id, product_id, n FROM {items}",
    method=ByKey("order_id"),
    name="lines",
)
NODES = {node.name: node for node in (ITEMS, ORDERS, USERS, LINES)}
COLUMNS = {
    "items": ("item_id", "order_id", "product_id", "n"),
    "orders": ("order_id", "user_id", "status"),
    "users": ("user_id", "tier"),
}
Rows = dict[int, tuple[Any, ...]]


class World:
    """Items, orders and users before some changes and after them; few keys, so that changes meet."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.before: dict[str, Rows] = {name: {} for name in COLUMNS}
        for name, count in (("items", 16), ("orders", 6), ("users", 4)):
            for key in range(1, count + 1):
                self._put(self.before, name, key)
        self.commits = [self.before]
        for _ in range(2):
            after = {name: dict(rows) for name, rows in self.commits[-1].items()}
            for name, most in (("items", 18), ("orders", 7), ("users", 5)):
                for _ in range(chance.randrange(3)):
                    key = chance.randrange(1, most + 1)
                    if chance.random() < 0.3:
                        after[name].pop(key, None)
                    else:
                        self._put(after, name, key)
            self.commits.append(after)
        self.after = self.commits[-1]

    def _put(self, tables: dict[str, Rows], name: str, key: int) -> None:
        pick, some = self.chance.choice, self.chance.randrange
        tables[name][key] = {
            "items": lambda: (key, some(1, 8), some(1, 4), pick((None, some(-3, 6)))),
            "orders": lambda: (key, some(1, 6), pick(("new", "done", None))),
            "users": lambda: (key, pick(("gold", "none"))),
        }[name]()

    def changed(self, name: str) -> Iterator[tuple[int, tuple[Any, ...]]]:
        """What each commit took away and brought, with its side: of lines, all those of an order that it touched."""
        source = "items" if name == "lines" else name
        for place, (old, new) in enumerate(zip(self.commits, self.commits[1:], strict=False), start=1):
            was, now = old[source], new[source]
            touched = [
                row for key in was.keys() | now for row in (was.get(key), now.get(key)) if was.get(key) != now.get(key)
            ]
            if name == "lines":
                orders = {row[1] for row in touched if row}
                yield from ((-place, row) for row in was.values() if row[1] in orders)
                yield from ((place, row) for row in now.values() if row[1] in orders)
            else:
                yield from ((-place, was[key]) for key in was if was[key] != now.get(key))
                yield from ((place, now[key]) for key in now if now[key] != was.get(key))


@cache
def in_duckdb(query: str) -> str:
    return sqlglot.transpile(query, read="spark", write="duckdb")[0]


def _literal(value: Any) -> str:
    return "NULL" if value is None else repr(value)


class Engine:
    """DuckDB with one world in it."""

    def __init__(self) -> None:
        self.connection = duckdb.connect()

    def table(self, name: str, columns: tuple[str, ...], rows: list[tuple[Any, ...]]) -> None:
        types = {"status": "TEXT", "tier": "TEXT", "n": "INT"}
        declared = ", ".join(f"{column} {types.get(column, 'BIGINT')}" for column in columns)
        self.connection.execute(f"CREATE OR REPLACE TABLE {name} ({declared})")
        if rows:
            values = ", ".join(f"({', '.join(map(_literal, row))})" for row in rows)
            self.connection.execute(f"INSERT INTO {name} VALUES {values}")

    def load(self, tables: dict[str, Rows]) -> None:
        for name, rows in tables.items():
            self.table(name, COLUMNS[name], list(rows.values()))
        self.table("lines", COLUMNS["items"], list(tables["items"].values()))

    def bound(self, query: str, **names: str) -> str:
        return in_duckdb(query.format_map({name: name for name in (*COLUMNS, "lines")} | names))

    def rows(self, query: str, **names: str) -> Counter[str]:
        return Counter(map(repr, self.connection.execute(self.bound(query, **names)).fetchall()))

    def keep(self, name: str, query: str, **names: str) -> None:
        self.connection.execute(f"CREATE OR REPLACE TABLE {name} AS {self.bound(query, **names)}")


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine()


def is_refused(table: Table) -> str | None:
    try:
        prove([keyed(table, NODES)], NODES)
    except MedallionError as reason:
        return str(reason)
    return None


# --- additive


def value_of(part: Part, state: str, name: str, engine: Engine) -> None:
    """The part as its query gives it, from its counters."""
    sums = ", ".join(
        f"CASE WHEN {part.values[c]} > 0 THEN {c} END AS {c}" if c in part.values else c for c in part.sums
    )
    listed = ", ".join((*part.keys, sums))
    engine.connection.execute(f"CREATE OR REPLACE TABLE {name} AS SELECT {listed} FROM {state} WHERE {ROWS} > 0")


def incremental_additive(table: Table, world: World, engine: Engine) -> Counter[str]:
    """What the incremental aggregate gives: state of before, what changes add to it, and the rest of the query."""
    halves = split_of(table)
    changed: dict[str, str] = {}
    for name in ("items", "lines"):
        engine.table(f"changed_{name}", (*COLUMNS["items"], SIDE), [(*row, side) for side, row in world.changed(name)])
        changed[name] = f"changed_{name}"
    engine.load(world.before)
    for name, part in halves.parts.items():
        keys, on = ", ".join(part.keys), " AND ".join(f"a.{k} IS NOT DISTINCT FROM b.{k}" for k in part.keys)
        counters = ", ".join(f"COALESCE({c}, 0) AS {c}" for c in part.counters)
        engine.keep(
            "filled", part.query, **{part.input: f"before_{part.input}" if part.input in halves.parts else part.input}
        )
        engine.connection.execute(f"CREATE OR REPLACE TABLE state AS SELECT {keys}, {counters} FROM filled")
        engine.keep("sides", part.query_by_commit, **{part.input: changed[part.input]})
        signed = ", ".join(f"SIGN({SIDE}) * COALESCE({c}, 0) AS {c}" for c in part.counters)
        totals = ", ".join(f"CAST(SUM({c}) AS BIGINT) AS {c}" for c in part.counters)
        both = f"SELECT {keys}, {', '.join(part.counters)} FROM state UNION ALL SELECT {keys}, {signed} FROM sides"
        engine.connection.execute(
            f"CREATE OR REPLACE TABLE newer AS SELECT {keys}, {totals} FROM ({both}) GROUP BY {keys}"
        )
        value_of(part, "state", f"before_{name}", engine)
        value_of(part, "newer", name, engine)
        touched = f"EXISTS (SELECT 1 FROM sides AS b WHERE {on})"
        engine.connection.execute(
            f"CREATE OR REPLACE TABLE changed_{name} AS SELECT *, -1 AS {SIDE} FROM before_{name} AS a WHERE {touched}"
            f" UNION ALL SELECT *, 1 FROM {name} AS a WHERE {touched}"
        )
        changed[name] = f"changed_{name}"
    engine.load(world.after)
    return engine.rows(halves.rest, **{name: name for name in halves.parts})


def additive_query(chance: random.Random) -> tuple[str, tuple[str, ...]]:
    """A query with a part, or with a part over a part, from constructs that add up and others that do not."""
    pick, rare = chance.choice, lambda text: text if chance.random() < 0.08 else ""
    source = pick(("{items}", "{lines}", "{lines}", "per_order", "per_product"))
    inner = {
        "per_order": "per_order AS (SELECT order_id, product_id, SUM(n) AS n, MAX(item_id) AS item_id FROM {lines}"
        " GROUP BY order_id, product_id)",
        "per_product": "per_product AS (SELECT product_id, n, MAX(order_id) AS order_id, MAX(item_id) AS item_id"
        " FROM {items} GROUP BY product_id, n)",
    }
    key = pick(("product_id", "order_id", "product_id % 2", "n"))
    sums = [
        "COUNT(*)",
        "SUM(n)",
        "SUM(n) FILTER (WHERE product_id > 1)",
        "COUNT(n) FILTER (WHERE n > 1)",
        "COUNT(n)",
        "SUM(CASE WHEN n > 2 THEN n END)",
        pick(("COUNT(DISTINCT order_id)", "COUNT(DISTINCT product_id)", "COUNT(DISTINCT item_id)")),
    ]
    aggregate, other = pick(sums), pick((*sums, "MAX(n)", "SUM(DISTINCT n)") if chance.random() < 0.2 else sums)
    body = (
        f"SELECT {rare('DISTINCT ')}{key} AS k, {aggregate} AS a, {other} AS b FROM {source}"
        f"{rare(' AS x INNER JOIN {orders} AS y USING (order_id)')}{pick(('', '', ' WHERE n > 0'))}"
        f" GROUP BY {key}{rare(' HAVING COUNT(*) > 1')}{rare(' ORDER BY k LIMIT 2')}"
    )
    ctes = ([inner[source]] if source in inner else []) + [f"part AS ({body})"]
    parts: tuple[str, ...] = ("part",)
    if chance.random() < 0.4:
        total = pick(("SUM(b)", "COUNT(*)", "SUM(a)", "COUNT(DISTINCT k)"))
        ctes.append(f"whole AS (SELECT {pick(('a', 'k'))} AS k, {total} AS a, COUNT(*) AS b FROM part GROUP BY 1)")
        parts = pick((("part", "whole"), ("part", "whole"), ("whole",)))
        return f"WITH {', '.join(ctes)} SELECT k, a, b FROM whole", parts
    return f"WITH {', '.join(ctes)} SELECT k, a, b, SUM(a) OVER (ORDER BY k) AS c FROM part", parts


# --- by key

VIA = {"users": Via("user_id", "orders", "user_id")}


def incremental_by_key(table: Table, world: World, engine: Engine) -> Counter[str]:
    """What the upsert gives: the rows of before, those of touched keys replaced by what restricted inputs give."""
    touched: set[int] = set()
    for name in table.inputs:
        rows = [row for _, row in world.changed(name)]
        if name == "users":
            found = {row[0] for row in rows}
            touched |= {row[0] for row in world.after["orders"].values() if row[1] in found}
        else:
            touched |= {row[1 if name in ("items", "lines") else 0] for row in rows}
    engine.load(world.before)
    engine.keep("former", table.query)
    engine.load(world.after)
    engine.table("touched", ("order_id",), [(key,) for key in touched])
    for name in ("items", "lines", "orders"):
        engine.connection.execute(f"DELETE FROM {name} WHERE order_id NOT IN (FROM touched)")
    kept = engine.rows("SELECT * FROM former WHERE order_id NOT IN (SELECT order_id FROM touched)")
    return kept + engine.rows(table.query)


STEPS = (  # each reads {0} and gives order_id, product_id and n again, so that they nest
    "SELECT DISTINCT order_id, product_id, n FROM {0}",
    "SELECT order_id, MAX(product_id) AS product_id, COUNT(n) AS n FROM {0} GROUP BY order_id",
    "SELECT order_id, MAX(product_id) AS product_id, COUNT(*) AS n FROM {0} GROUP BY ROLLUP (order_id)",
    "SELECT order_id, COUNT(DISTINCT product_id) AS product_id, MIN(n) AS n FROM {0} GROUP BY ALL HAVING MIN(n) > 0",
    "SELECT order_id, product_id, SUM(n) OVER (PARTITION BY order_id ORDER BY product_id) AS n FROM {0}",
    "SELECT order_id, product_id, SUM(n) OVER (ORDER BY order_id) AS n FROM {0}",
    "SELECT order_id, product_id, n FROM {0} QUALIFY RANK() OVER (PARTITION BY order_id ORDER BY n DESC) = 1",
    "SELECT order_id, product_id, n FROM {0} QUALIFY RANK() OVER (PARTITION BY product_id ORDER BY n DESC) = 1",
    "SELECT product_id AS order_id, order_id AS product_id, n FROM {0}",
    "SELECT CASE WHEN n > 1 THEN order_id END AS order_id, product_id, n FROM {0}",
    "SELECT order_id, product_id, n FROM {0} UNION SELECT order_id, 1, n FROM {{lines}}",
    "SELECT order_id, product_id, n FROM {0} UNION ALL SELECT MAX(order_id), 1, 1 FROM {{orders}}",
    "SELECT order_id, product_id, n FROM {0} EXCEPT SELECT order_id, product_id, n FROM {{items}} WHERE n > 2",
    "SELECT order_id, product_id, n FROM {0} INTERSECT SELECT order_id, product_id, n FROM {{lines}}",
    "SELECT a.order_id, a.product_id, b.n FROM {0} AS a JOIN {0} AS b ON a.order_id = b.order_id AND a.n < b.n",
    "SELECT a.order_id, a.product_id, b.n FROM {0} AS a JOIN {0} AS b ON a.product_id = b.product_id",
    "SELECT b.order_id, a.product_id, a.n FROM {0} AS a LEFT JOIN {{orders}} AS b ON a.order_id = b.order_id",
    "SELECT a.order_id, a.product_id, a.n FROM {0} AS a LEFT ANTI JOIN {{orders}} AS b ON a.order_id = b.order_id",
    "SELECT a.order_id, a.product_id, b.c AS n FROM {0} AS a LEFT JOIN"
    " (SELECT order_id, COUNT(*) AS c FROM {{lines}} GROUP BY order_id) AS b ON b.order_id = a.order_id",
    "SELECT a.order_id, a.product_id, b.c AS n FROM {0} AS a LEFT JOIN"
    " (SELECT product_id, COUNT(*) AS c FROM {{lines}} GROUP BY product_id) AS b ON b.product_id = a.product_id",
    "SELECT a.order_id, a.product_id, length(c.tier) AS n FROM {0} AS a JOIN {{orders}} AS b"
    " ON b.order_id = a.order_id LEFT JOIN {{users}} AS c ON c.user_id = b.user_id",
)


def nested_query(chance: random.Random) -> str:
    """A query of one or two steps, the second over the first."""
    parts = [f"c0 AS (SELECT order_id, product_id, n FROM {chance.choice(('{items}', '{lines}'))})"]
    for number in range(1, chance.choice((2, 2, 3))):
        parts.append(f"c{number} AS ({chance.choice(STEPS).format(f'c{number - 1}')})")
    return f"WITH {', '.join(parts)} SELECT order_id, product_id, n FROM c{len(parts) - 1}"


def by_key_query(chance: random.Random) -> str:
    """A query over items, orders and users, from constructs that hold by order_id and others that do not."""
    pick = chance.choice
    join = pick(("INNER", "LEFT", "INNER", "LEFT SEMI", "LEFT ANTI", "RIGHT"))
    on = pick(
        ("b.order_id = a.order_id",) * 4 + ("b.order_id = a.order_id AND b.order_id > 2", "b.user_id = a.product_id")
    )
    other = "" if "SEMI" in join or "ANTI" in join else ", b.status"
    tier, users = ("", "")
    if other and chance.random() < 0.5:
        tier = ", c.tier"
        met = pick(("c.user_id = b.user_id",) * 4 + ("c.user_id = a.product_id", "c.user_id > 0"))
        users = f" {pick(('INNER', 'LEFT'))} JOIN {{users}} AS c ON {met}"
    joined = (
        f"SELECT {pick(('a', 'a', 'a', 'b' if other else 'a'))}.order_id, a.product_id, a.n{other}{tier}"
        f" FROM {{items}} AS a {join} JOIN {{orders}} AS b ON {on}{users}"
    )
    plain = f"SELECT order_id, product_id, n FROM {pick(('{items}', '{lines}'))}"
    source = pick((joined, joined, plain))
    shape = pick(
        (
            *(
                "SELECT order_id, n FROM x",
                "SELECT * FROM x WHERE n > 1",
                "SELECT DISTINCT order_id, product_id FROM x",
            ),
            "SELECT order_id, product_id, SUM(n) AS n FROM x GROUP BY order_id, product_id HAVING COUNT(*) > 1",
            "SELECT MAX(order_id) AS order_id, product_id, SUM(n) AS n FROM x GROUP BY product_id",
            "SELECT order_id, SUM(n) OVER (PARTITION BY order_id) AS n FROM x",
            "SELECT order_id, RANK() OVER (PARTITION BY order_id ORDER BY n) AS r FROM x",
            "SELECT order_id, SUM(n) OVER (PARTITION BY product_id) AS n FROM x",
            "SELECT order_id, n FROM x UNION ALL SELECT order_id, 1 FROM {orders}",
            "SELECT order_id FROM {orders} EXCEPT SELECT order_id FROM x",
            "SELECT order_id, n FROM x WHERE n >= (SELECT MAX(n) FROM x)",
            "SELECT order_id, n FROM x ORDER BY n, order_id LIMIT 3",
            "SELECT product_id AS order_id, n FROM x",
        )
    )
    return f"WITH x AS ({source}) {shape}"


# --- both


def compare(
    make: Callable[[random.Random], Table],
    refresh: Callable[[Table, World, Engine], Counter[str]],
    engine: Engine,
    seed: int,
) -> tuple[list[str], Counter[str]]:
    """Queries that are proven and differ, and how many queries were proven, refused, and refused with good reason."""
    chance, differing, seen = random.Random(seed), [], Counter[str]()
    while seen["proven"] + seen["refused"] < QUERIES:
        table, worlds = make(chance), [World(chance) for _ in range(3)]
        reason = is_refused(table)
        try:
            for world in worlds:
                found = refresh(table, world, engine)
                engine.load(world.after)
                if found != engine.rows(table.query):
                    seen["refused and differs"] += reason is not None
                    if reason is None:
                        differing.append(table.query)
                    break
        except Exception:  # a query that is refused may be no query at all
            if reason is None:
                raise
        seen["refused" if reason else "proven"] += 1
    return differing, seen


@pytest.mark.slow
def test_random_aggregates_are_refused_or_give_the_rows_of_a_full_refresh(engine: Engine) -> None:
    def make(chance: random.Random) -> Table:
        query, parts = additive_query(chance)
        return Table(keys=("k",), query=query, method=Additive(parts), name="gold_x")

    differing, seen = compare(make, incremental_additive, engine, SEED)
    assert differing == []
    assert seen["proven"] > QUERIES / 5 and seen["refused and differs"] > QUERIES / 20, seen


@pytest.mark.slow
@pytest.mark.parametrize("query_of", [by_key_query, nested_query])
def test_random_upserts_are_refused_or_give_the_rows_of_a_full_refresh(
    query_of: Callable[[random.Random], str], engine: Engine
) -> None:
    def make(chance: random.Random) -> Table:
        query = query_of(chance)
        via = VIA if "{users}" in query else {}
        return Table(keys=("order_id",), query=query, method=ByKey("order_id", via=via), name="gold_x")

    differing, seen = compare(make, incremental_by_key, engine, SEED)
    assert differing == []
    assert seen["proven"] > QUERIES / 5 and seen["refused and differs"] > QUERIES / 20, seen
