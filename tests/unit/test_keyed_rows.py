"""Rows by key are those of each version, read in one pass, and a change that no query sees is none."""

import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from medallion.storage import changed_values as changed
from medallion.storage import keyed_rows
from medallion.storage.change_feed import changes
from medallion.storage.changed_values import changed_values
from medallion.storage.delta_writes import properties, replace_keys
from medallion.storage.keyed_rows import Clause, KeyedRows, rows_that_hold, rows_with_values
from medallion.storage.lake import state_of
from medallion.storage.live_rows import read_live_rows
from medallion.storage.merge_on_read import FileLayout

SCHEMA = pa.schema([("k", pa.int64()), ("part", pa.string()), ("n", pa.int64())])
Row = tuple[int, str | None, int]


def table(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)


def make(folder: Path, rows: list[Row], files: int = 3) -> DeltaTable:
    size = max(1, -(-len(rows) // files))
    for start in range(0, max(1, len(rows)), size):
        configuration = {"delta.enableChangeDataFeed": "true", "delta.enableDeletionVectors": "false"}
        write_deltalake(str(folder), table(rows[start : start + size]), mode="append", configuration=configuration)
    return DeltaTable(str(folder))


def update(folder: Path, rows: list[Row], marks_from: int | None = None) -> None:
    """Replace the rows with these keys."""
    delta = DeltaTable(str(folder))
    keys = pa.table({"k": pa.array([row[0] for row in rows], pa.int64())})
    replace_keys(delta, table(rows), keys, properties("{}", upon=delta), FileLayout(folder, 1 << 20, marks_from))


def expected(delta: DeltaTable, folder: Path, wanted: dict[str, list[Any]]) -> list[Row]:
    rows = read_live_rows(delta, folder).to_pylist()
    chosen = (row for row in rows if any(row[column] in values for column, values in wanted.items()))
    return sorted(map(tuple, (row.values() for row in chosen)), key=str)


def test_rows_that_one_table_has_read_serve_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    delta = make(tmp_path, [(key, f"part {key % 3}", key) for key in range(60)])
    states, rows, asked = [state_of(delta)], KeyedRows(), list[Any]()

    def reading(*arguments: Any) -> Any:
        asked.append(arguments[3][0].wanted)
        return rows_with_values(*arguments)

    monkeypatch.setattr(keyed_rows, "rows_with_values", reading)

    def read(values: tuple[Any, ...], columns: set[str], others: tuple[Any, ...] = (7, None)) -> list[Any]:
        found = rows.read_shared(tmp_path, states, columns, ("k", values), lambda: others)
        assert found is not None and columns <= {*found[0].column_names}
        return sorted(found[0]["k"].to_pylist())

    assert read((1, 2), {"k", "n"}) == [1, 2, 7]
    assert read((2, 7), {"k"}) == [1, 2, 7]
    assert asked == [(("k", (1, 2, 7, None)),)], "one read"
    assert rows.read_shared(tmp_path, states, ["k"], ("k", (8,)), lambda: range(9, 20)) is None, "few of them"
    assert read((8, 1), {"k"}, ()) == [1, 2, 7, 8]
    assert read((8, 1), {"part", "k", "n"}, ()) == [1, 2, 7, 8]
    assert len(asked) == 3, "a value or a column that was not read"
    monkeypatch.setattr(keyed_rows, "MAX_ROWS", 1)
    for _ in range(2):
        assert rows.read_shared(tmp_path, states, ["k"], ("k", (9, 10)), tuple) is None
    assert len(asked) == 4, "too many rows once are too many for all"


def test_rows_that_could_not_be_read_count_as_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    states, rows = [state_of(make(tmp_path, [(key, "part", key) for key in range(9)]))], KeyedRows()

    def read(*values: int) -> list[int]:
        found = rows.read_shared(tmp_path, states, ["k"], ("k", values), tuple)
        assert found is not None
        return sorted(found[0]["k"].to_pylist())

    def breaking(*_: Any) -> Any:
        raise OSError("the network is gone")

    assert read(1) == [1]
    with monkeypatch.context() as patch:
        patch.setattr(keyed_rows, "rows_with_values", breaking)
        with pytest.raises(OSError, match="network"):
            read(1, 2)
    assert read(1, 2) == [1, 2]


def test_shared_rows_are_kept_within_the_memory_of_all_kept_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    states, rows = [state_of(make(tmp_path, [(key, "part", key) for key in range(9)]))], KeyedRows()
    monkeypatch.setattr(keyed_rows, "MAX_KEPT_BYTES", 0)
    found = rows.read_shared(tmp_path, states, ["k"], ("k", (1, 2)), tuple)
    assert found is not None and sorted(found[0]["k"].to_pylist()) == [1, 2]
    assert rows.read_shared(tmp_path, states, ["k"], ("k", (1, 2)), tuple) is None, "the next table reads its own"


def test_changes_whose_files_differ_in_what_may_be_null_are_compared(tmp_path: Path) -> None:
    required = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("n", pa.int64(), nullable=False)])
    configuration = {"delta.enableChangeDataFeed": "true"}
    write_deltalake(str(tmp_path), pa.table({"k": [1, 2], "n": [1, 1]}, required), configuration=configuration)
    first = DeltaTable(str(tmp_path)).version()
    for n in (2, 3):
        write_deltalake(str(tmp_path), pa.table({"k": [2], "n": [n]}, required), mode="overwrite", predicate="k = 2")
    found = changes(tmp_path, first, DeltaTable(str(tmp_path)).version())
    stored = tmp_path / found.files[-1][2]
    as_spark_writes = pq.read_table(stored)
    assert not as_spark_writes.schema.field("n").nullable
    pq.write_table(as_spark_writes.cast(pa.schema([pa.field(f.name, f.type) for f in as_spark_writes.schema])), stored)
    assert changed_values(tmp_path, "k", found, 100, ["n"]).to_pylist() == [2]


