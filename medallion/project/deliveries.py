"""The section [source] of medallion.toml: how feeds are delivered, by default and individually."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import combinations
from pathlib import Path
from typing import Any

from medallion.errors import UsageError
from medallion.model.delivery import (
    DECIMALS,
    DELTA,
    UNITS,
    USUAL,
    Delivery,
    Layout,
    UnusableDelivery,
    parse_completeness,
)
from medallion.model.table import Feed, Node

KEYS = ("format", "layout", "snapshot", "complete", "moments", "decimals", "version")
FEED_KEYS = (*KEYS, "name", "table")
_NAME = re.compile(r"[^/*{}\s]{1,200}")


@dataclass(frozen=True)
class Deliveries:
    """How a project's feeds are delivered. every: the default. feeds: by name, the feeds that differ from it."""

    every: Delivery = USUAL
    feeds: tuple[tuple[str, Delivery], ...] = ()

    def fill_in(self, tables: Iterable[Node], file: Path) -> list[Node]:
        """Return ``tables`` with the delivery of each feed.

        Raises UsageError for a feed that is not among them, and for two feeds that would have the same files.
        """
        of_feed = dict(self.feeds)
        filled = [
            replace(table, delivery=of_feed.pop(table.topic, self.every)) if isinstance(table, Feed) else table
            for table in tables
        ]
        feeds = [table for table in filled if isinstance(table, Feed)]
        for name in of_feed:
            known = sorted(feed.topic for feed in feeds)
            close = get_close_matches(name, known, n=1)
            hint = f"did you mean source.feeds.{close[0]}?" if close else f"there are {', '.join(known)}"
            raise UsageError(f"{file}: source.feeds.{name[:40]} is no feed: {hint}")
        for first, second in combinations(feeds, 2):
            if first.delivery.layout.may_share(first.source_name, second.delivery.layout, second.source_name):
                paths = [feed.delivery.layout.text.replace("{feed}", feed.source_name) for feed in (first, second)]
                shown = " and ".join(dict.fromkeys(paths))
                raise UsageError(
                    f"{file}: {first.topic} and {second.topic} would have the same files, {shown}: give"
                    " each a layout or name that the other cannot have, such as a folder of its own"
                )
        return filled


USUAL_DELIVERIES = Deliveries()


def read_deliveries(file: Path, source: Mapping[str, Any]) -> Deliveries:
    """Read the section ``[source]`` of a manifest whose keys are known.

    Raises UsageError, which names the key, what it holds, and what it may hold.
    """
    every = _read(file, "source", source, USUAL)
    feeds = source.get("feeds", {})
    if not isinstance(feeds, dict) or not all(isinstance(content, dict) for content in feeds.values()):
        raise UsageError(f"{file}: write a section for each feed that differs, such as [source.feeds.orders]")
    by_name = {name: _read(file, f"source.feeds.{name}", content, every) for name, content in feeds.items()}
    for name, delivery in [("", every), *by_name.items()]:
        key = f"source.feeds.{name}.layout" if name else "source.layout"
        is_table = delivery.format == DELTA
        if is_table and delivery.layout.has_hour:
            raise UsageError(
                f"{file}: {key} has an hour, and a Delta table's hours are its commits: write tables/{{feed}}"
            )
        if not is_table and not delivery.layout.has_hour:
            raise UsageError(f"{file}: {key} has no hour: it needs {{hour}}, or {{YYYY}}, {{MM}}, {{DD}} and {{HH}}")
        if delivery.layout.names("table"):
            raise UsageError(f"{file}: {key} has {{table}}, which a snapshot alone may have: write {{feed}}")
        if not name and not delivery.layout.names("feed"):
            raise UsageError(f"{file}: {key} has no {{feed}}: the files of all feeds would be the same ones")
        if not name and not (delivery.snapshot.names("feed") or delivery.snapshot.names("table")):
            raise UsageError(f"{file}: source.snapshot has neither {{table}} nor {{feed}}")
        if delivery.snapshot.has_hour or delivery.snapshot.names("YYYY"):
            raise UsageError(f"{file}: {key.replace('layout', 'snapshot')} has an hour, and a snapshot is of none")
        _require_marker_of_an_hour(file, key.replace("layout", "complete"), delivery)
    return Deliveries(every, (*by_name.items(),))


def _require_marker_of_an_hour(file: Path, key: str, delivery: Delivery) -> None:
    """Raise UsageError for a marker that can never exist, or that would be the same for all hours."""
    if not delivery.complete.marker:
        return
    place = delivery.complete.marker_in(delivery.layout)
    if "*" in place.text:
        raise UsageError(
            f"{file}: {key} is a file beside those of an hour, and their folder has a *: write a path without one, such"
            ' as "marker done/{feed}/{hour}"'
        )
    if not place.has_hour:
        raise UsageError(
            f"{file}: {key} is {place.text}, which would be the marker of every hour: write one with its hour, such as"
            ' "marker done/{feed}/{hour}"'
        )


def _read(file: Path, where: str, content: Mapping[str, Any], base: Delivery) -> Delivery:
    """Read the keys of one section; keys that it lacks are as in ``base``."""
    values: dict[str, Any] = {}
    for key in FEED_KEYS:
        if key not in content:
            continue
        text = str(content[key]) if key == "version" and type(content[key]) is int else content[key]
        try:
            if not isinstance(text, str) or not text.strip():
                raise UnusableDelivery("it is a text")
            values[key] = _PARSERS[key](text.strip())
        except UnusableDelivery as error:
            raise UsageError(f"{file}: {where}.{key} = {str(text)[:80]!r} cannot be used: {error}") from None
    return replace(base, **values)


def _one_of(words: tuple[str, ...]) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in words:
            raise UnusableDelivery(f"it is {', '.join(words[:-1])} or {words[-1]}")
        return text

    return parse


def _version(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise UnusableDelivery("it is the number of a version")
    return int(text)


def _word(text: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,39}", text):
        raise UnusableDelivery("it is a word in small letters, such as debezium")
    return text


def _name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise UnusableDelivery("it is a name as the source has it, such as shop.public.Orders")
    return text


def _table_pattern(text: str) -> str:
    _name(text.replace("*", "_"))
    return text


_PARSERS: Mapping[str, Callable[[str], Any]] = {
    "format": _word,
    "layout": Layout,
    "snapshot": Layout,
    "complete": parse_completeness,
    "moments": _one_of(UNITS),
    "decimals": _one_of(DECIMALS),
    "version": _version,
    "name": _name,
    "table": _table_pattern,
}
