"""A Delta table that somebody else writes, as a source: its commits are the changes of their hours."""

import json
import struct
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from zlib import crc32

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from medallion.errors import MedallionError, UsageError
from medallion.hours import parse_hour
from medallion.ingest.delta_source import commit_lines
from medallion.ingest.listing import change_files
from medallion.ingest.parts import Parts
from medallion.ingest.snapshot_source import describe_snapshot, open_snapshot
from medallion.ingest.source import FolderSource
from medallion.model.delivery import Delivery, Layout
from medallion.model.table import Feed
from medallion.project.manifest import read_manifest
from medallion.storage.lake import Lake
from tests.unit.small_lake import ARROW, H0, H1, H2, H3, ORDERS, TABLES, Shop, load, without_spark
from tests.unit.test_layouts import delivered, manifest

LAYOUT = Layout("tables/{feed}")


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    without_spark(monkeypatch)
    return load(tmp_path, delivered(TABLES, format="delta", layout=LAYOUT))


class Foreign:
    """The table of somebody else, whose commits are made at the hours that a test says."""

    def __init__(self, root: Path, topic: str = "orders", **properties: str) -> None:
        self.path = root / "source" / "tables" / topic
        self.path.mkdir(parents=True)
        configuration = {f"delta.{name}": value for name, value in properties.items()}
        write_deltalake(str(self.path), ARROW.empty_table(), configuration=configuration)
        self.date(H0, 0)

    def insert(self, hour: str, rows: dict[int, str | None]) -> None:
        columns = {"id": pa.array([*rows], pa.int64()), "name": pa.array([*rows.values()], pa.string())}
        self.commit(hour, lambda _: write_deltalake(str(self.path), pa.table(columns, ARROW), mode="append"))

    def delete(self, hour: str, predicate: str) -> None:
        self.commit(hour, lambda table: table.delete(predicate))

    def update(self, hour: str, predicate: str, name: str) -> None:
        self.commit(hour, lambda table: table.update(predicate=predicate, updates={"name": f"'{name}'"}))

    def commit(self, hour: str, work: Callable[[DeltaTable], Any]) -> None:
        work(DeltaTable(str(self.path)))
        self.date(hour, DeltaTable(str(self.path)).version())

    def vacuum(self, hour: str) -> None:
        """Remove every file that the newest version does not need."""
        before = DeltaTable(str(self.path)).version()
        DeltaTable(str(self.path)).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
        for version in range(before + 1, DeltaTable(str(self.path)).version() + 1):
            self.date(hour, version)

    def date(self, hour: str, version: int) -> None:
        """Have a commit be of an hour, by what it says of its time."""
        entry = self.entry(version)
        moment = int(parse_hour(hour).timestamp() * 1000) + 1000 * version
        actions = [json.loads(line) for line in entry.read_text().splitlines()]
        for action in actions:
            if "commitInfo" in action:
                action["commitInfo"]["timestamp"] = moment
        entry.write_text("".join(f"{json.dumps(action)}\n" for action in actions))

    def entry(self, version: int) -> Path:
        return self.path / "_delta_log" / f"{version:020}.json"


@pytest.mark.parametrize("properties", [{}, {"enableChangeDataFeed": "true"}])
def test_hours_follow_from_the_commits_by_their_times(shop: Shop, properties: dict[str, str]) -> None:
    table = Foreign(shop.root, **properties)
    table.insert(H0, {1: "a", 2: "b", 3: "c"})
    table.update(H0, "id = 2", "later")
    table.delete(H1, "id = 1")
    table.insert(H1, {1: "again", 4: None})
    table.update(H2, "id = 3", "z")
    shop.refresh(H0)
    assert shop.published() == {1: "a", 2: "later", 3: "c"}
    shop.refresh(H1)
    assert shop.published() == {1: "again", 2: "later", 3: "c", 4: None}
    shop.refresh(H2)
    assert shop.published() == {1: "again", 2: "later", 3: "z", 4: None}
    shop.restate(H1)
    assert shop.published() == {1: "again", 2: "later", 3: "z", 4: None}


def test_update_is_the_rows_that_changed_and_not_their_whole_file(shop: Shop) -> None:
    table = Foreign(shop.root)
    table.insert(H0, dict.fromkeys(range(100), "x"))
    table.update(H1, "id = 7", "y")
    source = FolderSource(str(shop.root / "source"))
    lines = [json.loads(line) for line in commit_lines(source, f"tables/orders/_delta_log/{2:020}.json")]
    assert lines == [{"delete": {"id": 7, "name": "x"}}, {"insert": {"id": 7, "name": "y"}}]


