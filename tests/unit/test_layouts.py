"""Layouts: where the files of a feed and an hour are, several of them, packed, and when an hour is whole."""

import gzip
import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from medallion.errors import HourNotAvailable, MedallionError, UsageError
from medallion.ingest.ledger import known_manifest
from medallion.ingest.listing import Listing, change_files
from medallion.ingest.parts import Part, Parts, in_order
from medallion.ingest.quarantine import read_rejected, record_corrections
from medallion.ingest.source import FolderSource
from medallion.inspect.source_check import check_source
from medallion.model.delivery import Completeness, Delivery, Layout, UnusableDelivery, parse_completeness
from medallion.model.registry import Registry
from medallion.model.table import Feed
from medallion.project.manifest import read_manifest
from tests.unit.small_lake import H0, H1, H2, ORDERS, TABLES, Shop, feeds, lines_of, load, without_spark

KAFKA = "topics/{feed}/year={YYYY}/month={MM}/day={DD}/hour={HH}/*.json.gz"
NOW = datetime(2025, 12, 1, tzinfo=UTC)


def delivered(registry: Registry, **values: object) -> Registry:
    """The same tables, delivered otherwise."""
    tables = {
        name: replace(table, delivery=replace(table.delivery, **values)) if isinstance(table, Feed) else table  # type: ignore[arg-type]
        for name, table in registry.tables.items()
    }
    return Registry(tables, registry.declared_layers)


def kafka(feed: str, hour: str, partition: int, offset: int) -> str:
    """Name a file as Kafka Connect's S3 sink does: <topic>+<partition>+<first offset>, in the folder of its hour."""
    folder = Layout(KAFKA).path(feed, hour).rpartition("/")[0]
    return f"{folder}/{feed}+{partition}+{offset:010}.json.gz"


def write(root: Path, name: str, content: str) -> None:
    file = root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    raw = content.encode()
    if name.endswith(".gz"):
        raw = gzip.compress(raw)
    elif name.endswith(".zst"):
        raw = pa.compress(raw, codec="zstd", asbytes=True)
    file.write_bytes(raw)


def listed(root: Path, delivery: Delivery, *topics: str, now: datetime = NOW) -> Listing:
    return change_files(FolderSource(str(root)), [replace(feed, delivery=delivery) for feed in feeds(*topics)], now)


@pytest.mark.parametrize(
    ("layout", "path"),
    [
        ("cdc/{feed}/{hour}.json.gz", "cdc/orders/2025-11-30T01.json.gz"),
        ("{YYYY}/{MM}/{DD}/{HH}/{feed}.jsonl", "2025/11/30/01/orders.jsonl"),
        ("in/{feed}/{YYYY}{MM}{DD}-{HH}*.json", "in/orders/20251130-0104550000.json"),
        ("in/{feed}/{hour}/*", "in/orders/2025-11-30T01/part-00000-c1.json"),
        ("x/{feed}/{feed}-{hour}.json", "x/orders/orders-2025-11-30T01.json"),
        (KAFKA, "topics/orders/year=2025/month=11/day=30/hour=01/orders+0+0000000000.json.gz"),
    ],
)
def test_layout_tells_feed_and_hour_of_a_file(tmp_path: Path, layout: str, path: str) -> None:
    write(tmp_path, path, "{}")
    listing = listed(tmp_path, Delivery(layout=Layout(layout)), "orders", "items")
    assert listing.hours == {H1: {"orders": (path,)}}
    assert (listing.refused, listing.ignored) == ({}, ())


def test_files_of_an_hour_are_in_order_of_partition_and_offset_not_of_letters() -> None:
    names = [kafka("orders", H0, *place) for place in [(10, 0), (2, 1000), (2, 999), (0, 5)]]
    assert [name.split("+", 1)[1] for name in in_order(names)] == [
        "0+0000000005.json.gz",
        "2+0000000999.json.gz",
        "2+0000001000.json.gz",
        "10+0000000000.json.gz",
    ]


def test_file_of_another_format_in_the_folder_of_an_hour_refuses_it(tmp_path: Path) -> None:
    write(tmp_path, kafka("orders", H0, 0, 0), "{}")
    write(tmp_path, kafka("orders", H0, 0, 7).replace(".json.gz", ".avro"), "x")
    listing = listed(tmp_path, Delivery(layout=Layout(KAFKA)), "orders")
    with pytest.raises(MedallionError, match=r"orders\+0\+0000000007.avro.*is named as source.layout says, topics/"):
        listing.require_understood(H0)