@pytest.mark.parametrize("marks_from", [None, 1], ids=["copied on write", "merged on read"])
@pytest.mark.parametrize("seed", range(3))
def test_the_rows_of_two_versions_are_those_that_each_has(tmp_path: Path, seed: int, marks_from: int | None) -> None:
    chance = random.Random(seed)
    texts = ["a", "b", "it's", None]
    make(tmp_path, [(key, chance.choice(texts), 0) for key in range(300)])
    versions = [DeltaTable(str(tmp_path))]
    for hour in range(1, 5):
        update(tmp_path, [(key, chance.choice(texts), hour) for key in chance.sample(range(320), 12)], marks_from)
        versions.append(DeltaTable(str(tmp_path)))
    for wanted in ({"k": sorted(chance.sample(range(330), 40))}, {"k": [3, 299], "part": ["it's", None]}, {"k": []}):
        before, after = chance.sample(versions, 2)
        read = rows_with_values(
            tmp_path,
            [state_of(before), state_of(after)],
            SCHEMA.names,
            tuple(Clause(((column, tuple(values)),)) for column, values in wanted.items()),
        )
        assert read is not None
        for rows, delta in zip(read, (before, after), strict=True):
            assert rows.schema == pa.schema(delta.schema().to_arrow())
            assert sorted(map(tuple, (row.values() for row in rows.to_pylist())), key=str) == expected(
                delta, tmp_path, wanted
            )


CLAUSES = {
    "two values": (Clause((("k", (1, 2, 3)), ("part", ("a", None)))),),
    "a condition": (Clause((("k", tuple(range(200))),), "\"n\" > 3 AND \"part\" = 'it''s'"),),
    "of several, one": (Clause((("k", (1, 2)),), '"n" > 3'), Clause((("part", (None,)),), '"n" < 2')),
    "with values in common": (
        Clause((("k", (1, 2, 4, 9)), ("part", ("a",)))),
        Clause((("k", (1, 2, 4, 9)),), '"n" = 4'),
    ),
    "every row": (Clause(()), Clause((("k", (1,)),))),
    "no value": (Clause((("k", ()),)),),
}


def holds(row: Row, clauses: tuple[Clause, ...]) -> bool:
    key, part, n = row
    conditions = {
        "": True,
        "\"n\" > 3 AND \"part\" = 'it''s'": n > 3 and part == "it's",
        '"n" > 3': n > 3,
        '"n" < 2': n < 2,
        '"n" = 4': n == 4,
    }
    own = {"k": key, "part": part}
    return any(
        conditions[clause.condition] and all(own[c] in values for c, values in clause.wanted) for clause in clauses
    )


@pytest.mark.parametrize("clauses", CLAUSES.values(), ids=CLAUSES.keys())
def test_a_row_is_read_if_a_clause_holds_for_it(tmp_path: Path, clauses: tuple[Clause, ...]) -> None:
    texts = ["a", "b", "it's", None]
    rows: list[Row] = [(key, texts[key % 4], key % 7) for key in range(300)]
    state = state_of(make(tmp_path, rows))
    read = rows_with_values(tmp_path, [state], SCHEMA.names, clauses)
    assert read is not None
    chosen = sorted(row for row in rows if holds(row, clauses))
    for found in (read[0], rows_that_hold(table(rows), clauses)):
        assert sorted(tuple(row.values()) for row in found.to_pylist()) == chosen


def test_a_condition_leaves_columns_of_any_type_as_they_are() -> None:
    many = pa.array([[{"a": 1}], None, []], pa.list_(pa.field("element", pa.struct([("a", pa.int32())]))))
    at = pa.array([1, 2, None], pa.timestamp("ns", "Europe/Paris"))
    pairs = pa.array([[("a", 1)], [], None], pa.map_(pa.string(), pa.int8()))
    rows = pa.table({"n": pa.array([1, 5, 7], pa.int8()), "many": many, "at": at, "pairs": pairs})
    assert rows_that_hold(rows, [Clause((), '"n" > 3')]).equals(rows.slice(1))


