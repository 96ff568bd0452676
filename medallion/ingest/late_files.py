"""Find files that arrive after their hour was applied, by comparing the source's listing with what landed.

Only days whose listing has changed since the last comparison are compared, with the manifests of their hours; no
content is read. The result is stored beside the event log, where status and pages read it without listing the source.
Hours whose manifests were lost with the landing folder are not compared until it is restored.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any

from medallion.errors import advice
from medallion.ingest.ledger import Manifest, named_hours, read_manifest_if_whole
from medallion.ingest.listing import Listing
from medallion.ingest.source import Landed
from medallion.storage import files
from medallion.storage.files import Place, write_json
from medallion.storage.lake import Lake

USUAL_HOURS = 6  # the number of last hours that show whether a topic usually has lines
MIN_USUAL_HOURS = 3  # the least number of hours that show it


@dataclass(frozen=True)
class LateHour:
    """An applied hour whose files at the source differ from those that were applied.

    new: topics whose file arrived after the hour was applied. changed: topics with a file of another name or size than
    those that landed. whole: whether nothing of the hour was applied.
    """

    hour: str
    new: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    whole: bool = False

    def describe(self) -> list[str]:
        """Describe each late file in a sentence."""
        if self.whole:
            return [f"hour {self.hour} arrived after a later one had been applied"]
        arrived = [f"{topic}/{self.hour}.json arrived after its hour had been applied" for topic in self.new]
        return arrived + [f"{topic}/{self.hour}.json changed after its hour had been applied" for topic in self.changed]


def find_late(lake: Lake, listing: Listing, applied: str | None, landed: Collection[str]) -> tuple[LateHour, ...]:
    """Compare the source with what was applied, and store the result for ``read_late``.

    Args:
        lake: The lake; the caller is its writer.
        listing: What the source lists.
        applied: The last hour that every Bronze table has; None if there is only the snapshot.
        landed: The hours that have ever landed.
    """
    state = _read_state(lake)
    if applied is None:  # no hour of the source was applied yet, or a restatement applies all of them again
        if state:
            write_json(_place(lake), {})
        return ()
    if applied not in landed:  # the landing folder is gone: no hour can be compared, so none is recorded as compared
        if state.get("lost_at") != applied:
            write_json(_place(lake), {**state, "lost_at": applied})
        return tuple(_read(state))
    former_days: Mapping[str, str] = state.get("days", {})
    listings: dict[str, dict[str, Mapping[str, Sequence[str]]]] = defaultdict(dict)
    for hour, names in listing.hours.items():
        if hour <= applied and names:
            listings[hour[:10]][hour] = names
    lost_at = None if state.get("lost_at") in landed else state.get("lost_at")
    unknown = {hour for hours in listings.values() for hour in hours if hour <= (lost_at or "") and hour not in landed}
    days = {day: _digest(listing, hours.values()) for day, hours in listings.items()}
    other_days = {day for day in {*days, *former_days} if days.get(day) != former_days.get(day)}
    late = [entry for entry in _read(state) if entry.hour[:10] not in other_days or entry.hour in unknown]
    suspects = sorted({hour for day in other_days for hour in listings.get(day, ())} - unknown)
    late += _late_among(lake, suspects, listing, landed)
    late.sort(key=lambda entry: entry.hour)
    if other_days:
        compared = {day: digest for day, digest in days.items() if unknown.isdisjoint(listings[day])}
        content = {"days": compared, "late": [asdict(entry) for entry in late]}
        write_json(_place(lake), content | ({"lost_at": lost_at} if lost_at else {}))
    return tuple(late)


def read_late(lake: Lake) -> tuple[LateHour, ...]:
    """Read the late hours that the last ``land`` recorded; empty before the first."""
    return tuple(_read(_read_state(lake)))


def is_landing_lost(lake: Lake) -> bool:
    """Whether manifests of applied hours were lost with the landing folder, as the last comparison recorded."""
    return "lost_at" in _read_state(lake)


def late_warning(late: Collection[LateHour]) -> str | None:
    """Describe all of ``late`` in one sentence with the command that applies them; None if ``late`` is empty.

    Restating the earliest hour applies all later ones again too.
    """
    if not late:
        return None
    what = [sentence for entry in late for sentence in entry.describe()]
    first = min(entry.hour for entry in late)
    return f"{named_hours(what)}: {advice.restate(first)}"


def missing_topics(lake: Lake, manifest: Manifest, landed: Collection[str]) -> list[str]:
    """Return a sentence for each topic without lines in ``manifest`` that had lines in each of the hours before.

    Args:
        lake: The lake with the manifests of those hours.
        manifest: The manifest of the hour in question.
        landed: The hours that have ever landed.
    """
    before = sorted(hour for hour in landed if hour < manifest.hour)[-USUAL_HOURS:]
    if len(before) < MIN_USUAL_HOURS:
        return []
    formers = [former for former in (read_manifest_if_whole(lake, hour) for hour in before) if former is not None]
    if len(formers) < MIN_USUAL_HOURS:
        return []
    usual = set.intersection(*({topic for topic, file in former.files.items() if file.bytes} for former in formers))
    return [
        f"{topic} has no {'lines' if topic in manifest.files else 'file'} for {manifest.hour}, and had lines in each of"
        f" the {len(formers)} hours before: if they arrive later, {advice.restate(manifest.hour)}"
        for topic in sorted(usual)
        if topic not in manifest.files or not manifest.files[topic].bytes
    ]


def _late_among(lake: Lake, hours: Sequence[str], listing: Listing, landed: Collection[str]) -> list[LateHour]:
    """Return those of ``hours`` whose files at the source differ from those that landed."""
    manifests = files.side_by_side(lambda hour: read_manifest_if_whole(lake, hour) if hour in landed else None, hours)
    compared = (
        _compare(hour, listing, manifest)
        for hour, manifest in zip(hours, manifests, strict=True)
        if manifest is not None or hour not in landed
    )
    return [entry for entry in compared if entry is not None]


def _compare(hour: str, listing: Listing, manifest: Manifest | None) -> LateHour | None:
    names = listing.hours[hour]
    if manifest is None:
        return LateHour(hour, whole=True)
    new = tuple(sorted(names.keys() - manifest.files.keys()))
    common = sorted(names.keys() & manifest.files.keys())
    changed = tuple(topic for topic in common if _differ(listing, names[topic], manifest.files[topic]))
    return LateHour(hour, new, changed) if new or changed else None


def _differ(listing: Listing, names: Sequence[str], landed: Landed) -> bool:
    """Check whether some file of a feed and an hour is not among those that landed, by name and size.

    A file that the source has withdrawn is not a difference: it is still part of the hour.
    """
    sizes = {name: listing.files[name].bytes for name in names}
    if landed.parts:
        return not sizes.items() <= {part.name: part.bytes for part in landed.parts}.items()
    return [*sizes.values()] != [landed.bytes]


def _digest(listing: Listing, hours: Iterable[Mapping[str, Sequence[str]]]) -> str:
    names = (name for topics in hours for own in topics.values() for name in own)
    lines = sorted(f"{name} {listing.files[name].bytes}" for name in names)
    return sha256("\n".join(lines).encode()).hexdigest()[:16]


def _read_state(lake: Lake) -> dict[str, Any]:
    """Read the last result; empty if it is damaged, so that every day is compared again."""
    return files.read_record_if_whole(_place(lake), _whole_state, "the hours of the source are compared again") or {}


def _whole_state(state: dict[str, Any]) -> dict[str, Any]:
    _read(state)
    if not isinstance(state.get("days", {}), dict) or not isinstance(state.get("lost_at", ""), str):
        raise TypeError("days or lost_at")
    return state


def _read(state: Mapping[str, Any]) -> list[LateHour]:
    return [
        LateHour(late["hour"], tuple(late["new"]), tuple(late["changed"]), late["whole"])
        for late in state.get("late", ())
    ]


def _place(lake: Lake) -> Place:
    return lake.at(lake.ops("late_files.json"))
