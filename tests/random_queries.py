"""Random queries over Spark's grammar, and random hours for them: what is proven gives the rows of its query.

``python -m tests.random_queries --minutes 60`` goes on with new seeds, which it prints, until something differs.
"""

import argparse
import os
import random
import re
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from medallion.errors import MedallionError
from medallion.ingest.arrow_types import arrow_type
from medallion.model.methods import ByKey
from medallion.model.refresh_method import RefreshMethod
from medallion.model.table import Feed, Table
from medallion.refresh.full import refresh_full
from medallion.refresh.incremental import refresh_incremental
from medallion.refresh.inputs import input_states, read_inputs
from medallion.spark.configuration import TABLE_PROPERTIES
from medallion.storage.delta_writes import properties, replace_rows
from medallion.storage.lake import Lake
from medallion.storage.merge_on_read import FileLayout
from medallion.storage.replaced_rows import bronze_metadata
from medallion.storage.restoring import restore_with_feed
from tests.proving import derived, prove
from tests.refresh_run import refresh_run
from tests.shop import build

ITEMS = Feed(
    keys=("item_id",),
    schema="item_id BIGINT NOT NULL, order_id BIGINT, product_id BIGINT, n INT, price DECIMAL(10,2), status STRING,"
    " day DATE, sold_at TIMESTAMP",
    name="bronze_items",
    doc="Items. One row per item_id.",
)
ORDERS = Feed(
    keys=("order_id",),
    schema="order_id BIGINT NOT NULL, user_id BIGINT, status STRING, n INT, sold_at TIMESTAMP",
    name="bronze_orders",
    doc="Orders. One row per order_id.",
)
USERS = Feed(
    keys=("user_id",),
    schema="user_id BIGINT NOT NULL, tier STRING, n INT",
    name="bronze_users",
    doc="One row per user.",
)
LINES = Table(
    keys=("item_id",),
    query="SELECT item_id, order_id, product_id, n, price, status, day, sold_at FROM {bronze_items}",
    method=ByKey("order_id"),
    name="silver_lines",
    doc="Items. One row per item_id.",
)
GRAPH = build([ITEMS, ORDERS, USERS, LINES])
KINDS = {"item_id": "id", "order_id": "id", "product_id": "id", "user_id": "id", "n": "int", "price": "money"} | {
    "status": "text", "tier": "text", "day": "day", "sold_at": "moment",
}  # fmt: skip
CONSTRUCTS = {
    "common table expression": r"^WITH ", "join": r" JOIN ", "outer join": r"LEFT JOIN|RIGHT JOIN|FULL JOIN|LEFT OUTER",
    "semi or anti join": r"SEMI|ANTI", "aggregate": r"GROUP BY", "window": r" OVER ", "DISTINCT": r"DISTINCT",
    "set operation": r"UNION|EXCEPT (?!\()|INTERSECT", "FILTER": r"FILTER",
    "subquery": r"\(SELECT MAX", "USING": r"USING", "EXISTS": r"[^T] EXISTS", "NOT EXISTS": r"NOT EXISTS",
    "IN": r"[^T] IN \(SELECT", "NOT IN": r"NOT IN \(SELECT", "correlated scalar subquery": r"e WHERE e.order_id = o",
    "HAVING": r"HAVING", "ORDER BY and LIMIT": r"LIMIT", "AVG": r"AVG\(", "MIN or MAX": r"(MIN|MAX)\(",
    "groups of a join": r"JOIN [^)]*GROUP BY", "one row of all": r"'all' AS", "commas": r" AS i, ",
    "window of groups": r"SUM\(SUM",
    "looked up": r"looked_up", "groups of several levels": r"ROLLUP|CUBE",
}  # fmt: skip
Columns = list[tuple[str, str]]  # names and kinds
NAMES = ("order_id", "product_id", "n", "status", "day", "k", "Order_Id", "x", "_rows", "user_id")


@dataclass
class Relation:
    """SQL that gives columns."""

    sql: str
    columns: Columns

    def of(self, kind: str) -> list[str]:
        """The names of its columns of a kind; each once."""
        count = Counter(name.lower() for name, _ in self.columns)
        return [name for name, found in self.columns if found == kind and count[name.lower()] == 1]

    @property
    def names(self) -> list[str]:
        """The names that mean one column."""
        count = Counter(name.lower() for name, _ in self.columns)
        return [name for name, _ in self.columns if count[name.lower()] == 1]


def _columns(node: Feed | Table) -> Columns:
    names = [column.name for column in node.columns] if isinstance(node, Feed) else [c.name for c in ITEMS.columns]
    return [(name, KINDS[name]) for name in names]