def test_files_that_are_written_and_marks_are_passed_over(tmp_path: Path) -> None:
    write(tmp_path, kafka("orders", H0, 0, 0), "{}")
    folder = kafka("orders", H0, 0, 0).rpartition("/")[0]
    for name in ("_SUCCESS", "orders+0+0000000009.json.gz.md5", "_temporary/0/part"):
        write(tmp_path, f"{folder}/{name}", "")
    listing = listed(tmp_path, Delivery(layout=Layout(KAFKA)), "orders")
    assert (listing.refused, listing.ignored, len(listing.hours[H0]["orders"])) == ({}, (), 1)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("topics/orders/year=2025/month=13/day=30/hour=00/orders+0+0.json.gz", "2025-13-30 is not on the calendar"),
        ("topics/orders/year=2099/month=11/day=30/hour=00/orders+0+0.json.gz", "lies in the future"),
        ("topics/ordrs/year=2025/month=11/day=30/hour=00/ordrs+0+0.json.gz", "did you mean orders?"),
    ],
)
def test_file_of_no_past_hour_or_of_no_feed_is_ignored_with_a_warning(tmp_path: Path, path: str, said: str) -> None:
    write(tmp_path, path, "{}")
    (warning,) = listed(tmp_path, Delivery(layout=Layout(KAFKA)), "orders").ignored
    assert said in warning


def test_feed_is_found_by_its_name_at_the_source_also_with_capitals_and_dots(tmp_path: Path) -> None:
    delivery = Delivery(layout=Layout("{feed}/{hour}.json"), name="shop.public.Orders2")
    write(tmp_path, f"shop.public.Orders2/{H0}.json", "{}")
    assert listed(tmp_path, delivery, "orders").hours == {H0: {"orders": (f"shop.public.Orders2/{H0}.json",)}}


# When an hour is whole


def test_hour_waits_until_its_files_have_settled(tmp_path: Path) -> None:
    delivery = Delivery(complete=Completeness("settled", 600))
    write(tmp_path, f"cdc/orders/{H0}.json", "{}")
    write(tmp_path, f"cdc/orders/{H1}.json", "{}")
    os.utime(tmp_path / f"cdc/orders/{H0}.json", (NOW.timestamp() - 600,) * 2)
    os.utime(tmp_path / f"cdc/orders/{H1}.json", (NOW.timestamp() - 30,) * 2)
    listing = listed(tmp_path, delivery, "orders")
    assert listing.hours_after(None) == [H0]
    assert listing.complete == {H0: "no file was modified for 600 s"}
    with pytest.raises(HourNotAvailable, match=f"{H1} is not complete yet: orders was modified 30 s ago"):
        listing.require_whole(H0, H1)
    listing.require_whole(None, H0)


def test_hour_waits_for_its_marker(tmp_path: Path) -> None:
    delivery = Delivery(layout=Layout(KAFKA), complete=Completeness("marker", marker="DONE"))
    for hour in (H0, H1):
        write(tmp_path, kafka("orders", hour, 0, 0), "{}")
    marker = kafka("orders", H0, 0, 0).rpartition("/")[0] + "/DONE"
    waiting = listed(tmp_path, delivery, "orders")
    assert waiting.hours_after(None) == []
    assert waiting.waiting[H0] == f"{marker} is missing"
    write(tmp_path, marker, "")
    listing = listed(tmp_path, delivery, "orders")
    assert (listing.hours_after(None), listing.refused) == ([H0], {})
    assert listing.complete == {H0: "DONE exists"}


def test_marker_may_be_in_a_folder_of_its_own(tmp_path: Path) -> None:
    delivery = Delivery(complete=Completeness("marker", marker="done/{feed}/{hour}"))
    write(tmp_path, f"cdc/orders/{H0}.json", "{}")
    assert listed(tmp_path, delivery, "orders").waiting == {H0: f"done/orders/{H0} is missing"}
    write(tmp_path, f"done/orders/{H0}", "")
    assert listed(tmp_path, delivery, "orders").hours_after(None) == [H0]


def test_hour_waits_for_the_first_file_of_a_later_one(tmp_path: Path) -> None:
    delivery = Delivery(complete=Completeness("next hour"))
    write(tmp_path, f"cdc/orders/{H0}.json", "{}")
    assert listed(tmp_path, delivery, "orders").hours_after(None) == []
    write(tmp_path, f"cdc/orders/{H1}.json", "{}")
    assert listed(tmp_path, delivery, "orders").hours_after(None) == [H0]


