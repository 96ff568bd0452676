"""Check a source before anything is written: its files per feed, one decoded hour, and what would be refused."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from medallion.errors import MedallionError
from medallion.hours import has_ended
from medallion.ingest.decode import DELETED, LINE, Decoded, decode_file
from medallion.ingest.hour_files import source_path
from medallion.ingest.landing import drift, require_few_bad_lines
from medallion.ingest.listing import Listing, change_files
from medallion.ingest.parts import Parts
from medallion.ingest.put_together import Reading, land_files
from medallion.ingest.snapshot_source import describe_snapshot
from medallion.ingest.source import Source
from medallion.ingest.sources import columns_in_hours
from medallion.model.table import Feed

MAX_REJECTED = 5  # number of rejected lines shown per feed


@dataclass(frozen=True)
class FeedCheck:
    """What a source has for a feed, and the result of decoding one hour of it.

    place: where its files are. hours: number of hours that have files. hour: the decoded hour; None if there is none.
    files, lines, changes: numbers for that hour. first: its first change, values by column. rejected: place (file and
    line) and reason of the first rejected lines; rejected_lines counts all. notes: warnings that a run would give.
    snapshot: description of the snapshot. problems: why the snapshot or the hour would be refused.
    """

    feed: str
    format: str
    place: str
    hours: int
    hour: str | None = None
    files: int = 0
    lines: int = 0
    changes: int = 0
    first: dict[str, Any] = field(default_factory=dict)
    rejected_lines: int = 0
    rejected: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    snapshot: str = ""
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class SourceCheck:
    """What a source has. whole: the hours that could be applied now. waiting: why an hour is not complete yet, by hour.

    refused: why hours would be refused, naming the files. ignored: files that the listing of the source ignores.
    """

    root: str
    whole: tuple[str, ...]
    waiting: dict[str, str]
    refused: tuple[str, ...]
    ignored: tuple[str, ...]
    feeds: tuple[FeedCheck, ...]

    @property
    def is_fine(self) -> bool:
        """Whether nothing would be refused."""
        return not self.refused and not any(feed.problems for feed in self.feeds)


def check_source(source: Source, feeds: Sequence[Feed], hour: str | None, max_bad_lines: float) -> SourceCheck:
    """Check a source and decode one hour of each feed; nothing is written to a lake.

    Args:
        source: The source.
        feeds: The declared feeds.
        hour: The hour to decode; by default the newest complete hour of each feed.
        max_bad_lines: Share of bad lines above which an hour is refused.

    Raises:
        MedallionError: The source cannot be listed.
        HourNotAvailable: No feed has a file of ``hour``.
        UsageError: A format is unknown.
    """
    listing = change_files(source, feeds)
    if hour is not None:
        listing.require_hour(hour)
    whole = tuple(other for other in listing.hours_after(None) if has_ended(other))
    waiting = dict(listing.waiting) | {
        other: "it has not ended" for other in listing.hours if not has_ended(other) and other not in listing.waiting
    }
    refused = []
    for other in listing.refused:
        try:
            listing.require_understood(other)
        except MedallionError as error:
            refused.append(str(error))
    checks = tuple(_check_feed(source, feed, listing, (hour, whole), max_bad_lines) for feed in feeds)
    return SourceCheck(source.root, whole, waiting, tuple(refused), listing.ignored, checks)


def _check_feed(
    source: Source, feed: Feed, listing: Listing, hours: tuple[str | None, Sequence[str]], max_bad_lines: float
) -> FeedCheck:
    wanted, whole = hours
    own = [hour for hour, topics in listing.hours.items() if feed.topic in topics]
    if wanted is None:
        wanted = next((hour for hour in reversed(own) if hour in whole), own[-1] if own else None)
    feed_check = FeedCheck(feed.topic, feed.delivery.format, feed.delivery.layout.text, len(own))
    try:
        feed_check = replace(feed_check, snapshot=describe_snapshot(source, feed))
    except MedallionError as error:
        feed_check = replace(feed_check, problems=(str(error),))
    if wanted is None:
        return feed_check
    if wanted not in own:
        return replace(feed_check, notes=(f"{feed.topic} has no file of {wanted}",))
    names = listing.hours[wanted][feed.topic]
    with TemporaryDirectory(prefix="medallion-") as folder:
        landed_at = Path(folder, f"{wanted}.json")
        try:
            landed = land_files(source, names, landed_at, Reading(columns_in_hours(feed)))
            changes = Path(folder, "changes.parquet")
            decoded = decode_file(landed_at, feed, wanted, changes, None, Parts(landed.parts))
            feed_check = _with_hour(feed_check, feed, decoded, changes)
            require_few_bad_lines(feed, wanted, landed_at, decoded, max_bad_lines)
        except MedallionError as error:
            shown = names[0] if len(names) == 1 else source_path(feed, wanted)
            feed_check = replace(feed_check, problems=(*feed_check.problems, str(error).replace(str(landed_at), shown)))
    return replace(feed_check, hour=wanted, files=len(names))


def _with_hour(feed_check: FeedCheck, feed: Feed, decoded: Decoded, changes: Path) -> FeedCheck:
    import pyarrow.parquet as pq

    first: dict[str, Any] = next(iter(pq.read_table(changes).slice(0, 1).to_pylist()), {})
    rejected = tuple(
        (decoded.parts.place(line) if decoded.parts else f"line {line}", reason)
        for line, reason, _ in decoded.rejected[:MAX_REJECTED]
    )
    shown = {"": "deletes" if first.get(DELETED) else "inserts or updates"} if first else {}
    kept_columns = {feed.columns[place].name for place in decoded.kept.get(first.get(LINE, 0), ())}
    values = {name: value for name, value in first.items() if name not in (LINE, DELETED)}
    shown |= {name: "stays as it is" if name in kept_columns else value for name, value in values.items()}
    return replace(
        feed_check,
        lines=decoded.lines,
        changes=decoded.changes,
        first=shown,
        rejected_lines=len(decoded.rejected),
        rejected=rejected,
        notes=(*drift([feed], {feed.name: decoded}),),
    )