@dataclass
class Maker:
    """Makes queries. examples: expressions of Spark's own functions, without columns."""

    chance: random.Random
    examples: list[str]
    ctes: list[tuple[str, Relation]] = field(default_factory=list)
    adds_up: bool = False

    def pick(self, *of: Any) -> Any:
        return self.chance.choice(of)

    def often(self, share: float) -> bool:
        return self.chance.random() < share

    def base(self) -> Relation:
        if self.ctes and self.often(0.3):
            name, relation = self.chance.choice(self.ctes)
            return Relation(name, relation.columns)
        node = self.pick(ITEMS, ITEMS, ORDERS, LINES, LINES, USERS) if self.often(0.9) else ORDERS
        if self.often(0.08):  # a list of names on the input
            columns = _columns(node)
            names = [name for name, _ in columns]
            self.chance.shuffle(names)
            relation = [(name, kind) for name, (_, kind) in zip(names, columns, strict=True)]
            return Relation(f"(SELECT * FROM {{{node.name}}} AS t({', '.join(names)}))", relation)
        return Relation(f"{{{node.name}}}", _columns(node))

    def relation(self, depth: int) -> Relation:
        relation = self.base()
        for _ in range(self.chance.randrange(depth + 1)):
            relation = self.step(relation, depth - 1)
            if self.often(0.4):
                name = f"c{len(self.ctes)}"
                self.ctes.append((name, relation))
                relation = Relation(name, relation.columns)
            else:
                relation = Relation(f"({relation.sql})", relation.columns)
        return relation

    def step(self, relation: Relation, depth: int) -> Relation:
        steps = [self.project, self.filter, self.group, self.group, self.window, self.join, self.join, self.union]
        steps += [self.star, self.distinct, self.semi]
        step = self.chance.choice(steps)
        return step(relation, max(0, depth))

    def expression(self, relation: Relation) -> tuple[str, str]:
        """An expression and its kind."""
        options: list[tuple[str, str]] = [(name, kind) for name, kind in relation.columns if name in relation.names]
        options += [(f"{name} + 1", "id") for name in relation.of("id")]
        options += [(f"UPPER({name})", "text") for name in relation.of("text")]
        options += [(f"{name} % 3", "int") for name in relation.of("int")]
        options += [(f"CAST({name} AS DATE)", "day") for name in relation.of("moment")]
        options += [(f"COALESCE({name}, 0)", "id") for name in relation.of("id")]
        if self.examples and self.often(0.2):
            return self.chance.choice(self.examples), "other"
        return self.chance.choice(options) if options else ("1", "int")

    def project(self, relation: Relation, _: int) -> Relation:
        items, columns = [], []
        for name in self.chance.sample(relation.names, k=min(len(relation.names), self.chance.randrange(2, 6))):
            items.append(name)
            columns.append((name, dict(relation.columns)[name]))
        for _number in range(self.chance.randrange(3)):
            text, kind = self.expression(relation)
            alias = self.chance.choice(NAMES)
            if alias.lower() not in {name.lower() for name, _ in columns} or self.often(0.1):
                items.append(f"{text} AS {alias}")
                columns.append((alias, kind))
        if not items:
            items, columns = ["1 AS one"], [("one", "int")]
        return Relation(f"SELECT {', '.join(items)} FROM {relation.sql} AS a", columns)

    def star(self, relation: Relation, _: int) -> Relation:
        if self.often(0.5) and len(relation.names) > 2:
            gone = self.chance.choice(relation.names)
            kept = [(name, kind) for name, kind in relation.columns if name != gone]
            text, kind = self.expression(relation)
            if self.often(0.5):
                return Relation(f"SELECT * EXCEPT ({gone}) FROM {relation.sql} AS a", kept)
            return Relation(
                f"SELECT {text} AS {gone}, * EXCEPT ({gone}) FROM {relation.sql} AS a", [(gone, kind), *kept]
            )
        return Relation(f"SELECT {self.pick('*', 'a.*')} FROM {relation.sql} AS a", relation.columns)

    def condition(self, relation: Relation, alias: str = "a") -> str:
        options = [f"{alias}.{name} > {self.chance.randrange(4)}" for name in relation.of("id") + relation.of("int")]
        options += [f"{alias}.{name} <> 'new'" for name in relation.of("text")]
        options += [f"{alias}.{name} IS NOT NULL" for name in relation.names]
        if self.often(0.15):
            options += [
                f"{alias}.{name} IN (SELECT order_id FROM {{bronze_orders}} WHERE n > 1)" for name in relation.of("id")
            ]
            options += [f"{alias}.{name} >= (SELECT MIN(n) FROM {{bronze_items}})" for name in relation.of("int")]
            options += [
                f"EXISTS (SELECT 1 FROM {{silver_lines}} AS e WHERE e.order_id = {alias}.{name})"
                for name in relation.of("id")
            ]
        return str(self.chance.choice(options)) if options else "TRUE"

    def filter(self, relation: Relation, _: int) -> Relation:
        return Relation(f"SELECT * FROM {relation.sql} AS a WHERE {self.condition(relation)}", relation.columns)

    def aggregates(self, relation: Relation) -> list[str]:
        found = ["COUNT(*)"]
        if self.adds_up:
            numbers = relation.of("int") + relation.of("id") + relation.of("money")
            found += [f"SUM({name})" for name in numbers] + [f"COUNT({name})" for name in relation.names]
            found += [f"SUM({name}) FILTER (WHERE {name} > 1)" for name in numbers]
            return found + [f"COUNT(DISTINCT {name})" for name in relation.of("id")[:1]]
        for name in relation.of("int") + relation.of("id"):
            found += [f"SUM({name})", f"MIN({name})", f"MAX({name})", f"COUNT(DISTINCT {name})", f"COUNT({name})"]
            found += [f"SUM({name}) FILTER (WHERE {name} > 1)", f"SORT_ARRAY(COLLECT_LIST({name}))"]
        found += [f"SUM({name})" for name in relation.of("money")]
        found += [f"MAX({name})" for name in relation.of("text")]
        return found

    def group(self, relation: Relation, _: int) -> Relation:
        keys = relation.of("id") + relation.of("text") + relation.of("day")
        if not keys:
            return self.filter(relation, 0)
        chosen = self.chance.sample(keys, k=min(len(keys), self.chance.randrange(1, 4)))
        if "order_id" in keys and "order_id" not in chosen and self.often(0.7):
            chosen.append("order_id")
        kinds = dict(relation.columns)
        items, groups, columns = [], [], []
        for name in chosen:
            if self.often(0.12) and kinds[name] == "text":  # an alias that is a column, too
                items.append(f"UPPER({name}) AS {name}")
                groups.append(self.pick(name, f"UPPER({name})"))
            elif self.often(0.1) and kinds[name] == "id":
                items.append(f"{name} % 2 AS {name}")
                groups.append(self.pick(name, f"{name} % 2"))
            else:
                items.append(name)
                groups.append(name)
            columns.append((name, kinds[name]))
        aggregates = self.aggregates(relation)
        for aggregate in self.chance.sample(aggregates, k=min(len(aggregates), self.chance.randrange(1, 3))):
            alias = self.pick("n", "k", "x", "m")
            if alias not in {name for name, _ in columns}:
                items.append(f"{aggregate} AS {alias}")
                is_number = not aggregate.startswith(("MIN", "MAX", "SORT"))
                columns.append((alias, "int" if is_number else "other"))
        numbers = ", ".join(str(place + 1) for place in range(len(groups)))
        by = ", ".join(groups) if self.often(0.85) else self.pick("ALL", numbers)
        if self.often(0.06):
            by = f"{self.pick('ROLLUP', 'CUBE')} ({', '.join(groups)})"
        order = list(range(len(items)))
        if self.often(0.3):
            if by[0].isdigit():
                by = ", ".join(groups)
            self.chance.shuffle(order)
        having = " HAVING COUNT(*) > 1" if self.often(0.1) else ""
        return Relation(
            f"SELECT {', '.join(items[i] for i in order)} FROM {relation.sql} AS a GROUP BY {by}{having}",
            [columns[i] for i in order],
        )

    def window(self, relation: Relation, _: int) -> Relation:
        keys = relation.of("id") + relation.of("text")
        numbers = relation.of("int")
        if not keys or not numbers:
            return self.filter(relation, 0)
        by = "order_id" if "order_id" in keys and self.often(0.7) else self.chance.choice(keys)
        order = ", ".join(self.chance.sample(relation.names, k=self.pick(1, len(relation.names))))
        function = self.pick("SUM({0})", "RANK()", "ROW_NUMBER()", "LAG({0})", "MAX({0})", "COUNT(*)").format(
            numbers[0]
        )
        over = f"PARTITION BY {by}" + (f" ORDER BY {order}" if self.often(0.7) or function.endswith("()") else "")
        name = next(f"w{number}" for number in range(9) if f"w{number}" not in dict(relation.columns))
        if self.often(0.2):
            return Relation(f"SELECT * FROM {relation.sql} AS a QUALIFY {function} OVER ({over}) = 1", relation.columns)
        return Relation(
            f"SELECT *, {function} OVER ({over}) AS {name} FROM {relation.sql} AS a",
            [*relation.columns, (name, "other")],
        )

    def join(self, relation: Relation, depth: int) -> Relation:
        other = self.relation(depth) if self.often(0.6) else Relation("{bronze_orders}", _columns(ORDERS))
        kind = self.pick("INNER", "LEFT", "INNER", "LEFT", "FULL OUTER", "RIGHT", "CROSS")
        both = [name for name in relation.of("id") if name in other.of("id")]
        left, right = relation.of("id"), other.of("id")
        if not left or not right or kind == "CROSS":
            on = f" ON {self.condition(other, 'b')}" if kind != "CROSS" else ""
        elif both and self.often(0.25):
            shared = self.chance.choice(both)
            rest = [c for c in relation.columns if c[0] != shared] + [c for c in other.columns if c[0] != shared]
            columns = [(shared, "id"), *rest]
            if kind == "RIGHT":
                columns = [(shared, "id"), *rest]
            return Relation(f"SELECT * FROM {relation.sql} AS a {kind} JOIN {other.sql} AS b USING ({shared})", columns)
        else:
            a, b = self.chance.choice(left), self.chance.choice(right)
            if both and self.often(0.75):
                a = b = "order_id" if "order_id" in both else self.chance.choice(both)
            on = f" ON a.{a} {self.pick('=', '=', '=', '=', '<=>', '<')} b.{b}"
            on += f" AND {self.condition(other, 'b')}" if self.often(0.2) else ""
        items, columns = [], []
        for alias, side in (("a", relation), ("b", other)):
            for name in side.names:
                if name.lower() not in {known.lower() for known, _ in columns} and self.often(0.8):
                    items.append(f"{alias}.{name}")
                    columns.append((name, dict(side.columns)[name]))
        if not items or self.often(0.08):
            return Relation(
                f"SELECT * FROM {relation.sql} AS a {kind} JOIN {other.sql} AS b{on}", relation.columns + other.columns
            )
        return Relation(f"SELECT {', '.join(items)} FROM {relation.sql} AS a {kind} JOIN {other.sql} AS b{on}", columns)

    def semi(self, relation: Relation, depth: int) -> Relation:
        other = self.relation(depth)
        left, right = relation.of("id"), other.of("id")
        if not left or not right:
            return self.filter(relation, 0)
        a, b = self.chance.choice(left), self.chance.choice(right)
        if "order_id" in left and "order_id" in right and self.often(0.8):
            a = b = "order_id"
        kind = self.pick("LEFT SEMI", "LEFT ANTI")
        return Relation(
            f"SELECT * FROM {relation.sql} AS a {kind} JOIN {other.sql} AS b ON a.{a} = b.{b}", relation.columns
        )

    def union(self, relation: Relation, depth: int) -> Relation:
        """By position: columns of the same kinds, whatever they are called."""
        other = self.relation(depth)
        kinds = [kind for _, kind in relation.columns if kind != "other"]
        first = [name for name, kind in relation.columns if kind != "other" and name in relation.names][:4]
        second: list[str] = []
        for name in first:
            fitting = [n for n in other.of(dict(relation.columns)[name]) if n not in second]
            if not fitting:
                return self.distinct(relation, 0)
            second.append(name if name in fitting and self.often(0.85) else self.chance.choice(fitting))
        if not first or not kinds:
            return self.distinct(relation, 0)
        word = self.pick("UNION ALL", "UNION", "EXCEPT", "INTERSECT", "UNION ALL", "EXCEPT ALL")
        columns = [(name, dict(relation.columns)[name]) for name in first]
        left = f"SELECT {', '.join(first)} FROM {relation.sql} AS a"
        return Relation(f"{left} {word} SELECT {', '.join(second)} FROM {other.sql} AS b", columns)

    def distinct(self, relation: Relation, _: int) -> Relation:
        names = relation.names or ["1"]
        chosen = self.chance.sample(names, k=self.chance.randrange(1, len(names) + 1)) if relation.names else ["1"]
        if "order_id" in names and "order_id" not in chosen and self.often(0.7):
            chosen.append("order_id")
        kinds = dict(relation.columns)
        return Relation(
            f"SELECT DISTINCT {', '.join(chosen)} FROM {relation.sql} AS a", [(n, kinds.get(n, "int")) for n in chosen]
        )

    def whole(self, relation: Relation) -> str:
        """A query with its common table expressions, and one name for each column."""
        if not relation.names:
            return ""
        if len(relation.names) == len(relation.columns) and self.often(0.5):
            body = f"SELECT * FROM {relation.sql} AS z"
        else:
            body = f"SELECT {', '.join(relation.names)} FROM {relation.sql} AS z"
        listed = ", ".join(f"{name} AS ({found.sql})" for name, found in self.ctes)
        return f"WITH {listed} {body}" if listed else body