def test_table_that_was_optimized_has_no_changes_by_that(shop: Shop) -> None:
    table = Foreign(shop.root)
    for number in range(3):
        table.insert(H0, {number: "x"})
    table.commit(H1, lambda foreign: foreign.optimize.compact())
    table.insert(H2, {7: "y"})
    listing = change_files(FolderSource(str(shop.root / "source")), [shop.tables["bronze_orders"]])  # type: ignore[list-item]
    assert [*listing.hours] == [H0, H2]
    shop.refresh(H0)
    shop.refresh(H2)
    assert shop.published() == {0: "x", 1: "x", 2: "x", 7: "y"}


def test_commit_is_no_earlier_than_the_one_before_it(shop: Shop) -> None:
    table = Foreign(shop.root)
    table.insert(H1, {1: "a"})
    table.insert(H0, {1: "b"})
    listing = change_files(FolderSource(str(shop.root / "source")), [shop.tables["bronze_orders"]])  # type: ignore[list-item]
    assert {hour: len(topics["orders"]) for hour, topics in listing.hours.items()} == {H1: 2}


def test_commits_up_to_the_version_of_the_snapshot_are_no_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_spark(monkeypatch)
    shop = load(tmp_path, delivered(TABLES, format="delta", layout=LAYOUT, version=2))
    table = Foreign(shop.root)
    table.insert(H0, {1: "a"})
    table.insert(H0, {2: "b"})
    table.insert(H1, {3: "c"})
    feed = next(feed for feed in shop.tables.feeds if feed.topic == "orders")
    source = FolderSource(str(shop.root / "source"))
    assert [*change_files(source, [feed]).hours] == [H1]
    snapshot = open_snapshot(source, feed, Lake(str(tmp_path / "other")))
    assert (snapshot.rows, describe_snapshot(source, feed)) == (2, "version 2 of a Delta table of 2 rows")


def test_file_that_was_vacuumed_is_an_error_that_says_how_to_go_on(shop: Shop) -> None:
    table = Foreign(shop.root)
    table.insert(H0, {1: "a"})
    table.delete(H1, "id = 1")
    shop.refresh(H0)
    for file in table.path.glob("*.parquet"):
        file.unlink()
    with pytest.raises(
        MedallionError, match="version 2 of .*/tables/orders needs a file that cannot be had"
    ) as refused:
        shop.refresh(H1)
    assert "one can go on from version 2, the table's newest: set version = 2 in" in str(refused.value)
    assert shop.rows() == {1: "a"}, "nothing is half-applied"
    shop.restate(H0)
    assert shop.rows() == {1: "a"}, "what landed is enough to restate"


def test_commit_that_is_gone_before_it_landed_is_an_error_with_the_version_to_go_on_from(shop: Shop) -> None:
    table = Foreign(shop.root)
    table.insert(H0, {1: "a"})
    table.insert(H1, {2: "b"})
    table.insert(H2, {3: "c"})
    table.insert(H2, {4: "d"})
    shop.refresh(H0)
    for version in (0, 1):
        table.entry(version).unlink()  # landed already: nobody needs them
    shop.refresh(H1)
    for version in (2, 3):
        table.entry(version).unlink()
    with pytest.raises(MedallionError, match="commit of version 3 of orders is gone.*one can go on from version 4"):
        shop.refresh(H2)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (
            lambda action: action["add"].update(deletionVector={"storageType": "u"}),
            "has deletion vectors: set delta.enable",
        ),
        (lambda action: action["add"].update(path="../../secret"), "has a file outside of the table"),
    ],
)
def test_what_only_an_engine_can_read_refuses_the_hour(
    shop: Shop, spoil: Callable[[dict[str, Any]], None], said: str
) -> None:
    table = Foreign(shop.root)
    table.insert(H0, {1: "a"})
    actions = [json.loads(line) for line in table.entry(1).read_text().splitlines()]
    for action in actions:
        if "add" in action:
            spoil(action)
    table.entry(1).write_text("".join(f"{json.dumps(action)}\n" for action in actions))
    with pytest.raises(MedallionError, match=said) as refused:
        shop.refresh(H0)
    assert "one can go on from version 1" in str(refused.value) or "outside" in said
    assert shop.applied is None


def set_property(table: Foreign, version: int, name: str, value: str) -> None:
    """Have the table's metadata, written anew in an entry, say this."""
    (created,) = [a for line in table.entry(0).read_text().splitlines() if "metaData" in (a := json.loads(line))]
    created["metaData"]["configuration"] |= {f"delta.{name}": value}
    entry = table.entry(version)
    others = [line for line in entry.read_text().splitlines() if "metaData" not in json.loads(line)]
    entry.write_text("".join(f"{line}\n" for line in [*others, json.dumps(created)]))


