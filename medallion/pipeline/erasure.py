"""Erase persons: delete their rows from Bronze, publish what follows, then remove all history that has them.

Each step looks before it acts, so an erasure that was cut short is finished by repeating all of it.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

from medallion.counts import counted
from medallion.errors import UsageError, advice
from medallion.ingest import ledger
from medallion.ingest.erase_rows import erase_rows, find_rows, require_erasable_now
from medallion.ingest.erased_subjects import Registered, parse_subjects
from medallion.ingest.restatement import read_restatement
from medallion.ingest.unpublished import find_unpublished
from medallion.inspect.catalog import write_duckdb_catalog
from medallion.inspect.person_search import is_below
from medallion.inspect.verify_erased import names_of_subjects
from medallion.ops import releases
from medallion.ops.holds import end_holds
from medallion.pipeline.analysis import analyse_queries
from medallion.pipeline.driver import Driver
from medallion.pipeline.erase_certificate import Erased, write_certificate
from medallion.pipeline.erase_files import (
    clean_check_records,
    clean_corrections,
    clean_events,
    clean_landed,
    clean_quarantine,
    remove_kept_state,
    remove_reports,
    remove_state_of,
)
from medallion.pipeline.erase_forecast import require_none_held
from medallion.pipeline.erase_history import (
    cut_history,
    drop_releases,
    publish_sealed,
    releases_naming,
    seal_tables,
)
from medallion.pipeline.erase_plan import Plan, end_plan, read_plan, write_plan
from medallion.pipeline.erase_search import Finds, copies_without_subject, search
from medallion.pipeline.outdated import tables_left_behind
from medallion.pipeline.run import Outcome, Run
from medallion.pipeline.steps import refresh_onward
from medallion.storage import files


def erase(
    run: Run, driver: Driver, subjects: Sequence[str], values: Collection[str] = (), *, force: bool = False
) -> tuple[Outcome, Erased]:
    """Erase persons from the lake, and record them so that their rows are not loaded again.

    Args:
        run: A run without an hour; says how to refresh the computed tables.
        driver: The state that its steps share.
        subjects: The persons as texts, which messages never show; empty to finish an erasure that was cut short.
        values: Further texts that identify only them, such as an address.
        force: Drop releases that are held by name, too.

    Returns:
        How it ended, and what was done. Persons of whom nothing is found are recorded too.

    Raises:
        UsageError: No feed declares a subject, a text cannot be a subject, the newest hour is red, hours are being
            restated, or a release that would be dropped is held; nothing was changed.
        ChangedByOthers: Somebody else changed a table of Bronze; nothing was changed.
    """
    known = parse_subjects(driver.tables, subjects) if subjects else []
    with driver.writing(run, "erase"):
        former = read_plan(driver.lake)
        if former is None and not known:
            raise UsageError(f"nobody is named: {advice.name_subjects()}")
        run = replace(run, hour=_require_ready(run, driver))
        if former is not None:
            driver.report(f"erasure {former.erasure_id} was cut short: it is ended first")
            if values:
                former = replace(former, texts=tuple(sorted({*former.texts, *values})))
                write_plan(driver.lake, former)
            done = _carry_out(run, driver, former)
            if not known or {*known} <= {*former.subjects}:
                return done
        names = names_of_subjects(driver.tables)
        began, texts = datetime.now(UTC).isoformat(timespec="seconds"), tuple(sorted(values))
        plan = Plan(f"{began[:19].replace(':', '')}-{uuid4().hex[:6]}", began, tuple(known), names, texts)
        require_erasable_now(driver.lake, driver.tables)
        if not force:
            require_none_held(driver.lake, driver.tables, plan)
        write_plan(driver.lake, plan)
        return _carry_out(run, driver, plan)


def _require_ready(run: Run, driver: Driver) -> str | None:
    """Return the hour that Bronze is at, after publishing it if needed. Raises UsageError if nothing can be erased now,
    HourOutOfOrder if the hour that is being applied was cut short.

    If an erasure was cut short, the hour may be unpublished or red: finishing the erasure checks and publishes it.
    """
    lake, restated = driver.lake, read_restatement(driver.lake)
    if restated is not None:
        raise UsageError(f"nothing is erased: {restated.describe_cut_short()}")
    ledger.require_no_hour_cut_short(lake, driver.tables, "nothing is erased")
    applied = ledger.applied_hour(lake, driver.tables)
    releases.require_release(lake, None)
    if read_plan(lake) is not None:
        return applied
    unpublished = find_unpublished(lake, driver.tables, applied, None)
    if unpublished is not None and unpublished.red is not None:
        raise UsageError(unpublished.red.refuse("nothing is erased"))
    if unpublished is not None:
        driver.report(f"hour {applied} is in Bronze and was not published: it is finished first")
        refresh_onward(replace(run, hour=applied), driver)
    return applied


def _carry_out(run: Run, driver: Driver, plan: Plan) -> tuple[Outcome, Erased]:
    with driver.recording(run, "erase") as log, log.timed("erase", driver.tables.fed_layer, cpu=driver.cpu) as event:
        event.engine = "delta-rs"
        plan = _erase_from_bronze(run, driver, plan)
        event.rows_out = sum(plan.rows.values())
    if plan.rows or tables_left_behind(driver):
        analyse_queries(run, driver)
        refresh_onward(run, driver)
    with driver.recording(run, "erase") as log, log.timed("erase", cpu=driver.cpu) as event:
        event.engine = "delta-rs"
        done = _end_history(run, driver, plan)
        event.details = {
            "erasure": plan.erasure_id,
            "subjects": len(plan.subjects),
            "tables": done.tables,
            "releases": done.releases,
            "files": done.removed.files + len(done.files),
        }
        event.bytes_out = done.removed.bytes
        if done.left:
            event.status, event.details["note"] = "warned", f"not reached: {'; '.join(done.left)}"
    page = write_certificate(driver.lake, plan, done, driver.settings.source)
    end_plan(driver.lake)
    driver.report(f"certificate: {page}")
    readers = releases.require_release(driver.lake, None)
    message = f"{describe(plan, done)}; readers have release {readers.release_id}, hour {readers.hour or 'snapshot'}"
    return driver.report_outcome(Outcome(event.status, message, run.hour)), done


def lift(run: Run, driver: Driver, subjects: Sequence[str], hour: str) -> Outcome:
    """Allow rows about erased persons again, from ``hour`` on. Raises UsageError for a person who was not erased."""
    known = parse_subjects(driver.tables, subjects)
    with driver.writing(run, "erase"):
        register = Registered(driver.lake)
        register.write(register.read().with_lifted(known, hour))
    message = f"rows about {counted(len(known), 'subject')} are taken again from {hour} on"
    return driver.report_outcome(Outcome("succeeded", message, None))


def describe(plan: Plan, done: Erased) -> str:
    """Describe in one line what was done, without naming anybody."""
    who = counted(len(plan.subjects), "subject")
    if not (done.rows or done.tables or done.files or done.lines or done.events):
        return f"nothing of {who} was found; they are remembered, and what comes of them is dropped at landing"
    rows = (
        ", ".join(f"{counted(count, 'row')} of {table}" for table, count in sorted(done.rows.items()))
        or "no row of Bronze"
    )
    return (
        f"erased {who}: {rows}; history of {counted(len(done.tables), 'table')},"
        f" {counted(len(done.releases), 'release')}, {counted(done.removed.files + len(done.files), 'file')},"
        f" {done.removed.bytes / 1e6:,.1f} MB"
    )


def _erase_from_bronze(run: Run, driver: Driver, plan: Plan) -> Plan:
    """Record the persons, then erase their rows from Bronze: in this order, after a crash no row is loaded again."""
    lake, register = driver.lake, Registered(driver.lake)
    person_rows = find_rows(lake, driver.tables, plan.subjects, {name: {*keys} for name, keys in plan.keys.items()})
    plan = plan.with_identifiers(person_rows)
    write_plan(lake, plan)
    register.write(register.read_or_begin().with_erased(person_rows.by_kind(plan.subjects)))
    for table, count in erase_rows(lake, driver.tables, person_rows, run.hour):
        plan = plan.with_rows(table, count)
        write_plan(lake, plan)
        driver.report(f"{driver.tables.fed_layer}  {table}  {counted(count, 'row')} erased")
    return plan


def _end_history(run: Run, driver: Driver, plan: Plan) -> Erased:
    lake, done = driver.lake, Erased(rows=dict(plan.rows))
    for feed in driver.tables.feeds:
        if feed.subject:
            done.lines += clean_quarantine(lake, feed, plan)
    done.events = clean_events(lake, plan.person)
    clean_check_records(driver, plan.person)
    files.remove_tree(lake.decoded)
    driver.report("searching every file of the lake for them")
    done.files += remove_kept_state(driver)
    finds = search(lake, driver.tables, plan)
    _clean_beside(driver, plan, finds, done)
    tainted = _tainted(driver, finds, done)
    copies = copies_without_subject(driver.tables, {*tainted, *plan.rows}) - {*tainted}
    remove_state_of(lake, copies)
    tainted = sorted({*tainted, *plan.ended, *copies})
    if tainted:
        plan = replace(plan, ended=tuple(tainted))
        write_plan(lake, plan)
        sealed = seal_tables(driver, tainted)
        done.tables = sorted(tainted)
        done.release_id = publish_sealed(driver, run, sealed).release_id
        done.releases = [number for number in releases_naming(lake, tainted) if number != done.release_id]
        drop_releases(lake, done.releases)
        for hold in end_holds(lake, done.releases):
            driver.report(f"release {hold.release_id}, which was held as {hold.name}, is gone")
            done.holds.append(hold.name)
        _move_catalogs(driver)
        for name in sealed:
            if name in tainted:
                done.removed += cut_history(lake, sealed[name])
    left = search(lake, driver.tables, plan) if tainted or finds.beside else Finds()
    done.left = [*done.left, *(str(place) for places in (*left.tables.values(), left.beside) for place in places)]
    return done


def _tainted(driver: Driver, finds: Finds, done: Erased) -> list[str]:
    """Return the tables whose history must end: by name, or by path for other tables of the lake.

    Tables that the next refresh rebuilds, or that nobody reads any more, are removed here.
    """
    lake, tainted = driver.lake, list[str]()
    by_folder = {str(lake.folder(table.name)): table.name for table in driver.tables}
    own_tables = {lake.quarantine(feed.topic) for feed in driver.tables.feeds} | {lake.event_log, lake.releases}
    own_tables = {str(lake.at(path)) for path in own_tables}
    for folder in finds.tables:
        if folder in by_folder:
            tainted.append(by_folder[folder])
        elif folder in own_tables:
            tainted.append(folder)
        else:  # aggregate state, a table that was set aside or dropped, a copied snapshot
            files.remove_tree(lake.at(folder))
            done.files.append(folder)
    return tainted


def _clean_beside(driver: Driver, plan: Plan, finds: Finds, done: Erased) -> None:
    """Rewrite or remove files outside of tables, if they belong to the lake; others are left as they are."""
    lake, feeds = driver.lake, {feed.topic: feed for feed in driver.tables.feeds}
    reports = [place for place in finds.beside if is_below(place, lake.reports)]
    for place in finds.beside:
        feed = feeds.get(place.parent.name)
        if is_below(place, lake.corrections) and feed is not None:
            clean_corrections(place, feed, plan)
        elif place.parent.parent == lake.landing and feed is not None and place.name.endswith(".json"):
            clean_landed(driver, feed, place.stem, plan)
        elif is_below(place, lake.landing) or place.name.endswith(".part"):
            place.unlink(missing_ok=True)
        else:
            continue
        done.files.append(str(place))
    if remove_reports(lake, reports):
        done.files += [str(place) for place in reports]


def _move_catalogs(driver: Driver) -> None:
    """Rewrite DuckDB catalogs in the root of the lake for the newest release, because earlier ones are dropped."""
    release = releases.require_release(driver.lake, None)
    root = driver.lake.at(driver.lake.root)
    for place in root.glob("*.duckdb") if isinstance(root, Path) else ():
        if isinstance(place, Path):
            write_duckdb_catalog(driver.lake, release, place, driver.tables)
