"""What upkeep does to the files of one table."""

import random
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from medallion.pipeline.maintain import Retention, maintain_table, remove_expired_files
from medallion.refresh.commits import files_by_key
from medallion.storage import clustering
from medallion.storage.lake import Lake, TableState


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
    assert maintain_table(lake, path, (), Retention(), "k")["merged"] == 15
    found = ranges(path)
    assert 3 <= len(found) < 10, "some 20,000 rows in a file"
    assert all(low > high for (_, high), (low, _) in pairwise(found)), "a key is in one file"
    assert sorted(DeltaTable(path).to_pyarrow_table()["k"].to_pylist()) == keys
    assert maintain_table(lake, path, (), Retention(), "k")["merged"] == 0, "what is in order is left alone"


def test_a_table_above_the_bound_has_its_small_files_merged_and_says_that_it_is_not_clustered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, path = Lake(str(tmp_path)), str(tmp_path / "gold/x")
    keys = scattered(path, commits=15, rows=400)
    monkeypatch.setattr(clustering, "MAX_CLUSTER_BYTES", 1000)
    done = maintain_table(lake, path, (), Retention(), "k")
    assert done["merged"] == 15
    assert done["note"] == "not clustered by k, only small files merged: larger than 0.0 GB"
    assert sorted(DeltaTable(path).to_pyarrow_table()["k"].to_pylist()) == keys


CLUSTERED = """
import resource, sys
import pyarrow as pa
from deltalake import write_deltalake
from medallion.pipeline import maintain
from medallion.storage import clustering
from medallion.storage.lake import Lake

path, rows = sys.argv[1] + "/gold/x", int(sys.argv[2])
clustering.CLUSTER_MEMORY_BYTES = int(sys.argv[3]) << 20
for number in range(15):
    k = pa.array(range(number, 15 * rows, 15), pa.int64())
    write_deltalake(path, pa.table({"k": k, "text": pa.repeat("the same text again " * 12, rows)}), mode="append")
maintain.files_by_key = lambda *_: 4
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
done = maintain.maintain_table(Lake(sys.argv[1]), path, (), maintain.Retention(), "k")
print(done["merged"], resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.slow
def test_clustering_a_table_needs_no_more_memory_when_the_table_grows(tmp_path: Path) -> None:
    def kilobytes(rows: int) -> int:
        command = [sys.executable, "-c", CLUSTERED, str(tmp_path / str(rows)), str(rows), "96"]
        merged, more = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        assert merged == "15"
        return int(more)

    few, many = kilobytes(15_000), kilobytes(60_000)  # 54 and 216 MB of text in memory
    assert many < 2 * few + 64_000, f"{few:,} kB, and {many:,} kB of four times the rows"


def test_table_without_clustering_has_its_small_files_merged(tmp_path: Path) -> None:
    lake, path = Lake(str(tmp_path)), str(tmp_path / "gold/x")
    keys = scattered(path, commits=12, rows=10)
    assert maintain_table(lake, path, (), Retention())["merged"] == 12
    assert len(ranges(path)) == 1
    assert sorted(DeltaTable(path).to_pyarrow_table()["k"].to_pylist()) == keys


def test_what_a_crash_left_of_a_landed_file_goes_and_of_a_snapshot_stays(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    hour = tmp_path / "landing/orders/.2025-11-30T00.json.7.8.part"
    snapshot = tmp_path / "landing/_snapshot/.bronze_orders.part/.a.parquet.7.8.part"
    for file in (hour, snapshot):
        file.parent.mkdir(parents=True)
        file.touch()
    assert remove_expired_files(lake, Retention()) == 0
    assert (hour.exists(), snapshot.exists()) == (False, True)


def test_a_table_whose_rows_are_marked_is_clustered_into_fewer_files() -> None:
    """A change rewrites none of them, and every query opens each."""

    def files(size: int, marks_from: int | None) -> int:
        return files_by_key(cast(TableState, SimpleNamespace(rows=1_000_000, bytes=size)), marks_from)

    assert files(30 << 20, 8 << 20) == 6
    assert files(640 << 20, 8 << 20) == 11, "wide rows"
    assert files(5 << 30, 8 << 20) == 51, "Spark rewrites the files of such a table"
    assert files(30 << 20, None) == files(30 << 20, 32 << 20) == 51