@pytest.mark.parametrize("version", [0, 2])
def test_column_mapping_refuses_every_hour_since_it_was_switched_on(shop: Shop, version: int) -> None:
    table = Foreign(shop.root)
    table.insert(H0, {1: "a"})
    table.insert(H0, {2: "b"})
    table.insert(H1, {3: "c"})
    set_property(table, version, "columnMapping.mode", "name")
    with pytest.raises(MedallionError, match=f"version {max(1, version)} of .* has column mapping by name, which is"):
        shop.refresh(H0)
    assert shop.applied is None


def test_column_mapping_that_a_checkpoint_alone_tells_refuses_the_hour(shop: Shop) -> None:
    table = Foreign(shop.root, **{"columnMapping.mode": "none"})
    set_property(table, 0, "columnMapping.mode", "id")
    table.insert(H0, {1: "a"})
    DeltaTable(str(table.path)).create_checkpoint()
    table.entry(0).unlink()
    source = FolderSource(str(shop.root / "source"))
    with pytest.raises(MedallionError, match="version 1 of .* has column mapping by id"):
        [*commit_lines(source, f"tables/orders/_delta_log/{1:020}.json")]


def test_deletion_vectors_of_a_table_with_a_change_feed_are_refused_with_what_to_switch_off(shop: Shop) -> None:
    table = Foreign(shop.root, enableChangeDataFeed="true")
    table.insert(H0, {1: "a"})
    actions = [json.loads(line) for line in table.entry(1).read_text().splitlines()]
    for action in (action["add"] for action in actions if "add" in action):
        action["deletionVector"] = {"storageType": "u"}
    table.entry(1).write_text("".join(f"{json.dumps(action)}\n" for action in actions))
    with pytest.raises(
        MedallionError, match="has deletion vectors: turn delta.enableDeletionVectors off; one can go on"
    ):
        shop.refresh(H0)


def delete_by_vector(table: Foreign, row: int) -> None:
    """Delete one row of the table's only file, by its number there, as engines do with a deletion vector."""
    bitmap = struct.pack("<QIIIHHIH", 1, 0, 12346, 1, 0, 0, 16, row)  # a 64-bit Roaring bitmap of one value
    vector = struct.pack("<i", 1681511377) + bitmap
    file = table.path / "deletion_vector.bin"
    file.write_bytes(b"\x01" + struct.pack(">i", len(vector)) + vector + struct.pack(">I", crc32(vector)))
    (add,) = (a["add"] for line in table.entry(1).read_text().splitlines() if "add" in (a := json.loads(line)))
    place = {"storageType": "p", "pathOrInlineDv": file.as_uri(), "offset": 1, "sizeInBytes": len(vector)}
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    actions = [
        {"commitInfo": {"timestamp": 0}},
        {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7} | features},
        {"remove": {"path": add["path"], "deletionTimestamp": 0, "dataChange": True}},
        {"add": add | {"deletionVector": place | {"cardinality": 1}}},
    ]
    table.entry(2).write_text("".join(f"{json.dumps(action)}\n" for action in actions))


def test_version_with_deletion_vectors_is_the_snapshot_without_the_rows_that_they_delete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_spark(monkeypatch)
    shop = load(tmp_path, delivered(TABLES, format="delta", layout=LAYOUT, version=2))
    table = Foreign(shop.root)
    table.insert(H0, {1: "a", 2: "b", 3: "c"})
    delete_by_vector(table, 1)
    source, lake = FolderSource(str(shop.root / "source")), Lake(str(tmp_path / "other"))
    snapshot = open_snapshot(source, shop.tables["bronze_orders"], lake)  # type: ignore[arg-type]
    rows = lake.opened(str(snapshot.folder)).to_pyarrow_table().to_pylist()
    assert sorted(row["id"] for row in rows) == [1, 3]


def test_table_that_was_optimized_and_vacuumed_before_its_hour_landed_is_refused(shop: Shop) -> None:
    table = Foreign(shop.root)
    table.insert(H0, {1: "a"})
    table.update(H1, "id = 1", "b")
    table.insert(H1, {2: "c"})
    table.commit(H2, lambda foreign: foreign.optimize.compact())
    table.vacuum(H2)
    with pytest.raises(MedallionError, match="version 1 of .* needs a file that cannot be had.*from version 6"):
        shop.refresh(H0)
    assert shop.applied is None


def test_table_that_is_vacuumed_once_its_hours_landed_goes_on(shop: Shop) -> None:
    table = Foreign(shop.root)
    table.insert(H0, {1: "a", 2: "b"})
    table.update(H1, "id = 1", "later")
    shop.refresh(H0)
    shop.refresh(H1)
    table.commit(H1, lambda foreign: foreign.optimize.compact())
    table.vacuum(H1)
    table.delete(H2, "id = 2")
    shop.refresh(H2)
    assert shop.published() == {1: "later"}
    shop.restate(H0)
    assert shop.published() == {1: "later"}


