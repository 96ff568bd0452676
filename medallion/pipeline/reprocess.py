"""Rebuild edited or selected tables, and their readers, at the published hour."""

from collections.abc import Mapping
from dataclasses import replace

from medallion.errors import UsageError, advice
from medallion.hours import hour_or_snapshot
from medallion.ingest import ledger
from medallion.ingest.restatement import read_restatement
from medallion.ingest.unfinished_erasure import require_no_erasure
from medallion.ingest.unpublished import find_red, find_unpublished
from medallion.model.selection import read_from, select_tables, upstream_of
from medallion.ops import releases
from medallion.ops.lake_tables import require_no_missing_table
from medallion.pipeline.analysis import analyse_queries
from medallion.pipeline.difference import report_difference
from medallion.pipeline.driver import Driver
from medallion.pipeline.outdated import tables_left_behind
from medallion.pipeline.run import Outcome, Run
from medallion.pipeline.steps import refresh_onward
from medallion.refresh.definitions import CHANGED, find_tables_to_rebuild


def reprocess(run: Run, driver: Driver) -> Outcome:
    """Rebuild tables and their readers at the published hour, and publish a new release of that hour.

    Args:
        run: A run without an hour. Its ``select`` names the tables; if it is empty, these are the tables whose
            definition has changed, that were never built, or whose folder somebody restored. All are refreshed with the
            strategy of the run; an incremental refresh recomputes tables of these three kinds too.
        driver: The state that the steps share.

    Raises:
        UsageError: Nothing is published, or Bronze is at another hour than readers have.
        MedallionError: A query is wrong, and nothing was written; or a table failed.
    """
    lake = driver.lake
    if run.select:
        select_tables(driver.tables, run.select)  # a wrong name fails before waiting for a writer
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
    """Return a run that selects tables without an hour as a run of the published hour, with all readers of the tables.

    Upstream tables that are behind their inputs are added. Raises UsageError, and changes nothing, for an unknown
    table, or if Bronze is not at the published hour.
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
    """Whether ``run`` is of the published hour: it selects tables without an hour, and no hour is left to finish."""
    if not run.select or run.hour is not None:
        return False
    table_hours, restated = ledger.hours_by_table(driver.lake, driver.tables), read_restatement(driver.lake)
    if restated is not None or ledger.hour_cut_short(table_hours) is not None:
        return False
    return find_unpublished(driver.lake, driver.tables, ledger.last_common_hour(table_hours), restated) is None


def rebuild_changed_tables(run: Run, driver: Driver) -> Outcome | None:
    """Rebuild the tables of ``run`` that are edited, new or restored, if the hour of the run is published.

    run: of the published hour, or without an hour if none is pending. If no such table exists, or the run has an hour
    to refresh, which rebuilds them too, nothing is done and None is returned.
    """
    release = releases.latest(driver.lake)
    if release is None or run.hour not in (None, release.hour) or read_restatement(driver.lake) is not None:
        return None
    table_hours = ledger.hours_by_table(driver.lake, driver.tables)
    if ledger.last_common_hour(table_hours) != release.hour or ledger.hour_cut_short(table_hours) is not None:
        return None
    require_no_erasure(driver.lake)
    selected = select_tables(driver.tables, run.select) if run.select else driver.tables.tables.keys()
    reasons = find_tables_to_rebuild(driver.lake, driver.tables, release)
    names = [name for name in reasons if name in selected]
    return _rebuild(replace(run, hour=release.hour), driver, names, reasons) if names else None


def require_published(run: Run, driver: Driver) -> None:
    """Raise UsageError unless ``run.hour`` can be reprocessed: both readers and Bronze must be at this hour.

    Raises HourOutOfOrder if an erasure, or the hour that is being applied, was cut short.
    """
    require_no_erasure(driver.lake, "nothing is reprocessed")
    ledger.require_no_hour_cut_short(driver.lake, driver.tables, "nothing is reprocessed")
    release, applied = releases.latest(driver.lake), ledger.applied_hour(driver.lake, driver.tables)
    published = release.hour if release else None
    red = find_red(driver.lake, driver.tables, applied, read_restatement(driver.lake))
    if red is not None and published != applied:
        raise UsageError(red.refuse(f"{hour_or_snapshot(run.hour)} cannot be reprocessed"))
    refused = f"{hour_or_snapshot(run.hour)} cannot be reprocessed: readers have {hour_or_snapshot(published)}"
    if published != applied:
        raise UsageError(
            f"{refused}, and Bronze is at {hour_or_snapshot(applied)}: {advice.refresh(applied)} to publish it"
        )
    if run.hour != published:
        way_out = f", or {advice.restate(run.hour)}" if run.hour is not None and run.hour < (published or "") else ""
        raise UsageError(f"{refused}, and only that hour can be: choose it{way_out}")


def _rebuild(run: Run, driver: Driver, names: list[str], reasons: Mapping[str, str]) -> Outcome:
    """Refresh ``names`` and their readers, check, publish, and report which rows differ from the former release."""
    require_no_missing_table(driver.lake, driver.tables.tables, "nothing is rebuilt")
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
