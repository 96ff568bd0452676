"""Merge on read: rows that are marked as deleted are gone for every reader, and files stay as they are."""

import json
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake

from medallion.errors import MedallionError
from medallion.pipeline.maintain import Retention, maintain_table
from medallion.settings import Settings
from medallion.storage import files, log_writer, merge_on_read
from medallion.storage.added_files import lost_file
from medallion.storage.change_feed import actions_of, changes
from medallion.storage.deletion_vectors import deleted_positions, encode_file, from_z85, vector_file, z85
from medallion.storage.delta_writes import (
    bytes_written,
    properties,
    replace_keys,
    replace_rows,
    rows_having,
    rows_with_keys,
)
from medallion.storage.duckdb_views import TableAt, open_sealed_views, open_views, write_views
from medallion.storage.foreign_commits import provenance
from medallion.storage.lake import Lake, is_complete, state_of
from medallion.storage.live_rows import read_live_rows
from medallion.storage.merge_on_read import FileLayout
from medallion.storage.row_difference import replace_differing
from medallion.storage.s3 import AWS, S3Path
from tests.unit import small_lake
from tests.unit.small_lake import H0, H1, H2, H3, lines_of

SCHEMA = pa.schema([("k", pa.int64()), ("t", pa.string())])
OURS = json.dumps({"hour": "2025-11-30T00", "query": "q"})
Rows = dict[int, str]


def arrow(rows: Rows) -> pa.Table:
    return pa.table({"k": [*rows], "t": [*rows.values()]}, schema=SCHEMA)


def make(folder: Path, parts: int = 4, rows: int = 100) -> Rows:
    """A table of a few files, each with a range of keys; its rows."""
    configuration = {"delta.enableChangeDataFeed": "true", "delta.enableDeletionVectors": "false"}
    made = {key: f"a{key}" for key in range(parts * rows)}
    delta = None
    for start in range(0, parts * rows, rows):
        part = arrow({key: made[key] for key in range(start, start + rows)})
        commit = properties(OURS, upon=delta)
        target = delta or str(folder)
        write_deltalake(target, part, mode="append", configuration=configuration, commit_properties=commit)
        delta = DeltaTable(str(folder))
    return made


def by_delta_rs(folder: Path, version: int | None = None) -> Rows:
    delta = DeltaTable(str(folder), version=version)
    return as_dict(pa.table(QueryBuilder().register("t", delta).execute("SELECT k, t FROM t").read_all()))


def by_views(folder: Path) -> Rows:
    with open_views({"t": TableAt(folder)}) as views:
        assert not views.errors
        rows = views.connection.execute("SELECT k, t FROM t").to_arrow_table()
        assert views.rows["t"] == len(rows)
    return as_dict(rows)


def as_dict(rows: pa.Table) -> Rows:
    found = dict(zip(rows["k"].to_pylist(), rows["t"].to_pylist(), strict=True))
    assert len(found) == len(rows), "each key once"
    return found


def replace(folder: Path, new: Rows, gone: list[int], ledger: tuple[str, int] | None = None) -> DeltaTable:
    delta = DeltaTable(str(folder))
    commit = properties(OURS, ledger, upon=delta)
    replace_rows(delta, arrow(new), "k", sorted({*new, *gone}), commit, FileLayout(folder, 1 << 20, 1))
    return delta


def is_marked(folder: Path, version: int) -> bool:
    return any(file.get("deletionVector") for kind, file in actions_of(folder, version) if kind == "add")


@pytest.mark.parametrize("count", [1, 2, 4096, 4097, 60_000, 65_536])
@pytest.mark.parametrize("start", [0, 65_530, 200_000])
def test_vector_marks_the_rows_that_delta_rs_reads_as_deleted(tmp_path: Path, count: int, start: int) -> None:
    chosen = np.sort(np.random.default_rng(count).choice(100_000, count, replace=False)) + start
    rows = pa.table({"k": pa.array(range(300_000), pa.int64()), "t": pa.nulls(300_000, pa.string())})
    write_deltalake(str(tmp_path), rows.cast(SCHEMA))
    delta = DeltaTable(str(tmp_path))
    keys = pa.table({"k": pa.array(chosen, pa.int64())})
    merge_on_read.replace_marking(delta, FileLayout(tmp_path, 1, 1), SCHEMA.empty_table(), keys, properties())
    assert is_marked(tmp_path, 1)
    left = np.setdiff1d(np.arange(300_000), chosen)
    read = pa.table(QueryBuilder().register("t", delta).execute("SELECT k FROM t").read_all())["k"]
    assert np.array_equal(np.sort(read.to_numpy()), left)
    assert np.array_equal(np.sort(read_live_rows(delta, tmp_path, ["k"])["k"].to_numpy()), left)


