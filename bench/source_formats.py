"""The same hours delivered in another format: a copy of the source, a project that reads it, the cost of decoding."""

import json
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from medallion.ingest.decode import decode_file
from medallion.model.delivery import USUAL, Delivery
from medallion.model.table import Feed
from medallion.project import find_project, project_at
from medallion.project.manifest import NAME

USUAL_FORMAT = "insert_delete"
TRIALS = 3
_LSN = 24_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MANIFEST = 'format = "debezium"\nmoments = "microseconds"\n'


class DecodingCost(NamedTuple):
    """CPU microseconds of decoding, per record of a format, the least of some trials."""

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
        Path(folder, NAME).write_text(manifest.replace("[source]\n", f"[source]\n{_MANIFEST}"), encoding="utf-8")
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
            place = target / "cdc" / feed.topic / file.name
            place.parent.mkdir(parents=True, exist_ok=True)
            with file.open(encoding="utf-8") as lines, place.open("w", encoding="utf-8") as out:
                records = map(json.loads, lines)
                out.writelines(f"{json.dumps(event)}\n" for event in change_events(feed, records))
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
    """Measure what decoding costs in both formats, over the first hours of every feed.

    source: with the changes in the usual format.
    """
    other = source_in_format(source, form)
    feeds = find_project().registry(extras=True).feeds
    usual = [replace(feed, delivery=USUAL) for feed in feeds]
    formatted = [replace(feed, delivery=Delivery(format=form, moments="microseconds")) for feed in feeds]
    return [_cost(USUAL_FORMAT, source, usual, hours), _cost(form, other, formatted, hours)]


def describe_costs(costs: list[DecodingCost]) -> str:
    """Say what decoding costs, and how that of the second format compares with the first."""
    each = ", ".join(f"{c.format} {c.microseconds:.1f} µs a record ({c.records:,} records)" for c in costs)
    usual, other = costs
    return f"decoding: {each}: {other.microseconds / usual.microseconds:.2f} times"


def _cost(form: str, source: Path, feeds: list[Feed], hours: int) -> DecodingCost:
    files = [(feed, file) for feed in feeds for file in sorted((source / "cdc" / feed.topic).glob("*.json"))[:hours]]
    least, records = float("inf"), 0
    with TemporaryDirectory(prefix="bench-decode-") as folder:
        for _ in range(TRIALS):
            started, records = time.process_time(), 0
            for feed, file in files:
                records += decode_file(file, feed, file.stem, Path(folder, "changes.parquet")).records
            least = min(least, time.process_time() - started)
    return DecodingCost(form, records, least / max(1, records) * 1e6)


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
