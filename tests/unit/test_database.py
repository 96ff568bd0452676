"""Reads share one DuckDB database of the process, and see nothing of each other."""

import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from medallion.storage.database import _spill_folder, database_for, shared_database
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


def test_after_an_internal_error_reads_go_on_in_another_database() -> None:
    garbled = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff")])

    def read() -> None:
        with shared_database() as connection:
            connection.register("garbled", pa.table({"text": garbled}))
            connection.execute("SELECT upper(text) FROM garbled").fetchall()

    with pytest.raises(duckdb.InternalException):
        read()
    with shared_database() as connection:
        assert connection.execute("SELECT 1").fetchall() == [(1,)]


def test_a_forked_process_opens_its_own_database_and_nothing_is_left_behind(tmp_path: Path) -> None:
    program = """
import os
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
"""
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", program], env=environment, timeout=60, check=True)
    assert [path.name for path in tmp_path.rglob("*")] == [f"medallion-spill-{os.geteuid()}"]


def test_only_this_account_can_read_what_is_spilled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    own = _spill_folder()
    assert own.stat().st_mode & 0o777 == 0o700
    old, new = own / "old", own / "new"
    for folder in (old, new):
        folder.mkdir()
    os.utime(old, (0, 0))
    assert _spill_folder() == own
    assert [*own.iterdir()] == [new], "what a killed process left a day ago is removed"
    (own / "gone").symlink_to(own / "nowhere")
    assert _spill_folder() == own, "what another process removes at the same time is passed over"
    shutil.rmtree(own)
    others = tmp_path / "others"
    others.mkdir()
    for kind in ("link", "file", "open to others"):
        if kind == "link":
            own.symlink_to(others)
        elif kind == "file":
            own.touch()
        else:
            own.mkdir()
            own.chmod(0o777)
        instead = _spill_folder()
        assert instead != own, kind
        assert instead.stat().st_mode & 0o777 == 0o700
        if kind != "open to others":
            own.unlink()