def test_descriptor_names_its_file_when_there_are_several_vectors() -> None:
    name, content, descriptors = encode_file({"a": np.array([1]), "b": np.arange(9)})
    assert {vector_file(descriptor) for descriptor in descriptors.values()} == {name}
    assert descriptors["b"]["offset"] == 1 + 4 + descriptors["a"]["sizeInBytes"] + 4
    assert content[0] == 1
    assert descriptors["b"]["cardinality"] == 9
    assert vector_file({"storageType": "i", "pathOrInlineDv": "x"}) is None
    assert z85(bytes.fromhex("864FD26FB559F75B")) == "HelloWorld", "as ZeroMQ's own example has it"
    assert from_z85("HelloWorld") == bytes.fromhex("864FD26FB559F75B")


def test_rows_are_replaced_without_writing_files_anew_when_they_are_scattered(tmp_path: Path) -> None:
    wanted = make(tmp_path)
    before = {*state_of(DeltaTable(str(tmp_path))).actions["path"]}
    for number in range(3):
        new = dict.fromkeys((1 + number, 150, 399, 1000 + number), f"b{number}")
        delta = replace(tmp_path, new, [250 + number], ("hours", number))
        wanted = {key: text for key, text in (wanted | new).items() if key != 250 + number}
        assert by_delta_rs(tmp_path) == by_views(tmp_path) == wanted
        assert state_of(delta).rows == len(wanted)
        assert before <= {*state_of(delta).actions["path"]}
        assert delta.transaction_version("hours") == number
        change = changes(tmp_path, delta.version() - 1, delta.version())
        assert not change.unknown
        feed = pq.read_table(tmp_path / change.files[0][2]).to_pylist()
        assert {row["k"] for row in feed if row["_change_type"] == "insert"} == {*new}
        assert bytes_written(tmp_path, delta.version()) < sum(state_of(delta).actions["size_bytes"])
        found = provenance(tmp_path, delta.version())
        assert (found.version, found.changes) == (delta.version(), ()), "a commit of ours"
    keys = pa.table({"k": [1, 2, 250, 399]})
    assert sorted(rows_with_keys(delta, tmp_path, keys, ["k"])["k"].to_pylist()) == [1, 2, 399]
    assert sorted(rows_having(delta, tmp_path, "k", [1, 2, 250, 399])["t"].to_pylist()) == ["b0", "b1", "b2"]


def test_file_goes_when_its_last_row_is_deleted(tmp_path: Path) -> None:
    wanted = make(tmp_path, parts=10, rows=10)
    for gone in ([*range(5), *range(5, 100, 10)], [*range(6, 10), *range(16, 100, 10)]):
        delta = replace(tmp_path, {}, gone)
        assert is_marked(tmp_path, delta.version())
        wanted = {key: text for key, text in wanted.items() if key not in gone}
        assert by_delta_rs(tmp_path) == by_views(tmp_path) == wanted
    assert state_of(delta).files == 9


@pytest.mark.parametrize(
    "table",
    [
        {"marks_from": None},
        {"marks_from": 1 << 40},
        {"share": 0.9},
        {"configuration": {"delta.constraints.positive": "k >= 0"}},
    ],
)
def test_files_are_written_anew_where_marking_does_not_pay_or_is_not_known(
    tmp_path: Path, table: dict[str, Any]
) -> None:
    wanted = make(tmp_path)
    delta = DeltaTable(str(tmp_path))
    if "configuration" in table:
        delta.alter.add_constraint({"positive": "k >= 0"})
    gone = [*range(int(400 * table.get("share", 0.01)))]
    layout = FileLayout(tmp_path, 1 << 20, table.get("marks_from", 1))
    replace_rows(delta, arrow({}), "k", gone, properties(upon=delta), layout)
    assert not is_marked(tmp_path, delta.version())
    assert by_views(tmp_path) == {key: text for key, text in wanted.items() if key not in gone}


