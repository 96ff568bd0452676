"""What upkeep does to the files of one table."""

import random
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from medallion.pipeline.maintain import Retention, _forget_files, _keep_table
from medallion.storage.lake import Lake


def scattered(path: str, *, commits: int, rows: int) -> list[int]:
    """A table of many small files, each with keys from all over; its keys."""
    keys = list(range(commits * rows))
    random.Random(1).shuffle(keys)
    for number in range(commits):
        write_deltalake(path, pa.table({"k": keys[number * rows : (number + 1) * rows]}), mode="append")
    return sorted(keys)


def ranges(path: str) -> list[tuple[int, int]]:
    """The smallest and the largest key of each file, in order."""
    files = pa.table(DeltaTable(path).get_add_actions(flatten=True)).to_pydict()
    return sorted(zip(files["min.k"], files["max.k"], strict=True))


def test_a_table_that_is_refreshed_by_key_is_laid_out_by_it_again(tmp_path: Path) -> None:
    lake, path = Lake(str(tmp_path)), str(tmp_path / "gold/x")
    keys = scattered(path, commits=15, rows=4000)
    assert _keep_table(lake, path, (), Retention(), "k")["merged"] == 15
    found = ranges(path)
    assert 3 <= len(found) < 10, "some 20,000 rows in a file"
    assert all(low > high for (_, high), (low, _) in pairwise(found)), "a key is in one file"
    assert sorted(DeltaTable(path).to_pyarrow_table()["k"].to_pylist()) == keys
    assert _keep_table(lake, path, (), Retention(), "k")["merged"] == 0, "what is in order is left alone"


def test_another_table_has_its_small_files_merged(tmp_path: Path) -> None:
    lake, path = Lake(str(tmp_path)), str(tmp_path / "gold/x")
    keys = scattered(path, commits=12, rows=10)
    assert _keep_table(lake, path, (), Retention())["merged"] == 12
    assert len(ranges(path)) == 1
    assert sorted(DeltaTable(path).to_pyarrow_table()["k"].to_pylist()) == keys


def test_what_a_crash_left_of_a_landed_file_goes_and_of_a_snapshot_stays(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    hour = tmp_path / "landing/orders/.2025-11-30T00.json.7.8.part"
    snapshot = tmp_path / "landing/_snapshot/.bronze_orders.part/.a.parquet.7.8.part"
    for file in (hour, snapshot):
        file.parent.mkdir(parents=True)
        file.touch()
    assert _forget_files(lake, Retention()) == 0
    assert (hour.exists(), snapshot.exists()) == (False, True)
