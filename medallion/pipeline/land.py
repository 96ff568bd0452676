"""The step `land`: an hour's change files, copied whole from the source."""

from dataclasses import replace

from medallion.errors import MedallionError
from medallion.ingest import change_log, landing, ledger
from medallion.ingest.source import change_files, open_source
from medallion.model.table import Layer, Log
from medallion.ops import event_log, releases
from medallion.ops.event_log import EventLog
from medallion.pipeline.driver import Driver
from medallion.pipeline.run import Outcome, Run
from medallion.storage.lake import Lake


def land_hour(driver: Driver, run: Run, log: EventLog, _: Layer | None) -> Outcome:
    lake, notes = driver.lake, []
    with log.timed("land", "bronze", cpu=driver.cpu) as event:
        source = open_source(run.settings)
        restated = rewound(driver)
        files = change_files(source, tuple(feed.topic for feed in driver.tables.feeds))
        applied = ledger.applied_hour(lake, driver.tables)
        landed = ledger.landed_hours(lake)
        log.hour = hour = ledger.in_line(run.hour, applied, files, landed)
        if applied is not None and hour <= applied:
            event.status = "skipped"
            release = releases.latest(lake)
            if hour < applied or (release and release.hour == hour and restated is None):
                published = release is not None and release.hour is not None and release.hour >= hour
                note = f"hour {hour} is {'published' if published else 'in Bronze'} already: nothing to do"
                if changed := landing.changed_files(source, files.get(hour, {}), ledger.read_manifest(lake, hour)):
                    note += f"; its files have changed since ({', '.join(changed)}): medallion refresh --restate {hour}"
                event.details["note"] = note
                if release is not None:
                    _recover_publish_row(lake, log, release)
                return driver.report_outcome(Outcome("skipped", note, hour))
            event.details["note"] = note = f"hour {hour} is in Bronze already, but not published: going on from there"
            return driver.report_outcome(Outcome("succeeded", note, hour))
        if hour in files:
            manifest = landing.land_hour(source, lake, hour, files[hour])
        else:
            manifest = ledger.known_manifest(lake, hour)
            notes.append(f"the source no longer lists {hour}: it is applied as it landed")
        event.bytes_out = sum(file.bytes for file in manifest.files.values())
        event.details["files"] = {topic: vars(file) for topic, file in manifest.files.items()}
        if twin := ledger.same_content(lake, manifest, applied):
            notes.append(f"the same content came under {twin} already: see whether the source delivered it twice")
        if notes:
            event.status, event.details["note"] = "warned", "; ".join(notes)
    size = event.bytes_out / 1e6
    message = "; ".join([f"landed {len(manifest.files)} files, {size:.1f} MB of {hour}", *notes])
    return driver.report_outcome(Outcome(event.status, message, hour))


def _recover_publish_row(lake: Lake, log: EventLog, release: releases.Release) -> None:
    """Add the event of a release whose process ended between the two."""
    rows = event_log.read_if_whole(lake, run_id=release.run_id, event_type="publish")
    if rows is None or any(row["status"] == "succeeded" for row in rows):
        return
    details = {"release_id": release.release_id, "versions": dict(release.versions), "note": RECOVERED}
    mine = {"run_id": release.run_id, "hour": release.hour, "started_at": release.published_at}
    log.add("publish", None, None, **mine, details=details)


RECOVERED = "the run ended before it could write this row: it is made from the commit"


def rewound(driver: Driver) -> ledger.Restatement | None:
    """The restatement under way, if there is one, with every Bronze table taken back."""
    restatement = ledger.read_restatement(driver.lake)
    if restatement is not None and not restatement.rewound:
        for feed in driver.tables.feeds:
            if (driver.lake.applied_hour(feed.name) or "") >= restatement.hour:
                driver.lake.rewind(feed.name, restatement.hour)
        for log in driver.tables.logs:
            _rewind_log(driver.lake, log, restatement.hour)
        driver.report(f"Bronze is as it was before {restatement.hour}")
        restatement = replace(restatement, rewound=True)
        ledger.write_restatement(driver.lake, restatement)
    return restatement


def _rewind_log(lake: Lake, log: Log, hour: str) -> None:
    """Take a log back to before ``hour``; one that is younger begins anew, with its table as it is."""
    if (lake.applied_hour(log.name) or "") < hour:
        return
    try:
        lake.rewind(log.name, hour)
    except MedallionError:
        change_log.begin_log(lake, log)
