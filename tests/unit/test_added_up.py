"""Upkeep adds up a log of differences."""

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from medallion.storage.added_up import add_up
from medallion.storage.change_feed import changes

MONEY = pa.decimal128(12, 2)


def log(folder: Path, *differences: list[tuple[str | None, int, str]], key: str = "k") -> DeltaTable:
    """Write a log with a commit for each list of key, count and sum."""
    schema = pa.schema([(key, pa.string()), ("n", pa.int64()), ("money", MONEY)])
    for rows in differences:
        keys, counts, sums = zip(*rows, strict=True)
        data = pa.table([[*keys], [*counts], [Decimal(value) for value in sums]], schema=schema)
        write_deltalake(str(folder), data, mode="append")
    return DeltaTable(str(folder))


def test_each_group_becomes_one_row_and_one_without_anything_goes(tmp_path: Path) -> None:
    delta = log(
        tmp_path,
        [("a", 2, "1.50"), (None, 1, "3.00"), ("gone", 1, "2.00")],
        [("a", 1, "0.25"), (None, 1, "-1.00"), ("gone", -1, "-2.00")],
        [("a", -1, "-0.50")],
    )
    before, version = delta.schema(), delta.version()
    assert add_up(delta, tmp_path, ["k"], None) == 3
    assert delta.schema() == before
    rows = delta.to_pyarrow_table().to_pylist()
    assert sorted(rows, key=lambda row: row["k"] or "") == [
        {"k": None, "n": 2, "money": Decimal("2.00")},
        {"k": "a", "n": 2, "money": Decimal("1.25")},
    ]
    assert not changes(tmp_path, version, delta.version()), "readers of changes see none"


def test_a_total_without_groups_stays_even_if_it_is_zero(tmp_path: Path) -> None:
    delta = log(tmp_path, [("all", 1, "1.00")], [("all", -1, "-1.00")])
    frame = delta.to_pyarrow_table().drop_columns(["k"])
    write_deltalake(str(tmp_path / "total"), frame.slice(0, 1))
    write_deltalake(str(tmp_path / "total"), frame.slice(1, 1), mode="append")
    total = DeltaTable(str(tmp_path / "total"))
    assert add_up(total, tmp_path / "total", [], None) == 2
    assert total.to_pyarrow_table().to_pylist() == [{"n": 0, "money": Decimal("0.00")}]


@pytest.mark.parametrize("key", ["filename", "file_row_number"])
def test_a_log_is_left_alone_whose_rows_cannot_be_numbered(tmp_path: Path, key: str) -> None:
    delta = log(tmp_path, *[[("a", 1, "1.00")]] * 3, key=key)
    assert add_up(delta, tmp_path, [key], None) == 0


def test_a_log_is_left_alone_of_which_more_than_half_would_stay(tmp_path: Path) -> None:
    delta = log(tmp_path, [("a", 1, "1.00"), ("b", 1, "1.00")], [("c", 1, "1.00"), ("a", 1, "1.00")])
    assert add_up(delta, tmp_path, ["k"], None) == 0
    assert delta.version() == 1
