"""Load the snapshot into Bronze."""

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

from medallion.hours import ONE_HOUR, format_hour, parse_hour
from medallion.ingest import change_log, quarantine, snapshot
from medallion.ingest.decode import Decoded
from medallion.ingest.listing import change_files
from medallion.ingest.small_snapshot import fit_rows
from medallion.ingest.snapshot_source import open_snapshot
from medallion.ingest.source import Advance, Source, open_source
from medallion.model.table import Feed
from medallion.ops.event_log import EventLog
from medallion.pipeline.driver import Driver
from medallion.pipeline.run import Run

IN_QUARANTINE = "are dated before 1900 or after it was taken, and are in quarantine: run medallion quarantine list"


def load_snapshot(driver: Driver, run: Run, log: EventLog, advance: Advance) -> None:
    """Load every feed from its snapshot, and begin the change logs with the loaded rows.

    A row that no change file could hold, such as one whose event time is after the snapshot or before 1900, goes to
    quarantine as a line that inserts it.

    Raises MedallionError for too many such rows, or a snapshot that cannot be used.
    """
    lake, source = driver.lake, open_source(run.settings)
    snapshots = {feed.name: open_snapshot(source, feed, lake, advance) for feed in driver.tables.feeds}
    missing = [note for opened in snapshots.values() for note in opened.notes]
    for note in missing:
        driver.report(note)
    hour = _last_hour(driver, source)
    counts = Counter[str]()
    with log.timed("apply", driver.tables.fed_layer, cpu=driver.cpu) as event:

        def load_feed(feed: Feed) -> None:
            opened = snapshots[feed.name]
            if (rows := fit_rows(lake, feed, opened, hour)) is not None:
                quarantine.write_rejected(lake, feed, quarantine.SNAPSHOT, run.run_id, Decoded(lines=opened.rows))
                snapshot.load_rows(lake, feed, rows)
                return
            spark = driver.spark(log)
            rejected = snapshot.reject_rows(spark, feed, opened, hour, run.settings.max_bad_lines)
            quarantine.write_rejected(lake, feed, quarantine.SNAPSHOT, run.run_id, rejected)
            snapshot.load_feed(spark, lake, feed, opened, hour)
            counts[feed.name] = len(rejected.rejected)

        def loaded(name: str, write: Callable[[], None]) -> int:
            with log.timed("apply", driver.tables.fed_layer, name, cpu=driver.cpu) as step:
                write()
                if state := lake.state(name):
                    step.rows_in = step.rows_out = state.rows
                    step.bytes_out = state.bytes
                if rejected := counts[name]:
                    step.status = "warned"
                    step.details |= {"rejected": rejected, "note": f"{rejected:,} rows of the snapshot {IN_QUARANTINE}"}
            driver.report(f"{driver.tables.fed_layer}  {name}  {step.rows_out:,} rows  {step.seconds:.1f} s")
            return step.rows_out or 0

        event.rows_out = sum(loaded(feed.name, partial(load_feed, feed)) for feed in driver.tables.feeds)
        for table in driver.tables.logs:
            loaded(table.name, partial(change_log.begin_log, lake, table, str(snapshots[table.of].folder)))
        if total := counts.total():
            event.details["rejected"] = total
            missing.append(f"{total:,} rows of the snapshot {IN_QUARANTINE}")
            driver.report(missing[-1])
        if missing:
            event.status, event.details["note"] = "warned", "; ".join(missing)


def _last_hour(driver: Driver, source: Source) -> str:
    """Return the hour before the first one with a change file at the source; the current hour if there is none."""
    listing = change_files(source, driver.tables.feeds)
    first = next(iter(listing.hours), None)
    return format_hour(parse_hour(first) - ONE_HOUR if first else datetime.now(UTC))
