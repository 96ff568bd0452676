"""How SQLAlchemy talks to DuckDB for Great Expectations: views are only read, so there are no transactions.

Great Expectations gives its connection back before it fetches, and the rollback that SQLAlchemy then sends would
throw away DuckDB's pending result.
"""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import duckdb
import duckdb_engine
from sqlalchemy.dialects import registry

URL = "duckdb+readonly:///"


class ReadOnly(duckdb_engine.Dialect):
    """DuckDB without transactions, on a database that this process has open."""

    supports_statement_cache = False

    def connect(self, *_: Any, database: str, **__: Any) -> Any:
        """A further connection to ``database``: DuckDB shares it only when opened with the same (no) options."""
        return _Connection(duckdb.connect(database))

    def do_begin(self, dbapi_connection: Any) -> None:
        """Nothing to begin."""

    def do_rollback(self, dbapi_connection: Any) -> None:
        """Nothing to undo."""

    def do_commit(self, dbapi_connection: Any) -> None:
        """Nothing to commit."""

    def get_pk_constraint(self, *_: Any, **__: Any) -> Any:
        """Views have none: asking DuckDB's catalog costs more than most checks."""
        return {"constrained_columns": [], "name": None}


class _Connection(duckdb_engine.ConnectionWrapper):
    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        super().__init__(connection)
        self._connection = connection

    def cursor(self) -> "_Cursor":
        return _Cursor(self._connection, self)


class _Cursor(duckdb_engine.CursorWrapper):
    """Decimals arrive as text: Great Expectations would make them floats, at some 10 ms each."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, wrapper: _Connection) -> None:
        super().__init__(connection, wrapper)
        self._connection = connection

    def fetchall(self) -> list[tuple[Any, ...]]:
        return [_exact(row) for row in self._connection.fetchall()]

    def fetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        return [_exact(row) for row in self._connection.fetchmany(size or 1)]


def _exact(row: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(str(value) if isinstance(value, Decimal) else value for value in row)


registry.register("duckdb.readonly", __name__, ReadOnly.__name__)