def test_file_of_another_feed_makes_no_hour_of_a_feed_whole(tmp_path: Path) -> None:
    delivery = Delivery(complete=Completeness("next hour"))
    write(tmp_path, f"cdc/orders/{H0}.json", "{}")
    write(tmp_path, f"cdc/items/{H0}.json", "{}")
    write(tmp_path, f"cdc/items/{H1}.json", "{}")
    listing = listed(tmp_path, delivery, "orders", "items")
    assert listing.hours_after(None) == []
    assert listing.waiting[H0].startswith("orders has no file of a later hour: if it may be quiet, write complete =")
    write(tmp_path, f"cdc/orders/{H2}.json", "{}")
    assert listed(tmp_path, delivery, "orders", "items").complete[H0] == "a file of a later hour arrived"


def test_hour_of_a_quiet_feed_is_whole_once_its_files_have_settled(tmp_path: Path) -> None:
    delivery = Delivery(complete=parse_completeness("next hour or settled 600"))
    for topic, hour in (("orders", H0), ("items", H0), ("items", H1)):
        write(tmp_path, f"cdc/{topic}/{hour}.json", "{}")
        os.utime(tmp_path / f"cdc/{topic}/{hour}.json", (NOW.timestamp() - 500,) * 2)
    listing = listed(tmp_path, delivery, "orders", "items")
    assert listing.waiting[H0] == "orders was modified 500 s ago, and settles after 600 s"
    os.utime(tmp_path / f"cdc/orders/{H0}.json", (NOW.timestamp() - 700,) * 2)
    listing = listed(tmp_path, delivery, "orders", "items")
    assert listing.complete == {
        H0: "a file of a later hour arrived (items), no file was modified for 600 s (orders)",
    }
    assert [*listing.waiting] == [H1]


def test_feed_without_a_file_in_an_hour_holds_up_nobody(tmp_path: Path) -> None:
    for hour in (H0, H1):
        write(tmp_path, f"cdc/orders/{hour}.json", "{}")
    listing = listed(tmp_path, Delivery(complete=Completeness("next hour")), "orders", "items")
    assert listing.hours_after(None) == [H0]


def test_later_hours_wait_for_an_earlier_one_that_is_not_whole(tmp_path: Path) -> None:
    listing = Listing({H0: {}, H1: {}, H2: {}}, waiting={H1: "x is missing"})
    assert listing.hours_after(None) == [H0]
    assert listing.hours_after(H1) == [H0, H1, H2], "what is applied holds up nobody"
    with pytest.raises(HourNotAvailable, match=H1):
        listing.require_whole(H0, H2)


@pytest.mark.parametrize(
    "text", ["settled", "settled x", "next hour or", "next hour or settled", "after 5", "marker", "marker ../x", ""]
)
def test_rule_of_wholeness_is_refused_when_it_is_none(text: str) -> None:
    with pytest.raises(UnusableDelivery):
        parse_completeness(text)


# Several files, packed, as one landed file


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    without_spark(monkeypatch)
    return load(tmp_path, delivered(TABLES, layout=Layout(KAFKA)))


def test_several_packed_files_are_one_hour_in_the_order_of_offsets(shop: Shop) -> None:
    source = shop.root / "source"
    write(source, kafka("orders", H0, 0, 10), lines_of({1: "last", 2: "b"}))
    write(source, kafka("orders", H0, 0, 9), lines_of({1: "first"}).rstrip())
    write(source, kafka("orders", H0, 1, 0), lines_of({3: "c"}))
    outcome = shop.refresh(H0)
    assert shop.published() == {1: "last", 2: "b", 3: "c"}
    parts = known_manifest(shop.lake, H0).files["orders"].parts
    assert [(part.partition, part.first_offset, part.lines) for part in parts] == [(0, 9, 1), (0, 10, 2), (1, 0, 1)]
    assert outcome.status != "failed"


def test_rejected_line_is_kept_with_the_file_and_the_line_it_came_from(shop: Shop) -> None:
    source = shop.root / "source"
    write(source, kafka("orders", H0, 0, 0), lines_of({1: "a", 2: "b"}))
    write(source, kafka("orders", H0, 0, 2), lines_of({3: "c"}) + "nonsense\n" + lines_of({4: "d"}))
    shop.refresh(H0)
    (line,) = read_rejected(shop.lake, ORDERS)
    assert line.file == f"{kafka('orders', H0, 0, 2)}:2"
    assert (line.line_number, line.raw) == (4, "nonsense\n")


