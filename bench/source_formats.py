"""The same hours delivered in another format: a copy of the source, a project that reads it, the cost of decoding."""

import csv
import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any, NamedTuple

from medallion.ingest.decode import decode_file
from medallion.ingest.parts import Parts
from medallion.ingest.put_together import Reading, land_files
from medallion.ingest.source import FolderSource
from medallion.ingest.sources import columns_in_hours
from medallion.model.delivery import USUAL, Delivery, Layout
from medallion.model.table import Feed
from medallion.project import find_project, project_at
from medallion.project.manifest import NAME

USUAL_FORMAT = "insert_delete"
TRIALS = 5
_LSN = 24_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class DecodingCost(NamedTuple):
    """CPU microseconds of reading and decoding, per record of a format, the least of some trials."""

    format: str
    records: int
    microseconds: float


@contextmanager
def project_in_format(form: str) -> Iterator[None]:
    """Enter the project with its source in ``form``."""
    if form == USUAL_FORMAT:
        yield
        return
    project = find_project()
    with TemporaryDirectory(prefix="bench-project-") as folder:
        for place in project.root.iterdir():
            if place.name in {"spark_jobs", "expectations", "plugins", "demo", "refresh.lock"}:
                Path(folder, place.name).symlink_to(place)
        manifest = (project.root / NAME).read_text(encoding="utf-8")
        source = f"[source]\n{_FORMATS[form].manifest}"
        Path(folder, NAME).write_text(manifest.replace("[source]\n", source), encoding="utf-8")
        with project_at(Path(folder)).entered():
            yield


def source_in_format(source: Path, form: str) -> Path:
    """Return a source with the same changes as records of ``form``; the one given where that is its own."""
    if form == USUAL_FORMAT:
        return source
    target = source.with_name(f"{source.name}-{form}")
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    (target / "snapshot").symlink_to(source / "snapshot")
    for feed in find_project().registry(extras=True).feeds:
        for file in sorted((source / "cdc" / feed.topic).glob("*.json")):
            place = target / _FORMATS[form].delivery.layout.path(feed.topic, file.stem)
            place.parent.mkdir(parents=True, exist_ok=True)
            with file.open(encoding="utf-8") as lines, place.open("w", encoding="utf-8", newline="") as out:
                _FORMATS[form].write(feed, map(json.loads, lines), out)
    return target


