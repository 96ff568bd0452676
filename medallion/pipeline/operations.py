"""Operations on a lake, each in one process: refresh an hour, load, restate, replay."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from medallion.errors import HourNotAvailable, MedallionError, UsageError, advice
from medallion.ingest import landing, ledger, quarantine
from medallion.ingest.erased_lines import without_erased
from medallion.ingest.listing import change_files
from medallion.ingest.restatement import Restatement, plan_restatement, read_restatement, write_restatement
from medallion.ingest.source import Advance, no_progress, open_source
from medallion.ingest.unfinished_erasure import require_no_erasure
from medallion.ingest.unpublished import find_red
from medallion.model.selection import select_tables
from medallion.model.table import Feed
from medallion.ops import releases
from medallion.ops.lake_tables import require_no_missing_table
from medallion.ops.red_hours import failed_checks
from medallion.pipeline.analysis import analyse_queries
from medallion.pipeline.difference import report_difference
from medallion.pipeline.driver import Driver
from medallion.pipeline.load import load_snapshot
from medallion.pipeline.reprocess import is_of_published_hour, rebuild_changed_tables, reprocess
from medallion.pipeline.run import Outcome, Run
from medallion.pipeline.steps import finish_before, refresh_onward, run_step
from medallion.storage.rewind import require_version_before


def refresh_hour(run: Run, driver: Driver) -> Outcome:
    """Refresh one hour in this process, from landing to publishing, as one DAG run does.

    An hour that is published already is skipped, except that tables whose definition has changed are rebuilt with their
    readers. A run that selects tables without an hour is for the hour to finish or, without one, the published hour.
    Raises as run_step does.
    """
    if run.select:
        select_tables(driver.tables, run.select)  # a wrong name fails before waiting for a writer
    with driver.writing(run, "refresh"):
        if is_of_published_hour(run, driver):
            return reprocess(run, driver)
        if run.hour is not None and (rebuilt := rebuild_changed_tables(run, driver)) is not None:
            return rebuilt
        analyse_queries(run, driver)
        if run.hour is not None:
            finish_before(run, driver)
        try:
            landed = run_step("land", run, driver)
        except HourNotAvailable:
            if run.hour is None and (rebuilt := rebuild_changed_tables(run, driver)) is not None:
                return rebuilt
            raise
        if landed.status == "skipped":
            return landed
        run = replace(run, hour=landed.hour)
        run_step("apply", run, driver)
        return refresh_onward(run, driver)


def refresh_hours(runs: Sequence[Run], driver: Driver, advance: Advance = no_progress) -> None:
    """Refresh the hours of ``runs`` in order; an hour that the source lacks is skipped if a later one is available.

    Args:
        runs: One run for each hour.
        driver: The state that the steps share.
        advance: Called with the hour being refreshed, its number, and the number of hours.

    Raises:
        HourNotAvailable: The source lacks the last hour. Other errors as for refresh_hour.
    """
    missing: list[HourNotAvailable] = []
    for number, run in enumerate(runs):
        advance(run.hour or "next hour", number, len(runs))
        if number:
            driver.renew_if_short()
        try:
            hour = refresh_hour(run, driver).hour
        except HourNotAvailable as reason:
            missing.append(reason)
            continue
        for gap in missing:
            driver.report(f"passed over: {gap}")
        missing.clear()
        advance(hour or "", number + 1, len(runs))
    if missing:
        raise missing[0]


def load(run: Run, driver: Driver, advance: Advance = no_progress) -> Outcome:
    """Load the snapshot into Bronze, compute Silver and Gold in full, and publish the first release.

    Args:
        run: A run without an hour.
        driver: The state that the steps share.
        advance: Called with the progress of copying the snapshot, if it is copied.

    Raises:
        UsageError: The lake has been loaded already.
        MedallionError: The snapshot cannot be used.
    """
    lake = driver.lake
    with driver.writing(run, "load"):
        if releases.latest(lake) is not None or any(lake.applied_hour(feed.name) for feed in driver.tables.feeds):
            raise UsageError(f"lake {lake.root} is loaded already: refresh it, or remove the folder to start over")
        driver.record_tables()
        analyse_queries(run, driver)
        with driver.recording(run, "load") as log:
            load_snapshot(driver, run, log, advance)
        return refresh_onward(run, driver)


def replay(run: Run, driver: Driver, topic: str, lines: Mapping[int, str] | None) -> Outcome:
    """Replay lines in quarantine, corrected or with a corrected schema, by restating their hour.

    A replay that was cut short after its hour was applied again continues from there. lines: corrected lines by number;
    None if the schema was corrected.

    Raises UsageError, and changes nothing, if there is nothing to replay; MedallionError if the file of the lines has
    changed at the source. Other errors as for ``restate``.
    """
    hour = run.required_hour
    with driver.writing(run, "replay"):
        feed = quarantine.feed_of(driver.tables.feeds, topic)
        if _is_replayed(driver, feed, hour, lines):
            driver.report(f"the lines of {topic} in {hour} are in Bronze: going on from there")
            return restate(run, driver, resume=True)
        if lines is None:
            fitting = quarantine.require_fitting_lines(driver.lake, feed, hour)
        else:
            _require_same_file(driver, feed, hour)
            _plan_restatement(driver, hour)  # a refused restatement must leave no corrected lines behind
            quarantine.record_corrections(driver.lake, feed, hour, without_erased(driver.lake, feed, hour, lines))
            fitting = len(lines)
        driver.report(f"{fitting:,} lines of {topic} in {hour} fit now")
        return restate(run, driver)


def _is_replayed(driver: Driver, feed: Feed, hour: str, lines: Mapping[int, str] | None) -> bool:
    """Check whether the restatement under way has applied ``hour`` again, with these corrected lines if any are given.

    None of the lines is in quarantine if it has.
    """
    plan = read_restatement(driver.lake)
    if plan is None or not plan.rewound or hour not in plan.hours:
        return False
    if hour in plan.remaining(ledger.applied_hour(driver.lake, driver.tables)):
        return False
    rejected = {line.line_number for line in quarantine.read_rejected(driver.lake, feed, hour)}
    if lines is None:
        return not rejected
    landed = ledger.known_manifest(driver.lake, hour).files.get(feed.topic)
    if landed is None:  # the feed has no file in this hour, so there is nothing to replay
        return False
    recorded = quarantine.read_corrections(driver.lake, feed, hour, landed)
    return not rejected & lines.keys() and lines.items() <= recorded.items()


def _require_same_file(driver: Driver, feed: Feed, hour: str) -> None:
    """Raise MedallionError if the file has changed: corrected lines are identified by number in the landed file."""
    source = open_source(driver.settings)
    names = change_files(source, (feed,)).hours.get(hour, {})
    if landing.changed_files(source, names, ledger.read_manifest(driver.lake, hour)):
        raise MedallionError(
            f"{feed.topic}/{hour}.json has changed at the source since its lines went to quarantine; nothing"
            f" was replayed: {advice.restate(hour)}, then correct"
            f" {advice.see_rejected_lines(feed.topic, hour)}"
        )


def restate(run: Run, driver: Driver, *, resume: bool = False) -> Outcome:
    """Reprocess from ``run.hour``: restore Bronze to before it, apply the source as it is now, publish the last hour.

    Hours that the source no longer lists are applied as they landed. A restatement that was cut short continues with
    the next refresh, and nothing is published before all its hours are applied.

    Args:
        run: The run, with the hour; a later attempt continues the restatement that the run began.
        driver: The state that the steps share.
        resume: Whether to continue the restatement under way, whichever run began it.

    Raises:
        UsageError: The hour cannot be restated, for example because it is after the last applied one.
        MedallionError: The former version of Bronze or a file of an hour no longer exists; nothing is changed then.
    """
    lake = driver.lake
    with driver.writing(run, "restate"):
        before = releases.latest(lake)
        analyse_queries(run, driver)
        outcome = refresh_onward(replace(run, hour=restate_bronze(run, driver, resume=resume)), driver)
    after = releases.latest(lake)
    if before is not None and after is not None:
        report_difference(driver, before, after)
    return outcome


def restate_bronze(run: Run, driver: Driver, *, resume: bool = False) -> str:
    """Restore Bronze to before ``run.hour`` and apply every hour since again; return the last one.

    Readers keep the former release until the last hour is published. Arguments and errors as for ``restate``.
    """
    with driver.writing(run, "restate"):
        plan = read_restatement(driver.lake)
        if plan is None or not (resume or plan.is_of(run.run_id, run.required_hour)):
            plan = begin_restatement(driver, run.required_hour, run.run_id)
        applied = ledger.applied_hour(driver.lake, driver.tables)
        remaining = plan.remaining(applied)
        if red := find_red(driver.lake, driver.tables, applied, plan):  # somebody checked an hour on its way
            raise UsageError(red.refuse("the restatement cannot go on"))
        while remaining:
            landed = run_step("land", replace(run, hour=None), driver)
            if landed.hour is None or landed.hour < plan.hour:  # else the loop would never end
                raise MedallionError(f"{plan.headline}, but hour {landed.hour} comes first: {advice.see_status()}")
            run_step("apply", replace(run, hour=landed.hour), driver)
            remaining = replace(plan, rewound=True).remaining(ledger.applied_hour(driver.lake, driver.tables))
        return plan.until


def begin_restatement(driver: Driver, hour: str, run_id: str = "") -> Restatement:
    """Record a restatement from ``hour``; any later refresh restores Bronze and continues the restatement.

    Raises UsageError or MedallionError, and records nothing, if it could not be completed.
    """
    failed = tuple(check.identity for check in failed_checks(driver.lake, driver.tables.layers))
    plan = replace(_plan_restatement(driver, hour), run_id=run_id, failed_before=failed)
    write_restatement(driver.lake, plan)
    return plan


def _plan_restatement(driver: Driver, hour: str) -> Restatement:
    """Plan a restatement from ``hour``; nothing is changed. Errors as for ``begin_restatement``."""
    lake = driver.lake
    require_no_erasure(lake, f"hour {hour} cannot be restated")
    require_no_missing_table(lake, driver.tables.tables, f"hour {hour} cannot be restated")
    table_hours, former = ledger.hours_by_table(lake, driver.tables), read_restatement(lake)
    applied = ledger.last_common_hour(table_hours)
    if (red := find_red(lake, driver.tables, applied, former)) and hour > red.hour:
        raise UsageError(red.refuse(f"hour {hour} cannot be restated"))
    listing = change_files(open_source(driver.settings), driver.tables.feeds)
    plan = plan_restatement(lake, hour, table_hours, listing, former)
    quarantine.require_whole_corrections(lake, driver.tables.feeds, plan.hours)
    for feed in driver.tables.feeds:
        require_version_before(lake, feed.name, plan.hour)  # checked for all tables, so that all are restored or none
    return plan
