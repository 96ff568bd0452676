"""The step `land`: copy an hour's change files from the source."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from medallion.counts import counted
from medallion.errors import UsageError, advice
from medallion.ingest import landing, ledger, quarantine
from medallion.ingest.change_names import shown_path
from medallion.ingest.erased_lines import ErasedLines
from medallion.ingest.late_files import find_late, is_landing_lost, late_warning, missing_topics
from medallion.ingest.listing import Listing, change_files
from medallion.ingest.restatement import Restatement, rewind_bronze, without_withdrawn, write_restatement
from medallion.ingest.source import Source, open_source
from medallion.ingest.unfinished_erasure import require_no_erasure
from medallion.ingest.unpublished import find_unpublished, require_bronze_of_readers, require_no_red_hour
from medallion.ingest.withdrawn_parts import withdrawn
from medallion.model.registry import Registry
from medallion.ops import event_log, releases
from medallion.ops.event_log import EventLog
from medallion.ops.lake_tables import require_no_missing_table
from medallion.ops.red_hours import UnpublishedHour
from medallion.pipeline.driver import Driver
from medallion.pipeline.run import Outcome, Run
from medallion.refresh.definitions import find_tables_to_rebuild
from medallion.storage.lake import Lake

MAX_WARNINGS = 5  # most files of one kind that a step names
RECOVERED = "the run ended before it could write this row: it is made from the commit"


@dataclass(frozen=True)
class Arrival:
    """The plan for an hour before any file is copied.

    table_hours: the last hour of each table that has a feed. landed: the hours that have ever landed. restated: the
    restatement under way. former: the manifest of what landed for this hour before. unpublished: the last applied hour,
    if it is not published or red.
    """

    hour: str
    source: Source
    listing: Listing
    table_hours: Mapping[str, str | None]
    landed: Collection[str]
    restated: Restatement | None
    former: ledger.Manifest | None
    unpublished: UnpublishedHour | None = None

    @property
    def applied(self) -> str | None:
        """The last hour that every Bronze table has."""
        return ledger.last_common_hour(self.table_hours)

    @property
    def names(self) -> Mapping[str, Sequence[str]]:
        """The names of each topic's files at the source, in order."""
        return self.listing.hours.get(self.hour, {})


def land_step(driver: Driver, run: Run, log: EventLog, _: str | None) -> Outcome:
    with log.timed("land", driver.tables.fed_layer, cpu=driver.cpu) as event:
        require_no_erasure(driver.lake)
        notes: list[str] = []
        source = open_source(run.settings)
        restated = rewind_bronze(driver.lake, driver.tables, driver.report, notes)
        try:
            arrival = plan_landing(driver, run.hour, source, restated, notes)
        finally:  # warnings are recorded even if there is no hour to land
            if notes:
                event.details["note"] = "; ".join(notes)
        log.hour = arrival.hour
        if arrival.applied is not None and arrival.hour <= arrival.applied:
            outcome = _applied_already(driver.lake, log, arrival)
            if outcome.status == "skipped":
                outcome = replace(outcome, message=f"{outcome.message}{_to_rebuild(driver)}")
            else:
                require_publishable(driver)
            event.status = "skipped"
            event.details["note"] = "; ".join([outcome.message, *notes])
            return driver.report_outcome(outcome)
        require_publishable(driver)
        arrival.listing.require_understood(arrival.hour)
        forget = ErasedLines.of(driver.lake, driver.tables.feeds, arrival.hour)
        manifest, about_hour = _copy(driver.lake, driver.tables, arrival, forget)
        if arrival.restated is not None:
            write_restatement(driver.lake, arrival.restated.with_landed(arrival.hour))
        driver.listing = arrival.listing
        event.bytes_out = sum(file.bytes for file in manifest.files.values())
        event.details["files"] = {topic: file.facts() for topic, file in manifest.files.items()}
        if notes := [*notes, *about_hour]:
            event.status, event.details["note"] = "warned", "; ".join(notes)
        if erased := forget.describe():
            event.details["erased"] = erased
        if rule := arrival.listing.complete.get(arrival.hour):
            event.details["complete"] = rule
    count = sum(len(file.parts) or 1 for file in manifest.files.values())
    landed = f"landed {counted(count, 'file')}, {event.bytes_out / 1e6:.1f} MB of {arrival.hour}"
    if rule:
        landed += f" ({rule})"
    message = "; ".join([landed, *([erased] if erased else ()), *about_hour])
    return driver.report_outcome(Outcome(event.status, message, arrival.hour))