def test_file_that_arrives_late_beside_others_is_found_and_restated(shop: Shop) -> None:
    source = shop.root / "source"
    write(source, kafka("orders", H0, 0, 0), lines_of({1: "a"}))
    shop.refresh(H0)
    write(source, kafka("orders", H0, 0, 1), lines_of({2: "b"}))
    write(source, kafka("orders", H1, 0, 2), lines_of({3: "c"}))
    said: list[str] = []
    shop.refresh(H1, said)
    assert any(f"orders/{H0}.json changed after its hour had been applied" in line for line in said)
    shop.restate(H0)
    assert shop.rows() == {1: "a", 2: "b", 3: "c"}


def test_hour_is_restated_from_what_landed_when_the_source_has_it_no_more(shop: Shop) -> None:
    source = shop.root / "source"
    write(source, kafka("orders", H0, 0, 0), lines_of({1: "a"}))
    write(source, kafka("orders", H0, 1, 0), lines_of({2: "b"}))
    shop.refresh(H0)
    for partition in (0, 1):
        (source / kafka("orders", H0, partition, 0)).unlink()
    shop.restate(H0)
    assert shop.rows() == {1: "a", 2: "b"}


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_one_packed_file_is_landed_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str) -> None:
    without_spark(monkeypatch)
    shop = load(tmp_path, delivered(TABLES, layout=Layout(f"cdc/{{feed}}/{{hour}}.json{suffix}")))
    write(shop.root / "source", f"cdc/orders/{H0}.json{suffix}", lines_of({1: "a"}))
    shop.refresh(H0)
    assert shop.rows() == {1: "a"}
    assert (shop.lake.landing / "orders" / f"{H0}.json").read_text() == lines_of({1: "a"})


@pytest.mark.parametrize("cut", [10, 40])
def test_packed_file_that_was_cut_off_refuses_the_hour_and_lands_nothing(shop: Shop, cut: int) -> None:
    name = kafka("orders", H0, 0, 0)
    write(shop.root / "source", name, lines_of({n: f"name {n}" for n in range(100)}))
    whole = (shop.root / "source" / name).read_bytes()
    (shop.root / "source" / name).write_bytes(whole[:-cut])
    with pytest.raises(
        MedallionError, match=r"orders\+0\+0000000000.json.gz (ends before its gzip|cannot be unpacked)"
    ):
        shop.refresh(H0)
    assert shop.applied is None
    assert not (shop.lake.landing / "orders" / f"{H0}.json").exists()


def test_file_that_is_not_packed_as_its_name_says_refuses_the_hour(shop: Shop) -> None:
    name = kafka("orders", H0, 0, 0)
    write(shop.root / "source", name, "")
    (shop.root / "source" / name).write_text(lines_of({1: "a"}))
    with pytest.raises(MedallionError, match="cannot be unpacked"):
        shop.refresh(H0)


def test_one_of_several_files_that_ends_in_the_middle_of_a_line_refuses_the_hour(shop: Shop) -> None:
    write(shop.root / "source", kafka("orders", H0, 0, 0), lines_of({1: "a"}) + '{"insert": {"id": 2')
    write(shop.root / "source", kafka("orders", H0, 0, 2), lines_of({3: "c"}))
    with pytest.raises(MedallionError, match="is cut off in the middle of line 2"):
        shop.refresh(H0)


def test_run_says_by_what_rule_the_hour_was_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark(monkeypatch)
    shop = load(tmp_path, delivered(TABLES, complete=Completeness("next hour")))
    shop.put(H0, {1: "a"})
    with pytest.raises(HourNotAvailable, match="orders has no file of a later hour: if it may be quiet, write"):
        shop.step("land")
    shop.put(H1, {2: "b"})
    assert "(a file of a later hour arrived)" in shop.step("land").message


def test_place_in_parts_is_that_of_the_file_it_came_from() -> None:
    parts = Parts([Part("a", 1, "x", 2), Part("b", 1, "x", 0), Part("c", 1, "x", 3)])
    assert [parts.place(line) for line in (1, 2, 3, 5)] == ["a:1", "a:2", "c:1", "c:3"]


# Files that the source no longer lists