def test_rows_are_read_from_the_files_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = state_of(make(tmp_path, [(key, "a", 0) for key in range(30)]))
    reads: list[Any] = []
    real = keyed_rows.rows_with_values
    monkeypatch.setattr(keyed_rows, "rows_with_values", lambda *of: reads.append(of) or real(*of))
    kept = KeyedRows()
    for _ in range(2):
        rows = kept.read(tmp_path, [state], ["k"], (Clause((("k", (1, 2)),)),))
        assert rows is not None
        assert sorted(rows[0]["k"].to_pylist()) == [1, 2]
    assert len(reads) == 1
    monkeypatch.setattr(keyed_rows, "MAX_KEPT_BYTES", 0)
    for _ in range(2):
        kept.read(tmp_path, [state], ["k"], (Clause((("k", (3,)),)),))
    assert len(reads) == 3


def test_what_spark_has_to_read_is_not_read_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pa.table({"k": [1], "many": pa.array([[1]]), "at": pa.array([datetime(2025, 1, 1)], pa.timestamp("us"))})
    write_deltalake(str(tmp_path / "types"), rows.append_column("utc", pa.array([datetime(2025, 1, 1, tzinfo=UTC)])))
    typed, wanted = state_of(DeltaTable(str(tmp_path / "types"))), (Clause((("k", (1,)),)),)
    for column, is_read in {"utc": True, "many": False, "at": False, "absent": False}.items():
        assert (rows_with_values(tmp_path / "types", [typed], [column], wanted) is not None) == is_read
    state = state_of(make(tmp_path / "t", [(key, "a", 0) for key in range(30)]))
    everything = (Clause((("k", tuple(range(30))),)),)
    for limit in ("MAX_ROWS", "MAX_BYTES", "MAX_READ_BYTES"):
        with monkeypatch.context() as smaller:
            smaller.setattr(keyed_rows, limit, 20)
            assert rows_with_values(tmp_path / "t", [state], ["k", "part"], everything) is None
    assert rows_with_values(tmp_path / "t", [state], ["k", "part"], everything) is not None


@pytest.mark.parametrize("marks_from", [None, 1], ids=["copied on write", "merged on read"])
def test_a_row_that_keeps_the_columns_that_matter_has_not_changed(tmp_path: Path, marks_from: int | None) -> None:
    make(tmp_path, [(key, "a", 0) for key in range(30)])
    update(tmp_path, [(1, "a", 1), (2, "b", 0), (40, None, 0)], marks_from)  # another n, another part, a new row
    update(tmp_path, [(3, "b", 0)], marks_from)
    update(tmp_path, [(3, "a", 0)], marks_from)  # as it was
    change = changes(tmp_path, DeltaTable(str(tmp_path)).version() - 3, DeltaTable(str(tmp_path)).version())
    for compared, keys in {("part",): [2, 40], ("n",): [1, 40], ("part", "n"): [1, 2, 40], (): [1, 2, 3, 40]}.items():
        assert sorted(changed_values(tmp_path, "k", change, 100, compared).to_pylist()) == keys
    assert sorted(changed_values(tmp_path, "part", change, 100, ["part"]).to_pylist(), key=str) == [None, "a", "b"]
    for condition, keys in {"\"part\" = 'b'": [2], '"part" IS NULL': [40], "\"part\" IN ('a', 'x')": [2]}.items():
        assert sorted(changed_values(tmp_path, "k", change, 100, ["part"], condition).to_pylist()) == keys


def test_columns_may_have_any_name(tmp_path: Path) -> None:
    names = ["k", "_side", "value", "live", "wanted_0", "_number_of_row"]
    for start in (0, 1):
        rows = pa.table({name: pa.array([start, 5], pa.int64()) for name in names})
        write_deltalake(str(tmp_path), rows, mode="overwrite")
    change = changes(tmp_path, 0, 1)
    assert sorted(changed_values(tmp_path, "k", change, 100, names).to_pylist()) == [0, 1]
    condition = " AND ".join(f'"{name}" > 0' for name in names)
    assert changed_values(tmp_path, "k", change, 100, names, condition).to_pylist() == [1]


def test_a_change_that_is_too_large_to_compare_or_from_before_a_column_has_all_of_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path, [(key, "a", 0) for key in range(30)])
    update(tmp_path, [(1, "a", 1)])
    change = changes(tmp_path, DeltaTable(str(tmp_path)).version() - 1, DeltaTable(str(tmp_path)).version())
    assert changed_values(tmp_path, "k", change, 100, ["part"]).to_pylist() == []
    assert changed_values(tmp_path, "k", change, 100, ["added_later"]).to_pylist() == [1]
    monkeypatch.setattr(changed, "MAX_COMPARED_BYTES", 10)
    assert changed_values(tmp_path, "k", change, 100, ["part"]).to_pylist() == [1]
