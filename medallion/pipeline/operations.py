"""Whole operations on a lake, each in one process: refresh an hour, load, restate, replay, roll back."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from medallion.errors import MedallionError, UsageError
from medallion.hours import hour_or_snapshot
from medallion.ingest import change_log, ledger, quarantine, snapshot
from medallion.ingest.source import Advance, open_source, silent
from medallion.ops import lake_tables, releases
from medallion.ops.event_log import EventLog
from medallion.pipeline.driver import Driver
from medallion.pipeline.run import Outcome, Run
from medallion.pipeline.steps import run_step


def refresh_hour(run: Run, driver: Driver) -> Outcome:
    """One hour, landed to published, in this process: what one DAG run does.

    Errors as for run_step. An hour that is published already is skipped.
    """
    with driver.writing(run, "refresh"):
        landed = run_step("land", run, driver=driver)
        if landed.status == "skipped":
            return landed
        run = replace(run, hour=landed.hour)
        run_step("apply", run, driver=driver)
        return _onward(run, driver)


def _onward(run: Run, driver: Driver) -> Outcome:
    """From Bronze that is at ``run.hour`` to its release."""
    warned = False
    for layer in driver.tables.layers:
        if layer != "bronze":
            run_step("refresh", run, layer, driver)
        warned |= run_step("check", run, layer, driver).status == "warned"
    outcome = run_step("publish", run, driver=driver)
    run_step("validate", run, driver=driver)
    return replace(outcome, status="warned") if warned else outcome


def load(run: Run, driver: Driver, advance: Advance = silent) -> Outcome:
    """The snapshot into Bronze, the first full Silver and Gold, and the first release.

    advance: told how far the copy of the snapshot is, where the source is not a folder.

    Raises UsageError when the lake has been loaded already, MedallionError when the snapshot cannot be used.
    """
    lake = driver.lake
    with driver.writing(run, "load"):
        if releases.latest(lake) is not None:
            raise UsageError(f"lake {lake.root} is loaded already: refresh it, or remove the folder to start over")
        driver.record_tables()
        with driver.recording(run, "load") as log:
            _load_bronze(driver, run, log, advance)
        return _onward(run, driver)


def change_tables(run: Run, driver: Driver, *, add: str | None = None, drop: str | None = None) -> str:
    """Add the extra tables to the lake, or drop a table or all extra ones from its next release; what was done.

    Raises UsageError for a name that cannot be added or dropped, and while an hour is being refreshed: its tables stay
    the same from its first step to its release.
    """
    lake = driver.lake
    with driver.writing(run, "tables"):
        release = releases.find(lake, None)
        if (applied := ledger.applied_hour(lake, driver.tables)) != release.hour:
            raise UsageError(
                f"{hour_or_snapshot(applied)} is in Bronze and not published yet: finish it with medallion refresh,"
                " then change the tables"
            )
        if add is not None:
            if add != lake_tables.EXTRAS:
                raise UsageError(
                    f"{add[:80]!r} cannot be added: a table is added by its module; the only group is extras"
                )
            names = lake_tables.add_extras(lake)
            return f"{len(names)} tables are added: the next hour that is refreshed builds and publishes them"
        names = lake_tables.drop_tables(lake, drop or "")
        return (
            f"{len(names)} tables are dropped: the next release will not have {', '.join(names)}; their files stay,"
            " and releases up to now still name them"
        )


def _load_bronze(driver: Driver, run: Run, log: EventLog, advance: Advance) -> None:
    lake, source = driver.lake, open_source(run.settings)
    snapshots = {feed.name: snapshot.snapshot_folder(source, feed, lake, advance) for feed in driver.tables.feeds}
    spark = driver.spark(log)
    with log.timed("apply", "bronze", cpu=driver.cpu) as event:

        def loaded(name: str, write: Callable[[], None]) -> int:
            with log.timed("apply", "bronze", name, cpu=driver.cpu) as one:
                write()
                if state := lake.state(name):
                    one.rows_in = one.rows_out = state.rows
                    one.bytes_out = state.bytes
            driver.report(f"bronze  {name}  {one.rows_out:,} rows  {one.seconds:.1f} s")
            return one.rows_out or 0

        event.rows_out = sum(
            loaded(feed.name, partial(snapshot.load_feed, spark, lake, feed, snapshots[feed.name]))
            for feed in driver.tables.feeds
        )
        for table in driver.tables.logs:
            loaded(table.name, partial(change_log.begin_log, lake, table, str(snapshots[table.of])))


def rollback(run: Run, driver: Driver, number: int | None) -> Outcome:
    """Publish the versions of an earlier release once more: of release ``number``, else of the one before the newest.

    Raises UsageError when there is no such release, MedallionError when files of it are gone.
    """
    lake = driver.lake
    with driver.recording(run, "rollback") as log, log.timed("publish", cpu=driver.cpu) as event:
        newest = releases.find(lake, None)
        target = releases.find(lake, newest.release_id - 1 if number is None else number)
        if target.release_id == newest.release_id:
            raise UsageError(f"release {target.release_id} is the newest already: nothing to roll back")
        if gone := [table for table, version in target.versions.items() if not lake.is_whole(table, version)]:
            raise MedallionError(f"release {target.release_id} cannot come back: files of {', '.join(gone)} are gone")
        log.hour = target.hour
        done = releases.publish(
            lake,
            after=newest,
            hour=target.hour,
            run_id=run.run_id,
            strategy=target.strategy,
            versions=target.versions,
        )
        event.details = {"release_id": done.release_id, "rolled_back_to": target.release_id}
    message = f"release {done.release_id} is release {target.release_id} again, of {hour_or_snapshot(target.hour)}"
    return driver.report_outcome(Outcome("succeeded", message, target.hour))


def replay(run: Run, driver: Driver, topic: str, lines: Mapping[int, str] | None) -> Outcome:
    """Apply lines in quarantine in their old place, mended or because the schema was: restates their hour.

    Raises UsageError, and changes nothing, when there is nothing to replay.
    """
    with driver.writing(run, "replay"):
        feed = quarantine.feed_of(driver.tables.feeds, topic)
        fitting = quarantine.mend(driver.lake, feed, run.required_hour, lines)
        driver.report(f"{fitting:,} lines of {topic} in {run.hour} fit now")
        return restate(run, driver)


def restate(run: Run, driver: Driver) -> Outcome:
    """Take Bronze back to before ``run.hour`` and forward again from the source as it is now; publish the last hour.

    Hours that the source no longer lists are applied as they landed. A restatement that was cut short goes on with
    the next refresh, and nothing is published before it has caught up.
    Raises UsageError for an hour after the last applied one, MedallionError when Bronze of before is no longer kept.
    """
    lake, hour = driver.lake, run.required_hour
    with driver.writing(run, "restate"):
        applied = ledger.applied_hour(lake, driver.tables)
        former = ledger.read_restatement(lake)
        until = max(applied or "", former.until if former else "")
        if hour > until:
            raise UsageError(f"hour {hour} is after {until or 'the snapshot'}, the last one: run medallion refresh")
        for feed in driver.tables.feeds:
            lake.version_before(feed.name, hour)  # all of them or none
        ledger.write_restatement(lake, ledger.Restatement(hour, until))
        before = releases.latest(lake)
        while True:
            landed = run_step("land", replace(run, hour=None), driver=driver)
            run_step("apply", replace(run, hour=landed.hour), driver=driver)
            if str(landed.hour) >= until:
                break
        outcome = _onward(replace(run, hour=until), driver)
    after = releases.latest(lake)
    if before is not None and after is not None:
        from medallion.inspect.query import diff

        for table in filter(None, diff(lake, before, after, driver.tables)):
            driver.report(f"{table.table}: {table.added:,} added, {table.removed:,} removed, {table.changed:,} changed")
        driver.report(f"row by row: medallion release diff {before.release_id} {after.release_id} --table NAME")
    return outcome