JOINS = (
    "{bronze_items} AS i INNER JOIN {bronze_orders} AS o ON o.order_id = i.order_id",
    "{bronze_orders} AS o LEFT JOIN {bronze_items} AS i ON i.order_id = o.order_id",
    "{silver_lines} AS i INNER JOIN {bronze_orders} AS o ON i.order_id = o.order_id",
)
WITH_COMMAS = "{bronze_items} AS i, {bronze_orders} AS o"
OF_ONE_ORDER = (
    "i.order_id = o.order_id",
    "((i.order_id = o.order_id AND i.n > 0) OR (o.n < 2 AND o.order_id = i.order_id))",
)
USERS_OF_THEM = ("", " INNER JOIN {bronze_users} AS u ON u.user_id = o.user_id")
CONDITIONS = (
    "o.status <> 'new'",
    "EXISTS (SELECT 1 FROM {bronze_items} AS e WHERE e.order_id = o.order_id AND e.n > 1)",
    "NOT EXISTS (SELECT 1 FROM {bronze_items} AS e WHERE e.order_id = o.order_id AND e.n > 2)",
    "o.order_id IN (SELECT order_id FROM {silver_lines} GROUP BY order_id HAVING COUNT(*) > 1)",
    "o.order_id NOT IN (SELECT e.order_id FROM {bronze_orders} AS e WHERE e.n > 2)",
    "o.order_id NOT IN (SELECT order_id FROM {bronze_items} WHERE n > 2)",
    "i.n >= (SELECT AVG(e.n) FROM {bronze_items} AS e WHERE e.order_id = o.order_id)",
    "i.n >= (SELECT AVG(n) FROM {bronze_items})",
    "(i.n > 1 OR EXISTS (SELECT 1 FROM {bronze_items} AS e WHERE e.order_id = o.order_id AND e.product_id = 1))",
)
AGGREGATES = (
    *("COUNT(*)", "COUNT(i.n)", "SUM(i.n)", "SUM(i.price)", "AVG(i.n)", "AVG(i.price)", "MIN(i.n)", "MAX(o.status)"),
    *("COUNT(DISTINCT i.product_id)", "SUM(i.n) FILTER (WHERE i.n > 0)", "MAX(i.day) FILTER (WHERE i.n > 1)"),
    *("CAST(SUM(i.n) AS DOUBLE) / COUNT(*)", "COALESCE(SUM(i.n), 0)", "SUM(CASE WHEN o.n > 0 THEN i.price ELSE 0 END)"),
)


