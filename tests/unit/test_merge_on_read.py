"""Merge on read: rows that are marked as deleted are gone for every reader, and files stay as they are."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, QueryBuilder, write_deltalake

from medallion.storage.change_feed import changes
from medallion.storage.delta_writes import properties, replace_rows, rows_having, rows_with_keys
from medallion.storage.duckdb_views import TableAt, open_views
from medallion.storage.lake import state_of
from medallion.storage.merge_on_read import FileLayout

SCHEMA = pa.schema([("k", pa.int64()), ("t", pa.string())])


def make(folder: Path, files: int = 4, rows: int = 100) -> DeltaTable:
    for number in range(files):
        keys = range(number * rows, (number + 1) * rows)
        table = pa.table({"k": keys, "t": [f"a{key}" for key in keys]}, schema=SCHEMA)
        write_deltalake(str(folder), table, mode="append", configuration={"delta.enableChangeDataFeed": "true"})
    return DeltaTable(str(folder))


def by_delta_rs(folder: Path) -> dict[int, str]:
    rows = pa.table(QueryBuilder().register("t", DeltaTable(str(folder))).execute("SELECT k, t FROM t").read_all())
    return as_dict(rows.to_pylist())


def by_views(folder: Path) -> dict[int, str]:
    with open_views({"t": TableAt(folder)}) as views:
        assert not views.errors
        rows = views.connection.execute("SELECT k, t FROM t").fetchall()
        assert views.rows["t"] == len(rows)
    return as_dict([dict(zip("kt", row, strict=True)) for row in rows])


def as_dict(rows: list[dict[str, Any]]) -> dict[int, str]:
    found = {row["k"]: row["t"] for row in rows}
    assert len(found) == len(rows), "each key once"
    return found


def replace(folder: Path, new: dict[int, str], gone: list[int]) -> DeltaTable:
    delta = DeltaTable(str(folder))
    rows = pa.table({"k": [*new], "t": [*new.values()]}, schema=SCHEMA)
    replace_rows(delta, rows, "k", sorted({*new, *gone}), properties("{}", upon=delta), FileLayout(folder, 1 << 20, 1))
    return delta


def test_rows_are_replaced_without_writing_files_anew_when_they_are_scattered(tmp_path: Path) -> None:
    before = {*state_of(make(tmp_path)).actions["path"]}
    wanted = by_delta_rs(tmp_path)
    for number in range(3):
        new = dict.fromkeys((1 + number, 150, 399, 1000 + number), f"b{number}")
        delta = replace(tmp_path, new, [250 + number])
        wanted = {key: text for key, text in (wanted | new).items() if key != 250 + number}
        assert by_delta_rs(tmp_path) == by_views(tmp_path) == wanted
        assert state_of(delta).rows == len(wanted)
        assert before <= {*state_of(delta).actions["path"]}
        change = changes(tmp_path, delta.version() - 1, delta.version())
        assert not change.unknown
        feed = pq.read_table(tmp_path / change.files[0][2]).to_pylist()
        assert {row["k"] for row in feed if row["_change_type"] == "insert"} == {*new}
    keys = pa.table({"k": [1, 2, 250, 399]})
    assert sorted(rows_with_keys(delta, tmp_path, keys, ["k"])["k"].to_pylist()) == [1, 2, 399]
    assert sorted(rows_having(delta, tmp_path, "k", [1, 2, 250, 399])["t"].to_pylist()) == ["b0", "b1", "b2"]
