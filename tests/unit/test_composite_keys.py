"""A feed is keyed by one column or several, of any type: after each hour Bronze is what a plain model says."""

import json
import random
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from medallion.errors import MedallionError
from medallion.hours import format_hour, parse_hour
from medallion.ingest import apply, change_log, landing, ledger
from medallion.ingest.schema_evolution import arrow_schema
from medallion.ingest.source import digest
from medallion.model.dimension import dimension
from medallion.model.table import ChangeLog, Feed, Table
from medallion.spark.configuration import TABLE_PROPERTIES
from medallion.storage import delta_writes
from medallion.storage.lake import Lake
from tests.shop import build

H0 = parse_hour("2025-11-30T00")
Keys = dict[str, Callable[[random.Random], Any]]

SOME_KEYS: dict[str, tuple[str, Keys]] = {
    "one number": ("a BIGINT NOT NULL", {"a": lambda c: c.randrange(60)}),
    "two numbers": (
        "a BIGINT NOT NULL, b INT NOT NULL",
        {"a": lambda c: c.randrange(8), "b": lambda c: c.randrange(8)},
    ),
    "number and text": (
        "a BIGINT NOT NULL, b STRING NOT NULL",
        {"a": lambda c: c.randrange(8), "b": lambda c: c.choice(["", "it's", "é", "b", "x" * 40, "%", "1"])},
    ),
    "number, text and date": (
        "a BIGINT NOT NULL, b STRING NOT NULL, d DATE NOT NULL",
        {
            "a": lambda c: c.randrange(4),
            "b": lambda c: c.choice(["x", "y"]),
            "d": lambda c: str(date(2025, 1, 1) + timedelta(c.randrange(9))),
        },
    ),
    "one date": ("d DATE NOT NULL", {"d": lambda c: str(date(2025, 1, 1) + timedelta(c.randrange(60)))}),
    "timestamp and truth": (
        "t TIMESTAMP NOT NULL, f BOOLEAN NOT NULL",
        {"t": lambda c: f"2025-01-01T00:00:{c.randrange(30):02}.5Z", "f": lambda c: c.random() < 0.5},
    ),
    "one decimal": ("m DECIMAL(9,2) NOT NULL", {"m": lambda c: f"{c.randrange(60)}.50"}),
}


def things(schema: str, keys: Keys) -> Feed:
    return Feed(
        keys=tuple(keys),
        schema=f"{schema}, name STRING, price DECIMAL(9,2), at TIMESTAMP",
        name="bronze_things",
        doc="One row per key.",
    )


def land(lake: Lake, hour: str, lines: list[dict[str, Any]]) -> None:
    file = lake.landing / "things" / f"{hour}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    ledger.write_manifest(lake, ledger.Manifest(hour, "/source", {"things": digest(file.open("rb"))}))


def rows_of(lake: Lake, name: str, columns: list[str]) -> list[str]:
    rows = lake.opened(lake.path(name)).to_pyarrow_table().select(columns)
    return sorted(map(str, rows.to_pylist()))


@pytest.mark.parametrize("most_named", [delta_writes.MAX_LISTED_KEYS, 0], ids=["by a condition", "by a merge"])
@pytest.mark.parametrize("case", SOME_KEYS)
def test_bronze_is_what_a_plain_model_says_for_random_histories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str, most_named: int
) -> None:
    monkeypatch.setattr(delta_writes, "MAX_LISTED_KEYS", most_named)
    chance, lake, (schema, keys) = random.Random(case), Lake(str(tmp_path / "lake")), SOME_KEYS[case]
    feed, model = things(schema, keys), dict[tuple[Any, ...], dict[str, Any]]()
    DeltaTable.create(lake.path(feed.name), arrow_schema(feed.columns), configuration=TABLE_PROPERTIES)
    for number in range(6):
        hour = format_hour(H0 + timedelta(hours=number))
        lines, before = [], dict(model)
        for _ in range(chance.randrange(80)):
            key = {name: make(chance) for name, make in keys.items()}
            if chance.random() < 0.3:
                lines.append({"delete": key})
                model.pop(tuple(key.values()), None)
                continue
            more = {"name": chance.choice(["a", None]), "price": chance.choice(["1.50", None]), "at": None}
            lines.append({"insert": key | more})
            model[tuple(key.values())] = key | more
        land(lake, hour, lines)
        decoded = landing.decode_hour(lake, (feed,), hour, 0)
        done = apply.apply_feed(lambda: pytest.fail("needs no Spark"), lake, feed, hour, decoded[feed.name])
        assert done is not None
        assert done.inserted == len(model.keys() - before.keys())
        assert done.deleted == len(before.keys() - model.keys())
        assert done.updated == sum(model[key] != before[key] for key in model.keys() & before.keys())
        expected = landed_types(feed, list(model.values()), tmp_path)
        assert rows_of(lake, feed.name, [c.name for c in feed.columns]) == expected
        assert apply.apply_feed(lambda: pytest.fail("no"), lake, feed, hour, decoded[feed.name]) is None
    assert followed(lake, feed) == expected


