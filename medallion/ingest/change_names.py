"""Judge the names of files in a layout: which are change files, and what to report about files that resemble one.

A file whose name has an hour in another form than the layout may hold changes of that hour. The hour is then refused,
because it would be published without them.
"""

import re
import unicodedata
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import PurePosixPath

from medallion.hours import PATTERN, is_hour
from medallion.ingest.refused_file import JSON_FROM_KAFKA_CONNECT
from medallion.model.delivery import LAYOUT, Layout

_HOUR = re.compile(rf"(?<!\d){PATTERN}", re.IGNORECASE)
_WRITING = r"(?:\.(?:tmp|temp|part|partial|filepart|crdownload|swp)|~)"  # suffixes that writers add to unfinished files
_UNFINISHED = re.compile(rf".*{_WRITING}|.*\.crc|_[^.]*", re.DOTALL | re.IGNORECASE)
# rsync writes .<name>.<six letters>, an editor .<name>.swp
_ARRIVING = re.compile(rf"(.*/)?(?:\.?([^/]+?){_WRITING}|\.([^/]+)\.[A-Za-z0-9]{{6}})", re.DOTALL | re.IGNORECASE)
_COMPANION = re.compile(r".*\.(md5|sha1|sha256|sha512|ok|done|ready|success|asc|sig)", re.DOTALL)  # about a file
_PACKED = re.compile(r".*\.(gz|gzip|zip|zst|zstd|bz2|xz|lz4|snappy|7z|tar|tgz|z)", re.DOTALL | re.IGNORECASE)
_SHOWN = 200  # characters of a name


@dataclass(frozen=True)
class ChangeFile:
    """A change file of a feed and an hour."""

    topic: str
    hour: str


@dataclass(frozen=True)
class Arriving:
    """A change file that is still being written, or that its writer left half-written.

    name: its name once it is complete.
    """

    topic: str
    hour: str
    name: str


@dataclass(frozen=True)
class Refused:
    """A file because of which the hour in its name is refused."""

    hour: str
    reason: str


@dataclass(frozen=True)
class Ignored:
    """A file that looks like a change file but cannot be one of a known feed and a past hour."""

    reason: str


Judgement = ChangeFile | Arriving | Refused | Ignored | None


def judge_file(name: str, layout: Layout, topics: Mapping[str, str], running: str) -> Judgement:
    """Judge a file by its name; None if it does not resemble a change file.

    Args:
        name: Its name, relative to the source.
        layout: The layout of change files.
        topics: The name at the source of each feed with this layout -> its topic.
        running: The current hour; files of later hours are ignored.
    """
    names, final = (*topics,), name_once_whole(name)
    if final and (known := _known(layout.read(final, names), topics)):
        return Arriving(*known, final)
    if any(_is_no_data(part) for part in PurePosixPath(name.removeprefix(layout.folder)).parts):
        return None
    taken = _known(layout.read(name, names), topics)
    if taken is None and layout.text == LAYOUT:
        return _judge_in_default(name, topics, running)
    place = taken or _known(layout.read_loosely(name, names), topics)
    if place is None:
        return _of_no_feed_in(layout, name, topics)
    topic, hour = place
    if not is_hour(hour):
        return Ignored(f"{hour[:10]} is not on the calendar")
    if hour > running:
        return Ignored(f"hour {hour} lies in the future")
    if taken:
        return ChangeFile(topic, hour)
    hint = f"; it looks like Avro: {JSON_FROM_KAFKA_CONNECT}" if PurePosixPath(name).suffix.lower() == ".avro" else ""
    return Refused(hour, f"a change file is named as source.layout says, {layout.text}{hint}")


def name_once_whole(name: str) -> str | None:
    """Return the final name of a file whose name says that it is still being written; None for other files."""
    arriving = _ARRIVING.fullmatch(name)
    return (arriving[1] or "") + (arriving[2] or arriving[3]) if arriving else None


def _known(read: tuple[str, str] | None, topics: Mapping[str, str]) -> tuple[str, str] | None:
    """Return topic and hour of what a layout read; None for another feed. A layout without {feed} has one feed."""
    if read is None:
        return None
    name, hour = read
    topic = topics.get(name) if name else next(iter(topics.values()), None)
    if topic is None:
        topic = next((topics[other] for other in topics if other.casefold() == name.casefold()), None)
    return None if topic is None else (topic, hour)


def _of_no_feed_in(layout: Layout, name: str, topics: Collection[str]) -> Ignored | None:
    """Return why a file of an undeclared feed is ignored, if its name is close to that of a declared feed."""
    read = layout.read(name)
    close = get_close_matches(read[0], topics, n=1, cutoff=0.8) if read else []
    return Ignored(f"no feed is called {read[0][:_SHOWN]}: did you mean {close[0]}?") if read and close else None


def _judge_in_default(name: str, topics: Collection[str], running: str) -> Judgement:
    """Judge a file below ``cdc/`` that does not match the default layout; many files there follow another layout."""
    _, folder, *rest = PurePosixPath(name).parts
    if folder.casefold() not in topics:
        return _of_no_feed(folder, topics, rest)
    hour = _borne_hour("/".join(rest))
    if hour is None:
        return Ignored(_why_not_taken(folder, topics, rest)) if rest and ".json" in rest[-1].casefold() else None
    if not is_hour(hour):
        return Ignored(f"{hour[:10]} is not on the calendar")
    if hour > running:
        return Ignored(f"hour {hour} lies in the future")
    return Refused(hour, _why_not_taken(folder, topics, rest))


def shown_path(name: str) -> str:
    """Quote a name from the source: escaped, and cut."""
    return repr(name[:_SHOWN])


def _of_no_feed(folder: str, topics: Collection[str], rest: list[str]) -> Ignored | None:
    """Return why a file outside of every feed's folder is ignored, if it may be meant as a change file."""
    if not rest:
        return Ignored("a change file lies in the folder of its feed, cdc/<feed>/") if _borne_hour(folder) else None
    close = get_close_matches(folder.casefold(), topics, n=1, cutoff=0.8)
    return Ignored(f"no feed is called {folder[:_SHOWN]}: did you mean cdc/{close[0]}/?") if close else None


def _is_no_data(name: str) -> bool:
    return bool(_UNFINISHED.fullmatch(name) or _COMPANION.fullmatch(name))


def _borne_hour(text: str) -> str | None:
    """Return the hour in a name, even if it is written with other digits or letters than agreed."""
    match = _HOUR.search(unicodedata.normalize("NFKC", text))
    return match[0].upper() if match else None


def _why_not_taken(folder: str, topics: Collection[str], rest: list[str]) -> str:
    if folder not in topics:
        return f"the folder of this feed is cdc/{folder.casefold()}"
    if len(rest) > 1:
        return f"{rest[0][:_SHOWN]!r} is a folder, and a change file is one file, named YYYY-MM-DDTHH.json"
    if _PACKED.fullmatch(rest[0]):
        return (
            "a change file is named YYYY-MM-DDTHH.json, and is not compressed: unpack it, or say so in source.layout,"
            f" cdc/{{feed}}/{{hour}}.json{PurePosixPath(rest[0]).suffix}"
        )
    return "a change file is named YYYY-MM-DDTHH.json, in plain digits and letters: rename it if it is one"
