"""Rows of a key are replaced in one commit, however many values there are and whether any of them is in the table."""

from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from medallion.storage import delta_writes
from medallion.storage.delta_writes import properties, replace_rows
from medallion.storage.merge_on_read import FileLayout


@pytest.mark.parametrize("max_named", [0, 2_000])
@pytest.mark.parametrize("keys", [[7, 8], [1, 7], [1, 2]])
def test_rows_are_replaced_when_all_some_or_none_of_their_keys_are_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: list[int], max_named: int
) -> None:
    monkeypatch.setattr(delta_writes, "MAX_LISTED_KEYS", max_named)
    schema = pa.schema([("k", pa.int64()), ("n", pa.int64())])
    write_deltalake(str(tmp_path), pa.table({"k": [1, 2, 3], "n": [0, 0, 0]}, schema=schema))
    delta = DeltaTable(str(tmp_path))
    replace_rows(
        delta, pa.table({"k": keys, "n": [9, 9]}, schema=schema), "k", keys, properties(), FileLayout(tmp_path, 1 << 20)
    )
    wanted = dict.fromkeys((1, 2, 3), 0) | dict.fromkeys(keys, 9)
    assert {row["k"]: row["n"] for row in DeltaTable(str(tmp_path)).to_pyarrow_table().to_pylist()} == wanted
    assert delta.version() == 1


@pytest.mark.parametrize("keys", [[date(2025, 1, 1), None], [None], [date(2025, 1, 2), date(2025, 1, 9)]])
def test_rows_are_replaced_when_their_key_is_a_day_or_null(tmp_path: Path, keys: list[date | None]) -> None:
    schema = pa.schema([("k", pa.date32()), ("n", pa.int64())])
    former = [date(2025, 1, 1), date(2025, 1, 2), None]
    write_deltalake(str(tmp_path), pa.table({"k": former, "n": [0, 0, 0]}, schema=schema))
    delta = DeltaTable(str(tmp_path))
    replace_rows(
        delta,
        pa.table({"k": keys, "n": [9] * len(keys)}, schema=schema),
        "k",
        keys,
        properties(),
        FileLayout(tmp_path, 1 << 20),
    )
    wanted = dict.fromkeys(former, 0) | dict.fromkeys(keys, 9)
    assert {row["k"]: row["n"] for row in DeltaTable(str(tmp_path)).to_pyarrow_table().to_pylist()} == wanted
