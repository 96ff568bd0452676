"""What a source lists: the change files of each hour, files that are not understood, and which hours are complete."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from medallion.errors import HourNotAvailable, MedallionError
from medallion.hours import format_hour
from medallion.ingest.change_names import Arriving, ChangeFile, Ignored, Refused, judge_file, shown_path
from medallion.ingest.delta_source import commits_by_hour, log_folder
from medallion.ingest.parts import in_order
from medallion.ingest.source import Source, SourceFile
from medallion.ingest.sources import require_known_format
from medallion.model.delivery import DELTA, Layout
from medallion.model.table import Feed


@dataclass(frozen=True)
class Listing:
    """The change files that a source lists.

    hours: hour -> topic -> names of its change files in the order in which they are read, hours in order; a refused
    hour may have none. files: every file in the folders of layouts, by name. ignored: a sentence for each file that
    looks like a change file but cannot be one. refused: hour -> name of a file with that hour in its name that is not
    understood -> why. waiting: hour -> why it is not complete yet. complete: hour -> the rule by which it is complete,
    if a feed has another rule than the end of the hour. several: topics that may have several files in an hour.
    """

    hours: Mapping[str, Mapping[str, Sequence[str]]]
    files: Mapping[str, SourceFile] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    refused: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    waiting: Mapping[str, str] = field(default_factory=dict)
    complete: Mapping[str, str] = field(default_factory=dict)
    several: frozenset[str] = frozenset()

    def files_of(self, hour: str) -> Mapping[str, SourceFile]:
        """Return every file with ``hour`` in its name, including those that are not understood."""
        names = [name for names in self.hours.get(hour, {}).values() for name in names]
        return {name: self.files[name] for name in [*names, *self.refused.get(hour, {})]}

    def require_hour(self, hour: str) -> None:
        """Raise HourNotAvailable, with the available hours, if the source has no change file of ``hour``."""
        if not self.hours.get(hour) and hour not in self.refused:
            have = [other for other in self.hours if self.hours[other]]
            span = (
                "it has none of any hour" if not have else f"it has {' to '.join(dict.fromkeys((have[0], have[-1])))}"
            )
            raise HourNotAvailable(f"the source has no change file of hour {hour}: {span}")

    def hours_after(self, applied: str | None) -> Collection[str]:
        """Return the hours before the first one after ``applied`` that is not complete: hours are applied in order."""
        first = self._first_waiting(applied)
        return [hour for hour in self.hours if first is None or hour < first]

    def require_whole(self, applied: str | None, hour: str | None = None) -> None:
        """Raise HourNotAvailable if an hour after ``applied``, up to ``hour`` if given, is not complete yet."""
        first = self._first_waiting(applied)
        if first is not None and (hour is None or first <= hour):
            raise HourNotAvailable(f"hour {first} is not complete yet: {self.waiting[first]}")

    def _first_waiting(self, applied: str | None) -> str | None:
        return min((hour for hour in self.waiting if hour > (applied or "")), default=None)

    def require_understood(self, *hours: str) -> None:
        """Raise MedallionError if a file with one of ``hours`` in its name is not understood."""
        for hour in hours:
            for name, reason in self.refused.get(hour, {}).items():
                raise MedallionError(
                    f"hour {hour} is refused: {shown_path(name)} at the source bears its name and is not read:"
                    f" {reason}; nothing of the hour was applied; correct that, or move the file elsewhere, then run"
                    " the hour again"
                )


def change_files(source: Source, feeds: Iterable[Feed], now: datetime | None = None) -> Listing:
    """List the change files of ``source`` by name, and the commits of Delta tables by their log.

    Args:
        source: The source.
        feeds: The feeds whose files are wanted.
        now: The current time, by default that of the clock: files of hours that have not begun are ignored.

    Raises:
        MedallionError: A folder cannot be listed, a file is where a feed's folder should be, or a log entry of a Delta
            table cannot be read.
        UsageError: The format of a feed is not known.
    """
    feeds, now = (*feeds,), now or datetime.now(UTC)
    files: dict[str, SourceFile] = {}
    tables = [feed for feed in feeds if feed.delivery.format == DELTA]
    delivered = [feed for feed in feeds if feed not in tables]
    folders = {feed.delivery.layout.folder for feed in delivered} | {log_folder(feed) for feed in tables}
    folders |= {Layout(marker).folder for feed in feeds if "/" in (marker := feed.delivery.complete.marker)}
    for folder in sorted(folders):
        files |= source.list_files(folder)
    files = dict(sorted(files.items()))
    for feed in feeds:
        require_known_format(feed)
    for feed in delivered:
        if (folder := feed.delivery.layout.feed_folder(feed.source_name)) in files:
            raise MedallionError(
                f"{source.root}/{folder} is a file, or a link, which is not followed: its changes would be missing;"
                " make it a folder"
            )
    sorter = _Sorter(delivered, format_hour(now))
    for name in files:
        sorter.add(name)
    sorter.refuse_unfinished()
    for feed in tables:
        for hour, commits in commits_by_hour(source, feed, files, now).items():
            sorter.hours.setdefault(hour, {})[feed.topic] = commits
    hours = {
        hour: {topic: in_order(names) for topic, names in topics.items()}
        for hour, topics in sorted(sorter.hours.items())
    }
    waiting, complete = _completeness(feeds, hours, files, now)
    several = frozenset(feed.topic for feed in feeds if feed.delivery.has_several_files)
    return Listing(hours, files, tuple(sorter.ignored), sorter.refused, waiting, complete, several)


class _Sorter:
    """The files of a source, sorted by name: those of each hour, those that refuse it, and those that are ignored."""

    def __init__(self, feeds: Sequence[Feed], running: str) -> None:
        self.hours: dict[str, dict[str, list[str]]] = {}
        self.refused: dict[str, dict[str, str]] = {}
        self.ignored: list[str] = []
        self._arriving: list[tuple[str, Arriving]] = []
        self._running = running
        self._rules = {feed.delivery.complete for feed in feeds}
        self._layouts: dict[Layout, dict[str, str]] = {}
        for feed in feeds:
            self._layouts.setdefault(feed.delivery.layout, {})[feed.source_name] = feed.topic

    def add(self, name: str) -> None:
        """Judge a file by each layout whose folder it is in; a layout that accepts it overrules the others."""
        if any(rule.is_marker(name) for rule in self._rules):
            return
        near = [(layout, topics) for layout, topics in self._layouts.items() if name.startswith(layout.folder)]
        judgements = [judge_file(name, layout, topics, self._running) for layout, topics in near]
        taken = [judgement for judgement in judgements if isinstance(judgement, ChangeFile | Arriving)]
        for judgement in taken or judgements:
            match judgement:
                case ChangeFile(topic, hour):
                    self.hours.setdefault(hour, {}).setdefault(topic, []).append(name)
                case Arriving() as unfinished:
                    self._arriving.append((name, unfinished))
                case Refused(hour, reason):
                    self.hours.setdefault(hour, {})
                    self.refused.setdefault(hour, {})[name] = reason
                case Ignored(reason):
                    self.ignored.append(f"ignored {shown_path(name)} at the source: {reason}")

    def refuse_unfinished(self) -> None:
        """Refuse hours with a file that is still being written: they would be published without it."""
        for name, file in self._arriving:
            others = self.hours.get(file.hour)
            if others is not None and file.name not in others.get(file.topic, ()):
                shown = file.name.rpartition("/")[2]
                self.refused.setdefault(file.hour, {})[name] = (
                    f"it is still being written, or was left half-written: wait for {shown}, or delete it"
                )


def _completeness(
    feeds: Sequence[Feed],
    hours: Mapping[str, Mapping[str, Sequence[str]]],
    files: Mapping[str, SourceFile],
    now: datetime,
) -> tuple[dict[str, str], dict[str, str]]:
    """Return why hours are not complete, and the rule by which others are, if it is not just the end of the hour."""
    waiting: dict[str, str] = {}
    complete: dict[str, str] = {}
    newest = {topic: hour for hour, topics in hours.items() for topic in topics}  # hours are in order
    for hour, topics in hours.items():
        held: dict[str, list[str]] = {}
        for feed in feeds:
            rule = feed.delivery.complete
            # A marker also shows that a feed without files has none in this hour.
            if rule.rule == "ended" or (feed.topic not in topics and rule.rule != "marker"):
                continue
            own = [files[name] for name in topics.get(feed.topic, ())]
            has_later = hour < newest.get(feed.topic, "")
            lacking, holds = _judge_rule(feed, hour, own, (files, has_later, now))
            if lacking:
                waiting.setdefault(hour, lacking)
            held.setdefault(holds, []).append(feed.topic)
        if held and hour not in waiting:
            complete[hour] = _describe_rules(held)
    return waiting, complete


def _describe_rules(held: Mapping[str, Sequence[str]]) -> str:
    """Name the rule that made an hour complete; the topics too, if there are several rules."""
    if len(held) == 1:
        return next(iter(held))
    return ", ".join(f"{rule} ({', '.join(sorted(topics))})" for rule, topics in sorted(held.items()))


def _judge_rule(
    feed: Feed, hour: str, own: Sequence[SourceFile], about: tuple[Mapping[str, SourceFile], bool, datetime]
) -> tuple[str, str]:
    """Return what an hour of a feed lacks to be complete, empty if nothing, and the rule in words."""
    (files, has_later, now), rule = about, feed.delivery.complete
    if rule.rule == "marker":
        marker = rule.marker_in(feed.delivery.layout).path(feed.source_name, hour)
        return ("" if marker in files else f"{marker} is missing"), f"{rule.marker} exists"
    if has_later and rule.rule == "next hour":
        return "", "a file of a later hour arrived"
    if rule.rule == "next hour" and not rule.seconds:
        return (
            f'{feed.topic} has no file of a later hour: if it may be quiet, write complete = "next hour or settled'
            ' 3600"'
        ), ""
    since = now.timestamp() - max(file.modified for file in own)
    lacking = f"{feed.topic} was modified {max(0, since):.0f} s ago, and settles after {rule.seconds} s"
    return ("" if since >= rule.seconds else lacking), f"no file was modified for {rule.seconds} s"
