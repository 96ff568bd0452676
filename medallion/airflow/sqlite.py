"""Only for Airflow metadata in SQLite; other databases are left alone.

Airflow makes each run of a backfill in a savepoint: it reads, then writes. SQLite begins such a transaction as a
reader, and refuses it as *database is locked*, without waiting, when any other process has written meanwhile. One that
begins as a writer waits its turn instead.
"""

from sqlalchemy import Connection, Engine, event


@event.listens_for(Engine, "savepoint")
def _write_from_the_start(connection: Connection, _: str) -> None:
    if connection.dialect.driver == "pysqlite":
        database = connection.connection.driver_connection
        if database is not None and not database.in_transaction:
            database.execute("BEGIN IMMEDIATE")
