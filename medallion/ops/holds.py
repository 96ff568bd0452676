"""Holds: releases that readers keep under a name, such as the one of an annual report, for as long as they want."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from medallion.errors import UsageError
from medallion.storage import files
from medallion.storage.files import Place
from medallion.storage.lake import Lake

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,62}")


@dataclass(frozen=True)
class Hold:
    """A release that is held: upkeep keeps it, and every file that it is read from, however old it is."""

    name: str
    release_id: int
    since: datetime


def read_holds(lake: Lake) -> list[Hold]:
    """Return all holds, sorted by name. Raises DamagedFile if one cannot be read."""
    places = files.glob(_folder(lake), "*.json")
    return [hold for place in places if (hold := _read(place)) is not None]


def held_releases(lake: Lake) -> dict[int, list[str]]:
    """Return the names of the holds of each release that is held."""
    names: dict[int, list[str]] = {}
    for hold in read_holds(lake):
        names.setdefault(hold.release_id, []).append(hold.name)
    return names


def require_hold(lake: Lake, name: str) -> Hold:
    """Return the hold of that name. Raises UsageError, with the known names, if there is none."""
    holds_by_name = {hold.name: hold for hold in read_holds(lake)}
    if name not in holds_by_name:
        known = f"the names in use are {', '.join(holds_by_name)}; " if holds_by_name else ""
        raise UsageError(f"no release is held as {name}: {known}medallion release list shows numbers and names")
    return holds_by_name[name]


def require_free_name(lake: Lake, name: str) -> None:
    """Raise UsageError if ``name`` is no name, or holds a release already."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} is no name: write letters, digits, _, - and ., a letter first, at most 63")
    for hold in read_holds(lake):
        if hold.name == name:
            held = f"{name} holds release {hold.release_id} already"
            raise UsageError(f"{held}: run medallion release unhold {name} first")


def add_hold(lake: Lake, name: str, release_id: int) -> Hold:
    """Hold a release. Raises UsageError as ``require_free_name`` does."""
    require_free_name(lake, name)
    hold = Hold(name, release_id, datetime.now(UTC))
    content = {"release": hold.release_id, "since": hold.since.isoformat(timespec="seconds")}
    files.write_json(_folder(lake) / f"{name}.json", content)
    return hold


def end_hold(lake: Lake, name: str) -> Hold:
    """End a hold, and return it. Raises UsageError, with the known names, if there is none."""
    hold = require_hold(lake, name)
    (_folder(lake) / f"{name}.json").unlink()
    return hold


def end_holds(lake: Lake, releases: Collection[int]) -> list[Hold]:
    """End the holds of these releases, which are gone, and return them."""
    return [end_hold(lake, hold.name) for hold in read_holds(lake) if hold.release_id in releases]


def _folder(lake: Lake) -> Place:
    return lake.at(lake.ops("holds"))


def _read(place: Place) -> Hold | None:
    def parse(content: dict[str, Any]) -> Hold:
        return Hold(place.stem, int(content["release"]), datetime.fromisoformat(content["since"]))

    return files.read_record(place, parse, "remove it, and hold the release again")
