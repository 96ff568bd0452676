"""What was read of a Delta log is read again after each commit, and after a folder was put back."""

import shutil
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from medallion.storage.remembered import remembered


def rows(count: int) -> pa.Table:
    return pa.table({"id": range(count)})


def test_log_is_read_once_between_two_commits_and_again_after_each(tmp_path: Path) -> None:
    read: list[int] = []

    def count() -> int:
        read.append(1)
        return int(DeltaTable(tmp_path / "t").count())

    for wanted in (1, 3, 6):
        write_deltalake(tmp_path / "t", rows(wanted - sum((1, 2)[: len(read)])), mode="append")
        assert [remembered(tmp_path / "t", "rows", count) for _ in range(3)] == [wanted] * 3
    assert len(read) == 3


def test_folder_that_was_put_back_and_committed_to_is_read_again_though_its_version_is_the_same(tmp_path: Path) -> None:
    table = tmp_path / "t"
    write_deltalake(table, rows(1))
    backup = shutil.copytree(table, tmp_path / "backup")
    write_deltalake(table, rows(2), mode="append")
    assert remembered(table, "rows", lambda: DeltaTable(table).count()) == 3
    shutil.rmtree(table)
    shutil.copytree(backup, table)
    write_deltalake(table, rows(5), mode="append")
    assert DeltaTable(table).version() == 1
    assert remembered(table, "rows", lambda: DeltaTable(table).count()) == 6


def test_table_that_does_not_exist_is_looked_for_each_time(tmp_path: Path) -> None:
    answers = iter((None, "written"))
    assert remembered(tmp_path / "t", "x", lambda: next(answers)) is None
    assert remembered(tmp_path / "t", "x", lambda: next(answers)) == "written"
