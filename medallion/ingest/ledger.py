"""Which hours Bronze has, which the source lists, and so which one is next in line."""

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from medallion.errors import HourNotAvailable, MedallionError, UsageError
from medallion.hours import ONE_HOUR, parse_hour
from medallion.ingest.source import Landed
from medallion.model.registry import Registry
from medallion.storage import files
from medallion.storage.files import Place, write_json
from medallion.storage.lake import Lake, hour_in


@dataclass(frozen=True)
class Manifest:
    """What landed for one hour: each feed's file by topic, with size and checksum."""

    hour: str
    source: str
    files: Mapping[str, Landed]


@dataclass(frozen=True)
class Restatement:
    """A restatement under way: Bronze goes back to before ``hour`` and then forward to ``until`` again.

    rewound: whether every Bronze table has gone back. Until Bronze is at ``until`` again, nothing is published.
    """

    hour: str
    until: str
    rewound: bool = False


def write_manifest(lake: Lake, manifest: Manifest) -> None:
    """Record ``manifest`` whole or not at all."""
    write_json(lake.landing / "_hours" / f"{manifest.hour}.json", asdict(manifest))


def write_restatement(lake: Lake, restatement: Restatement) -> None:
    """Record what is under way, whole or not at all: whoever comes next after a crash goes on with it."""
    write_json(_restatement(lake), asdict(restatement))


def read_restatement(lake: Lake) -> Restatement | None:
    """The restatement that is under way; None when there is none."""
    content = files.read_json(_restatement(lake))
    return None if content is None else Restatement(**content)


def end_restatement(lake: Lake) -> None:
    """Forget it: its last hour is published."""
    _restatement(lake).unlink(missing_ok=True)


def landed_hours(lake: Lake) -> set[str]:
    """Every hour whose change files have landed at some time."""
    return {path.stem for path in (lake.landing / "_hours").glob("[0-9]*.json")}


def read_manifest(lake: Lake, hour: str) -> Manifest | None:
    """What landed for ``hour``; None when nothing has."""
    content = files.read_json(lake.landing / "_hours" / f"{hour}.json")
    if content is None:
        return None
    return Manifest(hour, content["source"], {topic: Landed(**file) for topic, file in content["files"].items()})


def applied_hour(lake: Lake, tables: Registry) -> str | None:
    """The last hour that every Bronze table has; None when one of them holds the snapshot alone.

    Raises UsageError when the lake has not been loaded.
    """
    opened = {feed.name: lake.open(lake.path(feed.name)) for feed in tables.feeds}
    if missing := [name for name, delta in opened.items() if delta is None]:
        raise UsageError(f"lake {lake.root} has no {', '.join(missing)}: run medallion load first")
    hours = [hour_in(delta) for delta in opened.values() if delta is not None]
    return None if None in hours else min(hour for hour in hours if hour)


def known_manifest(lake: Lake, hour: str) -> Manifest:
    """What landed for ``hour``. Raises MedallionError when nothing has."""
    manifest = read_manifest(lake, hour)
    if manifest is None:
        raise MedallionError(f"hour {hour} has not landed: run medallion step land --hour {hour}")
    return manifest


def same_content(lake: Lake, manifest: Manifest, applied: str | None) -> str | None:
    """``topic/hour`` of a file of the hour applied last that is the same, byte by byte, as one of ``manifest``."""
    former = read_manifest(lake, applied) if applied else None
    for topic, file in manifest.files.items():
        if former is not None and file.bytes and former.files.get(topic) == file:
            return f"{topic}/{applied}"
    return None


def pending_hours(
    applied: str | None, source: Collection[str], landed: Collection[str] = (), until: str | None = None
) -> list[str]:
    """List the hours that are still to be applied, oldest first.

    Args:
        applied: The last hour that every Bronze table has; None for the snapshot alone.
        source: The hours that the source lists.
        landed: The hours whose files are in the lake's landing folder, which the source may no longer list.
        until: The last hour of interest, included; None for all.

    Returns:
        Every hour after ``applied`` up to ``until``; an hour that nobody has files for leaves no gap.
    """
    return sorted(
        hour for hour in {*source, *landed} if (applied is None or hour > applied) and (until is None or hour <= until)
    )


def in_line(wanted: str | None, applied: str | None, source: Collection[str], landed: Collection[str] = ()) -> str:
    """The hour to refresh: ``wanted`` when its turn has come, the next in line when None.

    applied: the last hour Bronze has. source: the hours the source lists. landed: those that were taken from it at
    some time, which are as good where it does not list them any more. An hour that Bronze has already is returned as
    it is: applying it again changes nothing. Raises HourNotAvailable for an hour that the source does not have,
    MedallionError for a gap and for an hour that turned up after a later one had been applied.
    """
    listed = {*source, *landed}
    pending = pending_hours(applied, source, landed)
    if wanted is None:
        if not pending:
            raise HourNotAvailable(f"the source has no hour after {applied}: nothing to do until one arrives")
        return pending[0]
    if applied is not None and wanted <= applied:
        if wanted in source and wanted not in landed:
            raise MedallionError(
                f"hour {wanted} turned up after {applied} had been applied, and was not applied itself:"
                f" run medallion refresh --restate {wanted} to take it in its turn"
            )
        return wanted
    if wanted not in listed:
        if parse_hour(wanted) + ONE_HOUR > datetime.now(UTC):
            raise HourNotAvailable(f"hour {wanted} has not ended yet: refresh it once it lies in the past")
        span = f"it lists {min(source)} to {max(source)}" if source else "it lists none"
        raise HourNotAvailable(f"the source has no change file for hour {wanted}: {span}")
    if gap := [hour for hour in pending if hour < wanted]:
        raise MedallionError(
            f"hour {wanted} is not next in line: {', '.join(gap[:5])}{' and more' if gap[5:] else ''} must come first;"
            f" run medallion refresh --from-hour {gap[0]} --to-hour {wanted}"
        )
    return wanted


def _restatement(lake: Lake) -> Place:
    return files.at(lake.ops("restatement.json"))