def test_rows_with_a_null_key_are_replaced_when_null_is_among_the_values(tmp_path: Path) -> None:
    rows = pa.table({"k": [*range(99), None], "t": ["a"] * 100}, schema=SCHEMA)
    write_deltalake(str(tmp_path), rows)
    delta = DeltaTable(str(tmp_path))
    new = pa.table({"k": [7, None], "t": ["b", "c"]}, schema=SCHEMA)
    replace_rows(delta, new, "k", [7, None], properties(), FileLayout(tmp_path, 1 << 20, 1))
    assert is_marked(tmp_path, 1)
    assert by_views(tmp_path) == {**dict.fromkeys(range(99), "a"), 7: "b", None: "c"}


def test_a_recomputed_table_is_compared_with_the_rows_that_are_left(tmp_path: Path) -> None:
    wanted = make(tmp_path)
    replace(tmp_path, {5: "new"}, [6])
    wanted = {key: text for key, text in wanted.items() if key != 6} | {5: "newer", 500: "x"}
    delta = DeltaTable(str(tmp_path))
    replace_differing(delta, arrow(wanted), ("k",), OURS, FileLayout(tmp_path, 1 << 20, 1))
    assert by_views(tmp_path) == by_delta_rs(tmp_path) == wanted
    (version, kind, file), *more = changes(tmp_path, delta.version() - 1, delta.version()).files
    assert (version, kind, more) == (delta.version(), "cdc", [])
    assert pq.read_table(tmp_path / file).num_rows == 3, "5 as it was and is, and 500"


STEPS: dict[str, Callable[[Path], tuple[Any, str]]] = {
    "vectors": lambda _: (merge_on_read, "write_new"),
    "data": lambda _: (merge_on_read, "write_data_file"),
    "feed": lambda _: (merge_on_read, "write_change_file"),
    "entry": lambda _: (log_writer, "create_whole"),
    "link": lambda _: (files.os, "link"),
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("before", [0, 1])
def test_nothing_has_changed_and_a_second_attempt_succeeds_when_a_step_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, before: int
) -> None:
    wanted = make(tmp_path)
    if before:
        replace(tmp_path, {}, [399])
        del wanted[399]
    version = DeltaTable(str(tmp_path)).version()

    def fail(*_: Any, **__: Any) -> None:
        raise OSError(28, "no space left")

    with monkeypatch.context() as patched:
        patched.setattr(*STEPS[step](tmp_path), fail)
        with pytest.raises(OSError, match="no space left"):
            replace(tmp_path, {5: "new"}, [150])
    assert DeltaTable(str(tmp_path)).version() == version
    assert by_views(tmp_path) == by_delta_rs(tmp_path) == wanted
    assert not [*(tmp_path / "_delta_log").glob(".*.tmp")]
    replace(tmp_path, {5: "new"}, [150])
    del wanted[150]
    assert by_views(tmp_path) == by_delta_rs(tmp_path) == wanted | {5: "new"}
    gone = maintain_table(Lake(str(tmp_path.parent)), str(tmp_path), (), Retention(hours=0))["removed"]
    assert gone or step == "vectors", "what the failed attempt left"
    assert by_views(tmp_path) == wanted | {5: "new"}


def test_commit_is_refused_when_another_writer_was_faster(tmp_path: Path) -> None:
    wanted = make(tmp_path)
    delta = DeltaTable(str(tmp_path))
    write_deltalake(str(tmp_path), arrow({900: "theirs"}), mode="append")
    with pytest.raises(MedallionError, match="another writer has committed version 4 of .*run this again"):
        replace_rows(delta, arrow({5: "n"}), "k", [5], properties(upon=delta), FileLayout(tmp_path, 1 << 20, 1))
    assert by_views(tmp_path) == wanted | {900: "theirs"}


def test_readers_of_a_release_have_the_rows_of_its_version(tmp_path: Path) -> None:
    folder, lake = tmp_path / "silver" / "orders", Lake(str(tmp_path))
    wanted = make(folder)
    first = replace(folder, {5: "new"}, [150])
    wanted = {key: text for key, text in wanted.items() if key != 150} | {5: "new"}
    replace(folder, {6: "newer"}, [151])
    named = DeltaTable(str(folder), version=first.version())
    with open_sealed_views(lake, {"silver_orders": named}) as connection:
        assert as_dict(connection.execute("SELECT * FROM silver_orders").to_arrow_table()) == wanted
        assert connection.execute("SHOW TABLES").fetchall() == [("silver_orders",)]
    import duckdb

    write_views(tmp_path / "views.duckdb", lake, {"silver_orders": named}, {"release_id": "1"}, {})
    with duckdb.connect(str(tmp_path / "views.duckdb"), read_only=True) as connection:
        assert as_dict(connection.execute("SELECT * FROM silver_orders").to_arrow_table()) == wanted


