"""The ledger of hours: which are applied to Bronze, which the source lists, and which is applied next."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from medallion.errors import HourBeforeFirst, HourNotAvailable, HourOutOfOrder, MedallionError, UsageError, advice
from medallion.hours import ONE_HOUR, has_ended, hour_or_snapshot, is_hour, parse_hour
from medallion.ingest.parts import Part
from medallion.ingest.source import Landed
from medallion.model.registry import Registry
from medallion.ops import releases
from medallion.storage import fence, files
from medallion.storage.damage import proven_damage
from medallion.storage.files import Place, write_json
from medallion.storage.lake import Lake, hour_in, is_complete
from medallion.storage.named_versions import NamedVersion, open_current
from medallion.storage.remembered import remembered

if TYPE_CHECKING:
    from deltalake import DeltaTable

MAX_NAMED = 5  # most hours that a message names one by one


@dataclass(frozen=True)
class Manifest:
    """The landed files of one hour: each feed's file by topic, with size, checksum and parts."""

    hour: str
    source: str
    files: Mapping[str, Landed]


def write_manifest(lake: Lake, manifest: Manifest) -> None:
    """Write ``manifest`` atomically."""
    fence.require()
    write_json(_manifest(lake, manifest.hour), asdict(manifest))


def landed_hours(lake: Lake) -> set[str]:
    """List every hour whose change files ever landed; manifests whose name is not a past hour are ignored."""
    names = {path.stem for path in (lake.manifests).glob("[0-9]*.json")}
    return {name for name in names if is_hour(name) and has_ended(name)}


def read_manifest(lake: Lake, hour: str) -> Manifest | None:
    """Read what landed for ``hour``; None if nothing has."""
    return files.read_record(_manifest(lake, hour), partial(_parse_manifest, hour), "restore it from a backup")


def manifests_before(lake: Lake, hour: str, topic: str) -> Iterator[Manifest]:
    """Yield what landed for the hours before ``hour`` that have a file of ``topic``, the newest first."""
    for before in sorted((other for other in landed_hours(lake) if other < hour), reverse=True):
        manifest = read_manifest(lake, before)
        if manifest is not None and topic in manifest.files:
            yield manifest


def read_manifest_if_whole(lake: Lake, hour: str) -> Manifest | None:
    """Read what landed for ``hour``, for a comparison that only warns; None if nothing has or the record is damaged."""
    consequence = f"hour {hour} is compared with nothing"
    return files.read_record_if_whole(_manifest(lake, hour), partial(_parse_manifest, hour), consequence)


def _parse_manifest(hour: str, content: Mapping[str, Any]) -> Manifest:
    return Manifest(hour, content["source"], {topic: _parse_landed(file) for topic, file in content["files"].items()})


def _parse_landed(file: Mapping[str, Any]) -> Landed:
    return Landed(**{**file, "parts": tuple(Part(**part) for part in file.get("parts", ()))})


def hours_by_table(lake: Lake, tables: Registry) -> dict[str, str | None]:
    """Return the last hour applied to each table with a feed, by the table's log; None if it has only the snapshot.

    Raises UsageError if the lake has not been loaded.
    """
    read = {
        feed.name: remembered(lake.folder(feed.name), "hour", partial(_read_hour, lake, feed.name))
        for feed in tables.feeds
    }
    if missing := [name for name, hours in read.items() if hours is None]:
        raise UsageError(f"lake {lake.root} has no {', '.join(missing)}: run medallion load first")
    return {name: hour for name, hours in read.items() for hour in hours or ()}


def _read_hour(lake: Lake, table: str) -> tuple[str | None] | None:
    """Return the last hour applied to a Bronze table, in a tuple; None if the table does not exist."""
    delta = _open_feed(lake, table)
    return None if delta is None else (hour_in(delta),)