def kept_query(chance: random.Random) -> tuple[str, tuple[str, ...]]:
    """A query over a join: its groups, or its rows in an order, with what is computed of them."""
    users = chance.choice(USERS_OF_THEM)
    conditions = chance.sample(CONDITIONS, k=chance.randrange(3))
    source = chance.choice((*JOINS, WITH_COMMAS, WITH_COMMAS))
    if source == WITH_COMMAS:
        conditions.insert(0, chance.choice(OF_ONE_ORDER))
        if users:
            conditions.append("u.user_id = o.user_id")
            source += ", {bronze_users} AS u"
    else:
        source += users
    source += f" WHERE {' AND '.join(conditions)}" if conditions else ""
    if chance.random() < 0.2:
        limit = " ORDER BY n DESC, item_id, order_id, o.status LIMIT 4" if chance.random() < 0.6 else ""
        return f"SELECT o.order_id, i.item_id, i.n, i.n + 1 AS more FROM {source}{limit}", ("item_id",)
    keys = chance.sample(["o.status", "i.day", "o.user_id", "i.product_id % 2", *(["u.tier"] if users else [])], k=2)
    keys = keys[: chance.randrange(3)]
    items = [f"{key} AS k{n}" for n, key in enumerate(keys)] or ["'all' AS k0"]
    items += [f"{text} AS a{n}" for n, text in enumerate(chance.sample(AGGREGATES, k=chance.randrange(1, 4)))]
    if keys and chance.random() < 0.3:
        items.append(f"SUM(SUM(i.n)) OVER (PARTITION BY {keys[0]}) AS w")
    having = chance.choice(["", "", " HAVING COUNT(*) > 1", " HAVING SUM(i.n) > (SELECT AVG(n) FROM {bronze_items})"])
    groups = ", ".join(keys)
    if keys and chance.random() < 0.2:
        groups = f"{chance.choice(['ROLLUP', 'CUBE'])} ({groups})"
        items.append(f"{chance.choice(['GROUPING_ID()', f'GROUPING({keys[0]})'])} AS level")
    by = f" GROUP BY {groups}{having}" if keys else ""
    limit = f" ORDER BY {', '.join(keys)} LIMIT 3" if keys and chance.random() < 0.3 else ""
    query = f"SELECT {', '.join(items)} FROM {source}{by}{limit}"
    if "o.user_id" in keys and chance.random() < 0.4:  # looked up beside what is kept
        query = f"SELECT g.*, r.tier AS looked_up FROM ({query}) AS g, {{bronze_users}} AS r WHERE r.user_id = g.k"
        query += str(keys.index("o.user_id"))
    return query, ("k0",)