def test_upkeep_keeps_the_vectors_that_kept_versions_are_read_from_and_removes_the_others(tmp_path: Path) -> None:
    make(tmp_path)
    lake, rows = Lake(str(tmp_path.parent)), dict[int, Rows]()
    for number in range(4):
        delta = replace(tmp_path, {number: "new"}, [150 + number, 250 + number])
        rows[delta.version()] = by_views(tmp_path)
    named, newest = delta.version() - 1, delta.version()
    maintain_table(lake, str(tmp_path), {named}, Retention(hours=0))
    assert by_views(tmp_path) == by_delta_rs(tmp_path) == rows[newest]
    assert by_delta_rs(tmp_path, named) == rows[named]
    maintain_table(lake, str(tmp_path), (), Retention(hours=0))
    assert by_views(tmp_path) == rows[newest]
    assert len([*tmp_path.glob("*.bin")]) == 1, "that of the newest version"
    assert is_complete(DeltaTable(str(tmp_path)), AWS)
    next(iter(tmp_path.glob("*.bin"))).unlink()
    assert not is_complete(DeltaTable(str(tmp_path)), AWS)


def test_upkeep_writes_files_with_many_deleted_rows_anew_and_changes_no_row(tmp_path: Path) -> None:
    make(tmp_path)
    for number in range(4):
        delta = replace(tmp_path, {}, [*range(number * 5, number * 5 + 5), 150 + number])
    wanted, version = by_views(tmp_path), delta.version()
    done = maintain_table(Lake(str(tmp_path.parent)), str(tmp_path), (), Retention(hours=24))
    assert done["merged"] == 1, "the file of the first hundred keys, of which a fifth is gone"
    delta = DeltaTable(str(tmp_path))
    assert by_views(tmp_path) == by_delta_rs(tmp_path) == wanted
    assert not changes(tmp_path, version, delta.version()), "no row has changed"
    assert by_delta_rs(tmp_path, version) == wanted
    assert provenance(tmp_path, delta.version()).changes == ()


def test_a_table_goes_on_when_its_log_is_read_from_a_checkpoint(tmp_path: Path) -> None:
    wanted = make(tmp_path)
    replace(tmp_path, {5: "new"}, [150])
    DeltaTable(str(tmp_path)).create_checkpoint()
    delta = replace(tmp_path, {6: "newer"}, [151])
    wanted = {key: text for key, text in wanted.items() if key not in (150, 151)} | {5: "new", 6: "newer"}
    assert is_marked(tmp_path, delta.version())
    assert by_views(tmp_path) == by_delta_rs(tmp_path) == wanted


def test_rows_of_several_key_columns_are_replaced(tmp_path: Path) -> None:
    wanted = make(tmp_path)
    delta = DeltaTable(str(tmp_path))
    keys = pa.table({"k": [5, 6], "t": ["a5", "another"]}, schema=SCHEMA)
    replace_keys(delta, arrow({5: "new"}), keys, properties(), FileLayout(tmp_path, 1 << 20, 1))
    assert is_marked(tmp_path, delta.version())
    assert by_views(tmp_path) == wanted | {5: "new"}


@pytest.mark.usefixtures("lake_bucket")
def test_rows_in_a_bucket_are_marked_by_a_conditional_put(monkeypatch: pytest.MonkeyPatch) -> None:
    lake = Lake.of(Settings.from_environment().replace(lake="s3a://lakes/shop"))
    folder, options = lake.folder("silver_t"), lake.storage_options
    for start in range(0, 400, 100):
        part = arrow({key: f"a{key}" for key in range(start, start + 100)})
        feed = {"delta.enableChangeDataFeed": "true"}
        write_deltalake(str(folder), part, mode="append", configuration=feed, storage_options=options)
    wanted = {key: f"a{key}" for key in range(400)}
    layout, faster = FileLayout(folder, 1 << 20, 1), lake.opened(str(folder))
    for number in range(2):
        delta = lake.opened(str(folder))
        replace_rows(delta, arrow({5: f"b{number}"}), "k", [5, 150 + number], properties(upon=delta), layout)
        wanted = {key: text for key, text in wanted.items() if key != 150 + number} | {5: f"b{number}"}
        with open_views({"t": TableAt(folder)}) as views:
            assert not views.errors
            assert as_dict(views.connection.execute("SELECT * FROM t").to_arrow_table()) == wanted
        assert as_dict(read_live_rows(delta, folder)) == wanted
        assert is_complete(delta, lake.access)
    with pytest.raises(MedallionError, match="another writer has committed version 4"):
        replace_rows(faster, arrow({5: "x"}), "k", [5], properties(upon=faster), layout)
    entry = folder / "_delta_log" / f"{3:020}.json"
    assert files.create_whole(entry, entry.read_bytes()), "a request that was tried again after it had succeeded"
    assert not files.create_whole(entry, b"another")