def _open_feed(lake: Lake, table: str) -> "DeltaTable | None":
    """Open a Bronze table. Raises MedallionError if it is damaged, naming the newest release that can still be read."""
    try:
        return lake.open(lake.path(table))
    except MedallionError:
        folder = lake.folder(table)
        if (damage := proven_damage(folder)) is None:
            raise
        readable = next((r for r in reversed(releases.read_all(lake)) if _is_readable(lake, r.version_of(table))), None)
        if readable is None:
            raise MedallionError(
                f"{table} cannot be read, as {damage} in its log, nor can any version of it that a release names:"
                f" restore {folder} from a backup, or load a new lake"
            ) from None
        raise MedallionError(
            f"{table} cannot be read, as {damage} in its log; it can be rebuilt from release {readable.release_id} of"
            f" {hour_or_snapshot(readable.hour)}: move the entries of later versions than {readable.versions[table]}"
            f" out of {folder}/_delta_log, then restate the hour after it"
        ) from None


def _is_readable(lake: Lake, version: NamedVersion | None) -> bool:
    try:
        return version is not None and is_complete(open_current(lake, version), lake.access)
    except MedallionError:
        return False


def last_common_hour(table_hours: Mapping[str, str | None]) -> str | None:
    """Return the last hour that all of these tables have; None if one of them has only the snapshot."""
    hours = table_hours.values()
    return None if None in hours else min(hour for hour in hours if hour)


def applied_hour(lake: Lake, tables: Registry) -> str | None:
    """Return the last hour that every Bronze table has; None if one of them has only the snapshot.

    Raises UsageError if the lake has not been loaded.
    """
    return last_common_hour(hours_by_table(lake, tables))


def hour_cut_short(table_hours: Mapping[str, str | None]) -> str | None:
    """Return the hour that some of these tables have and others do not, as a run that applied it was ended."""
    applied = last_common_hour(table_hours)
    return min((hour for hour in table_hours.values() if hour and hour > (applied or "")), default=None)


def require_no_hour_cut_short(lake: Lake, tables: Registry, so: str) -> None:
    """Raise HourOutOfOrder, which begins with ``so``, while only some Bronze tables have an hour."""
    table_hours = hours_by_table(lake, tables)
    if (hour := hour_cut_short(table_hours)) is not None:
        have = [name for name, own in table_hours.items() if own and own >= hour]
        raise HourOutOfOrder(
            f"{so}: hour {hour} is in {', '.join(have)} and not yet in all of Bronze, as applying it was cut short:"
            f" {advice.refresh(hour)} to finish it"
        )


def known_manifest(lake: Lake, hour: str) -> Manifest:
    """Read what landed for ``hour``. Raises MedallionError if nothing has."""
    manifest = read_manifest(lake, hour)
    if manifest is None:
        raise MedallionError(f"hour {hour} has not landed: {advice.land_again(hour)}")
    return manifest


def same_content(lake: Lake, manifest: Manifest, applied: str | None) -> str | None:
    """Return ``topic/hour`` of a file of the last applied hour that is identical to one in ``manifest``, if any."""
    former = read_manifest_if_whole(lake, applied) if applied else None
    for topic, file in manifest.files.items():
        if former is not None and file.bytes and former.files.get(topic) == file:
            return f"{topic}/{applied}"
    return None


def pending_hours(
    applied: str | None,
    source: Collection[str],
    landed: Collection[str] = (),
    until: str | None = None,
    now: datetime | None = None,
) -> list[str]:
    """List the hours that are still to be applied, oldest first.

    Args:
        applied: The last hour that every Bronze table has; None if there is only the snapshot.
        source: The hours that the source lists.
        landed: Further hours to apply, even if the source no longer lists them: those whose files are in the landing
            folder of the lake, and those of a restatement under way.
        until: The last hour of interest, included; None for all.
        now: The current time, by default that of the clock: an hour that has not ended is not pending.

    Returns:
        Every hour of ``source`` or ``landed`` after ``applied`` up to ``until``; an hour without files is no gap.
    """
    return sorted(
        hour
        for hour in {*source, *landed}
        if (applied is None or hour > applied) and (until is None or hour <= until) and has_ended(hour, now)
    )


