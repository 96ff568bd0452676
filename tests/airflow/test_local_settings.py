"""A metadata database in SQLite: what Airflow does in savepoints is not refused for what others write meanwhile."""

import sqlite3
from contextlib import suppress
from pathlib import Path

import airflow_local_settings  # noqa: F401  the listener that it registers is what is tested
import pytest
from sqlalchemy import create_engine, text


@pytest.fixture
def database(tmp_path: Path) -> Path:
    with sqlite3.connect(path := tmp_path / "airflow.db") as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE runs (name)")
    return path


def test_a_savepoint_that_reads_before_it_writes_is_not_overtaken(database: Path) -> None:
    with create_engine(f"sqlite:///{database}").connect() as ours:
        with ours.begin_nested():
            assert ours.scalar(text("SELECT count(*) FROM runs")) == 0
            with sqlite3.connect(database, timeout=0) as other, suppress(sqlite3.OperationalError):  # has to wait
                other.execute("INSERT INTO runs VALUES ('other')")
            ours.execute(text("INSERT INTO runs VALUES ('ours')"))
        ours.rollback()
        assert ours.scalar(text("SELECT count(*) FROM runs")) == 0, "a savepoint is part of its transaction"
