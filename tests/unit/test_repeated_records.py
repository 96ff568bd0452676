"""Records that a sink delivered twice: of each partition every record is taken once, in the order of offsets."""

import random
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from medallion.errors import MedallionError
from medallion.ingest.decode import Decoded, decode_file
from medallion.ingest.parts import Parts
from medallion.ingest.quarantine import read_rejected
from medallion.model.delivery import Layout
from medallion.ops import event_log
from medallion.pipeline import erasure
from medallion.pipeline.run import Run
from tests.shop import build
from tests.unit.small_lake import H0, H1, H2, ORDERS, TABLES, Shop, load, without_spark
from tests.unit.test_format_debezium import CUSTOMERS, change, event, named, parts_of, put
from tests.unit.test_layouts import KAFKA, delivered, kafka

Record = dict[str, Any]


def decode(tmp_path: Path, *files: tuple[str, list[Any]]) -> tuple[Decoded, list[tuple[int, str | None, bool]]]:
    """Decode these files, put together in their order; the changes as id, name, deleted."""
    text, parts = parts_of(*files)
    (tmp_path / "x.json").write_text(text)
    result = decode_file(tmp_path / "x.json", CUSTOMERS, H0, tmp_path / "decoded.parquet", None, Parts(parts))
    changes = sorted(pq.read_table(tmp_path / "decoded.parquet").to_pylist(), key=lambda change: change["_line"])
    return result, [(change["id"], change["first_name"], change["_deleted"]) for change in changes]


def file(offset: int, records: list[Any], partition: int = 0) -> tuple[str, list[Any]]:
    return kafka("customers", H0, partition, offset), records


NAMES = [named(f"n{number}", number) for number in range(10)]
TAKEN = [(1, f"n{number}", False) for number in range(10)]


@pytest.mark.parametrize(
    "files",
    [
        [file(0, NAMES), file(5, NAMES[5:7])],
        [file(0, NAMES[:8]), file(5, NAMES[5:])],
        [file(0, NAMES[:6]), file(2, NAMES[2:8]), file(6, NAMES[6:])],
        [file(0, NAMES), file(0, NAMES)],
        [file(0, NAMES[:3]), file(0, NAMES)],
    ],
)
def test_record_that_two_files_hold_is_taken_once_in_the_order_of_offsets(
    tmp_path: Path, files: list[tuple[str, list[Any]]]
) -> None:
    result, changes = decode(tmp_path, *files)
    assert changes == TAKEN
    assert (result.notes, result.rejected, result.repeated) == ([], [], sum(len(own) for _, own in files) - 10)


def test_record_of_another_partition_is_no_repetition(tmp_path: Path) -> None:
    same = [event("r", None, {"id": 1, "first_name": "Anne"}, lsn=None)]
    result, changes = decode(tmp_path, file(0, same), file(0, same, partition=1))
    assert (len(changes), result.repeated) == (2, 0)


def test_records_are_recognized_where_the_sink_left_out_those_without_content(tmp_path: Path) -> None:
    gone = [event("d", {"id": number}, lsn=number) for number in range(20, 24)]
    records = [*gone, *NAMES]  # with a tombstone after each deletion, offsets are 0, 2, 4, 6, 8, 9 and so on to 17
    result, changes = decode(tmp_path, file(0, records), file(15, NAMES[7:9]), file(18, [named("last", 99)]))
    assert [name for _, name, _ in changes[4:]] == [name for _, name, _ in [*TAKEN, (1, "last", False)]]
    assert result.repeated == 2


def test_records_that_are_alike_and_tell_no_position_are_not_taken_for_one(tmp_path: Path) -> None:
    on, off, gone = {"id": 1, "first_name": "on"}, {"id": 1, "first_name": "off"}, {"id": 2, "__deleted": "true"}
    _, changes = decode(tmp_path, file(0, [on, off, gone]), file(4, [on]))
    assert changes[-1] == (1, "on", False)


