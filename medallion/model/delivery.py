"""How a source delivers a feed: where its files are, what a record means, and when the files of an hour are complete.

Values only. The formats are implemented in medallion.ingest.sources, one module each.
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
DELTA = "delta"  # the format whose layout is a Delta table, and whose hours consist of its commits
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
_DIGIT = "\0"  # stands for any digit when two layouts are compared
_SHAPES = {"hour": "0000-00-00T00", "YYYY": "0000", "MM": "00", "DD": "00", "HH": "00"}
_IN_HOUR = ("YYYY", "MM", "DD", "HH")
_COMPLETE = re.compile(r"ended|next hour(?: or settled ([0-9]{1,6}))?|settled ([0-9]{1,6})|marker ([^\s]+)")


class UnusableDelivery(ValueError):
    """A layout or a completeness rule cannot be used; the message says why."""


@dataclass(frozen=True)
class Layout:
    """Where files are below the root of a source: a path with placeholders, in which ``*`` matches part of a name.

    {feed} is the name of the feed at the source, {table} its table. The hour is {hour}, which is YYYY-MM-DDTHH, or
    {YYYY}, {MM}, {DD} and {HH}.
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
        """Return whether the layout has all of these placeholders."""
        return {*wanted} <= {field for _, field, _, _ in Formatter().parse(self.text) if field}

    @property
    def has_hour(self) -> bool:
        """Whether paths contain their hour."""
        return self.names("hour") or self.names(*_IN_HOUR)

    @property
    def has_several_files(self) -> bool:
        """Whether a feed may have several files for an hour."""
        return "*" in self.text

    @property
    def folder(self) -> str:
        """The folder that contains all its files, with a trailing slash; empty for the root."""
        literal = re.split(r"[{*]", self.text, maxsplit=1)[0]
        return literal[: literal.rfind("/") + 1]

    def matches(self, path: str) -> bool:
        """Return whether a path matches the layout."""
        return _pattern(self.text).fullmatch(path) is not None

    def read(self, path: str, names: tuple[str, ...] = ()) -> tuple[str, str] | None:
        """Return the feed name and the hour of a path, None if it does not match; the name is empty without {feed}.

        names: the names that feeds may have; by default any.
        """
        return _read(_pattern(self.text, names), path)

    def read_loosely(self, path: str, names: tuple[str, ...]) -> tuple[str, str] | None:
        """Return feed name and hour of a path that matches in any letter case and with any ending."""
        return _read(_loose_pattern(self.text, names), path)

    def may_share(self, name: str, other: "Layout", other_name: str) -> bool:
        """Return whether a path can be a file of feed ``name`` here and of ``other_name`` in the other layout."""
        return _can_meet(self._shape(name), other._shape(other_name))

    def _shape(self, name: str) -> str:
        """Return the pattern of its paths for a feed, in which each character is a literal, _DIGIT or ``*``."""
        return "".join(
            literal + _SHAPES.get(field or "", "").replace("0", _DIGIT)
            for literal, field, _, _ in Formatter().parse(self.text.replace("{feed}", name))
        )

    def path(self, name: str, hour: str = "", table: str = "") -> str:
        """Return the path of the files of a feed for an hour; a ``*`` is kept."""
        values = {"feed": name, "table": table, "hour": hour}
        values |= {"YYYY": hour[:4], "MM": hour[5:7], "DD": hour[8:10], "HH": hour[11:]}
        return self.text.format(**values)

    def feed_folder(self, name: str) -> str:
        """Return the folder that contains all files of a feed, without a trailing slash."""
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
    """Return the pattern of a layout up to its last placeholder; anything but more of a feed name may follow."""
    last = text[: text.rfind("}") + 1]
    end = f"(?!{_NAME_GOES_ON})" if last.endswith("{feed}") else ""
    return re.compile(f"{_regex(last, names)}{end}.*", re.DOTALL | re.IGNORECASE)


def _can_meet(left: str, right: str) -> bool:
    """Return whether some text matches both shapes."""
    waiting, seen = [(0, 0)], set[tuple[int, int]]()
    while waiting:
        place = waiting.pop()
        if place in seen:
            continue
        seen.add(place)
        a, b = left[place[0] : place[0] + 1], right[place[1] : place[1] + 1]
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
    """Return a layout as a regular expression; a repeated placeholder must match the same text."""
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
    """The rule for when an hour that has ended has all its files.

    rule: ``ended``: immediately; ``settled``: when no file was modified for ``seconds``; ``marker``: when the file
    ``marker`` exists; ``next hour``: when a file of a later hour of the same feed exists or, with ``seconds``, when the
    files have settled.
    """

    rule: str = "ended"
    seconds: int = 0
    marker: str = ""

    def marker_in(self, layout: Layout) -> Layout:
        """Return the layout of the markers of hours whose files have ``layout``."""
        folder, slash, _ = layout.text.rpartition("/")
        return Layout(self.marker if "/" in self.marker else f"{folder}{slash}{self.marker}")

    def is_marker(self, path: str) -> bool:
        """Return whether a file is the marker of some hour."""
        own = path if "/" in self.marker else path.rpartition("/")[2]
        return bool(self.marker) and Layout(self.marker).matches(own)


def parse_completeness(text: str) -> Completeness:
    """Parse a rule in the notation of medallion.toml. Raises UnusableDelivery."""
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
        format: The meaning of a record: a module of medallion.ingest.sources.
        layout: Where the files of an hour are.
        snapshot: Where the state before the first hour is.
        complete: When an hour that has ended is complete.
        name: The name of the feed at the source, if it differs from its own name.
        table: The table that records must name, a pattern in which ``*`` matches any part; without it any table.
        moments: The unit of numbers that stand for timestamps, if records do not say it; None if there are none.
        decimals: The meaning of a text in a decimal column, if records do not say it: ``text`` for digits, ``precise``
            for the bytes of an unscaled number in Base64.
        version: If the source is a Delta table, the version that is the snapshot; hours are the commits after it.
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
        """Whether a feed may have several files for an hour."""
        return self.format == DELTA or self.layout.has_several_files


USUAL = Delivery()
