"""The step `apply`: decode the landed files of an hour and merge them into Bronze."""

from collections.abc import Collection
from functools import partial
from typing import Any

from medallion.counts import counted
from medallion.errors import HourOutOfOrder, MedallionError, advice
from medallion.ingest import apply, change_log, landing, ledger, quarantine
from medallion.ingest.decode import Decoded
from medallion.ingest.listing import change_files
from medallion.ingest.restatement import read_restatement
from medallion.ingest.schema_evolution import require_evolvable
from medallion.ingest.source import open_source
from medallion.ingest.unpublished import find_unfinished, require_no_red_hour
from medallion.model.table import ChangeLog, Feed
from medallion.ops import event_log
from medallion.ops.event_log import EventLog
from medallion.ops.event_schema import DID_WORK
from medallion.ops.events import Event
from medallion.pipeline.driver import Driver
from medallion.pipeline.land import RECOVERED, require_whole_load
from medallion.pipeline.run import Outcome, Run
from medallion.spark.session import in_parallel


def apply_hour(driver: Driver, run: Run, log: EventLog, _: str | None) -> Outcome:
    hour, feeds = run.required_hour, driver.tables.feeds
    with log.timed("apply", driver.tables.fed_layer, cpu=driver.cpu) as event:
        _require_turn(driver, hour, is_selection=bool(run.select))
        undeclared = require_evolvable(driver.lake, (*feeds, *driver.tables.logs))
        decoded = _decode(driver, hour, run.settings.max_bad_lines)
        for feed in feeds:  # a table that has the hour keeps its quarantine: the lines are not applied again
            if feed.name in decoded and (driver.lake.applied_hour(feed.name) or "") < hour:
                quarantine.write_rejected(driver.lake, feed, hour, run.run_id, decoded[feed.name])

        rows = event_log.read_if_whole(driver.lake, hour=hour, event_type="apply")
        reported = {row.table_name for row in rows or [] if row.status in DID_WORK}

        warnings = list(undeclared)
        for table in driver.tables.logs:  # before the hour is applied to their tables
            warnings += change_log.catch_up(partial(driver.sessions, log), driver.lake, table, hour)

        def work(table: Feed | ChangeLog) -> apply.Applied | None:
            content = decoded.get(table.of if isinstance(table, ChangeLog) else table.name)
            with log.timed("apply", driver.tables.fed_layer, table.name) as step:
                if isinstance(table, ChangeLog):
                    done = change_log.append_lines(driver.lake, table, hour, content)
                else:
                    done = apply.apply_feed(partial(driver.sessions, log), driver.lake, table, hour, content)
                is_lost = done is None and rows is not None and table.name not in reported
                if is_lost and driver.lake.applied_hour(table.name) == hour:  # else a later hour has the commit
                    done = apply.applied_before(driver.lake, table, content)
                    step.details["note"] = RECOVERED
                _fill_applied(step, done)
            if done is not None:
                changed = f"{counted(done.lines, 'line')}, {counted(done.changed, 'row')} changed"
                driver.report(f"{table.layer}  {table.name}  {changed}  {step.seconds:.1f} s")
            return done

        with in_parallel() as pool:
            logged = pool.map(work, driver.tables.logs)
            results = [done for done in pool.map(work, feeds) if done is not None]
            list(logged)  # so that a failure is raised
        landing.forget_decoded(driver.lake, hour)
        event.rows_in = sum(done.lines for done in results)
        event.rows_out = sum(done.changed for done in results)
        event.bytes_out = sum(done.bytes for done in results)
        rejected = sum(done.rejected for done in results)
        event.details["rejected"] = rejected
        if repeated := sum(content.repeated for content in decoded.values()):
            event.details["repeated"] = repeated
        if not results:
            event.status = "skipped"
        drift = [*landing.drift(feeds, decoded), *warnings]
        if rejected:
            drift.append(f"{counted(rejected, 'line')} rejected: {advice.see_quarantine()}")
        if drift:
            event.status, event.details["note"] = "warned", "; ".join(drift)
    applied = f"applied {counted(event.rows_in, 'line')} of {hour}, {counted(event.rows_out, 'row')} changed"
    message = "; ".join([applied, *drift])
    return driver.report_outcome(Outcome(event.status, message, hour))


def _decode(driver: Driver, hour: str, max_bad_lines: float) -> dict[str, Decoded]:
    """Decode the hour; return nothing if every table has it and its landed files are gone. Raises as decode_hour."""
    try:
        return landing.decode_hour(driver.lake, driver.tables.feeds, hour, max_bad_lines)
    except landing.NotAsLanded:
        names = [table.name for table in driver.tables.feeds] + [log.name for log in driver.tables.logs]
        if any((driver.lake.applied_hour(name) or "") < hour for name in names):
            raise
        return {}


def _fill_applied(event: Event, done: apply.Applied | None) -> None:
    if done is None:
        event.status, event.details["note"] = "skipped", "hour already applied to the table"
        return
    event.rows_in, event.rows_out, event.bytes_out = done.lines, done.changed, done.bytes
    counts: dict[str, Any] = {"inserted": done.inserted, "updated": done.updated, "deleted": done.deleted}
    event.details |= counts | {"rejected": done.rejected}
    if done.rejected:
        event.status = "warned"


def _require_turn(driver: Driver, hour: str, *, is_selection: bool) -> None:
    """Refuse to apply ``hour`` while an earlier hour is missing, red or unfinished.

    An hour that Bronze has already may always be applied again.
    """
    lake = driver.lake
    applied = ledger.applied_hour(lake, driver.tables)
    if applied is not None and hour <= applied:
        return
    require_whole_load(lake, applied)
    restated = read_restatement(lake)
    if restated is not None and (not restated.rewound or restated.awaits_landing(hour)):
        raise MedallionError(
            f"hour {hour} cannot be applied: {restated.headline}; {advice.refresh()} to continue that first"
        )
    require_no_red_hour(lake, driver.tables, hour, applied, restated)
    if before := find_unfinished(lake, driver.tables, hour, applied, restated, is_selection=is_selection):
        raise HourOutOfOrder(
            f"hour {hour} must wait: hour {before} is in Bronze and was not published; {advice.refresh(before)} first"
        )
    due = ledger.landed_hours(lake) | {*(restated.hours if restated else ())}
    ledger.require_no_gap(hour, applied, ledger.pending_hours(applied, _source_hours(driver), due, hour))


def _source_hours(driver: Driver) -> Collection[str]:
    """Return the hours of the source's last listing; empty if the source cannot be reached."""
    if driver.listing is None:
        try:
            driver.listing = change_files(open_source(driver.settings), driver.tables.feeds)
        except MedallionError as error:  # files that have landed can be applied without the source
            driver.report(f"the order of hours is checked against landed hours alone: {error}")
            return ()
    return driver.listing.hours