@pytest.mark.parametrize("seed", range(40))
def test_random_deliveries_of_a_partition_give_each_record_once(tmp_path: Path, seed: int) -> None:
    chance, offset = random.Random(seed), 0
    log: list[tuple[int, Record]] = []
    while len(log) < 40:
        number = chance.randrange(5)
        is_deleted = chance.random() < 0.3
        row = event("d", {"id": number}, lsn=offset) if is_deleted else named(f"n{offset}", offset, number)
        log.append((offset, row))
        offset += 2 if is_deleted else 1  # the tombstone is left out
    ends = sorted(chance.sample(range(1, 40), 4))
    files = [
        (log[start][0], [row for _, row in log[start:end]]) for start, end in zip([0, *ends], [*ends, 40], strict=True)
    ]
    for _ in range(3):  # delivered again, cut elsewhere
        start = chance.randrange(39)
        files.append((log[start][0], [row for _, row in log[start : chance.randrange(start, 40) + 1]]))
    once = decode(tmp_path, file(0, [row for _, row in log]))[1]
    result, changes = decode(tmp_path, *(file(first, records) for first, records in sorted(files, key=itemgetter(0))))
    assert changes == once
    assert result.rejected == []


# In a lake


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    without_spark(monkeypatch)
    return load(tmp_path, delivered(TABLES, format="debezium", layout=Layout(KAFKA)))


def test_part_that_is_delivered_again_does_not_win_over_a_later_one(shop: Shop) -> None:
    put(shop, H0, 0, 0, change("c", 1, "first", 1), change("u", 1, "second", 2), change("u", 1, "third", 3))
    put(shop, H0, 0, 1, change("u", 1, "second", 2))
    assert shop.refresh(H0).status == "succeeded"
    assert shop.published() == {1: "third"}


def test_part_that_is_delivered_again_late_changes_nothing_when_its_hour_is_restated(shop: Shop) -> None:
    put(shop, H0, 0, 0, change("c", 1, "first", 1), change("u", 1, "second", 2), change("u", 1, "third", 3))
    shop.refresh(H0)
    put(shop, H0, 0, 1, change("u", 1, "second", 2))
    shop.restate(H0)
    assert shop.published() == {1: "third"}


def test_rejected_record_is_in_quarantine_once_when_it_came_twice(shop: Shop) -> None:
    put(shop, H0, 0, 0, change("c", 1, "a", 1), "nonsense", change("c", 2, "b", 3))
    put(shop, H0, 0, 1, "nonsense", change("c", 2, "b", 3))
    shop.refresh(H0)
    assert [line.file.rpartition(":")[2] for line in read_rejected(shop.lake, ORDERS)] == ["2"]


def test_other_record_at_the_same_offset_refuses_the_hour_and_names_both_files(shop: Shop) -> None:
    put(shop, H0, 0, 0, change("c", 1, "first", 1), change("u", 1, "second", 2), change("u", 1, "third", 3))
    put(shop, H0, 0, 1, change("u", 1, "second", 2), change("u", 1, "another", 3))
    with pytest.raises(MedallionError) as refused:
        shop.refresh(H0)
    first, second = kafka("orders", H0, 0, 0), kafka("orders", H0, 0, 1)
    assert str(refused.value) == (
        f"{first}:3 and {second}:2 hold other records, and by the names of their files both have offset 2 of partition"
        " 0; nothing of the hour was applied: remove the file that is wrong at the source, then run the hour again"
    )
    (shop.root / "source" / second).unlink()
    shop.refresh(H0)
    assert shop.published() == {1: "third"}


def test_record_that_is_delivered_again_in_the_folder_of_the_next_hour_is_skipped(shop: Shop) -> None:
    put(shop, H0, 0, 0, change("c", 1, "first", 1), change("u", 1, "second", 2), change("u", 1, "third", 3))
    put(shop, H0, 0, 1, change("u", 1, "second", 2))  # which came twice before
    shop.refresh(H0)
    put(shop, H1, 0, 1, change("u", 1, "second", 2))
    put(shop, H1, 1, 0, change("c", 2, "other", 4))
    shop.refresh(H1)
    assert shop.published() == {1: "third", 2: "other"}
    shop.restate(H1)
    assert shop.published() == {1: "third", 2: "other"}


