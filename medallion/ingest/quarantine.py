"""Quarantine: rejected lines of change files, which are stored as text, shown, corrected and replayed."""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medallion.errors import UsageError, advice
from medallion.ingest.decode import Decoded, why_unfit
from medallion.ingest.hour_files import source_path
from medallion.ingest.ledger import Manifest, known_manifest
from medallion.ingest.parts import Part, Parts
from medallion.ingest.source import Landed
from medallion.model.delivery import LAYOUT
from medallion.model.table import Feed
from medallion.storage import files
from medallion.storage.delta_writes import properties, text_column, with_plain_texts
from medallion.storage.files import Place, write_json
from medallion.storage.foreign_commits import ChangedByOthers, rewritten
from medallion.storage.lake import Lake
from medallion.storage.table_features import require_writable_here

if TYPE_CHECKING:
    import pyarrow as pa

MAX_LINES, MAX_BYTES = 200_000, 128 << 20  # most of a feed that are read at once; an hour never has so many
MAX_REASONS = 20  # most reasons of an hour that are counted separately
OTHER_REASONS = "other reasons"
SNAPSHOT = "snapshot"  # in place of an hour, for rows of the snapshot
_BATCH_LINES = 4_096
_MAX_CORRECTED_BYTES = 256 << 20  # largest file of corrected lines


@dataclass(frozen=True)
class Rejected:
    """One rejected line of a change file, or a row of the snapshot as a line that inserts it.

    file: the file at the source; if the hour came packed or in several files, with the line in it, as ``file:line``.
    line_number: the line in the landed file. raw: its text, cut after 1 MiB, with bytes that are not UTF-8 escaped.
    """

    hour: str
    file: str
    line_number: int
    reason: str
    raw: str
    run_id: str


def write_rejected(lake: Lake, feed: Feed, hour: str, run_id: str, decoded: Decoded) -> None:
    """Store the rejected lines of one hour, or of SNAPSHOT, and replace those of an earlier attempt.

    Raises ChangedByOthers if somebody else has changed the table.
    """
    from deltalake import write_deltalake

    path = lake.quarantine(feed.topic)
    delta = lake.open(path)
    name = f"quarantine_{feed.topic}"
    if delta is not None and (reason := rewritten(name, lake.at(path), delta)):
        raise ChangedByOthers(reason)
    if delta is not None:
        require_writable_here(name, path, delta)
    commit = properties(upon=delta)
    former = delta.to_pyarrow_dataset().count_rows(filter=text_column("hour") == hour) if delta is not None else 0
    if not decoded.rejected and not former:
        return

    is_usual = feed.delivery.layout.text == LAYOUT
    file = f"{feed.topic}/{hour}.json" if is_usual else source_path(feed, hour)
    if hour == SNAPSHOT:
        file = f"snapshot/{feed.name}"
    parts = decoded.parts
    table = _arrow(
        Rejected(hour, parts.place(line) if parts else file, line, reason, raw, run_id)
        for line, reason, raw in decoded.rejected
    )
    if delta is None:
        options = lake.storage_options
        write_deltalake(path, table, name=feed.topic, storage_options=options, commit_properties=commit)
    else:
        write_deltalake(delta, table, mode="overwrite", predicate=f"hour = '{hour}'", commit_properties=commit)


def read_rejected(lake: Lake, feed: Feed, hour: str | None = None) -> list[Rejected]:
    """Return the lines of a feed in quarantine, sorted by hour and line; only those of one hour, if given.

    Raises UsageError for more than MAX_LINES lines or MAX_BYTES bytes, which no single hour has.
    """
    lines: list[Rejected] = []
    read = 0
    for batch in _batches(lake, feed, list(Rejected.__dataclass_fields__), hour and text_column("hour") == hour):
        read += batch.nbytes
        if len(lines) + batch.num_rows > MAX_LINES or read > MAX_BYTES:
            raise UsageError(
                f"quarantine has more lines of {feed.topic} than are shown at once ({MAX_LINES:,} lines or"
                f" {MAX_BYTES / 1e6:,.0f} MB): give --hour; medallion quarantine list counts them by hour"
            )
        lines += [Rejected(**row) for row in batch.to_pylist()]
    return sorted(lines, key=lambda line: (line.hour, line.line_number))


