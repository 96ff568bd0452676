"""The columns and keys of a feed change: defined each, and refused before anything is applied where they must be."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from medallion.errors import MedallionError
from medallion.ingest import apply, change_log, landing, ledger
from medallion.ingest.schema_evolution import arrow_schema, description, require_evolvable
from medallion.ingest.source import digest
from medallion.model.table import ChangeLog, Feed
from medallion.spark.configuration import TABLE_PROPERTIES
from medallion.storage.lake import Lake
from tests.shop import build

FEED = Feed(
    keys=("id",),
    schema="id INT NOT NULL, name STRING, colour STRING, size INT NOT NULL",
    name="bronze_things",
    doc="One row per id.",
)
H0, H1, H2 = "2025-11-30T00", "2025-11-30T01", "2025-11-30T02"


def declared(schema: str, **changes: Any) -> tuple[Feed, ChangeLog]:
    feed = replace(FEED, schema=schema, **changes)
    log = build([feed, ChangeLog(of=feed.name, source_system="shop", name="bronze_things_log", doc="A log.")]).logs[0]
    return feed, log


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """One with one thing, and a log of it."""
    lake = Lake(str(tmp_path / "lake"))
    path, said = lake.path(FEED.name), description(FEED)
    DeltaTable.create(path, arrow_schema(FEED.columns), description=said, configuration=TABLE_PROPERTIES)
    change_log.begin_log(lake, declared(FEED.schema)[1])
    step(lake, H0, FEED.schema, {"id": 1, "name": "a", "colour": "red", "size": 1})
    return lake


def step(lake: Lake, hour: str, schema: str, *rows: dict[str, Any]) -> list[str]:
    """Apply an hour in which these rows come, under a declaration, as the step does; its warnings."""
    feed, log = declared(schema)
    notes = require_evolvable(lake, (feed, log))
    file = lake.landing / "things" / f"{hour}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps({"insert": row}) + "\n" for row in rows))
    ledger.write_manifest(lake, ledger.Manifest(hour, "/source", {"things": digest(file.open("rb"))}))
    change_log.catch_up(no_spark, lake, log, hour)
    decoded = landing.decode_hour(lake, (feed,), hour, 0)
    change_log.append_lines(lake, log, hour, decoded[feed.name])
    apply.apply_feed(no_spark, lake, feed, hour, decoded[feed.name])
    return notes


def no_spark() -> Any:
    raise AssertionError("this needs no Spark")


def rows(lake: Lake, name: str = FEED.name) -> list[dict[str, Any]]:
    return sorted(lake.opened(lake.path(name)).to_pyarrow_table().to_pylist(), key=lambda row: str(row["id"]))


WITHOUT_COLOUR = "id INT NOT NULL, name STRING, size INT NOT NULL"


def test_a_column_that_is_not_declared_any_more_stays_and_is_null_in_changed_rows(lake: Lake) -> None:
    notes = step(lake, H1, WITHOUT_COLOUR, {"id": 2, "name": "b", "size": 1})
    assert notes == [
        "bronze_things keeps the column colour, which is not declared any more: it is null in rows that are inserted"
        " or updated"
    ]
    assert [(row["id"], row["colour"]) for row in rows(lake)] == [(1, "red"), (2, None)]
    step(lake, H2, WITHOUT_COLOUR, {"id": 1, "name": "new", "size": 1})
    assert [(row["id"], row["name"], row["colour"]) for row in rows(lake)] == [(1, "new", None), (2, "b", None)]
    assert len(rows(lake, "bronze_things_log")) == 3


def test_a_row_that_comes_again_as_it_is_keeps_the_column_that_is_not_declared(lake: Lake) -> None:
    step(lake, H1, WITHOUT_COLOUR, {"id": 1, "name": "a", "size": 1})
    assert rows(lake)[0]["colour"] == "red"


def test_a_column_that_is_declared_again_is_read_again_and_null_for_the_time_between(lake: Lake) -> None:
    step(lake, H1, WITHOUT_COLOUR, {"id": 2, "name": "b", "size": 1})
    assert step(lake, H2, FEED.schema, {"id": 3, "name": "c", "colour": "blue", "size": 1}) == []
    assert [row["colour"] for row in rows(lake)] == ["red", None, "blue"]


def test_a_renamed_column_is_a_new_one_beside_the_old(lake: Lake) -> None:
    renamed = FEED.schema.replace("colour", "shade")
    step(lake, H1, renamed, {"id": 2, "name": "b", "shade": "blue", "size": 1})
    assert [(row["colour"], row["shade"]) for row in rows(lake)] == [("red", None), (None, "blue")]
    step(lake, H2, FEED.schema, {"id": 3, "name": "c", "colour": "green", "size": 1})  # and back
    assert [(row["colour"], row["shade"]) for row in rows(lake)] == [("red", None), (None, "blue"), ("green", None)]


@pytest.mark.parametrize(
    ("schema", "changes", "message"),
    [
        (f"{FEED.schema}, weight INT NOT NULL", {}, "cannot add NOT NULL column weight to bronze_things"),
        (FEED.schema.replace("id INT", "id STRING"), {}, "has id as int32, which does not fit into STRING"),
        (FEED.schema.replace("size INT", "size DATE"), {}, "has size as int32, which does not fit into DATE"),
        (FEED.schema, {"keys": ("id", "size")}, "loaded with the keys id, not id, size: .* declare those"),
        (FEED.schema, {"keys": ("size",)}, "loaded with the keys id, not size"),
    ],
)
def test_what_cannot_be_evolved_is_refused_before_any_table_changes(
    lake: Lake, schema: str, changes: dict[str, Any], message: str
) -> None:
    before = [lake.version(name) for name in (FEED.name, "bronze_things_log")]
    with pytest.raises(MedallionError, match=message):
        require_evolvable(lake, declared(schema, **changes))
    assert [lake.version(name) for name in (FEED.name, "bronze_things_log")] == before


def test_not_null_is_refused_where_a_row_has_no_value_and_taken_where_all_have(lake: Lake) -> None:
    step(lake, H1, FEED.schema, {"id": 2, "name": None, "colour": "blue", "size": 1})
    with pytest.raises(MedallionError, match="name of bronze_things cannot be NOT NULL: 1 rows have no value"):
        require_evolvable(lake, declared(FEED.schema.replace("name STRING", "name STRING NOT NULL")))
    require_evolvable(lake, declared(FEED.schema.replace("colour STRING", "colour STRING NOT NULL")))


def test_keys_of_a_table_that_was_loaded_before_they_were_recorded_are_those_with_statistics(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    properties = TABLE_PROPERTIES | {"delta.dataSkippingStatsColumns": "id,size"}
    DeltaTable.create(lake.path(FEED.name), arrow_schema(FEED.columns), configuration=properties)
    require_evolvable(lake, (FEED,))
    with pytest.raises(MedallionError, match="loaded with the keys id, not size"):
        require_evolvable(lake, declared(FEED.schema, keys=("size",)))
