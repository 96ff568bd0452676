"""The eight tables as DuckDB's dbgen makes them, and as they are after a number of hours of changes.

The same scale and the same hours give the same rows. Each hour touches a thousandth of the orders.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import duckdb_extension_tpch

MAX_SCALE_IN_MEMORY = 3  # larger tables are in a file: 10 would take 20 GB
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

# One hour: what becomes of orders, and of their lines by the same keys. {n} is the hour, from 1 on; one order in {step}
# is touched by each kind of change. Keys of new orders begin above those that dbgen gives.
_OF_ORDERS = {"orders": "o_orderkey", "lineitem": "l_orderkey"}
_CANCELLED = {table: f"{key} % {{step}} = ({{n}} * 7 + 3) % {{step}}" for table, key in _OF_ORDERS.items()}
_NEW = {
    table: f"SELECT * REPLACE ({key} + 1000000000 * CAST({{n}} AS BIGINT) AS {key}) FROM {table}"
    f" WHERE {key} < 1000000000 AND {key} % {{step}} = ({{n}} * 7) % {{step}}"
    for table, key in _OF_ORDERS.items()
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
    with TemporaryDirectory() as folder, duckdb.connect(_database(Path(folder), scale)) as connection:
        connection.execute(f"LOAD '{extension}'")
        connection.execute(f"CALL dbgen(sf = {float(scale)})")
        yield connection


def _database(folder: Path, scale: float) -> str:
    return ":memory:" if scale <= MAX_SCALE_IN_MEMORY else str(folder / "tpch.duckdb")


def change_hour(
    connection: "duckdb.DuckDBPyConnection", number: int, catalogue: bool = True
) -> dict[str, list[Change]]:
    """Change the tables as hour ``number``, from 1 on, does; return what changed, by table, in order.

    catalogue: whether customers, parts and stocks change too, and not only orders and their lines.
    """
    (orders,) = connection.execute("SELECT COUNT(*) FROM orders").fetchone() or (0,)
    # Three kinds of change: of a thousandth of the orders in all. A small database is to show something.
    names = {"n": number, "step": 3001 if orders > 100_000 else 101}
    cancelled = {table: condition.format(**names) for table, condition in _CANCELLED.items()}
    changes: dict[str, list[Change]] = {table: [] for table in TABLES}
    for table, condition in cancelled.items():
        changes[table] += [("delete", row) for row in _rows(connection, table, f"FROM {table} WHERE {condition}")]
    for table, (where, what) in _UPDATED.items():
        if table not in _OF_ORDERS and not catalogue:
            continue
        chosen = where.format(**names)
        if table in cancelled:  # what is cancelled is not corrected as well
            chosen += f" AND NOT ({cancelled[table]})"
        former = _rows(connection, table, f"FROM {table} WHERE {chosen}")
        connection.execute(f"UPDATE {table} SET {what.format(**names)} WHERE {chosen}")
        after = {_key(table, row): row for row in _rows(connection, table, f"FROM {table} WHERE {chosen}")}
        for row in former:
            changes[table] += [("delete", row), ("insert", after[_key(table, row)])]
    for table, query in _NEW.items():
        changes[table] += [("insert", row) for row in _rows(connection, table, query.format(**names))]
        connection.execute(f"INSERT INTO {table} {query.format(**names)}")
    for table, condition in cancelled.items():
        connection.execute(f"DELETE FROM {table} WHERE {condition}")
    return {table: rows for table, rows in changes.items() if rows}


def _rows(connection: "duckdb.DuckDBPyConnection", table: str, query: str) -> list[Row]:
    cursor = connection.execute(f"SELECT * FROM ({query}) ORDER BY {', '.join(KEYS[table])}")
    columns = [name for name, *_ in cursor.description or ()]
    return [dict(zip(columns, row, strict=True)) for row in cursor.fetchall()]


def _key(table: str, row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in KEYS[table])
