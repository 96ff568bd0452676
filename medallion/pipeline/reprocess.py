"""Rebuild tables at the published hour: edited or named ones, and what reads them."""

from collections.abc import Mapping
from dataclasses import replace

from medallion.errors import UsageError, advice
from medallion.hours import hour_or_snapshot
from medallion.ingest import ledger
from medallion.ingest.restatement import read_restatement
from medallion.ingest.unpublished import find_red, find_unpublished
from medallion.model.selection import read_from, select_tables, upstream_of
from medallion.ops import releases
from medallion.pipeline.analysis import analyse_queries
from medallion.pipeline.difference import report_difference
from medallion.pipeline.driver import Driver
from medallion.pipeline.outdated import tables_left_behind
from medallion.pipeline.run import Outcome, Run
from medallion.pipeline.steps import refresh_onward
from medallion.refresh.definitions import CHANGED, find_tables_to_rebuild


def reprocess(run: Run, driver: Driver) -> Outcome:
    """Rebuild tables and what reads them at the published hour, and publish a new release of that hour.

    Args:
        run: Of no hour. select: the tables; without it those whose definition changed since they were built, those that
            were never built, and those whose folder somebody restored. They are recomputed; so is what reads them,
            unless its strategy is incremental.
        driver: What its steps share.

    Raises:
        UsageError: Nothing is published, or Bronze is at another hour than readers have.
        MedallionError: A query is wrong, and nothing was written; or a table failed.
    """
    lake = driver.lake
    if run.select:
        select_tables(driver.tables, run.select)  # a wrong name waits for no writer and changes nothing
    with driver.writing(run, "reprocess"):
        before = releases.require_release(lake, None)
        run = replace(run, hour=before.hour)
        require_published(run, driver)
        reasons = find_tables_to_rebuild(lake, driver.tables, before)
        names = sorted(select_tables(driver.tables, run.select)) if run.select else [*reasons]
        if not names:
            note = f"no {CHANGED}: nothing to do; name tables with --select to rebuild them all the same"
            return driver.report_outcome(Outcome("skipped", note, run.hour))
        return _rebuild(run, driver, names, reasons)


def at_published_hour(run: Run, driver: Driver) -> Run:
    """Return ``run``, which names tables and no hour, for the hour that readers have, with all that reads its tables.

    What the tables read is added as far as it is left behind. Raises UsageError for an unknown table, and where Bronze
    is not at the hour that readers have: nothing is changed.
    """
    selected = select_tables(driver.tables, run.select)
    release = releases.require_release(driver.lake, None)
    if release.hour is None:
        raise UsageError(f"{run.select} without an hour is of the published hour, and none is yet: {advice.refresh()}")
    require_published(replace(run, hour=release.hour), driver)
    behind = {*tables_left_behind(driver)}
    wanted = read_from(driver.tables, {*selected, *(upstream_of(driver.tables, selected) & behind)})
    names = [table.name for table in driver.tables if table.name in wanted]
    return replace(run, hour=release.hour, select=", ".join(names))


def is_of_published_hour(run: Run, driver: Driver) -> bool:
    """Whether ``run`` names tables and no hour while nothing is left to finish: they are of the published hour."""
    if not run.select or run.hour is not None:
        return False
    applied, restated = ledger.applied_hour(driver.lake, driver.tables), read_restatement(driver.lake)
    return restated is None and find_unpublished(driver.lake, driver.tables, applied, restated) is None


def rebuild_changed_tables(run: Run, driver: Driver) -> Outcome | None:
    """Rebuild, of the tables that ``run`` is for, those that are not as they should be, where its hour is published.

    run: of the published hour, or of none where no hour is pending. None is returned, and nothing done, where all
    are as they should be, and where the run has an hour to refresh, which rebuilds them too.
    """
    release = releases.latest(driver.lake)
    if release is None or run.hour not in (None, release.hour) or read_restatement(driver.lake) is not None:
        return None
    if ledger.applied_hour(driver.lake, driver.tables) != release.hour:
        return None
    selected = select_tables(driver.tables, run.select) if run.select else driver.tables.tables.keys()
    reasons = find_tables_to_rebuild(driver.lake, driver.tables, release)
    names = [name for name in reasons if name in selected]
    return _rebuild(replace(run, hour=release.hour), driver, names, reasons) if names else None


def require_published(run: Run, driver: Driver) -> None:
    """Raise UsageError unless ``run.hour`` is the hour that readers have and Bronze is at: it can be reprocessed."""
    release, applied = releases.latest(driver.lake), ledger.applied_hour(driver.lake, driver.tables)
    published = release.hour if release else None
    red = find_red(driver.lake, driver.tables, applied, read_restatement(driver.lake))
    if red is not None and published != applied:
        raise UsageError(red.refuse(f"{hour_or_snapshot(run.hour)} cannot be reprocessed"))
    if run.hour != published or run.hour != applied:
        raise UsageError(
            f"{hour_or_snapshot(run.hour)} cannot be reprocessed: readers have {hour_or_snapshot(published)}, and"
            f" Bronze is at {hour_or_snapshot(applied)}; the hour must be both: {advice.refresh()} to publish the hour"
            " that Bronze is at; an earlier one can be restated"
        )


def _rebuild(run: Run, driver: Driver, names: list[str], reasons: Mapping[str, str]) -> Outcome:
    """Refresh ``names`` and what reads them, check, publish, and report which rows differ from the former release."""
    before = releases.latest(driver.lake)
    run = replace(run, select=", ".join(f"{name}+" for name in names))
    known = {reasons.get(name, "") for name in names}
    why = f": {' or '.join(sorted(known))}" if all(known) else ""
    them = "it" if len(names) == 1 else "them"
    driver.report(f"rebuilding {', '.join(names)} and what reads {them} at {hour_or_snapshot(run.hour)}{why}")
    analyse_queries(run, driver)
    outcome = refresh_onward(run, driver)
    after = releases.latest(driver.lake)
    if before is not None and after is not None and after.release_id != before.release_id:
        report_difference(driver, before, after)
    return outcome