def make(chance: random.Random, examples: list[str], name: str) -> Table | None:
    """Make a table with a random query, of whose method nothing is said."""
    maker, kind = Maker(chance, examples), chance.random()
    keys: tuple[str, ...]
    if kind < 0.3:
        query, keys = kept_query(chance)
    elif kind < 0.7:
        relation = maker.relation(3)
        query = maker.whole(relation)
        keys = (chance.choice(relation.names),) if relation.names else ()
    elif kind < 0.92:
        source = maker.base()
        for _ in range(chance.randrange(3)):
            step = chance.choice([maker.project, maker.filter, maker.group, maker.star])(source, 0)
            maker.ctes.append((f"s{len(maker.ctes)}", step))
            source = Relation(maker.ctes[-1][0], step.columns)
        maker.adds_up = chance.random() < 0.8
        part = maker.group(source, 0)
        maker.adds_up = False
        rest = Relation("part", part.columns)
        maker.ctes.append(("part", part))
        if chance.random() < 0.6:
            step = maker.step(rest, 1)
            maker.ctes.append(("rest", step))
            rest = Relation("rest", step.columns)
        query, keys = maker.whole(rest), tuple(rest.names[:1])
    else:
        column = chance.choice(["sold_at", "day"])
        span = chance.choice(["2 DAYS", "36 HOURS", "1 DAY"])
        bound = f"(SELECT MAX({column}) FROM {{bronze_items}}) - INTERVAL {span}"
        where = f"{column} {chance.choice(['>', '>='])} {bound}"
        query = f"SELECT item_id, n, {column} FROM {{bronze_items}} WHERE {where}"
        if chance.random() < 0.5:
            join, alias = chance.choice(["LEFT ANTI", "INNER", "LEFT"]), chance.choice(["i.", "o.", ""])
            query = (
                f"SELECT o.order_id AS item_id, o.n FROM {{bronze_orders}} AS o {join} JOIN {{bronze_items}} AS i"
                f" ON i.order_id = o.order_id WHERE {alias}{where}"
            )
        keys = ("item_id",)
    if not query:
        return None
    return Table(keys=keys, query=query, refresh="incremental", name=name, layer="silver", doc="Random.")


