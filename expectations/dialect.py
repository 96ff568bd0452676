"""How SQLAlchemy talks to DuckDB for Great Expectations: views are only read, so there are no transactions.

Great Expectations gives its connection back before it fetches, and the rollback that SQLAlchemy then sends would
throw away DuckDB's pending result.
"""

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
        return duckdb_engine.ConnectionWrapper(duckdb.connect(database))

    def do_begin(self, dbapi_connection: Any) -> None:
        """Nothing to begin."""

    def do_rollback(self, dbapi_connection: Any) -> None:
        """Nothing to undo."""

    def do_commit(self, dbapi_connection: Any) -> None:
        """Nothing to commit."""


registry.register("duckdb.readonly", __name__, ReadOnly.__name__)
