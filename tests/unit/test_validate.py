"""After publishing, each table is there, whole, filled where it must be, and as of the hour."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from medallion.expect.vocabulary import not_empty
from medallion.hours import hour_number
from medallion.inspect.validate import problems, validate
from medallion.model.table import Feed, Table
from medallion.ops.releases import Release
from medallion.storage.delta_writes import properties
from medallion.storage.lake import LEDGER, Lake
from tests.shop import build

H0, H1 = "2025-11-30T00", "2025-11-30T01"
TABLES = build(
    [
        Feed(keys=("id",), schema="id BIGINT NOT NULL", name="bronze_a", doc="A."),
        Table(keys=("id",), query="SELECT id FROM {bronze_a}", expect=(not_empty(),), name="silver_a", doc="One."),
        Table(keys=("id",), query="SELECT id FROM {silver_a}", name="gold_a", layer="gold", doc="One."),
    ]
)
RELEASE = Release(1, H0, "a run", "full", datetime(2099, 11, 30, tzinfo=UTC), dict.fromkeys(TABLES.tables, 0))


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = Lake(str(tmp_path))
    for name in TABLES.tables:
        write(made, name, [1])
    return made


def write(lake: Lake, name: str, ids: list[int]) -> None:
    ledger = properties(None, (LEDGER, hour_number(H0)))
    rows = pa.table({"id": pa.array(ids, pa.int64())})
    write_deltalake(lake.path(name), rows, mode="overwrite", commit_properties=ledger)


def test_validation_passes_when_every_table_is_whole(lake: Lake) -> None:
    found = validate(lake, TABLES, RELEASE, H0)
    assert problems(found) == []
    assert found["silver_a"] == {"version": 0, "rows": 1, "hour": H0, "problem": None}


def test_validation_names_a_table_that_is_missing_or_in_no_release(lake: Lake) -> None:
    missing = replace(RELEASE, versions={"bronze_a": 0, "gold_a": 7})
    found = problems(validate(lake, TABLES, missing, H0))
    assert found[0] == "silver_a: it is in no release"
    assert found[1].startswith("gold_a: ")


def test_validation_names_a_table_whose_files_are_missing(lake: Lake) -> None:
    for file in Path(lake.path("gold_a")).glob("*.parquet"):
        file.unlink()
    assert problems(validate(lake, TABLES, RELEASE, H0)) == ["gold_a: files of version 0 are missing"]


def test_a_table_may_be_empty_unless_it_says_that_it_must_not(lake: Lake) -> None:
    for name in ("silver_a", "gold_a"):
        write(lake, name, [])
    empty = replace(RELEASE, versions={"bronze_a": 0, "silver_a": 1, "gold_a": 1})
    assert problems(validate(lake, TABLES, empty, H0)) == ["silver_a: it is empty"]


def test_validation_names_a_table_of_another_hour(lake: Lake) -> None:
    assert problems(validate(lake, TABLES, RELEASE, H1)) == [f"{name}: it is as of hour {H0}" for name in TABLES.tables]