def test_table_that_is_restored_or_overwritten_changes_by_the_rows_that_differ(shop: Shop) -> None:
    table = Foreign(shop.root)
    table.insert(H0, {1: "a", 2: "b"})
    table.update(H1, "id = 1", "later")
    table.commit(H2, lambda foreign: foreign.restore(1))
    overwritten = pa.table({"id": [2, 3], "name": ["b", "c"]}, ARROW)
    table.commit(H3, lambda _: write_deltalake(str(table.path), overwritten, mode="overwrite"))
    seen = []
    for hour in (H0, H1, H2, H3):
        shop.refresh(hour)
        seen.append(shop.published())
    assert seen == [{1: "a", 2: "b"}, {1: "later", 2: "b"}, {1: "a", 2: "b"}, {2: "b", 3: "c"}]


def test_column_that_the_table_gains_is_null_before_and_read_since(shop: Shop) -> None:
    table = Foreign(shop.root)
    table.insert(H0, {1: "a"})
    wider = pa.table({"id": pa.array([2], pa.int64()), "name": ["b"], "colour": ["red"]})
    table.commit(H1, lambda _: write_deltalake(str(table.path), wider, mode="append", schema_mode="merge"))
    shop.refresh(H0)
    said: list[str] = []
    shop.refresh(H1, said)
    assert any("orders has a column colour (in lines: 1), which is not loaded" in line for line in said)
    assert shop.published() == {1: "a", 2: "b"}


def test_entry_that_is_none_is_named(shop: Shop) -> None:
    table = Foreign(shop.root)
    table.entry(1).write_text("{")
    with pytest.raises(MedallionError, match=r"00000000000000000001\.json is no entry of a Delta log"):
        shop.refresh(H0)


def test_values_of_each_type_and_partitions_lose_nothing(tmp_path: Path) -> None:
    moment = datetime(2025, 11, 29, 1, 2, 3, 456789, tzinfo=UTC)
    row = {"id": 1, "part": 7, "price": Decimal("12.50"), "rate": 0.1, "at": moment, "day": date(2025, 11, 29)}
    row |= {"raw": b"\x01\xff", "ok": True, "tags": [Decimal("1.5")], "sizes": [("a", 1), ("b", None)]}
    schema = pa.schema(
        {
            "id": pa.int64(),
            "part": pa.int32(),
            "price": pa.decimal128(12, 2),
            "rate": pa.float64(),
            "at": pa.timestamp("us", "UTC"),
            "day": pa.date32(),
            "raw": pa.binary(),
            "ok": pa.bool_(),
            "tags": pa.list_(pa.decimal128(4, 1)),
            "sizes": pa.map_(pa.string(), pa.int32()),
        }
    )
    path = tmp_path / "source" / "tables" / "things"
    path.mkdir(parents=True)
    write_deltalake(str(path), schema.empty_table(), partition_by=["part"])
    write_deltalake(str(path), pa.Table.from_pylist([row], schema), mode="append")
    feed = Feed(
        name="bronze_things",
        keys=("id",),
        schema="""
            id BIGINT NOT NULL, part INT, price DECIMAL(12,2), rate DOUBLE, at TIMESTAMP, day DATE, raw BINARY,
            ok BOOLEAN, tags ARRAY<DECIMAL(4,1)>, sizes MAP<STRING, INT>
        """,
        delivery=Delivery(format="delta", layout=LAYOUT),
    )
    import pyarrow.parquet as pq

    from medallion.ingest.decode import decode_file
    from medallion.ingest.put_together import land_files

    source = FolderSource(str(tmp_path / "source"))
    landed = land_files(source, [f"tables/things/_delta_log/{1:020}.json"], tmp_path / "landed.json")
    result = decode_file(tmp_path / "landed.json", feed, H0, tmp_path / "decoded.parquet", None, Parts(landed.parts))
    assert result.rejected == []
    (change,) = pq.read_table(tmp_path / "decoded.parquet").to_pylist()
    assert {name: value for name, value in change.items() if not name.startswith("_")} == row


def test_layout_of_a_table_has_no_hour(tmp_path: Path) -> None:
    read = read_manifest(manifest(tmp_path, 'format = "delta"\nlayout = "tables/{feed}"\nversion = 41'))
    assert (read.deliveries.every.format, read.deliveries.every.version) == ("delta", 41)
    with pytest.raises(UsageError, match="has an hour, and a Delta table's hours are its commits"):
        read_manifest(manifest(tmp_path, 'format = "delta"'))
    with pytest.raises(UsageError, match="it is the number of a version"):
        read_manifest(manifest(tmp_path, 'format = "delta"\nlayout = "tables/{feed}"\nversion = "new"'))
    assert ORDERS.delivery.version == 0