def test_part_that_the_source_withdrew_stays_in_the_hour_when_another_arrives_and_it_is_restated(shop: Shop) -> None:
    source, said = shop.root / "source", list[str]()
    write(source, kafka("orders", H0, 0, 0), lines_of({1: "a"}))
    write(source, kafka("orders", H0, 0, 1), lines_of({2: "b"}).rstrip())
    shop.refresh(H0)
    (source / kafka("orders", H0, 0, 0)).unlink()
    write(source, kafka("orders", H1, 0, 2), lines_of({3: "c"}))
    shop.refresh(H1, said)
    assert not any("changed after its hour" in line for line in said), "what is gone is no correction"
    write(source, kafka("orders", H0, 0, 5), lines_of({4: "d"}))
    shop.restate(H0, said)
    assert shop.published() == {1: "a", 2: "b", 3: "c", 4: "d"}
    assert any(f"no longer lists {kafka('orders', H0, 0, 0)}" in line for line in said)
    parts = known_manifest(shop.lake, H0).files["orders"].parts
    assert [(part.first_offset, part.lines) for part in parts] == [(0, 1), (1, 1), (5, 1)]


def two_parts(shop: Shop) -> tuple[Path, Path]:
    """Have the source deliver the rows 1 and 2 of an hour, in a file each."""
    source, (first, second) = shop.root / "source", (kafka("orders", H0, 0, offset) for offset in (0, 1))
    write(source, first, lines_of({1: "a"}))
    write(source, second, lines_of({2: "b"}))
    return source / first, source / second


@pytest.mark.parametrize("content", ["<html>503 Slow Down</html>\n", "oops\n\n", "null\n"])
def test_hour_is_refused_when_no_line_of_one_of_its_files_is_a_record(shop: Shop, content: str) -> None:
    _, second = two_parts(shop)
    write(shop.root / "source", second.relative_to(shop.root / "source").as_posix(), content)
    with pytest.raises(
        MedallionError, match=r"has no line of topics/.*\+0000000001.json.gz that is a record"
    ) as refused:
        shop.refresh(H0)
    assert "\n" not in str(refused.value)
    assert shop.applied is None
    two_parts(shop)
    shop.refresh(H0)
    assert shop.published() == {1: "a", 2: "b"}


def test_part_that_is_withdrawn_between_land_and_apply_is_applied(shop: Shop) -> None:
    first, _ = two_parts(shop)
    shop.step("land", H0)
    first.unlink()
    shop.refresh(H0)
    assert shop.published() == {1: "a", 2: "b"}


def test_plain_file_that_is_withdrawn_stays_in_the_hour_beside_a_late_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_spark(monkeypatch)
    shop = load(tmp_path, delivered(TABLES, layout=Layout(KAFKA.removesuffix(".gz"))))
    first, late = (kafka("orders", H0, 0, offset).removesuffix(".gz") for offset in (0, 1))
    write(shop.root / "source", first, lines_of({1: "a"}).rstrip())
    shop.refresh(H0)
    (shop.root / "source" / first).unlink()
    write(shop.root / "source", late, lines_of({2: "b"}))
    shop.restate(H0)
    assert shop.published() == {1: "a", 2: "b"}


def test_restating_is_refused_when_a_withdrawn_part_is_gone_from_the_landing_folder_too(shop: Shop) -> None:
    first, _ = two_parts(shop)
    shop.refresh(H0)
    first.unlink()
    (shop.lake.landing / "orders" / f"{H0}.json").unlink()
    with pytest.raises(MedallionError, match=r"would lose topics/.*\+0\+0000000000.json.gz.*nothing was changed"):
        shop.restate(H0)
    assert shop.published() == {1: "a", 2: "b"}


def test_files_in_place_of_all_others_are_refused_until_somebody_says_what_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_spark(monkeypatch)
    shop = load(tmp_path, delivered(TABLES, layout=Layout("{feed}/{hour}/*.json")))
    write(shop.root / "source", f"orders/{H0}/part-0-c1.json", lines_of({1: "wrong"}))
    shop.refresh(H0)
    (shop.root / "source" / f"orders/{H0}/part-0-c1.json").unlink()
    write(shop.root / "source", f"orders/{H0}/part-0-c2.json", lines_of({2: "right"}))
    with pytest.raises(MedallionError, match=f"has other files .* orders/{H0}/part-0-c1.json: delete .*{H0}.json if"):
        shop.restate(H0)
    (shop.lake.landing / "orders" / f"{H0}.json").unlink()
    shop.restate(H0)
    assert shop.published() == {2: "right"}


def test_lone_plain_file_is_named_when_its_line_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark(monkeypatch)
    shop = load(tmp_path, delivered(TABLES, layout=Layout(KAFKA.removesuffix(".gz"))))
    name = kafka("orders", H0, 0, 0).removesuffix(".gz")
    write(shop.root / "source", name, lines_of({1: "a"}) + "nonsense\n")
    shop.refresh(H0)
    assert [line.file for line in read_rejected(shop.lake, ORDERS)] == [f"{name}:2"]


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_packed_file_of_no_bytes_refuses_the_hour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str) -> None:
    without_spark(monkeypatch)
    shop = load(tmp_path, delivered(TABLES, layout=Layout(f"cdc/{{feed}}/{{hour}}.json{suffix}")))
    file = shop.root / "source" / f"cdc/orders/{H0}.json{suffix}"
    file.parent.mkdir(parents=True)
    file.touch()
    with pytest.raises(MedallionError, match="has 0 bytes, which no packed file has"):
        shop.refresh(H0)


