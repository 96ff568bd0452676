"""Reads share one DuckDB database of the process, and see nothing of each other."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from medallion.storage.database import database_for, shared_database
from medallion.storage.live_rows import read_live_rows


def test_what_one_read_creates_another_does_not_see() -> None:
    with shared_database() as one, shared_database() as other:
        one.register("keys", pa.table({"k": [1]}))
        one.execute("CREATE TEMP TABLE live AS FROM keys")
        with pytest.raises(duckdb.CatalogException):
            other.execute("FROM live")
        with pytest.raises(duckdb.CatalogException):
            other.execute("FROM keys")
    with shared_database() as later, pytest.raises(duckdb.CatalogException):
        later.execute("FROM live")


def test_a_disk_is_read_through_one_database(tmp_path: Path) -> None:
    with database_for(tmp_path) as (one, _), database_for(tmp_path) as (other, served):
        one.execute("SET GLOBAL memory_limit = '123MiB'")
        assert other.execute("SELECT current_setting('memory_limit')").fetchall() == [("123.0 MiB",)]
        one.execute("RESET GLOBAL memory_limit")
        assert served is None


def test_tables_are_read_at_the_same_time(tmp_path: Path) -> None:
    count = 8
    for number in range(count):
        write_deltalake(str(tmp_path / str(number)), pa.table({"k": [number] * 10}))
    start = Barrier(count)

    def read(number: int) -> list[int]:
        folder = tmp_path / str(number)
        delta = DeltaTable(str(folder))
        start.wait()
        rows = read_live_rows(delta, folder)
        return [int(value) for value in rows["k"].to_pylist()]

    with ThreadPoolExecutor(count) as readers:
        assert [*readers.map(read, range(count))] == [[number] * 10 for number in range(count)]


def test_a_forked_process_opens_its_own_database_and_the_folder_for_spilling_goes_with_its_owner() -> None:
    program = """
import os
from pathlib import Path
from medallion.storage.database import shared_database

def read():
    with shared_database() as connection:
        connection.execute("SELECT SUM(range) FROM range(3_000_000)").fetchall()
        return connection.execute("SELECT current_setting('temp_directory')").fetchall()[0][0]

own = read()
if (child := os.fork()) == 0:
    assert read() != own
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert Path(own).is_dir()
print(own)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert not Path(done.stdout.strip()).exists()
