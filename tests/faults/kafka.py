"""The shop's changes as Debezium's events in the files of Kafka Connect: two partitions, several files of an hour."""

import gzip
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.source_formats import change_events
from medallion.model.delivery import Delivery, Layout
from medallion.model.registry import Registry
from medallion.model.table import Feed
from tests.shop import graph

KAFKA = "kafka"
SOURCES = ("files", KAFKA)
PARTITIONS, RECORDS = 2, 5  # of a file
LAYOUT = Layout("topics/{feed}/year={YYYY}/month={MM}/day={DD}/hour={HH}/*.json.gz")
DELIVERY = Delivery(format="debezium", layout=LAYOUT, moments="microseconds")
Records = list[dict[str, Any]]


def from_kafka(tables: Registry) -> Registry:
    """Return the same tables whose feeds are delivered that way."""
    return graph(
        {
            name: replace(table, delivery=DELIVERY) if isinstance(table, Feed) else table
            for name, table in tables.tables.items()
        }
    )


def source_of(tables: Registry) -> str:
    """Return which of SOURCES the feeds are delivered by."""
    return KAFKA if any(feed.delivery == DELIVERY for feed in tables.feeds) else SOURCES[0]


def deliver(source: Path, tables: Registry) -> None:
    """Write the change files of a generated source as its feeds are delivered."""
    if source_of(tables) != KAFKA:
        return
    for feed in tables.feeds:
        offsets = Counter[int]()
        for file in sorted((source / "cdc" / feed.topic).glob("*.json")):
            by_partition: dict[int, Records] = {}
            for event in change_events(feed, map(json.loads, file.read_text().splitlines())):
                row = event["after"] or event["before"]
                partition = sum(json.dumps(row[key]).encode()[-1] for key in feed.keys) % PARTITIONS
                by_partition.setdefault(partition, []).append(event)
            for partition, records in by_partition.items():
                for piece in _pieces(records):
                    write_part(source, feed.topic, file.stem, (partition, offsets[partition]), piece)
                    offsets[partition] += len(piece)


def part(source: Path, topic: str, hour: str, place: tuple[int, int]) -> Path:
    """Return the file of a feed and an hour that begins at a place: partition and offset."""
    folder = source / LAYOUT.path(topic, hour).rpartition("/")[0]
    return folder / f"{topic}+{place[0]}+{place[1]:010}.json.gz"


def parts(source: Path, topic: str, hour: str) -> list[Path]:
    """Return all files of a feed and an hour, in order."""
    return sorted(part(source, topic, hour, (0, 0)).parent.glob("*.json.gz"))


def place_of(file: Path) -> tuple[int, int]:
    """Return partition and offset of the first record of a file."""
    _, partition, offset = file.name.split(".")[0].rsplit("+", 2)
    return int(partition), int(offset)


def read_part(file: Path) -> Records:
    """Return the records of a file."""
    return [json.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines()]


def write_part(source: Path, topic: str, hour: str, place: tuple[int, int], records: Iterable[Any]) -> Path:
    """Write a file of a feed and an hour."""
    file = part(source, topic, hour, place)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(gzip.compress("".join(f"{json.dumps(record)}\n" for record in records).encode(), mtime=0))
    return file


def _pieces(records: Records) -> Iterator[Records]:
    for start in range(0, len(records), RECORDS):
        yield records[start : start + RECORDS]
