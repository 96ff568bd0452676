"""A table that is recomputed is written where it differs: its rows are the new ones, its change feed has few."""

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from medallion.storage.change_feed import changes
from medallion.storage.merge_on_read import FileLayout
from medallion.storage.row_difference import replace_differing

SCHEMA = pa.schema([("k", pa.int64()), ("place", pa.string()), ("n", pa.int64())])
Row = tuple[int | None, str, int]
COMMIT = '{"hour": "2025-11-30T00"}'


def in_arrow(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)


def created(path: Path, rows: list[Row]) -> DeltaTable:
    write_deltalake(str(path), in_arrow(rows), configuration={"delta.enableChangeDataFeed": "true"})
    return DeltaTable(str(path))


def rows_in(path: Path) -> Counter[Any]:
    return Counter(tuple(row.values()) for row in DeltaTable(str(path)).to_pyarrow_table().to_pylist())


def replaced(path: Path, rows: list[Row], key: tuple[str, ...], marks_from: int | None = None) -> list[dict[str, Any]]:
    """Make ``rows`` the table's, in one commit; the change feed of that."""
    delta = DeltaTable(str(path))
    before = delta.version()
    replace_differing(delta, in_arrow(rows), key, COMMIT, FileLayout(path, 1 << 20, marks_from))
    assert delta.version() == before + 1
    assert json.loads(COMMIT).items() <= json.loads(delta.history(1)[0]["userMetadata"]).items()
    assert rows_in(path) == Counter(rows)
    if not changes(path, before, before + 1):
        return []
    feed = DeltaTable(str(path)).load_cdf(starting_version=before + 1, ending_version=before + 1)
    return pa.table(feed).to_pylist()


BEFORE: list[Row] = [(k, place, 0) for k in range(20) for place in ("a", "b")]


@pytest.mark.parametrize("key", [("k", "place"), ("k",)])
def test_a_row_that_differs_is_the_only_key_that_changes(tmp_path: Path, key: tuple[str, ...]) -> None:
    created(tmp_path, BEFORE)
    rows = [(k, place, 9 if (k, place) == (3, "b") else n) for k, place, n in BEFORE]
    feed = replaced(tmp_path, rows, key)
    assert {tuple(row[name] for name in key) for row in feed} == {tuple({"k": 3, "place": "b"}[name] for name in key)}


def test_rows_that_arrive_and_leave_are_changes(tmp_path: Path) -> None:
    created(tmp_path, BEFORE)
    feed = replaced(tmp_path, [*BEFORE[1:], (50, "c", 1)], ("k", "place"))
    assert {(row["k"], row["place"], row["_change_type"]) for row in feed} == {(0, "a", "delete"), (50, "c", "insert")}


def test_the_same_rows_in_another_order_are_no_change(tmp_path: Path) -> None:
    created(tmp_path, BEFORE)
    assert replaced(tmp_path, BEFORE[::-1], ("k", "place")) == []


@pytest.mark.parametrize("key", [("k", "place"), ("k",), ()])
def test_random_rows_replace_random_rows_whatever_their_keys(tmp_path: Path, key: tuple[str, ...]) -> None:
    chance = random.Random(1)

    def some_rows() -> list[Row]:  # keys that are null, and keys of several rows, equal ones among them
        keys = (*range(12), None)
        return [(chance.choice(keys), chance.choice("ab"), chance.choice((0, 0, 1))) for _ in range(40)]

    rows = some_rows()
    created(tmp_path, rows)
    for _ in range(12):
        kept = rows if chance.random() < 0.8 else some_rows()
        rows = [row for row in kept if chance.random() < 0.95] + some_rows()[: chance.randrange(4)]
        replaced(tmp_path, rows, key)


def test_no_rows_at_all_replace_rows_and_are_replaced(tmp_path: Path) -> None:
    created(tmp_path, BEFORE)
    replaced(tmp_path, [], ("k", "place"))
    replaced(tmp_path, BEFORE, ("k", "place"))


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\u0085"])
def test_changes_are_known_where_a_key_holds_what_other_readers_take_for_the_end_of_a_line(
    tmp_path: Path, separator: str
) -> None:
    odd = f"a{separator}b"
    created(tmp_path, [*BEFORE, (1, odd, 1)])
    feed = replaced(tmp_path, [*BEFORE, (1, odd, 2)], ("place",))
    assert {(row["place"], row["n"]) for row in feed} == {(odd, 1), (odd, 2)}