def test_hours_and_a_restatement_give_the_same_rows_whether_bronze_is_merged_on_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_lake.without_spark(monkeypatch)
    chance, shops = random.Random(5), [small_lake.load(tmp_path / name) for name in ("rewritten", "marked")]
    marked = shops[1]
    vars(marked).pop("lake", None)
    vars(marked)["settings"] = marked.settings.replace(merge_on_read="1k")
    hours = {H0: lines_of({key: f"a{key}" for key in range(500)})}
    for hour in (H1, H2, H3):
        gone = "".join(json.dumps({"delete": {"id": key, "name": ""}}) + "\n" for key in chance.sample(range(500), 9))
        hours[hour] = gone + lines_of(dict.fromkeys(chance.sample(range(600), 12), f"{hour}"))
    for hour, lines in hours.items():
        for shop in shops:
            shop.put(hour, lines)
            shop.put(hour, {}, "items")
            assert shop.refresh(hour).status == "succeeded"
        assert shops[0].rows() == marked.rows()
    newest = marked.lake.opened(marked.lake.path("bronze_orders")).version()
    folder = marked.lake.folder("bronze_orders")
    assert is_marked(Path(str(folder)), newest)
    for shop in shops:
        shop.put(H2, lines_of({7: "corrected", 900: "late"}))
        shop.restate(H2)
        assert shop.applied == H3
    assert shops[0].rows() == marked.rows()
    assert shops[0].published() == marked.published()
    assert marked.rows()[7] in {"corrected", H3}


@pytest.mark.parametrize("kind", ["timestamp", "text"])
def test_a_key_beyond_the_bounds_that_statistics_cut_short_is_found(tmp_path: Path, kind: str) -> None:
    base = datetime(2025, 11, 30, tzinfo=UTC)
    keys: list[Any] = [base + timedelta(seconds=number, microseconds=667) for number in range(20)]
    if kind == "text":
        keys = [f"{'long ' * 20}{number:02}" for number in range(20)]
    rows = pa.table({"k": pa.array(keys), "t": [str(number) for number in range(20)]})
    for start in (0, 10):
        write_deltalake(str(tmp_path), rows.slice(start, 10), mode="append")
    delta = DeltaTable(str(tmp_path))
    for place in (9, 19):  # the last row of each file
        gone = rows.slice(place, 1).select(["k"])
        replace_keys(delta, rows.schema.empty_table(), gone, properties(upon=delta), FileLayout(tmp_path, 1 << 20, 1))
        delta = DeltaTable(str(tmp_path))
    left = {*map(str, range(20))} - {"9", "19"}
    assert {*read_live_rows(delta, tmp_path)["t"].to_pylist()} == left


def test_a_vector_is_not_written_where_delta_rs_would_not_find_it(tmp_path: Path) -> None:
    make(tmp_path)
    delta = DeltaTable(str(tmp_path))
    files = pa.table({"size_bytes": [10], "num_records": [1]})
    for key, is_marked in {"lake/silver/t": True, "l=a+b@c/t": True, "la ke/t": False, "lü/t": False}.items():
        layout = FileLayout(S3Path("bucket", key, AWS), 1 << 20, 1)
        assert merge_on_read._is_eligible(delta, layout, files) == is_marked


def test_a_file_that_the_newest_version_needs_and_that_is_gone_is_named(tmp_path: Path) -> None:
    make(tmp_path)
    replace_rows(
        DeltaTable(str(tmp_path)), arrow({5: "n"}), "k", [5, 6], properties(), FileLayout(tmp_path, 1 << 20, 1)
    )
    delta = DeltaTable(str(tmp_path))
    assert lost_file(delta, tmp_path) is None
    (vector,) = tmp_path.glob("deletion_vector_*.bin")
    for place in (vector, next(tmp_path.glob("*.parquet"))):
        content = place.read_bytes()
        place.unlink()
        assert lost_file(delta, tmp_path) == place.name
        place.write_bytes(content)
    vector.unlink()
    with pytest.raises(MedallionError, match=rf"cannot be read at version {delta.version()}: .*{vector.name}"):
        deleted_positions(delta)