def test_file_that_goes_on_from_what_it_delivers_again_is_applied_from_there(shop: Shop) -> None:
    put(shop, H0, 0, 0, change("c", 1, "first", 1))
    shop.refresh(H0)
    put(
        shop,
        H1,
        0,
        1,
        change("u", 1, "second", 2),
        change("u", 1, "third", 3),
        change("d", 1, None, 4),
        change("c", 2, "b", 5),
    )
    shop.refresh(H1)
    put(shop, H2, 0, 0, change("c", 1, "first", 1), change("u", 1, "second", 2), change("u", 1, "third", 3))
    put(
        shop,
        H2,
        0,
        2,
        change("u", 1, "third", 3),
        change("d", 1, None, 4),
        change("c", 2, "b", 5),
        change("c", 1, "again", 6),
    )
    shop.refresh(H2)
    (whole,) = [row for row in event_log.read(shop.lake, event_type="apply", hour=H2) if row.table_name is None]
    assert (shop.published(), whole.details["repeated"]) == ({1: "again", 2: "b"}, 6)


def test_hour_whose_offsets_lie_between_those_of_an_earlier_one_is_applied_whole(shop: Shop) -> None:
    """Where hours are told by a time in the record, one that is late is in an earlier hour's file."""
    put(shop, H0, 0, 0, change("c", 1, "a", 1), change("c", 2, "b", 2), change("u", 1, "late", 5))
    shop.refresh(H0)
    put(shop, H1, 0, 2, change("c", 3, "c", 3), change("c", 4, "d", 4))
    shop.refresh(H1)
    assert shop.published() == {1: "late", 2: "b", 3: "c", 4: "d"}


def test_records_that_tell_no_position_are_applied_again_with_another_hour(shop: Shop) -> None:
    row = {"op": "c", "before": None, "after": {"id": 1, "name": "a"}}
    put(shop, H0, 0, 0, row)
    shop.refresh(H0)
    put(shop, H1, 0, 0, row, {"op": "u", "before": None, "after": {"id": 1, "name": "b"}})
    shop.refresh(H1)
    assert shop.published() == {1: "b"}


def test_part_that_comes_again_after_an_erasure_is_compared_without_the_erased(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_spark(monkeypatch)
    about = {
        name: replace(table, subject="id", personal=("name",)) if name == "bronze_orders" else table
        for name, table in TABLES.tables.items()
    }
    shop = load(tmp_path, delivered(build([*about.values()]), format="debezium", layout=Layout(KAFKA)))
    put(shop, H0, 0, 0, change("c", 1, "one", 1), change("c", 42, "gone", 2), change("u", 1, "two", 3))
    shop.refresh(H0)
    erasure.erase(Run(shop.settings, None, "erase", strategy="full"), shop.driver(), ["42"])
    put(shop, H1, 0, 1, change("c", 42, "gone", 2), change("u", 1, "two", 3), change("u", 1, "three", 5))
    put(shop, H1, 0, 2, change("u", 1, "two", 3), change("u", 1, "three", 5))
    shop.refresh(H1)
    put(shop, H1, 0, 0, change("c", 1, "one", 1), change("c", 42, "gone", 2))
    shop.restate(H1)
    assert shop.published() == {1: "three"}


def test_records_that_came_twice_are_counted_in_the_event_of_the_hour(shop: Shop) -> None:
    put(shop, H0, 0, 0, change("c", 1, "a", 1), change("c", 2, "b", 2))
    put(shop, H0, 0, 1, change("c", 2, "b", 2))
    shop.refresh(H0)
    (whole,) = [row for row in event_log.read(shop.lake, event_type="apply") if row.table_name is None]
    assert whole.details["repeated"] == 1
