"""Begin savepoints of Airflow's metadata as write transactions in SQLite; other databases are left alone.

Airflow creates each run of a backfill in a savepoint that first reads, then writes. SQLite begins such a transaction as
a reader, and fails it with *database is locked*, without waiting, if another process has written meanwhile. A
transaction that begins as a writer waits for its turn instead.
"""

from sqlalchemy import Connection, Engine, event


@event.listens_for(Engine, "savepoint")
def _write_from_the_start(connection: Connection, _: str) -> None:
    if connection.dialect.driver == "pysqlite":
        database = connection.connection.driver_connection
        if database is not None and not database.in_transaction:
            database.execute("BEGIN IMMEDIATE")
