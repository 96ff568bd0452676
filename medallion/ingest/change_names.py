"""The names of change files: which are taken, and what is said of a file that could be taken for one.

A name that bears an hour in another way than agreed may hold changes of it: then the hour is refused, as it would be
published without them.
"""

import re
import unicodedata
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import PurePosixPath

from medallion.hours import PATTERN, is_hour

_CHANGE_FILE = re.compile(rf"cdc/([a-z0-9_]+)/({PATTERN})\.json")
_HOUR = re.compile(rf"(?<!\d){PATTERN}", re.IGNORECASE)
_UNFINISHED = re.compile(r".*(\.tmp|\.part|\.filepart|\.crc|\.swp|~)|_[^.]*", re.DOTALL)  # by those who write files
_ARRIVING = re.compile(rf"cdc/([a-z0-9_]+)/({PATTERN})\.json\.(tmp|part|filepart)")
_COMPANION = re.compile(r".*\.(md5|sha1|sha256|sha512|ok|done|ready|success|asc|sig)", re.DOTALL)  # about a file
_PACKED = re.compile(r".*\.(gz|gzip|zip|zst|zstd|bz2|xz|lz4|snappy|7z|tar|tgz|z)", re.DOTALL | re.IGNORECASE)
_SHOWN = 200  # characters of a name


@dataclass(frozen=True)
class ChangeFile:
    """A file that is taken."""

    topic: str
    hour: str


@dataclass(frozen=True)
class Arriving:
    """A change file that is still being written, or that its writer left half-written."""

    topic: str
    hour: str


@dataclass(frozen=True)
class Refused:
    """A file that refuses the hour whose name it bears."""

    hour: str
    reason: str


@dataclass(frozen=True)
class Ignored:
    """A file that looks like a change file, and belongs to no past hour."""

    reason: str


def judge_name(name: str, topics: tuple[str, ...], running: str) -> ChangeFile | Arriving | Refused | Ignored | None:
    """Judge a file below ``cdc/`` by its name; None for one that nobody would take for a change file.

    Args:
        name: Its name, relative to the source.
        topics: The feeds.
        running: The hour that has begun: of later ones nothing is taken.
    """
    if (arriving := _ARRIVING.fullmatch(name)) and arriving[1] in topics:
        return Arriving(arriving[1], arriving[2])
    _, folder, *rest = PurePosixPath(name).parts
    if any(_is_no_data(part) for part in rest):
        return None
    if folder.casefold() not in topics:
        return _of_no_feed(folder, topics, rest)
    match = _CHANGE_FILE.fullmatch(name)
    hour = match[2] if match else _borne_hour("/".join(rest))
    if hour is None:
        return Ignored(_why_not_taken(folder, topics, rest)) if rest and ".json" in rest[-1].casefold() else None
    if not is_hour(hour):
        return Ignored(f"{hour[:10]} is not on the calendar")
    if hour > running:
        return Ignored(f"hour {hour} lies in the future")
    if match and folder in topics:
        return ChangeFile(folder, hour)
    return Refused(hour, _why_not_taken(folder, topics, rest))


def shown_path(name: str) -> str:
    """Quote a name from the source: escaped, and cut."""
    return repr(name[:_SHOWN])


def _of_no_feed(folder: str, topics: tuple[str, ...], rest: list[str]) -> Ignored | None:
    """A file with an hour that lies in the folder of no feed, where one may have been meant."""
    if not rest:
        return Ignored("a change file lies in the folder of its feed, cdc/<feed>/") if _borne_hour(folder) else None
    close = get_close_matches(folder.casefold(), topics, n=1, cutoff=0.8)
    return Ignored(f"no feed is called {folder[:_SHOWN]}: did you mean cdc/{close[0]}/?") if close else None


def _is_no_data(name: str) -> bool:
    return bool(_UNFINISHED.fullmatch(name) or _COMPANION.fullmatch(name))


def _borne_hour(text: str) -> str | None:
    """Return the hour that a name bears, also in other digits or letters than agreed."""
    match = _HOUR.search(unicodedata.normalize("NFKC", text))
    return match[0].upper() if match else None


def _why_not_taken(folder: str, topics: tuple[str, ...], rest: list[str]) -> str:
    if folder not in topics:
        return f"the folder of this feed is cdc/{folder.casefold()}"
    if len(rest) > 1:
        return f"{rest[0][:_SHOWN]!r} is a folder, and a change file is one file, named YYYY-MM-DDTHH.json"
    if _PACKED.fullmatch(rest[0]):
        return "a change file is named YYYY-MM-DDTHH.json, and is not compressed: unpack it"
    return "a change file is named YYYY-MM-DDTHH.json, in plain digits and letters: rename it if it is one"