class World:
    """A lake with Bronze in it, and hours of changes. Few keys, so that changes meet."""

    def __init__(self, spark: Any, folder: Path, chance: random.Random) -> None:
        self.spark, self.chance, self.lake = spark, chance, Lake(str(folder))
        self.rows: dict[str, dict[int, dict[str, Any]]] = {node.name: {} for node in (ITEMS, ORDERS, USERS)}
        for feed, most in ((ITEMS, 14), (ORDERS, 6), (USERS, 4)):
            self.write(feed, {key: self.row(feed, key) for key in range(1, most + 1)})

    def row(self, feed: Feed, key: int) -> dict[str, Any]:
        pick, some = self.chance.choice, self.chance.randrange
        day = some(12) + pick((0, 0, 0, some(20, 60)))  # some days are far ahead, until the row is changed or deleted
        every = {
            "order_id": pick((*range(1, 8), *range(1, 8), None)),
            "product_id": some(1, 4),
            "user_id": pick((1, 2, 3, 4, 5, None)),
            "n": pick((None, *range(-2, 5))),
            "price": Decimal(some(-500, 500)) / 100,
            "status": pick(("new", "New", "NEW", "done", None)),
            "tier": pick(("gold", "none", None)),
            "day": pick((date(2025, 12, 1) + timedelta(days=day), date(2025, 12, 1) + timedelta(days=day), None)),
            "sold_at": datetime(2025, 12, 1, some(24), tzinfo=UTC) + timedelta(days=day),
        }
        return {c.name: (every | {feed.keys[0]: key})[c.name] for c in feed.columns}

    def write(self, feed: Feed, rows: dict[int, dict[str, Any] | None]) -> None:
        schema = pa.schema([(column.name, arrow_type(column)) for column in feed.columns])
        data = pa.Table.from_pylist([row for row in rows.values() if row], schema)
        for key, row in rows.items():
            if row is None:
                self.rows[feed.name].pop(key, None)
            else:
                self.rows[feed.name][key] = row
        path = self.lake.path(feed.name)
        commit = bronze_metadata(feed.keys)
        if self.lake.version(feed.name) is None:
            writer = self.spark.createDataFrame(data).coalesce(1).write.format("delta")
            writer.options(**TABLE_PROPERTIES).option("userMetadata", commit).save(path)
        else:
            layout = FileLayout(self.lake.at(path), 1 << 20, 1 if len(rows) % 2 else None)
            delta = self.lake.opened(path)
            replace_rows(delta, data, feed.keys[0], sorted(rows), properties(commit, upon=delta), layout)

    def moment(self) -> dict[str, tuple[int, dict[int, dict[str, Any]]]]:
        """The version and the rows that each table has."""
        return {name: (self.lake.opened(self.lake.path(name)).version(), {**rows}) for name, rows in self.rows.items()}

    def rewind(self, moment: dict[str, tuple[int, dict[int, dict[str, Any]]]]) -> None:
        """Restore each table to a moment, as a restatement does."""
        for feed in (ITEMS, ORDERS, USERS):
            version, self.rows[feed.name] = moment[feed.name]
            delta = self.lake.opened(self.lake.path(feed.name))
            if delta.version() == version:
                continue  # nothing was written since, and Delta restores no table to the version that it has
            folder, commit = self.lake.folder(feed.name), properties(bronze_metadata(feed.keys, "rewind"), upon=delta)
            if not restore_with_feed(delta, folder, DeltaTable(str(folder), version), commit):
                delta.restore(version, commit_properties=commit)

    def hour(self) -> None:
        """A few changes of each table, or none."""
        for feed, most in ((ITEMS, 18), (ORDERS, 8), (USERS, 6)):
            changed: dict[int, dict[str, Any] | None] = {}
            for _ in range(self.chance.randrange(3)):
                key = self.chance.randrange(1, most)
                changed[key] = None if self.chance.random() < 0.3 else self.row(feed, key)
            if changed:
                self.write(feed, changed)