def require_publishable(driver: Driver) -> None:
    """Raise UsageError if a release would lack a table that nobody dropped, before anything is written."""
    require_no_missing_table(driver.lake, driver.tables.tables, "nothing is refreshed")


def _to_rebuild(driver: Driver) -> str:
    """Name the published tables that must be rebuilt, and say how; empty if there are none."""
    reasons = find_tables_to_rebuild(driver.lake, driver.tables, releases.latest(driver.lake))
    tables_by_reason = "".join(
        f"; {reason}: {', '.join(name for name in reasons if reasons[name] == reason)}"
        for reason in dict.fromkeys(reasons.values())
    )
    return f"{tables_by_reason}: {advice.reprocess()}" if tables_by_reason else ""


def plan_landing(
    driver: Driver, hour: str | None, source: Source, restated: Restatement | None, notes: list[str]
) -> Arrival:
    """List the source and choose the hour.

    Args:
        driver: The driver, for the lake and for reports.
        hour: The requested hour; None for the next one.
        source: The source.
        restated: The restatement under way.
        notes: Warnings so far, which have been reported. Warnings about the source are added and reported, even if no
            hour can be chosen.

    Raises:
        UsageError: The lake has not been loaded, or its load was cut short.
        HourNotAvailable: The source does not list the hour, or it is not complete yet.
        HourBeforeFirst: The hour is before the first one of the lake.
        HourOutOfOrder: Earlier hours are missing, or one is red.
        ChangedByOthers: A Bronze table is older than in the newest release, because its folder was restored.
    """
    lake, reported = driver.lake, len(notes)
    listing = change_files(source, driver.tables.feeds)
    table_hours, landed = ledger.hours_by_table(lake, driver.tables), ledger.landed_hours(lake)
    applied = ledger.last_common_hour(table_hours)
    require_whole_load(lake, applied)
    if restated is None:
        require_bronze_of_readers(lake, driver.tables)
    restated = _still_to_pass(lake, restated, listing, landed, notes)
    notes += _source_warnings(lake, listing, applied, landed)
    for note in notes[reported:]:
        driver.report(note)
    due = landed | {*(restated.hours if restated else ())}
    unpublished = find_unpublished(lake, driver.tables, applied, restated)
    if hour is not None:
        if not is_landing_lost(lake):  # else nobody knows which hours were applied
            ledger.require_not_before_first(hour, applied, {*listing.hours, *due})
        listing.require_whole(applied, hour)
        require_no_red_hour(lake, driver.tables, hour, applied, restated)
    unfinished = unpublished.hour if hour is None and unpublished else None
    whole = listing.hours_after(applied)
    if hour is None and not unfinished and not ledger.pending_hours(applied, whole, due):
        listing.require_whole(applied)
    hour = unfinished or ledger.choose_hour(hour, applied, whole, due)
    return Arrival(hour, source, listing, table_hours, landed, restated, ledger.read_manifest(lake, hour), unpublished)


def _still_to_pass(
    lake: Lake, restated: Restatement | None, listing: Listing, landed: Collection[str], notes: list[str]
) -> Restatement | None:
    """Remove hours that the source withdrew before they landed from the restatement under way, and note that."""
    if restated is None:
        return None
    rest = without_withdrawn(restated, listing.hours, landed)
    if gone := sorted({*restated.hours} - {*rest.hours}):
        notes.append(f"the source withdrew {ledger.named_hours(gone)} before it landed: it is not restated")
        write_restatement(lake, rest)
    return rest


def require_whole_load(lake: Lake, applied: str | None) -> None:
    """Raise UsageError if the load was cut short: until its release, tables may lack rows of the snapshot.

    applied: the last hour that every Bronze table has.
    """
    if applied is None and releases.latest(lake) is None:
        raise UsageError(
            f"the load of lake {lake.root} was cut short before its first release: run medallion load again"
        )


def _applied_already(lake: Lake, log: EventLog, arrival: Arrival) -> Outcome:
    """Return what remains to do for an hour that every Bronze table has."""
    hour, release = arrival.hour, releases.latest(lake)
    changed = landing.changed_files(arrival.source, arrival.names, arrival.former)
    late = f"; its files have changed since ({', '.join(changed)}): {advice.restate(hour)}" if changed else ""
    is_published = release is not None and release.hour == hour
    if hour == arrival.applied and (arrival.unpublished or arrival.restated or not is_published):
        red = arrival.unpublished and arrival.unpublished.red
        why = "but red" if red else "but not published"
        return Outcome("succeeded", f"hour {hour} is in Bronze already, {why}: continuing from there{late}", hour)
    published = release is not None and release.hour is not None and release.hour >= hour
    note = f"hour {hour} is {'published' if published else 'in Bronze'} already: nothing to do{late}"
    if release is not None:
        _recover_publish_row(lake, log, release)
    return Outcome("skipped", note, hour)


