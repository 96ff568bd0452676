"""A restored table has the rows of the former version, and its change feed says which rows went back."""

import random
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from medallion.storage import restoring
from medallion.storage.change_feed import changes
from medallion.storage.changed_values import changed_values
from medallion.storage.delta_writes import properties, replace_keys
from medallion.storage.live_rows import read_live_rows
from medallion.storage.merge_on_read import FileLayout
from medallion.storage.restoring import restore_with_feed

Row = tuple[int, str | None]


def table(rows: list[Row]) -> pa.Table:
    return pa.table({"k": pa.array([k for k, _ in rows], pa.int64()), "v": pa.array([v for _, v in rows], pa.string())})


def make(folder: Path, rows: int = 300) -> None:
    configuration = {"delta.enableChangeDataFeed": "true", "delta.enableDeletionVectors": "false"}
    for start in range(0, rows, 100):
        some = table([(key, "begin") for key in range(start, min(rows, start + 100))])
        write_deltalake(str(folder), some, mode="append", configuration=configuration)


def change(folder: Path, rows: list[Row], gone: list[int], marks_from: int | None = 1) -> None:
    """Replace the rows with the keys of ``rows``, and delete those with the keys ``gone``."""
    delta = DeltaTable(str(folder))
    keys = pa.table({"k": pa.array([*(key for key, _ in rows), *gone], pa.int64())})
    replace_keys(delta, table(rows), keys, properties("{}", upon=delta), FileLayout(folder, 1 << 20, marks_from))


def rows_at(folder: Path, version: int | None = None) -> Counter[Row]:
    return Counter((row["k"], row["v"]) for row in read_live_rows(DeltaTable(str(folder), version), folder).to_pylist())


def fed(folder: Path, version: int) -> tuple[Counter[Row], Counter[Row]]:
    """Return the rows that a version deleted and inserted, as its change feed says."""
    sides: dict[str, Counter[Row]] = {"delete": Counter(), "insert": Counter()}
    for _, kind, name in changes(folder, version - 1, version).files:
        assert kind == "cdc"
        for row in pq.read_table(folder / name).to_pylist():
            sides[row["_change_type"]][row["k"], row["v"]] += 1
    return sides["delete"], sides["insert"]


@pytest.mark.parametrize("seed", range(8))
def test_rows_go_back_and_the_feed_says_which(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    make(tmp_path)
    first = DeltaTable(str(tmp_path)).version()
    for hour in range(8):
        keys = chance.sample(range(330), chance.choice((1, 9, 40)))
        cut = chance.randrange(len(keys) + 1)
        marks_from = None if chance.random() < 0.2 else 1  # some hours rewrite files
        change(tmp_path, [(key, f"{hour}") for key in keys[:cut]], keys[cut:], marks_from)
    for _ in range(3):  # a restored table is restored again
        delta = DeltaTable(str(tmp_path))
        former = DeltaTable(str(tmp_path), chance.randrange(first, delta.version()))
        before, wanted = rows_at(tmp_path), rows_at(tmp_path, former.version())
        assert restore_with_feed(delta, tmp_path, former, properties('{"a": 1}', upon=delta))
        assert rows_at(tmp_path) == wanted
        deleted, inserted = fed(tmp_path, delta.version())
        assert not deleted & inserted, "no change"
        before.subtract(deleted)
        before.update(inserted)
        assert +before == wanted
        assert min(before.values(), default=0) >= 0, "a row that was not there was deleted"


def test_what_is_applied_again_as_it_was_is_no_change(tmp_path: Path) -> None:
    make(tmp_path)
    change(tmp_path, [(1, "kept"), (2, "kept")], [])
    version = DeltaTable(str(tmp_path)).version()
    change(tmp_path, [(3, "wrong"), (4, "right"), (5, "right")], [6])
    known = DeltaTable(str(tmp_path)).version()
    delta = DeltaTable(str(tmp_path))
    assert restore_with_feed(delta, tmp_path, DeltaTable(str(tmp_path), version), properties("{}", upon=delta))
    change(tmp_path, [(3, "corrected"), (4, "right"), (5, "right")], [6])
    found = changes(tmp_path, known, DeltaTable(str(tmp_path)).version())
    assert changed_values(tmp_path, "k", found, 100, ["v"]).to_pylist() == [3]


def test_files_that_upkeep_rewrote_are_no_change(tmp_path: Path) -> None:
    make(tmp_path)
    change(tmp_path, [(1, "marked")], [7])
    former = DeltaTable(str(tmp_path))
    DeltaTable(str(tmp_path)).optimize.compact(target_size=1 << 30)
    delta = DeltaTable(str(tmp_path))
    known, wanted = delta.version(), rows_at(tmp_path)
    assert delta.file_uris() != former.file_uris(), "rewritten"
    assert restore_with_feed(delta, tmp_path, former, properties("{}", upon=delta))
    assert rows_at(tmp_path) == wanted
    assert not changes(tmp_path, known, delta.version())


@pytest.mark.parametrize("kind", [pa.float64(), pa.struct([("x", pa.float64())]), pa.list_(pa.float32())], ids=str)
def test_a_zero_that_gets_another_sign_goes_back_too(tmp_path: Path, kind: pa.DataType) -> None:
    def row(zero: float) -> pa.Table:
        value = {"x": zero} if pa.types.is_struct(kind) else [zero] if pa.types.is_list(kind) else zero
        return pa.table({"k": pa.array([1], pa.int64()), "v": pa.array([value], kind)})

    configuration = {"delta.enableChangeDataFeed": "true"}
    write_deltalake(str(tmp_path), row(0.0), configuration=configuration)
    write_deltalake(str(tmp_path), row(-0.0), mode="overwrite")
    delta, former = DeltaTable(str(tmp_path)), DeltaTable(str(tmp_path), 0)
    assert restore_with_feed(delta, tmp_path, former, properties("{}", upon=delta))
    ((_, kind_of_file, name),) = changes(tmp_path, 1, 2).files
    assert kind_of_file == "cdc"
    assert sorted(pq.read_table(tmp_path / name)["_change_type"].to_pylist()) == ["delete", "insert"]


def test_another_restore_is_left_to_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path / "large")
    change(tmp_path / "large", [(1, "a")], [])
    make(tmp_path / "columns")
    wider = table([(1000, "a")]).append_column("w", pa.array([1], pa.int64()))
    write_deltalake(str(tmp_path / "columns"), wider, mode="append", schema_mode="merge")
    make(tmp_path / "mapped")
    change(tmp_path / "mapped", [(1, "a")], [])
    for name in ("large", "columns", "mapped"):
        monkeypatch.setattr(restoring, "MAX_FEED_BYTES", 10 if name == "large" else 1 << 20)
        monkeypatch.setattr(restoring, "is_plain", lambda _, name=name: name != "mapped")
        delta = DeltaTable(str(tmp_path / name))
        former, newest = DeltaTable(str(tmp_path / name), delta.version() - 1), delta.version()
        assert not restore_with_feed(delta, tmp_path / name, former, properties("{}", upon=delta))
        assert DeltaTable(str(tmp_path / name)).version() == newest