def landed_types(feed: Feed, rows: list[dict[str, Any]], folder: Path) -> list[str]:
    """Rows as the table has them, by decoding them."""
    import pyarrow.parquet as pq

    from medallion.ingest.decode import decode_file

    path = folder / "model.json"
    path.write_text("".join(json.dumps({"insert": row}) + "\n" for row in rows))
    decode_file(path, feed, "2025-11-30T00", folder / "model.parquet")
    return sorted(map(str, pq.read_table(folder / "model.parquet").drop_columns(["_line", "_deleted"]).to_pylist()))


def followed(lake: Lake, feed: Feed) -> list[str]:
    """The rows that a reader of the change feed has, who has seen every commit since the first."""
    names, kept = [c.name for c in feed.columns], dict[str, int]()
    changes = pa.table(lake.opened(lake.path(feed.name)).load_cdf(starting_version=1).read_all())
    for row in changes.to_pylist():
        by = {"insert": 1, "update_postimage": 1, "delete": -1, "update_preimage": -1}[row["_change_type"]]
        image = str({name: row[name] for name in names})
        kept[image] = kept.get(image, 0) + by
    assert set(kept.values()) <= {0, 1}
    return sorted(image for image, count in kept.items() if count)


def test_a_log_of_a_feed_with_two_keys_has_every_line(tmp_path: Path) -> None:
    lake, (schema, keys) = Lake(str(tmp_path / "lake")), SOME_KEYS["number and text"]
    feed = things(schema, keys)
    log = build([feed, ChangeLog(of=feed.name, source_system="shop", name="bronze_things_log", doc="A log.")]).logs[0]
    row = {"a": 1, "b": "x", "name": "n", "price": None, "at": None}
    write_deltalake(lake.path(feed.name), pa.Table.from_pylist([row], arrow_schema(feed.columns)))
    change_log.begin_log(lake, log)
    land(lake, "2025-11-30T00", [{"delete": {"a": 1, "b": "x"}}, {"insert": row | {"b": "y"}}])
    decoded = landing.decode_hour(lake, (feed,), "2025-11-30T00", 0)
    change_log.append_lines(lake, log, "2025-11-30T00", decoded[feed.name])
    assert rows_of(lake, log.name, ["a", "b", "_deleted"]) == [
        "{'a': 1, 'b': 'x', '_deleted': False}",
        "{'a': 1, 'b': 'x', '_deleted': True}",
        "{'a': 1, 'b': 'y', '_deleted': False}",
    ]


def test_a_dimension_may_have_two_keys() -> None:
    table = dimension("bronze_things_log", key=("a", "b"), sequence_by="at", scd_type=2, columns=("name",))
    assert table.keys == ("a", "b", "__START_AT")
    assert "PARTITION BY a, b, _hour" in table.query


def test_an_unknown_policy_and_a_nullable_key_are_refused_in_words() -> None:
    feed = things(*SOME_KEYS["two numbers"])
    often = Table(("a", "b"), "SELECT a, b FROM {bronze_things}", refresh="often", name="silver_things", doc="One.")
    with pytest.raises(MedallionError, match=r"declares refresh='often': it is one of 'auto', 'incremental', "):
        build([feed, often])
    with pytest.raises(MedallionError, match="declares its key b as nullable: write NOT NULL"):
        build([things("a BIGINT NOT NULL, b INT", {"a": lambda _: 1, "b": lambda _: 1})])