def _copy(lake: Lake, tables: Registry, arrival: Arrival, forget: ErasedLines) -> tuple[ledger.Manifest, list[str]]:
    """Copy the files of an hour; return the manifest and warnings."""
    hour, names, former = arrival.hour, arrival.names, arrival.former
    if not names:
        manifest, changed_since = ledger.known_manifest(lake, hour), []
    else:
        taken = _taken_topics(lake, tables, arrival)
        changed_since = _changed_since_taken(arrival.source, {t: n for t, n in names.items() if t in taken}, former)
        for feed in tables.feeds:
            if feed.topic not in taken:
                landing.require_all_commits_landed(lake, feed, hour, arrival.listing)
        to_land = {topic: name for topic, name in names.items() if topic not in taken}
        landing_now = landing.ToLand(to_land, tables.feeds, forget)
        manifest = landing.copy_change_files(arrival.source, lake, hour, landing_now, former)
    return manifest, [*_landing_warnings(lake, manifest, arrival), *changed_since]


def _taken_topics(lake: Lake, tables: Registry, arrival: Arrival) -> set[str]:
    """Return the topics whose landed file some table has applied, and which are not copied again.

    So after a crash between two tables, an hour is still applied from one set of files, and a correction counts as
    late. A file that is gone from the landing folder is copied again.
    """
    hour, known = arrival.hour, arrival.former.files if arrival.former else {}
    topics = {feed.topic for feed in tables.feeds if (arrival.table_hours[feed.name] or "") >= hour}
    if known:  # without a manifest nothing was applied, so no log is read
        topics |= {log.fed_by.topic for log in tables.logs if (lake.applied_hour(log.name) or "") >= hour}
    return {topic for topic in topics & known.keys() if landing.is_landed(lake, topic, hour, known[topic])}


def _changed_since_taken(
    source: Source, names: Mapping[str, Sequence[str]], landed: ledger.Manifest | None
) -> list[str]:
    changed = landing.changed_files(source, names, landed)
    if landed is None or not changed:
        return []
    return [
        f"{', '.join(changed)} of {landed.hour} changed at the source after a table had taken it:"
        f" {advice.restate(landed.hour)} once the hour is published"
    ]


def _source_warnings(lake: Lake, listing: Listing, applied: str | None, landed: Collection[str]) -> list[str]:
    """Return warnings about the source's listing: ignored files and late files."""
    ignored = [*listing.ignored]
    for hour, names in listing.refused.items():
        if applied is not None and hour <= applied:
            ignored += [f"{shown_path(n)} is no part of {hour}, which is applied: {why}" for n, why in names.items()]
    warnings = ignored[:MAX_WARNINGS]
    if others := len(ignored) - MAX_WARNINGS:
        warnings += [f"ignored {others} more files at the source"] * (others > 0)
    if late := late_warning(find_late(lake, listing, applied, landed)):
        warnings.append(late)
    return warnings


def _landing_warnings(lake: Lake, manifest: ledger.Manifest, arrival: Arrival) -> list[str]:
    """Return warnings about an hour that has landed."""
    hour, names = manifest.hour, arrival.names
    warnings = missing_topics(lake, manifest, arrival.landed)
    if gone := sorted(topic for topic in manifest.files if topic not in names):
        what = f"{', '.join(gone)} of {hour}" if names else hour
        warnings.append(f"the source no longer lists {what}: it is applied as it landed")
    gone_parts = [part.name for topic, own in names.items() for part in withdrawn(manifest.files.get(topic), own)]
    if gone_parts:
        warnings.append(f"the source no longer lists {ledger.named_hours(gone_parts)}: applied as they landed")
    if twin := ledger.same_content(lake, manifest, arrival.applied):
        warnings.append(f"the same content came under {twin} already: see whether the source delivered it twice")
    if hour in arrival.landed:
        warnings += quarantine.outdated_corrections(lake, manifest)
    return warnings


def _recover_publish_row(lake: Lake, log: EventLog, release: releases.Release) -> None:
    """Add the missing event of a release whose process ended before writing it."""
    rows = event_log.read_if_whole(lake, run_id=release.run_id)
    if rows is None or any(row.event_type in ("publish", "rollback") and row.status == "succeeded" for row in rows):
        return
    details = {"release_id": release.release_id, "versions": dict(release.versions), "note": RECOVERED}
    mine = {"run_id": release.run_id, "hour": release.hour, "started_at": release.published_at}
    log.add("publish", None, None, **mine, details=details)
