"""TPC-DS as a project: its 24 tables as feeds, and its 99 queries as Gold."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import duckdb

# Of what was sold and returned, the columns of an order and of an item in it. A dimension's key is its first column.
FACTS = {
    "store_sales": ("ss_ticket_number", "ss_item_sk"),
    "store_returns": ("sr_ticket_number", "sr_item_sk"),
    "catalog_sales": ("cs_order_number", "cs_item_sk"),
    "catalog_returns": ("cr_order_number", "cr_item_sk"),
    "web_sales": ("ws_order_number", "ws_item_sk"),
    "web_returns": ("wr_order_number", "wr_item_sk"),
}
_KEYS = {**FACTS, "inventory": ("inv_date_sk", "inv_item_sk", "inv_warehouse_sk")}
_NAMES = re.compile("_(sk|number)$")
_SETTINGS = """
[project]
name = "tpcds"
layers = ["bronze", "gold"]

[lake]
path = "lake"
"""
_FEED = '''"""{name} of TPC-DS."""

from medallion import Feed

TABLE = Feed(keys={keys!r}, schema="""{schema}""")
'''
_QUERY = '''"""Query {number} of TPC-DS."""

from medallion import Table

TABLE = Table(keys={keys!r}, refresh="incremental", may_be_empty=True, query={query!r})
'''


@contextmanager
def tpcds(scale: float) -> "Iterator[duckdb.DuckDBPyConnection]":
    """Yield a database with the 24 tables at that scale, empty at 0, and DuckDB's own queries."""
    import duckdb
    import duckdb_extension_tpcds

    (extension,) = Path(duckdb_extension_tpcds.__file__).parent.glob("extensions/*/tpcds.duckdb_extension")
    with duckdb.connect() as connection:
        connection.execute(f"LOAD '{extension}'")
        connection.execute(f"CALL dsdgen(sf = {float(scale)})")
        yield connection


def write_project(root: Path, connection: "duckdb.DuckDBPyConnection") -> None:
    """Write the project to ``root``. There is no source for it."""
    root.mkdir(parents=True, exist_ok=True)
    (root / "medallion.toml").write_text(_SETTINGS.lstrip(), encoding="utf-8")
    for table in tables_of(connection):
        schema = _schema(connection, table)
        keys = _KEYS.get(table, (next(iter(schema)),))
        columns = ", ".join(f"{name} {kind}{' NOT NULL' * (name in keys)}" for name, kind in schema.items())
        _write(root / "spark_jobs" / "bronze" / f"{table}.py", _FEED.format(name=table, keys=keys, schema=columns))
    for number, query in connection.execute("FROM tpcds_queries()").fetchall():
        text, keys = as_spark_query(connection, query)
        _write(root / "spark_jobs" / "gold" / f"q{number:02}.py", _QUERY.format(number=number, keys=keys, query=text))


def as_spark_query(connection: "duckdb.DuckDBPyConnection", query: str) -> tuple[str, tuple[str, ...]]:
    """Translate a DuckDB query to Spark SQL with placeholders; return it with the columns that can be its key.

    Each output gets a name of its own. If the query has a LIMIT, all outputs are added to its ORDER BY, because two
    correct answers could differ otherwise. A result without a possible key is a single row; it gets the column
    ``scope`` as its key.
    """
    import sqlglot
    from sqlglot import exp

    outputs = _outputs(connection, query)
    tree = sqlglot.parse_one(query, read="duckdb")
    _name_tables(tree, {*tables_of(connection)})
    first = tree
    while isinstance(first, exp.SetOperation | exp.Subquery):
        first = first.this
    assert isinstance(first, exp.Select)
    if len(first.expressions) == len(outputs):  # it has no star
        pairs = zip(first.expressions, outputs, strict=True)
        first.set(
            "expressions",
            [item if item.output_name == name else exp.alias_(item.unalias(), name) for item, name in pairs],
        )
    if tree.args.get("limit") is not None:
        order = tree.args.get("order") or exp.Order(expressions=[])
        decided = {item.this.name.lower() for item in order.expressions if isinstance(item.this, exp.Column)}
        rest = [exp.Ordered(this=exp.column(name)) for name in outputs if name.lower() not in decided]
        tree.set("order", exp.Order(expressions=[*order.expressions, *rest]))
    keys = tuple(name for name, kind in outputs.items() if kind not in ("DOUBLE", "FLOAT"))
    if not keys:
        first.set("expressions", [exp.alias_(exp.Literal.string("all"), "scope"), *first.expressions])
    return _with_placeholders(tree.sql(dialect="spark", pretty=True)), keys or ("scope",)


def _outputs(connection: "duckdb.DuckDBPyConnection", query: str) -> dict[str, str]:
    """Return the type of each output by its name, or by ``c`` and its position if the name is no unique word."""
    outputs: dict[str, str] = {}
    for place, (name, kind, *_) in enumerate(connection.execute(f"DESCRIBE {query.strip().rstrip(';')}").fetchall(), 1):
        is_own = name.isidentifier() and name.lower() not in map(str.lower, outputs)
        outputs[name if is_own else f"c{place}"] = kind
    return outputs


def _name_tables(tree: Any, tables: set[str]) -> None:
    """Replace each table that is read by a word that will become its placeholder, with its own name as the alias."""
    from sqlglot import exp
    from sqlglot.optimizer.scope import traverse_scope

    for scope in traverse_scope(tree):
        for source in scope.tables:
            if source.name in tables and source.name not in scope.cte_sources:
                placeholder = exp.to_table(f"placeholder_{source.name}_")
                source.replace(exp.alias_(placeholder, source.alias or source.name, table=True))


def _with_placeholders(text: str) -> str:
    return re.sub(r"\bplaceholder_(\w+?)_(?= )", r"{bronze_\1}", text)


def tables_of(connection: "duckdb.DuckDBPyConnection") -> list[str]:
    return [name for (name,) in connection.execute("SELECT table_name FROM duckdb_tables() ORDER BY 1").fetchall()]


def _schema(connection: "duckdb.DuckDBPyConnection", table: str) -> dict[str, str]:
    """Return columns and types as in TPC-DS: a BIGINT of DuckDB that is no identifier is an INT."""
    described = connection.execute(f"DESCRIBE {table}").fetchall()
    types = {name: {"VARCHAR": "STRING", "INTEGER": "INT"}.get(kind, kind) for name, kind, *_ in described}
    return {name: "INT" if kind == "BIGINT" and not _NAMES.search(name) else kind for name, kind in types.items()}


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
