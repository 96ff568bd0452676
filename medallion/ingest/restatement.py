"""Restatement: restore Bronze to before an hour, and apply every hour since again."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from medallion.errors import UsageError, advice
from medallion.ingest.change_log import require_own_log, rewind_log
from medallion.ingest.ledger import landed_hours, last_common_hour, named_hours, read_manifest
from medallion.ingest.listing import Listing
from medallion.ingest.withdrawn_parts import is_as_landed, why_lost
from medallion.model.registry import Registry
from medallion.ops import lake_tables
from medallion.storage import fence, files
from medallion.storage.files import Place, write_json
from medallion.storage.foreign_commits import adopted_between
from medallion.storage.lake import Lake
from medallion.storage.rewind import rewind


@dataclass(frozen=True)
class Restatement:
    """A restatement under way. Nothing is published until all of ``hours`` are applied to Bronze again.

    hour: the hour before which Bronze is restored. until: the last of ``hours``. rewound: whether every Bronze table is
    restored. hours: every hour that must be applied again, in order. landed: those of them that have landed again, as
    the source has them now. run_id: the run that began the restatement. failed_before: the identities of the checks
    that had failed when it began, which it is to heal.
    """

    hour: str
    until: str
    rewound: bool = False
    hours: tuple[str, ...] = ()
    landed: tuple[str, ...] = ()
    run_id: str = ""
    failed_before: tuple[str, ...] = ()

    @property
    def span(self) -> str:
        """Its hours in words."""
        return f"hour {self.hour}" if self.hour == self.until else f"hours {self.hour} to {self.until}"

    @property
    def headline(self) -> str:
        """Which hours are being restated."""
        return f"{self.span} {'is' if self.hour == self.until else 'are'} being restated"

    def is_of(self, run_id: str, hour: str) -> bool:
        """Check whether this run began it for ``hour`` and Bronze is restored, so that a later attempt continues."""
        return self.rewound and (self.run_id, self.hour) == (run_id, hour)

    def remaining(self, applied: str | None) -> tuple[str, ...]:
        """Return the hours that are still to be applied. applied: the last hour that every Bronze table has."""
        if not self.rewound or applied is None:
            return self.hours
        return tuple(hour for hour in self.hours if hour > applied)

    def awaits_landing(self, hour: str) -> bool:
        """Check whether ``hour`` is to be restated and has not landed again yet."""
        return hour in self.hours and hour not in self.landed

    def details(self) -> dict[str, list[str]]:
        """Return the details for an event of its last hour: the hours that the one check or release covers."""
        return {"restated": [*self.hours]}

    def describe_cut_short(self) -> str:
        """Say that the restatement is unfinished and how to finish it, for when no process is working on it."""
        return (
            f"the restatement of {self.span} was cut short, and readers keep the release from"
            f" before it: {advice.finish_restatement(self.until)}"
        )

    def with_landed(self, hour: str) -> "Restatement":
        """Return the restatement after ``hour`` has landed again."""
        return replace(self, landed=tuple(sorted({*self.landed, hour})))


def write_restatement(lake: Lake, restatement: Restatement) -> None:
    """Record the restatement atomically: the next run after a crash continues it."""
    fence.require()
    write_json(restatement_file(lake), asdict(restatement))


def read_restatement(lake: Lake) -> Restatement | None:
    """Read the restatement that is under way; None if there is none."""

    def parse(content: dict[str, Any]) -> Restatement:
        known = {field.name: content[field.name] for field in fields(Restatement) if field.name in content}
        landed = tuple(known.get("landed", ()))
        # An earlier version recorded no list of hours: these are the last one, and all before it that have landed.
        hours = known.get("hours") or sorted(
            {known["until"]} | {hour for hour in landed_hours(lake) if known["hour"] <= hour <= known["until"]}
        )
        failed = tuple(known.get("failed_before", ()))
        return Restatement(**known | {"hours": tuple(hours), "landed": landed, "failed_before": failed})

    remedy = "restore it from a backup; or remove it, and restate the earliest hour that was being restated"
    return files.read_record(restatement_file(lake), parse, remedy)


def without_withdrawn(restatement: Restatement, source_hours: Collection[str], landed: Collection[str]) -> Restatement:
    """Return the restatement without hours that the source withdrew before they landed.

    source_hours: the hours that the source lists. landed: the hours that ever landed, which include the last hour of
    a restatement.
    """
    hours = tuple(hour for hour in restatement.hours if hour in source_hours or hour in landed)
    return replace(restatement, hours=hours)


def end_restatement(lake: Lake) -> None:
    """Delete the record: all its hours are applied and published."""
    fence.require()
    restatement_file(lake).unlink(missing_ok=True)


def plan_restatement(
    lake: Lake, hour: str, table_hours: Mapping[str, str | None], listing: Listing, former: Restatement | None
) -> Restatement:
    """List the hours that a restatement from ``hour`` must apply, and check that all of them are available.

    Args:
        lake: The lake; nothing in it is changed.
        hour: The hour before which Bronze is restored.
        table_hours: The last hour of each table that has a feed; None if there is only the snapshot.
        listing: What the source lists.
        former: A restatement that was cut short: its hours are applied again too.

    Raises:
        UsageError: ``hour`` is after the last applied one, a table lacks an earlier hour, there is no file of it, or a
            file of an hour is neither listed by the source nor in the landing folder.
        MedallionError: A file with the hour in its name is not understood.
    """
    applied = last_common_hour(table_hours)
    until = max([former.until if former else "", *(last or "" for last in table_hours.values())])
    if hour > until:
        raise UsageError(f"hour {hour} is after {until or 'the snapshot'}, the last one: {advice.refresh()}")
    start = min(hour, former.hour) if former and not former.rewound else hour
    known = {*listing.hours, *landed_hours(lake)}
    lacking = min((other for other in known if (applied or "") < other < start), default=None)
    if lacking and former is None:  # a restatement under way still has these hours to apply
        raise UsageError(f"hour {hour} cannot be restated, as a table lacks {lacking}: {advice.restate(lacking)}")
    if hour not in known:
        raise UsageError(
            f"hour {hour} cannot be restated: the source lists no change file of it, and none has landed;"
            " choose an hour that has one"
        )
    hours = {other for other in known if start <= other <= until}
    # An hour withdrawn before it landed has no changes to lose.
    hours |= known.intersection(former.remaining(applied) if former else ())
    missing = [name for other in sorted(hours) for name in missing_files(lake, other, listing.hours.get(other, ()))]
    if missing:
        raise UsageError(
            f"hour {hour} cannot be restated: {named_hours(missing)} would be lost, no longer in the landing folder"
            " and not listed by the source; nothing was changed: have the source deliver it again, or restate a later"
            " hour"
        )
    listing.require_understood(*sorted(hours))
    for other in sorted(hours):
        _require_all_parts(lake, other, listing)
    return Restatement(start, max(hours), hours=tuple(sorted(hours)))


def rewind_bronze(
    lake: Lake, tables: Registry, report: Callable[[str], None], warnings: list[str]
) -> Restatement | None:
    """Restore every Bronze table to the start of the restatement under way, unless that is done.

    warnings: a list to which warnings are added; they are reported at once too, as no later attempt would find them.
    Returns the restatement; None if none is under way.
    """

    def warn(warning: str) -> None:
        warnings.append(warning)
        report(warning)

    restatement = read_restatement(lake)
    if restatement is None or restatement.rewound:
        return restatement
    logs = (*tables.logs, *lake_tables.dropped_logs(lake))
    for log in logs:  # before any table is restored: otherwise changes by others would look like ours
        require_own_log(lake, log)
    for feed in tables.feeds:
        if (lake.applied_hour(feed.name) or "") >= restatement.hour:
            newest = lake.version(feed.name) or 0
            target = rewind(lake, feed.name, feed.keys, restatement.hour)
            if lost := adopted_between(lake.folder(feed.name), target, newest):
                warn(
                    f"what was adopted in {feed.name} is not kept: {'; '.join(lost)}; where it still holds, make the"
                    " change again and adopt it"
                )
    for log in logs:
        if warning := rewind_log(lake, log, restatement.hour):
            warn(warning)
    report(f"Bronze is as it was before {restatement.hour}")
    restatement = replace(restatement, rewound=True)
    write_restatement(lake, restatement)
    return restatement


def missing_files(lake: Lake, hour: str, topics: Collection[str]) -> list[str]:
    """Return the files of ``hour`` that exist nowhere any more, as topic/hour.json. topics: what the source lists."""
    manifest = read_manifest(lake, hour)
    if manifest is None:
        return [] if topics else [f"{hour}.json"]
    return [
        f"{topic}/{hour}.json"
        for topic, file in manifest.files.items()
        if topic not in topics and not is_as_landed(lake, topic, hour, file)
    ]


def _require_all_parts(lake: Lake, hour: str, listing: Listing) -> None:
    """Raise UsageError if a file that landed for ``hour`` and is no longer listed would be lost."""
    manifest = read_manifest(lake, hour)
    for topic, names in listing.hours.get(hour, {}).items():
        landed = manifest.files.get(topic) if manifest else None
        if landed is None or topic not in listing.several:
            continue
        if reason := why_lost(lake, topic, hour, landed, names):
            raise UsageError(f"hour {hour} cannot be restated: {reason}; nothing was changed")


def restatement_file(lake: Lake) -> Place:
    return lake.at(lake.ops("restatement.json"))