# medallion.toml


def manifest(tmp_path: Path, source: str) -> Path:
    file = tmp_path / "medallion.toml"
    file.write_text(f'[project]\nname = "shop"\nlayers = ["bronze", "silver"]\n[source]\n{source}\n')
    return file


def test_manifest_says_how_all_feeds_are_delivered_and_which_differ(tmp_path: Path) -> None:
    read = read_manifest(
        manifest(
            tmp_path,
            f'format = "debezium"\nlayout = "{KAFKA}"\ncomplete = "settled 600"\nmoments = "microseconds"\n'
            '[source.feeds.orders]\nname = "shop.public.Orders"\nlayout = "x/{hour}.json"\n',
        )
    )
    every, orders = read.deliveries.every, dict(read.deliveries.feeds)["orders"]
    assert (every.format, every.layout, every.complete) == ("debezium", Layout(KAFKA), Completeness("settled", 600))
    assert (orders.format, orders.name, orders.layout.text) == ("debezium", "shop.public.Orders", "x/{hour}.json")


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ('layout = "cdc/{feed}.json"', "source.layout has no hour"),
        ('layout = "cdc/{feed}/{YYYY}-{MM}-{DD}.json"', "source.layout has no hour"),
        ('layout = "cdc/{hour}.json"', "source.layout has no {feed}"),
        ('layout = "cdc/{topic}/{hour}.json"', "it has {topic}, and may have {feed}"),
        ('layout = "../{feed}/{hour}.json"', "it is a path below the source"),
        ('layout = "/cdc/{feed}/{hour}.json"', "it is a path below the source"),
        ('layout = "{feed/{hour}"', "cannot be used"),
        ('layout = "{feed!r}/{hour}"', "cannot be used"),
        ("layout = 5", "it is a text"),
        ('complete = "soon"', 'it is "ended"'),
        ('moments = "days"', "it is seconds, milliseconds, microseconds or nanoseconds"),
        ('formt = "dms"', "did you mean source.format?"),
        ('[source.feeds.orders]\nlayuot = "x"', "did you mean source.feeds.orders.layout?"),
        ('feeds = "orders"', "[source.feeds.orders]"),
        ('snapshot = "snapshot"', "neither {table} nor {feed}"),
    ],
)
def test_section_of_the_source_is_refused_in_one_line(tmp_path: Path, source: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        read_manifest(manifest(tmp_path, source))
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_format_that_does_not_exist_is_refused_with_the_nearest_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is debezum, which is no format: did you mean debezium?"):
        listed(tmp_path, Delivery(format="debezum"), "orders")


def test_two_feeds_that_would_have_the_same_files_are_refused(tmp_path: Path) -> None:
    read = read_manifest(manifest(tmp_path, '[source.feeds.orders]\nname = "items"\n'))
    with pytest.raises(UsageError, match="would have the same files"):
        read.deliveries.fill_in(feeds("orders", "items"), tmp_path)
    with pytest.raises(UsageError, match="source.feeds.orders is no feed: did you mean source.feeds.order?"):
        read.deliveries.fill_in(feeds("order"), tmp_path)


# Names that a layout does not mean


@pytest.mark.parametrize(
    ("layout", "taken", "other"),
    [
        ("{YYYY}/{MM}/{DD}/{HH}/{feed}-*.jsonl", "2025/11/30/00/orders-1.jsonl", "2025/11/30/00/orders-2.jsonl.gz"),
        ("{YYYY}/{MM}/{DD}/{HH}/{feed}-*.jsonl", "2025/11/30/00/orders-1.jsonl", "2025/11/30/00/orders-3.json"),
        ("{hour}/{feed}.jsonl", f"{H0}/items.jsonl", f"{H0}/orders.jsonl.gz"),
        ("{hour}/{feed}.jsonl", f"{H0}/items.jsonl", f"{H0}/Orders.jsonl"),
        ("{feed}/{hour}.jsonl", f"items/{H0}.jsonl", f"Orders/{H0}.jsonl"),
    ],
)
def test_file_of_a_feed_that_the_layout_does_not_name_refuses_its_hour(
    tmp_path: Path, layout: str, taken: str, other: str
) -> None:
    write(tmp_path, taken, "{}")
    write(tmp_path, other, "{}")
    listing = listed(tmp_path, Delivery(layout=Layout(layout)), "orders", "items")
    assert [*listing.refused[H0]] == [other]


def test_file_of_a_feed_that_nobody_declared_refuses_no_hour_of_one_whose_name_it_goes_on_from(tmp_path: Path) -> None:
    write(tmp_path, f"{H0}/orders.jsonl", "{}")
    write(tmp_path, f"{H0}/orders_archive.jsonl.gz", "{}")
    listing = listed(tmp_path, Delivery(layout=Layout("{hour}/{feed}.jsonl")), "orders")
    assert (listing.hours, listing.refused) == ({H0: {"orders": (f"{H0}/orders.jsonl",)}}, {})


def test_feed_is_told_from_one_whose_name_begins_as_its_own(tmp_path: Path) -> None:
    paths = {topic: (f"{H0}-{topic}-1.json",) for topic in ("orders", "orders_items")}
    for (path,) in paths.values():
        write(tmp_path, path, "{}")
    assert listed(tmp_path, Delivery(layout=Layout("{hour}-{feed}-*.json")), *paths).hours == {H0: paths}


@pytest.mark.parametrize("layout", ["{hour}/{feed}_*.json", "{feed}*/{hour}.json", "{hour}/*_{feed}.json"])
def test_layout_in_which_a_name_may_go_on_is_refused(tmp_path: Path, layout: str) -> None:
    with pytest.raises(UsageError, match="is the files of orders and of orders_items alike: put a folder"):
        read_manifest(manifest(tmp_path, f'layout = "{layout}"'))


@pytest.mark.parametrize(
    "source",
    [
        'layout = "{hour}/{feed}-*.json"\n[source.feeds.items]\nname = "orders-items"\n',
        '[source.feeds.orders]\nlayout = "o/{hour}.json"\n[source.feeds.items]\nlayout = "o/{hour}*.json"\n',
        '[source.feeds.orders]\nlayout = "o/{YYYY}*.{hour}"\n[source.feeds.items]\nlayout = "o/2*{hour}"\n',
    ],
)
def test_feeds_of_which_one_could_have_a_file_of_the_other_are_refused(tmp_path: Path, source: str) -> None:
    with pytest.raises(UsageError, match="orders and items would have the same files, .*a folder of its own"):
        read_manifest(manifest(tmp_path, source)).deliveries.fill_in(feeds("orders", "items"), tmp_path)


def test_feeds_with_names_that_begin_alike_are_taken_where_no_file_is_of_both(tmp_path: Path) -> None:
    source = f'layout = "{KAFKA}"\n[source.feeds.items]\nlayout = "orders_{{hour}}*.json"\n'
    read = read_manifest(manifest(tmp_path, source))
    assert len(read.deliveries.fill_in(feeds("orders", "orders_items", "items"), tmp_path)) == 3


@pytest.mark.parametrize(
    ("layout", "complete", "said"),
    [
        ("{feed}/{hour}/p*/x.json", "marker _SUCCESS", "their folder has a *"),
        ("cdc/{feed}/{hour}.json", "marker _SUCCESS", "cdc/{feed}/_SUCCESS, which would be the marker of every hour"),
        ("cdc/{feed}/{hour}.json", "marker done/{feed}", "would be the marker of every hour"),
        ("{feed}/{hour}/*.json", "marker *", "neither * nor {table}"),
        ("{feed}/{hour}/*.json", "marker done/{table}/{hour}", "neither * nor {table}"),
    ],
)
def test_marker_that_tells_no_hour_apart_or_never_exists_is_refused(
    tmp_path: Path, layout: str, complete: str, said: str
) -> None:
    with pytest.raises(UsageError) as refused:
        read_manifest(manifest(tmp_path, f'layout = "{layout}"\ncomplete = "{complete}"'))
    assert said in str(refused.value)


def test_hour_waits_for_the_marker_of_a_feed_that_has_no_file(tmp_path: Path) -> None:
    delivery = Delivery(layout=Layout("{feed}/{hour}/*.json"), complete=Completeness("marker", marker="_SUCCESS"))
    for name in ("a.json", "_SUCCESS"):
        write(tmp_path, f"orders/{H0}/{name}", "")
    assert listed(tmp_path, delivery, "orders", "items").waiting == {H0: f"items/{H0}/_SUCCESS is missing"}
    write(tmp_path, f"items/{H0}/_SUCCESS", "")
    assert listed(tmp_path, delivery, "orders", "items").hours_after(None) == [H0]


def test_refused_file_of_a_later_hour_makes_no_hour_whole(tmp_path: Path) -> None:
    write(tmp_path, f"cdc/orders/{H0}.json", "{}")
    write(tmp_path, f"cdc/orders/{H1}.json.bak", "{}")
    assert H0 in listed(tmp_path, Delivery(complete=Completeness("next hour")), "orders").waiting


def test_files_of_two_kinds_refuse_the_hour_and_one_of_each_is_named(tmp_path: Path) -> None:
    for name in ("a.json", "b.json", "c.csv"):
        write(tmp_path, f"in/orders/{H0}/{name}", "")
    (feed,) = feeds("orders")
    feed = replace(feed, delivery=Delivery(layout=Layout("in/{feed}/{hour}/*")))
    (found,) = check_source(FolderSource(str(tmp_path)), [feed], H0, 0.01).feeds
    assert found.problems[-1] == (
        f"an hour at {tmp_path} has files of two kinds, lines of JSON, such as in/orders/{H0}/a.json and CSV, such as"
        f" in/orders/{H0}/c.csv: nothing of it was landed; move those of one kind elsewhere, then run the hour again"
    )


@pytest.mark.parametrize("name", ["a.json", "a.json.gz", "a"])
def test_avro_is_refused_with_the_setting_that_gives_json(tmp_path: Path, name: str) -> None:
    write(tmp_path, f"in/orders/{H0}/{name}", "Obj\x01\x02\x16avro.schema")
    (feed,) = feeds("orders")
    feed = replace(feed, delivery=Delivery(layout=Layout("in/{feed}/{hour}/*")))
    (found,) = check_source(FolderSource(str(tmp_path)), [feed], H0, 0.01).feeds
    assert "is an Avro file" in found.problems[-1]
    assert ": set format.class=io.confluent.connect.s3.format.json.JsonFormat in Kafka" in found.problems[-1]


def test_avro_in_place_of_the_files_that_the_layout_names_is_refused_with_the_setting(tmp_path: Path) -> None:
    write(tmp_path, kafka("orders", H0, 0, 0).replace(".json.gz", ".avro"), "Obj")
    listing = listed(tmp_path, Delivery(layout=Layout(KAFKA)), "orders")
    (reason,) = listing.refused[H0].values()
    assert "it looks like Avro: set format.class=io.confluent.connect.s3.format.json.JsonFormat" in reason


def test_corrected_line_is_kept_when_another_part_of_its_hour_arrives_late(shop: Shop) -> None:
    source = shop.root / "source"
    write(source, kafka("orders", H0, 0, 0), lines_of({1: "a"}))
    write(source, kafka("orders", H0, 1, 0), lines_of({2: "b"}) + "nonsense\n")
    shop.refresh(H0)
    record_corrections(shop.lake, ORDERS, H0, {3: lines_of({3: "corrected"})})
    write(source, kafka("orders", H0, 0, 1), lines_of({4: "late"}))
    said: list[str] = []
    shop.restate(H0, said)
    assert shop.published() == {1: "a", 2: "b", 3: "corrected", 4: "late"}
    assert not any("are left out" in line for line in said)


def test_corrected_line_is_left_out_with_a_warning_when_its_own_part_changes(shop: Shop) -> None:
    source = shop.root / "source"
    write(source, kafka("orders", H0, 0, 0), lines_of({1: "a"}))
    write(source, kafka("orders", H0, 1, 0), lines_of({2: "b"}) + "nonsense\n")
    shop.refresh(H0)
    record_corrections(shop.lake, ORDERS, H0, {3: lines_of({3: "corrected"})})
    write(source, kafka("orders", H0, 1, 0), lines_of({2: "b"}) + lines_of({3: "from the source"}))
    said: list[str] = []
    shop.restate(H0, said)
    assert shop.published() == {1: "a", 2: "b", 3: "from the source"}
    assert any("1 corrected lines" in line for line in said)


def test_check_of_an_hour_without_files_says_so(tmp_path: Path) -> None:
    write(tmp_path, f"cdc/orders/{H0}.json", lines_of({1: "a"}))
    source, both = FolderSource(str(tmp_path)), feeds("orders", "items")
    with pytest.raises(MedallionError, match=f"no change file of hour {H2}: it has {H0}$"):
        check_source(source, both, H2, 0.01)
    assert [check.notes for check in check_source(source, both, H0, 0.01).feeds] == [
        (),
        (f"items has no file of {H0}",),
    ]
