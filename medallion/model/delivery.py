"""How a source delivers a feed: where its files are, what a record in them means, and when an hour of them is whole.

Values alone. What a format does stands in medallion.ingest.sources, a module for each.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from string import Formatter

from medallion.hours import PATTERN

LAYOUT = "cdc/{feed}/{hour}.json"
SNAPSHOT = "snapshot/{table}"
UNITS = ("seconds", "milliseconds", "microseconds", "nanoseconds")
DECIMALS = ("text", "precise")
DELTA = "delta"  # the format whose layout is a table, and whose hours are its commits
_PARTS = {
    "feed": r"[^/]+?",
    "table": r"[^/]+?",
    "hour": PATTERN,
    "YYYY": r"[0-9]{4}",
    "MM": r"[0-9]{2}",
    "DD": r"[0-9]{2}",
    "HH": r"[0-9]{2}",
}
_NAME_GOES_ON = r"[A-Za-z0-9_]"
_BESIDE_STAR = re.compile(rf"\{{feed\}}{_NAME_GOES_ON}*\*|\*{_NAME_GOES_ON}*\{{feed\}}")
_DIGIT = "\0"  # stands for any digit where two layouts are compared
_SHAPES = {"hour": "0000-00-00T00", "YYYY": "0000", "MM": "00", "DD": "00", "HH": "00"}
_IN_HOUR = ("YYYY", "MM", "DD", "HH")
_COMPLETE = re.compile(r"ended|next hour(?: or settled ([0-9]{1,6}))?|settled ([0-9]{1,6})|marker ([^\s]+)")


class UnusableDelivery(ValueError):
    """A layout, or a rule of when an hour is whole, cannot be used; the message says why."""


@dataclass(frozen=True)
class Layout:
    """Where files are below the root of a source: a path with placeholders, in which ``*`` stands for part of a name.

    {feed} is the feed's name at the source, {table} its table; {hour} is YYYY-MM-DDTHH, or {YYYY}, {MM}, {DD} and {HH}.
    """

    text: str

    def __post_init__(self) -> None:
        text = self.text
        if not text or text.startswith("/") or ".." in text.split("/") or not text.isprintable():
            raise UnusableDelivery("it is a path below the source, such as cdc/{feed}/{hour}.json")
        try:
            fields = [(field, form, conversion) for _, field, form, conversion in Formatter().parse(text)]
        except ValueError as error:
            raise UnusableDelivery(f"its braces cannot be read: {error}") from None
        for field, form, conversion in fields:
            if field is not None and (field not in _PARTS or form or conversion):
                known = ", ".join(f"{{{name}}}" for name in _PARTS)
                raise UnusableDelivery(f"it has {{{field[:20]}}}, and may have {known} and *")

        if beside := _BESIDE_STAR.search(text):
            raise UnusableDelivery(
                f"{beside[0]} is the files of orders and of orders_items alike: put a folder, or a character that no"
                " name has, between {feed} and *, such as {feed}/* or {feed}-*"
            )

    def names(self, *wanted: str) -> bool:
        """Check whether it has all of these placeholders."""
        return {*wanted} <= {field for _, field, _, _ in Formatter().parse(self.text) if field}

    @property
    def has_hour(self) -> bool:
        """Return whether a path tells its hour."""
        return self.names("hour") or self.names(*_IN_HOUR)

    @property
    def has_several_files(self) -> bool:
        """Return whether a feed may have several files for an hour."""
        return "*" in self.text

    @property
    def folder(self) -> str:
        """The folder that all its files are in, with a slash at its end; empty for the root."""
        literal = re.split(r"[{*]", self.text, maxsplit=1)[0]
        return literal[: literal.rfind("/") + 1]

    def matches(self, path: str) -> bool:
        """Check whether a path is one of its own."""
        return _pattern(self.text).fullmatch(path) is not None

    def read(self, path: str, names: tuple[str, ...] = ()) -> tuple[str, str] | None:
        """Return the feed's name and the hour of a file, None for another one; where it has no {feed}, no name.

        names: the feeds' names; without them a feed may have any.
        """
        return _read(_pattern(self.text, names), path)

    def read_loosely(self, path: str, names: tuple[str, ...]) -> tuple[str, str] | None:
        """Return the same of a file that lies where those of an hour do, in any letter case, whatever its end."""
        return _read(_loose_pattern(self.text, names), path)

    def may_share(self, name: str, other: "Layout", other_name: str) -> bool:
        """Check whether some path is that of a file of feed ``name`` and, in the other layout, of ``other_name``."""
        return _can_meet(self._shape(name), other._shape(other_name))

    def _shape(self, name: str) -> str:
        """Return its paths for a feed, one character each: a literal one, _DIGIT, or ``*``."""
        return "".join(
            literal + _SHAPES.get(field or "", "").replace("0", _DIGIT)
            for literal, field, _, _ in Formatter().parse(self.text.replace("{feed}", name))
        )

    def path(self, name: str, hour: str = "", table: str = "") -> str:
        """Return the path of a feed's files for an hour; a ``*`` stays."""
        values = {"feed": name, "table": table, "hour": hour}
        values |= {"YYYY": hour[:4], "MM": hour[5:7], "DD": hour[8:10], "HH": hour[11:]}
        return self.text.format(**values)

    def feed_folder(self, name: str) -> str:
        """Return the folder that has all files of a feed, without a slash at its end."""
        before, *rest = re.split(r"\{(?:hour|YYYY|MM|DD|HH)\}|\*", self.text, maxsplit=1)
        folder = before.replace("{feed}", name)
        return folder.rpartition("/")[0] if rest else folder


