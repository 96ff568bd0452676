"""The eight tables as DuckDB's dbgen makes them, and as they are after a number of hours of changes.

The same scale and the same hours give the same rows. Each hour touches a few thousandths of the orders.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import duckdb_extension_tpch

TABLES = ("region", "nation", "part", "supplier", "partsupp", "customer", "orders", "lineitem")
KEYS = {
    "region": ("r_regionkey",),
    "nation": ("n_nationkey",),
    "part": ("p_partkey",),
    "supplier": ("s_suppkey",),
    "partsupp": ("ps_partkey", "ps_suppkey"),
    "customer": ("c_custkey",),
    "orders": ("o_orderkey",),
    "lineitem": ("l_orderkey", "l_linenumber"),
}
Row = dict[str, Any]
Change = tuple[str, Row]  # delete or insert, and the row

# One hour: by table, what becomes of its rows. {n} is the hour, from 1 on; one order in {step} is touched by each.
_NEW_ORDERS = """
    SELECT o.* REPLACE (o_orderkey + 1000000000 * CAST({n} AS BIGINT) AS o_orderkey)
    FROM orders AS o WHERE o_orderkey < 1000000000 AND o_orderkey % {step} = ({n} * 7) % {step}
"""
_NEW_LINES = """
    SELECT l.* REPLACE (l_orderkey + 1000000000 * CAST({n} AS BIGINT) AS l_orderkey)
    FROM lineitem AS l WHERE l_orderkey < 1000000000 AND l_orderkey % {step} = ({n} * 7) % {step}
"""
_INSERTED = {"orders": _NEW_ORDERS, "lineitem": _NEW_LINES}
_CANCELLED = "o_orderkey % {step} = ({n} * 7 + 3) % {step}"
_DELETED = {
    "orders": f"SELECT * FROM orders WHERE {_CANCELLED}",
    "lineitem": f"SELECT * FROM lineitem WHERE {_CANCELLED.replace('o_', 'l_')}",
}
_UPDATED = {
    "lineitem": (
        "l_orderkey % {step} = ({n} * 7 + 5) % {step} AND l_linenumber = 1",
        "l_quantity = l_quantity + 1, l_extendedprice = l_extendedprice + 1000",
    ),
    "part": ("p_partkey % 200 = {n} % 200", "p_retailprice = p_retailprice + 1"),
    "partsupp": ("ps_partkey % 100 = {n} % 100", "ps_availqty = greatest(0, ps_availqty - 10 * {n})"),
    "customer": (
        "c_custkey % 150 = {n} % 150",
        "c_mktsegment = CASE c_mktsegment WHEN 'BUILDING' THEN 'MACHINERY' ELSE 'BUILDING' END",
    ),
}


@contextmanager
def tpch(scale: float) -> "Iterator[duckdb.DuckDBPyConnection]":
    """Yield a database with the eight tables at that scale, and DuckDB's own queries."""
    (extension,) = Path(duckdb_extension_tpch.__file__).parent.glob("extensions/*/tpch.duckdb_extension")
    with duckdb.connect() as connection:
        connection.execute(f"LOAD '{extension}'")
        connection.execute(f"CALL dbgen(sf = {float(scale)})")
        yield connection


def change_hour(connection: "duckdb.DuckDBPyConnection", number: int) -> dict[str, list[Change]]:
    """Change the tables as hour ``number``, from 1 on, does; return what changed, by table, in order."""
    (orders,) = connection.execute("SELECT COUNT(*) FROM orders").fetchone() or (0,)
    names = {"n": number, "step": 1009 if orders > 100_000 else 101}  # a small one is to show something
    changes: dict[str, list[Change]] = {table: [] for table in TABLES}
    for table, query in _DELETED.items():
        changes[table] += [("delete", row) for row in _rows(connection, table, query.format(**names))]
    for table, (where, what) in _UPDATED.items():
        query = f"SELECT * FROM {table} WHERE {where.format(**names)}"
        if table in _DELETED:  # what is cancelled is not corrected as well
            query += f" AND NOT ({_CANCELLED.replace('o_', 'l_').format(**names)})"
        former = _rows(connection, table, query)
        connection.execute(f"UPDATE {table} SET {what.format(**names)} WHERE {where.format(**names)}")
        after = {_key(table, row): row for row in _rows(connection, table, query)}
        for row in former:
            changes[table] += [("delete", row), ("insert", after[_key(table, row)])]
    made = {table: _rows(connection, table, query.format(**names)) for table, query in _INSERTED.items()}
    for table, query in _INSERTED.items():
        connection.execute(f"INSERT INTO {table} {query.format(**names)}")
        changes[table] += [("insert", row) for row in made[table]]
    connection.execute(f"DELETE FROM lineitem WHERE {_CANCELLED.replace('o_', 'l_').format(**names)}")
    connection.execute(f"DELETE FROM orders WHERE {_CANCELLED.format(**names)}")
    return {table: rows for table, rows in changes.items() if rows}


def _rows(connection: "duckdb.DuckDBPyConnection", table: str, query: str) -> list[Row]:
    cursor = connection.execute(f"SELECT * FROM ({query}) ORDER BY {', '.join(KEYS[table])}")
    columns = [name for name, *_ in cursor.description or ()]
    return [dict(zip(columns, row, strict=True)) for row in cursor.fetchall()]


def _key(table: str, row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in KEYS[table])
