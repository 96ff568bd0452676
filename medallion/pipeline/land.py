"""The step `land`: an hour's change files, copied whole from the source."""

from collections.abc import Collection, Mapping

from medallion.ingest import landing, ledger, quarantine
from medallion.ingest.late_files import find_late, late_warning, missing_topics
from medallion.ingest.restatement import rewind_bronze, write_restatement
from medallion.ingest.source import Listing, Source, change_files, open_source
from medallion.model.table import Layer
from medallion.ops import event_log, releases
from medallion.ops.event_log import EventLog
from medallion.pipeline.driver import Driver
from medallion.pipeline.run import Outcome, Run
from medallion.storage.lake import Lake

MAX_WARNINGS = 5  # files of one kind that a step names
RECOVERED = "the run ended before it could write this row: it is made from the commit"


def land_hour(driver: Driver, run: Run, log: EventLog, _: Layer | None) -> Outcome:
    lake = driver.lake
    with log.timed("land", "bronze", cpu=driver.cpu) as event:
        source = open_source(run.settings)
        rewound: list[str] = []
        restated = rewind_bronze(lake, driver.tables, driver.report, rewound)
        listing = change_files(source, tuple(feed.topic for feed in driver.tables.feeds))
        applied, landed = ledger.applied_hour(lake, driver.tables), ledger.landed_hours(lake)
        notes = [*rewound, *_source_warnings(lake, listing, applied, landed)]
        for note in notes:  # also where this step ends without an hour
            driver.report(note)
        due = landed | {*(restated.hours if restated else ())}
        log.hour = hour = ledger.choose_hour(run.hour, applied, listing.hours, due)
        if applied is not None and hour <= applied:
            release = releases.latest(lake)
            is_done = hour < applied or (release and release.hour == hour and restated is None)
            event.status = "skipped"
            if not is_done:
                note = f"hour {hour} is in Bronze already, but not published: continuing from there"
                event.details["note"] = "; ".join([note, *notes])
                return driver.report_outcome(Outcome("succeeded", note, hour))
            published = release is not None and release.hour is not None and release.hour >= hour
            note = f"hour {hour} is {'published' if published else 'in Bronze'} already: nothing to do"
            names, manifest = listing.hours.get(hour, {}), ledger.read_manifest(lake, hour)
            if changed := landing.changed_files(source, names, manifest):
                note += f"; its files have changed since ({', '.join(changed)}): medallion refresh --restate {hour}"
            event.details["note"] = "; ".join([note, *notes])
            if release is not None:
                _recover_publish_row(lake, log, release)
            return driver.report_outcome(Outcome("skipped", note, hour))
        if hour in listing.hours:
            open_files, taken = _files_to_land(driver, hour, listing.hours[hour])
            changed_since = _changed_since_taken(source, taken, ledger.read_manifest(lake, hour))
            manifest = landing.land_hour(source, lake, hour, open_files)
        else:
            manifest, changed_since = ledger.known_manifest(lake, hour), []
        if restated is not None:
            write_restatement(lake, restated.with_landed(hour))
        driver.listing = listing
        event.bytes_out = sum(file.bytes for file in manifest.files.values())
        event.details["files"] = {topic: vars(file) for topic, file in manifest.files.items()}
        about_hour = [*_landing_warnings(lake, manifest, listing, applied, landed), *changed_since]
        if notes := [*notes, *about_hour]:
            event.status, event.details["note"] = "warned", "; ".join(notes)
    size = event.bytes_out / 1e6
    message = "; ".join([f"landed {len(manifest.files)} files, {size:.1f} MB of {hour}", *about_hour])
    return driver.report_outcome(Outcome(event.status, message, hour))


def _files_to_land(driver: Driver, hour: str, names: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Split the files of an hour, by topic, into those that are copied now and those that some table has taken.

    After a crash between two tables, what one of them has taken stays as it landed: the hour is applied from one set
    of files, and a correction is found as late. A file that is gone from the landing folder is copied again.
    """
    lake, former = driver.lake, ledger.read_manifest(driver.lake, hour)
    tables = [(feed.name, feed.topic) for feed in driver.tables.feeds]
    tables += [(log.name, log.fed_by.topic) for log in driver.tables.logs]
    known = former.files if former else {}
    taken = {
        topic
        for name, topic in tables
        if topic in known
        and (lake.applied_hour(name) or "") >= hour
        and landing.is_landed(lake, topic, hour, known[topic])
    }
    to_land = {topic: name for topic, name in names.items() if topic not in taken}
    return to_land, {topic: name for topic, name in names.items() if topic in taken}


def _changed_since_taken(source: Source, names: Mapping[str, str], landed: ledger.Manifest | None) -> list[str]:
    changed = landing.changed_files(source, names, landed)
    if landed is None or not changed:
        return []
    return [
        f"{', '.join(changed)} of {landed.hour} changed at the source after a table had taken it: run medallion refresh"
        f" --restate {landed.hour} once the hour is published"
    ]


def _source_warnings(lake: Lake, listing: Listing, applied: str | None, landed: Collection[str]) -> list[str]:
    """What a person should know of the source's listing: files that are ignored, files that came too late."""
    warnings = [*listing.ignored[:MAX_WARNINGS]]
    if others := len(listing.ignored) - MAX_WARNINGS:
        warnings += [f"ignored {others} more files at the source"] * (others > 0)
    if late := late_warning(find_late(lake, listing, applied, landed)):
        warnings.append(late)
    return warnings


def _landing_warnings(
    lake: Lake, manifest: ledger.Manifest, listing: Listing, applied: str | None, landed: Collection[str]
) -> list[str]:
    """What a person should know of an hour that has landed."""
    hour = manifest.hour
    names = listing.hours.get(hour, {})
    warnings = missing_topics(lake, manifest, landed)
    if gone := sorted(topic for topic in manifest.files if topic not in names):
        what = f"{', '.join(gone)} of {hour}" if names else hour
        warnings.append(f"the source no longer lists {what}: it is applied as it landed")
    if twin := ledger.same_content(lake, manifest, applied):
        warnings.append(f"the same content came under {twin} already: see whether the source delivered it twice")
    if hour in landed:
        warnings += quarantine.outdated_mends(lake, manifest)
    return warnings


def _recover_publish_row(lake: Lake, log: EventLog, release: releases.Release) -> None:
    """Add the event of a release whose process ended between the two."""
    rows = event_log.read_if_whole(lake, run_id=release.run_id, event_type="publish")
    if rows is None or any(row["status"] == "succeeded" for row in rows):
        return
    details = {"release_id": release.release_id, "versions": dict(release.versions), "note": RECOVERED}
    mine = {"run_id": release.run_id, "hour": release.hour, "started_at": release.published_at}
    log.add("publish", None, None, **mine, details=details)