@dataclass
class Found:
    """What random queries came to.

    seen: how many, by what became of them. made, incremental: by construct, how many queries have it, and how many of
    these are refreshed by what changed. in_full: by reason, refreshes in full of tables that have another method.
    """

    seen: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    made: Counter[str] = field(default_factory=Counter)
    incremental: Counter[str] = field(default_factory=Counter)
    in_full: Counter[str] = field(default_factory=Counter)

    def add(self, table: Table) -> None:
        """Count a table whose method was derived."""
        self.seen[f"derived {type(table.method).__name__}"] += 1
        for construct in ("all", *(name for name, words in CONSTRUCTS.items() if re.search(words, table.query))):
            self.made[construct] += 1
            self.incremental[construct] += table.is_incremental

    def coverage(self) -> str:
        """The share of queries that is refreshed by what changed, by construct."""
        return ", ".join(f"{name} {self.incremental[name]} of {count}" for name, count in self.made.most_common())


def run(spark: Any, seed: int, *, queries: int, hours: int, examples: list[str]) -> Found:
    """Make ``queries``, refresh those that are proven over ``hours``, and compare each time with the query's rows."""
    chance, found = random.Random(seed), Found()
    accepted: list[Table] = []
    for number in range(queries):
        table = make(chance, examples, f"silver_r{number}")
        if table is None:
            continue
        try:
            table = as_derived(table)
            prove([table], GRAPH.tables)
        except MedallionError as reason:
            is_query = "Spark cannot analyse" not in str(reason)
            found.seen["refused" if is_query else "no query"] += 1
            continue
        found.add(table)
        if table.is_incremental:
            accepted.append(table)
    with TemporaryDirectory() as folder:
        world = World(spark, Path(folder), chance)
        run_of = refresh_run(world.lake, spark, tables=GRAPH)
        for hour in range(hours + 1):
            refresh_incremental(run_of, LINES)
            for table in accepted:
                if (reason := _differs(spark, world, table, found, first=hour == 0)) is not None:
                    found.wrong.append(f"seed {seed}, hour {hour}: {reason}\n{table.method}\n{table.query}")
                    accepted = [other for other in accepted if other is not table]
                else:
                    found.seen["compared"] += 1
            world.hour()
    return found


