"""The source of a new project: the same rows in each of the formats that a project may choose."""

import csv
import gzip
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

Row = Mapping[str, Any]
Change = tuple[Row | None, Row | None]  # a row before and after; None if it did not exist
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class NewSource:
    """One format of a source. manifest: the lines that follow the path in the section [source]."""

    manifest: Sequence[str]
    write_snapshot: Callable[[Path, str, "pa.Table"], None]
    write_changes: Callable[[Path, str, datetime, Sequence[Change]], None]


def _delta_snapshot(folder: Path, feed: str, rows: "pa.Table") -> None:
    from deltalake import write_deltalake

    (folder / "snapshot").mkdir(parents=True, exist_ok=True)
    write_deltalake(str(folder / "snapshot" / f"bronze_{feed}"), rows)


def _insert_delete(folder: Path, feed: str, hour: datetime, changes: Sequence[Change]) -> None:
    lines = []
    for before, after in changes:
        lines += [{"delete": before}] if before else []
        lines += [{"insert": after}] if after else []
    _write(folder / "cdc" / feed / f"{hour:%Y-%m-%dT%H}.json", _json_lines(lines, _number))


def _debezium(folder: Path, feed: str, hour: datetime, changes: Sequence[Change]) -> None:
    """Write change events without schemas, in files named as Kafka Connect's S3 sink names them."""
    first = int((hour - datetime(hour.year, hour.month, hour.day, tzinfo=UTC)) / timedelta(hours=1)) * 100
    events = []
    for number, (before, after) in enumerate(changes):
        operation = "u" if before and after else "c" if after else "d"
        source = {"connector": "postgresql", "schema": "public", "table": feed, "lsn": 24_000_000 + first + number}
        events.append({"before": before, "after": after, "source": source, "op": operation})
    place = folder / "topics" / feed / f"year={hour:%Y}" / f"month={hour:%m}" / f"day={hour:%d}" / f"hour={hour:%H}"
    packed = gzip.compress(_json_lines(events, _microseconds), mtime=0)
    _write(place / f"{feed}+0+{first:010}.json.gz", packed)


def _dms(folder: Path, feed: str, hour: datetime, changes: Sequence[Change]) -> None:
    rows = [
        ["I" if before is None else "U" if after else "D", *_cells(after or before or {})] for before, after in changes
    ]
    names = ["Op", *(changes[0][1] or changes[0][0] or {})]
    _write(folder / "public" / feed / f"{hour:%Y%m%d-%H}0500000000.csv", _csv([names, *rows]))


def _dms_snapshot(folder: Path, feed: str, rows: "pa.Table") -> None:
    content = [["Op", *rows.schema.names], *(["I", *_cells(row)] for row in rows.to_pylist())]
    _write(folder / "public" / feed / "LOAD00000001.csv", _csv(content))


def _delta_table(folder: Path, feed: str, rows: "pa.Table") -> None:
    from deltalake import write_deltalake

    path = folder / "tables" / feed
    path.parent.mkdir(parents=True, exist_ok=True)
    write_deltalake(str(path), rows)
    _date(path, 0, _EPOCH)  # before every hour, as commits must be in order of time


def _delta_commit(folder: Path, feed: str, hour: datetime, changes: Sequence[Change]) -> None:
    """Commit the changes of an hour, as of ten minutes into it."""
    import pyarrow as pa
    from deltalake import DeltaTable, write_deltalake

    path = folder / "tables" / feed
    former = DeltaTable(str(path)).to_pyarrow_table()
    key = former.schema.names[0]
    rows: dict[Any, Row] = {row[key]: row for row in former.to_pylist()}
    for before, after in changes:
        if before:
            rows.pop(before[key], None)
        if after:
            rows[after[key]] = after
    write_deltalake(str(path), pa.Table.from_pylist([*rows.values()], former.schema), mode="overwrite")
    _date(path, DeltaTable(str(path)).version(), hour + timedelta(minutes=10))


def _date(table: Path, version: int, moment: datetime) -> None:
    """Set the timestamp in the log entry of a commit to ``moment``."""
    entry = table / "_delta_log" / f"{version:020}.json"
    actions = [json.loads(line) for line in entry.read_text(encoding="utf-8").splitlines()]
    for info in (action["commitInfo"] for action in actions if "commitInfo" in action):
        info["timestamp"] = (moment - _EPOCH) // timedelta(milliseconds=1)
    entry.write_bytes(_json_lines(actions, str))


def _write(file: Path, content: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)


def _json_lines(lines: Sequence[Any], write_value: Callable[[Any], Any]) -> bytes:
    return "".join(f"{json.dumps(line, default=write_value)}\n" for line in lines).encode()


def _csv(rows: Sequence[Sequence[Any]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def _cells(row: Row) -> list[str]:
    return [f"{value:%Y-%m-%d %H:%M:%S.%f}" if isinstance(value, datetime) else str(value) for value in row.values()]


def _number(value: Any) -> Any:
    return value.strftime("%Y-%m-%dT%H:%M:%SZ") if isinstance(value, datetime) else float(value)


def _microseconds(value: Any) -> Any:
    return str(value) if isinstance(value, Decimal) else (value - _EPOCH) // timedelta(microseconds=1)


NEW_SOURCES = {
    "insert_delete": NewSource((), _delta_snapshot, _insert_delete),
    "debezium": NewSource(
        (
            'format = "debezium"',
            'layout = "topics/{feed}/year={YYYY}/month={MM}/day={DD}/hour={HH}/*.json.gz"',
            'moments = "microseconds" # of numbers in TIMESTAMP columns, as records carry no schema',
        ),
        _delta_snapshot,
        _debezium,
    ),
    "dms": NewSource(
        (
            'format = "dms"',
            'layout = "public/{feed}/{YYYY}{MM}{DD}-{HH}*.csv"',
            'snapshot = "public/{feed}/LOAD*.csv"',
        ),
        _dms_snapshot,
        _dms,
    ),
    "delta": NewSource(('format = "delta"', 'layout = "tables/{feed}"'), _delta_table, _delta_commit),
}