def _read(pattern: re.Pattern[str], path: str) -> tuple[str, str] | None:
    match = pattern.fullmatch(path)
    if match is None:
        return None
    groups = match.groupdict()
    hour = groups.get("hour") or "{YYYY}-{MM}-{DD}T{HH}".format(**groups)
    return groups.get("feed", ""), hour


@lru_cache
def _pattern(text: str, names: tuple[str, ...] = ()) -> re.Pattern[str]:
    return re.compile(_regex(text, names))


@lru_cache
def _loose_pattern(text: str, names: tuple[str, ...]) -> re.Pattern[str]:
    """Cut a layout after its last placeholder: what follows may be anything that does not go on with a feed's name."""
    last = text[: text.rfind("}") + 1]
    end = f"(?!{_NAME_GOES_ON})" if last.endswith("{feed}") else ""
    return re.compile(f"{_regex(last, names)}{end}.*", re.DOTALL | re.IGNORECASE)


def _can_meet(one: str, other: str) -> bool:
    """Check whether one text has both shapes."""
    waiting, seen = [(0, 0)], set[tuple[int, int]]()
    while waiting:
        place = waiting.pop()
        if place in seen:
            continue
        seen.add(place)
        a, b = one[place[0] : place[0] + 1], other[place[1] : place[1] + 1]
        if not a and not b:
            return True
        if a == "*":
            waiting += [(place[0] + 1, place[1])] + [(place[0], place[1] + 1)] * (b not in ("", "/"))
        elif b == "*":
            waiting += [(place[0], place[1] + 1)] + [(place[0] + 1, place[1])] * (a not in ("", "/"))
        elif a and b and (a == b or (_DIGIT in (a, b) and (a + b).strip(_DIGIT).isdigit())):
            waiting.append((place[0] + 1, place[1] + 1))
    return False


def _regex(text: str, names: tuple[str, ...]) -> str:
    """Write a layout as a regular expression; a placeholder that stands there again is the same text."""
    parts, known = [], set[str]()
    one_of = {"feed": "|".join(map(re.escape, sorted(names, key=len, reverse=True)))} if names else {}
    for literal, field, _, _ in Formatter().parse(text):
        parts.append("[^/]*".join(re.escape(piece) for piece in literal.split("*")))
        if field:
            parts.append(f"(?P={field})" if field in known else f"(?P<{field}>{one_of.get(field, _PARTS[field])})")
            known.add(field)
    return "".join(parts)


@dataclass(frozen=True)
class Completeness:
    """When the files of an hour that has ended are all there.

    rule: ``ended`` at once; ``settled`` when none was modified for ``seconds``; ``marker`` when the file ``marker`` is
    there; ``next hour`` when a file of a later hour of the same feed is or, with ``seconds``, when they have settled.
    """

    rule: str = "ended"
    seconds: int = 0
    marker: str = ""

    def marker_in(self, layout: Layout) -> Layout:
        """Return where the markers of hours are whose files have that layout."""
        folder, slash, _ = layout.text.rpartition("/")
        return Layout(self.marker if "/" in self.marker else f"{folder}{slash}{self.marker}")

    def is_marker(self, path: str) -> bool:
        """Check whether a file is a marker of some hour."""
        own = path if "/" in self.marker else path.rpartition("/")[2]
        return bool(self.marker) and Layout(self.marker).matches(own)


def parse_completeness(text: str) -> Completeness:
    """Parse the rule as it is written in medallion.toml. Raises UnusableDelivery."""
    match = _COMPLETE.fullmatch(text)
    if match is None:
        raise UnusableDelivery(
            'it is "ended", "settled 600" (seconds), "marker _SUCCESS", "next hour" or "next hour or settled 600"'
        )
    quiet, settled, marker = match.groups()
    if marker and ("*" in marker or Layout(marker).names("table")):
        raise UnusableDelivery("a marker is one file: its name may have {feed} and {hour}, neither * nor {table}")
    rule = next((rule for rule in ("next hour", "settled", "marker") if text.startswith(rule)), "ended")
    return Completeness(rule, int(quiet or settled or 0), marker or "")


@dataclass(frozen=True)
class Delivery:
    """How the source delivers a feed.

    Args:
        format: What a record means: a module of medallion.ingest.sources.
        layout: Where the files of an hour are.
        snapshot: Where the state before the first hour is.
        complete: When an hour that has ended is whole.
        name: The feed's name at the source, where it is not its own.
        table: The table that records name as theirs, a pattern in which ``*`` stands for part of it; without it any.
        moments: The unit of numbers that stand for moments, where records do not say it; None where there are none.
        decimals: What a text in a decimal column is, where records do not say it: ``text``, digits, or ``precise``, the
            bytes of an unscaled number in Base64.
        version: Of a Delta table that is the source, the version that is the snapshot; hours are the commits after it.
    """

    format: str = "insert_delete"
    layout: Layout = Layout(LAYOUT)
    snapshot: Layout = Layout(SNAPSHOT)
    complete: Completeness = Completeness()
    name: str | None = None
    table: str | None = None
    moments: str | None = None
    decimals: str = "text"
    version: int = 0

    @property
    def has_several_files(self) -> bool:
        """Return whether a feed may have several files for an hour."""
        return self.format == DELTA or self.layout.has_several_files


USUAL = Delivery()