def count_rejected(lake: Lake, feed: Feed) -> Counter[tuple[str, str]]:
    """Count the lines of a feed in quarantine by hour and reason.

    At most MAX_REASONS of an hour are counted separately, because a reason may quote its line; the rest count as
    OTHER_REASONS.
    """
    counts: Counter[tuple[str, str]] = Counter()
    reasons: Counter[str] = Counter()
    for batch in _batches(lake, feed, ["hour", "reason"]):
        groups = batch.group_by(["hour", "reason"]).aggregate([([], "count_all")])
        for hour, reason, lines in zip(*(groups[name].to_pylist() for name in groups.column_names), strict=True):
            if (hour, reason) not in counts:
                reasons[hour] += 1
            is_shown = (hour, reason) in counts or reasons[hour] <= MAX_REASONS
            counts[hour, reason if is_shown else OTHER_REASONS] += lines
    return counts


def _batches(lake: Lake, feed: Feed, columns: list[str], condition: Any = None) -> "Iterator[pa.Table]":
    """Yield the lines of a feed in quarantine in batches."""
    import pyarrow as pa

    delta = lake.open(lake.quarantine(feed.topic))
    if delta is None:
        return
    few = {"batch_size": _BATCH_LINES, "batch_readahead": 1, "fragment_readahead": 1}
    for batch in delta.to_pyarrow_dataset().to_batches(columns=columns, filter=condition, **few):
        yield with_plain_texts(pa.Table.from_batches([batch]))


@dataclass(frozen=True)
class _Corrections:
    """Corrected lines by line number in a landed file, with the checksum and the parts of that file."""

    sha256: str | None = None
    lines: Mapping[int, str] = field(default_factory=dict)
    parts: tuple[Part, ...] = ()

    def lines_of(self, landed: Landed) -> dict[int, str]:
        """Return the corrected lines whose part is the same in ``landed``, by line number there."""
        if self.sha256 == landed.sha256:
            return {**self.lines}
        former, before = Parts(self.parts), Parts(landed.parts).lines_before()
        places = [(former.locate(number), raw) for number, raw in self.lines.items()] if former else []
        return {before[part] + number: raw for (part, number), raw in places if part in before}


def read_corrections(lake: Lake, feed: Feed, hour: str, landed: Landed) -> Mapping[int, str]:
    """Return the corrected lines of a landed file by line number, without lines of parts that have changed since."""
    return _recorded_corrections(_corrections_file(lake, feed, hour)).lines_of(landed)


def require_whole_corrections(lake: Lake, feeds: Iterable[Feed], hours: Iterable[str]) -> None:
    """Raise DamagedFile if a record of corrected lines cannot be read, before any of ``hours`` is restated."""
    for hour in hours:
        for feed in feeds:
            _recorded_corrections(_corrections_file(lake, feed, hour))


def _recorded_corrections(place: Place) -> _Corrections:
    """Read the corrected lines of an hour; none if the record does not exist."""

    def parse(content: dict[str, Any]) -> _Corrections:
        lines = {int(number): str(raw) for number, raw in content["lines"].items()}
        return _Corrections(str(content["sha256"]), lines, tuple(Part(**part) for part in content.get("parts", ())))

    remedy = "restore it from a backup; or remove it, and correct the lines again"
    return files.read_record(place, parse, remedy) or _Corrections()


def outdated_corrections(lake: Lake, manifest: Manifest) -> list[str]:
    """Return a warning for each file of an hour that has changed since lines of it were corrected."""
    hour, sentences = manifest.hour, []
    for topic, file in manifest.files.items():
        recorded = _recorded_corrections(lake.corrections / topic / f"{hour}.json")
        if left_out := len(recorded.lines) - len(recorded.lines_of(file)):
            sentences.append(
                f"{left_out} corrected lines of {topic}/{hour}.json are left out: the file has changed"
                f" since; correct {advice.see_rejected_lines(topic, hour)}"
            )
    return sentences