def choose_hour(
    wanted: str | None,
    applied: str | None,
    source: Collection[str],
    landed: Collection[str] = (),
    now: datetime | None = None,
) -> str:
    """Choose the hour to refresh: ``wanted`` if every earlier one is applied, the earliest pending hour if None.

    An hour that Bronze has already is returned too: applying it again changes nothing.

    Args:
        wanted: The requested hour; None for the earliest pending one.
        applied: The last hour that every Bronze table has; None if there is only the snapshot.
        source: The hours that the source lists.
        landed: The hours that have landed, whether or not the source still has their files.
        now: The current time, by default that of the clock.

    Raises:
        HourNotAvailable: The source does not have the hour, or the hour has not ended.
        HourOutOfOrder: Earlier hours are missing, or the hour arrived after a later one had been applied.
    """
    pending = pending_hours(applied, source, landed, now=now)
    if wanted is None:
        if not pending:
            raise HourNotAvailable(
                f"the source has no hour after {applied or 'the snapshot'}: nothing to do until one arrives"
            )
        return pending[0]
    if not has_ended(wanted, now):
        ends = f"{parse_hour(wanted) + ONE_HOUR:%Y-%m-%d %H:%M} UTC"
        raise HourNotAvailable(f"hour {wanted} has not ended yet: refresh it after {ends}")
    if applied is not None and wanted <= applied:
        if wanted in source and wanted not in landed:
            raise HourOutOfOrder(
                f"hour {wanted} arrived after {applied} had been applied and was not applied itself:"
                f" {advice.restate(wanted)}"
            )
        return wanted
    if wanted not in pending:
        span = f"it lists {min(source)} to {max(source)}" if source else "it lists none"
        raise HourNotAvailable(f"the source has no change file for hour {wanted}: {span}")
    require_no_gap(wanted, applied, pending)
    return wanted


def require_not_before_first(hour: str, applied: str | None, known: Collection[str]) -> None:
    """Refuse an hour before the first one of the lake, which would otherwise pass for applied.

    Args:
        hour: The requested hour.
        applied: The last hour that every Bronze table has; None if there is only the snapshot, as earlier hours may
            still arrive then.
        known: Every hour that the source lists or that ever landed.

    Raises:
        HourBeforeFirst: The hour is before all of ``known``.
    """
    first = min(known, default=hour)
    if applied is not None and hour <= applied and hour < first:
        raise HourBeforeFirst(
            f"hour {hour} is before {first}, the first hour of source and lake: the source lists no change file of it,"
            f" and none has landed; choose {first} or a later hour"
        )


def require_no_gap(hour: str, applied: str | None, pending: Iterable[str]) -> None:
    """Refuse to apply ``hour`` before earlier pending hours.

    Args:
        hour: The hour that is about to be applied.
        applied: The last hour that every Bronze table has; None if there is only the snapshot.
        pending: The hours that are still to be applied.

    Raises:
        HourOutOfOrder: Hours of ``pending`` lie between ``applied`` and ``hour``; the message has the command to run.
    """
    if missing := sorted(other for other in pending if (applied is None or other > applied) and other < hour):
        raise HourOutOfOrder(
            f"hour {hour} cannot be applied to Bronze at {hour_or_snapshot(applied)}: earlier hours are missing:"
            f" {named_hours(missing)}; {advice.refresh_range(missing[0], missing[-1])}"
        )


def named_hours(hours: Collection[str]) -> str:
    """Name the first few hours for a message, and count the others."""
    first, others = [*hours][:MAX_NAMED], len(hours) - MAX_NAMED
    return ", ".join(first) + (f" and {others} more" if others > 0 else "")


def _manifest(lake: Lake, hour: str) -> Place:
    return lake.manifests / f"{hour}.json"