def change_events(feed: Feed, records: Iterator[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Write records of insert_delete as change events; a deletion and an insert of one key are an update."""
    moments = {column.name for column in feed.columns if column.type == "TIMESTAMP"}
    former: Mapping[str, Any] | None = None
    number = _LSN
    for record in records:
        ((operation, row),) = record.items()
        row = {name: _microseconds(value) if name in moments and value else value for name, value in row.items()}
        is_update = former is not None and operation == "insert" and _key(feed, former) == _key(feed, row)
        if former is not None and not is_update:
            yield _event(feed, "d", former, None, number := number + 1)
        if operation == "delete":
            former = row
            continue
        yield _event(feed, "u" if is_update else "c", former if is_update else None, row, number := number + 1)
        former = None
    if former is not None:
        yield _event(feed, "d", former, None, number + 1)


def decoding_costs(source: Path, form: str, hours: int) -> list[DecodingCost]:
    """Measure what reading and decoding cost in both formats, over the first hours of every feed.

    source: with the changes in the usual format.
    """
    other = source_in_format(source, form)
    feeds = find_project().registry(extras=True).feeds
    usual = [replace(feed, delivery=USUAL) for feed in feeds]
    formatted = [replace(feed, delivery=_FORMATS[form].delivery) for feed in feeds]
    costs = [DecodingCost(USUAL_FORMAT, 0, inf), DecodingCost(form, 0, inf)]
    for _ in range(TRIALS):  # in turns, as the machine may do something else
        measured = _cost(USUAL_FORMAT, source, usual, hours), _cost(form, other, formatted, hours)
        costs = [
            min(least, cost, key=lambda cost: cost.microseconds) for least, cost in zip(costs, measured, strict=True)
        ]
    return costs


def describe_costs(costs: list[DecodingCost]) -> str:
    """Say what decoding costs, and how that of the second format compares with the first.

    An update is two records of the first one and one of the others, so the same changes are compared too.
    """
    each = ", ".join(f"{c.format} {c.microseconds:.1f} µs a record ({c.records:,} records)" for c in costs)
    usual, other = costs
    record = other.microseconds / usual.microseconds
    changes = record * other.records / max(1, usual.records)
    return f"decoding: {each}: {record:.2f} times a record, {changes:.2f} times for the same changes"


def _cost(form: str, source: Path, feeds: list[Feed], hours: int) -> DecodingCost:
    files = [(feed, file) for feed in feeds for file in sorted((source / "cdc" / feed.topic).glob("*"))[:hours]]
    records = 0
    with TemporaryDirectory(prefix="bench-decode-") as folder:
        landed, decoded = Path(folder, "landed.json"), Path(folder, "changes.parquet")
        started = time.process_time()
        for feed, file in files:
            name = file.relative_to(source).as_posix()
            parts = land_files(FolderSource(str(source)), [name], landed, Reading(columns_in_hours(feed))).parts
            records += decode_file(landed, feed, file.stem, decoded, None, Parts(parts)).records
        seconds = time.process_time() - started
    return DecodingCost(form, records, seconds / max(1, records) * 1e6)


def _event(feed: Feed, operation: str, before: Any, after: Any, lsn: int) -> dict[str, Any]:
    source = {
        "version": "3.0.0.Final",
        "connector": "postgresql",
        "name": "shop",
        "ts_ms": lsn,
        "snapshot": "false",
        "db": "shop",
        "schema": "public",
        "table": feed.topic,
        "txId": lsn,
        "lsn": lsn,
        "xmin": None,
    }
    return {"before": before, "after": after, "source": source, "op": operation, "ts_ms": lsn, "transaction": None}


def _key(feed: Feed, row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row[key] for key in feed.keys)


def _microseconds(text: str) -> int:
    moment = datetime.fromisoformat(text)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(microseconds=1)


class _Format(NamedTuple):
    """A format of the benchmark. manifest: its lines in [source]. write: the records of insert_delete to a file."""

    manifest: str
    delivery: Delivery
    write: Callable[[Feed, Iterator[Mapping[str, Any]], IO[str]], None]


def _write_events(feed: Feed, records: Iterator[Mapping[str, Any]], out: IO[str]) -> None:
    out.writelines(f"{json.dumps(event)}\n" for event in change_events(feed, records))


def _write_rows(feed: Feed, records: Iterator[Mapping[str, Any]], out: IO[str]) -> None:
    """Write records as AWS DMS does: the row after the change, of a deletion the one before it."""
    names = [column.name for column in feed.columns]
    moments = {column.name for column in feed.columns if column.type == "TIMESTAMP"}
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["Op", *names])
    for event in change_events(feed, records):
        row = event["after"] or event["before"]
        values = (_text_of_moment(row.get(name)) if name in moments else row.get(name) for name in names)
        cells = ["NULL" if value is None else value for value in values]
        writer.writerow([{"c": "I", "u": "U", "d": "D"}[event["op"]], *cells])


def _text_of_moment(microseconds: int | None) -> str | None:
    if microseconds is None:
        return None
    return f"{_EPOCH + timedelta(microseconds=microseconds):%Y-%m-%d %H:%M:%S.%f}"


_FORMATS = {
    "debezium": _Format(
        'format = "debezium"\nmoments = "microseconds"\n',
        Delivery(format="debezium", moments="microseconds"),
        _write_events,
    ),
    "dms": _Format(
        'format = "dms"\nlayout = "cdc/{feed}/{hour}.csv"\n',
        Delivery(format="dms", layout=Layout("cdc/{feed}/{hour}.csv")),
        _write_rows,
    ),
}