def require_fitting_lines(lake: Lake, feed: Feed, hour: str) -> int:
    """Count the rejected lines of an hour that fit the feed's current schema.

    Raises UsageError if quarantine has no line of the hour, or none fits.
    """
    rows = _require_rejected(lake, feed, hour)
    fitting = sum(why_unfit(feed, hour, row.raw) is None for row in rows.values())
    if not fitting:
        row = next(iter(rows.values()))
        reason = f": line {row.line_number}: {why_unfit(feed, hour, row.raw)}"
        raise UsageError.quoting(f"none of {len(rows)} lines fits", reason)
    return fitting


def record_corrections(lake: Lake, feed: Feed, hour: str, lines: Mapping[int, str]) -> None:
    """Record corrections of rejected lines, which are used when the hour is applied again.

    Args:
        lake: The lake.
        feed: The feed of the lines.
        hour: The hour of the lines.
        lines: Corrected line by line number.

    Raises:
        UsageError: A corrected line does not fit, or is not in quarantine; nothing is recorded then.
    """
    require_fitting_corrections(lake, feed, hour, lines)
    landed = known_manifest(lake, hour).files[feed.topic]
    every = _Corrections(landed.sha256, {**read_corrections(lake, feed, hour, landed), **lines}, landed.parts)
    write_json(_corrections_file(lake, feed, hour), asdict(every))


def require_fitting_corrections(lake: Lake, feed: Feed, hour: str, lines: Mapping[int, str]) -> None:
    """Raise UsageError if a corrected line does not fit the feed's schema, or is not in quarantine."""
    rows = _require_rejected(lake, feed, hour)
    if unknown := sorted(set(lines) - set(rows)):
        raise UsageError(f"line {unknown[0]} of {feed.topic}/{hour}.json is not in quarantine")
    for number, raw in lines.items():
        if reason := why_unfit(feed, hour, raw):
            raise UsageError.quoting(f"line {number} of {feed.topic}/{hour}.json still does not fit", f": {reason}")


def _require_rejected(lake: Lake, feed: Feed, hour: str) -> dict[int, Rejected]:
    """Return the rejected lines of an hour by number. Raises UsageError if there are none."""
    rows = {row.line_number: row for row in read_rejected(lake, feed, hour)}
    if not rows:
        raise UsageError(f"quarantine has no line of {feed.topic} in {hour}: {advice.see_quarantine()}")
    return rows


def read_corrected_lines(path: Path) -> dict[int, str]:
    """Read a file in the form that ``medallion quarantine show --format json`` prints; return its lines by number.

    Raises UsageError if it is too large, cannot be read, or has another form.
    """
    try:
        if path.stat().st_size > _MAX_CORRECTED_BYTES:
            raise UsageError(
                f"{path} is larger than {_MAX_CORRECTED_BYTES / 1e6:,.0f} MB: correct fewer lines at a time"
            )
        return parse_corrected_lines(path.read_text(encoding="utf-8"), str(path))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not UTF-8") from None


def parse_corrected_lines(text: str, name: str) -> dict[int, str]:
    """Return the lines in ``text`` by number. name: of the text in a message. Raises UsageError for another form."""
    try:
        return {int(row["line_number"]): str(row["raw"]) for row in json.loads(text)}
    except (ValueError, KeyError, TypeError):
        raise UsageError(
            f"{name} is not what medallion quarantine show --format json prints: a list of line_number and raw"
        ) from None


def feed_of(feeds: Collection[Feed], topic: str) -> Feed:
    """Return the feed of a topic. Raises UsageError if there is none."""
    for feed in feeds:
        if feed.topic == topic:
            return feed
    raise UsageError(
        f"no feed is called {topic[:80]!r}: there are {', '.join(feed.topic for feed in feeds)}; rows that a table"
        " drops are a table, such as quarantine_silver_orders: medallion query reads it"
    )


def _corrections_file(lake: Lake, feed: Feed, hour: str) -> Place:
    return lake.corrections / feed.topic / f"{hour}.json"


def _arrow(rows: Iterable[Rejected]) -> "pa.Table":
    import pyarrow as pa

    types = {"line_number": pa.int64()}
    schema = pa.schema([(name, types.get(name, pa.string())) for name in Rejected.__dataclass_fields__])
    return pa.Table.from_pylist([asdict(row) for row in rows], schema=schema)