def as_derived(table: Table) -> Table:
    """Return ``table`` with the method that is derived for it. Raises MedallionError where none can be."""
    found = derived(build([*GRAPH, table]))[table.name]
    assert isinstance(found, Table)
    return found


def _differs(spark: Any, world: World, table: Table, found: Found, *, first: bool) -> str | None:
    """Refresh ``table`` and say how it differs from the rows of its query; None where it does not."""
    run_of = refresh_run(world.lake, spark, tables=GRAPH)
    try:
        written = (refresh_full if first else refresh_incremental)(run_of, table)
        proof = run_of.proof_of(table)
        frames = read_inputs(spark, world.lake, input_states(world.lake, table), proof)
        wanted = rows_of(spark.sql(table.query, **frames).toArrow())
        stored = rows_of(world.lake.opened(world.lake.path(table.name)).to_pyarrow_table())
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:300]}"
    if written.warning:
        return written.warning
    if not first:
        found.seen[f"ran by {written.method}"] += 1
        if written.method == RefreshMethod.FULL_RECOMPUTE:
            found.in_full[str(written.note)] += 1
    return None if wanted == stored else f"{written.method} ({written.note}): {stored[:6]} where {wanted[:6]}"


def rows_of(data: pa.Table) -> list[str]:
    """The rows as text, in any order of rows."""
    return sorted(repr(tuple(row.values())) for row in data.to_pylist())


# Of the functions' examples, what is no value of a row, or another one another time.
_SKIPPED = re.compile(
    r"rand|uuid|now|current|shuffle|monoton|input_file|localtime|version|user|spark_part|curdate|unix_timestamp\(\)|"
    r"sketch|hll|avro|proto|reflect|java_method|raise_error|uniform|explode|inline|stack|json_tuple|OVER|theta|kll|"
    r"interval|variant|parse_json|assert_true|listagg|string_agg|collect|window|collat|timezone|from_xml|to_xml|geo",
    re.IGNORECASE,
)


def spark_examples(spark: Any) -> list[str]:
    """Expressions of Spark's own functions, from its examples, that give numbers or texts."""
    found = []
    infos = spark._jvm.org.apache.spark.sql.api.python.PythonSQLUtils.listBuiltinFunctionInfos()
    for info in infos:
        for text in re.findall(r"> SELECT (.*?);\s*$", info.getExamples(), re.MULTILINE):
            if " FROM " in text.upper() or _SKIPPED.search(text) or "{" in text or '"' in text or "\\" in text:
                continue
            found.append(text)
    return sorted(set(found))


def usable(spark: Any, examples: list[str], chance: random.Random, count: int) -> list[str]:
    """Some of ``examples`` that Spark gives one plain value for."""
    kept: list[str] = []
    for text in chance.sample(examples, k=len(examples)):
        if len(kept) == count:
            break
        try:
            found = spark.sql(f"SELECT {text} AS value")
            fields = found.schema.fields
            found.collect()
        except Exception:
            continue
        if len(fields) == 1 and fields[0].dataType.typeName() in {"string", "integer", "long", "boolean", "date"}:
            kept.append(text)
    return kept


def main() -> None:
    """Go on with new seeds until something differs, or the time is over."""
    from medallion.settings import Settings
    from medallion.spark.session import spark_session

    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--minutes", type=float, default=10)
    options.add_argument("--seed", type=int, default=int(time.time()))
    options.add_argument("--queries", type=int, default=60)
    options.add_argument("--hours", type=int, default=3)
    asked = options.parse_args()
    os.environ["TZ"] = "UTC"
    time.tzset()
    from medallion.refresh import additive, plan

    plan.MAX_CHANGED_SHARE, additive.MIN_STATE_INPUT_BYTES = 10, 0
    spark = spark_session(Settings.from_environment().replace(spark_master="local[2]", driver_memory="2g"), "random")
    spark.conf.set("spark.sql.adaptive.enabled", False)
    spark.conf.set("spark.sql.shuffle.partitions", 2)
    examples = spark_examples(spark)
    end, seed = time.time() + 60 * asked.minutes, asked.seed
    while time.time() < end:
        some = usable(spark, examples, random.Random(seed), 30)
        found = run(spark, seed, queries=asked.queries, hours=asked.hours, examples=some)
        print(f"seed {seed}: {dict(found.seen)}; incremental: {found.coverage()}", flush=True)
        for reason, count in found.in_full.items():
            print(f"in full {count} times: {reason}", flush=True)
        for wrong in found.wrong:
            print(f"WRONG {wrong}\n", flush=True)
        seed += 1


if __name__ == "__main__":
    main()
