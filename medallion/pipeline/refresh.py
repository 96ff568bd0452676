"""The step `refresh`: bring the tables of one layer to their inputs' current versions."""

from collections import Counter
from dataclasses import replace

from medallion.counts import counted
from medallion.errors import MedallionError, advice
from medallion.hours import hour_or_snapshot
from medallion.ingest import ledger
from medallion.ingest.restatement import read_restatement
from medallion.model.refresh_method import RefreshMethod, StateWork
from medallion.model.selection import select_tables
from medallion.model.table import Table
from medallion.ops import releases
from medallion.ops.event_log import EventLog
from medallion.pipeline.driver import Driver
from medallion.pipeline.run import Outcome, Run
from medallion.pipeline.table_order import Failures, run_in_order
from medallion.refresh.refresh_run import RefreshRun, Written
from medallion.storage.foreign_commits import ChangedByOthers
from medallion.storage.named_versions import how_it_went_back

_STATE_WORDS = {
    StateWork.SET_UP: "building incremental state: once",
    StateWork.REBUILT: "rebuilding incremental state: as after each full refresh or restatement",
}


def refresh_layer(driver: Driver, run: Run, log: EventLog, layer: str | None) -> Outcome:
    assert layer is not None, "run_step asks for it"
    if overtaken := find_overtaken(driver, run.hour):
        with log.timed("refresh", layer) as event:
            return driver.skip(run, event, overtaken)
    driver.require_proven_tables(layer, run, log)
    strategy = driver.strategy_of(run)
    every = driver.tables.queries(layer)
    selected = select_tables(driver.tables, run.select) if run.select else {table.name for table in every}
    tables = tuple(table for table in every if table.name in selected)
    if not tables:
        with log.timed("refresh", layer) as event:
            return driver.skip(run, event, f"no {layer} table is selected")
    refresh_run = RefreshRun(
        driver.lake,
        driver.sessions(log),
        driver.costs,
        run.hour,
        run.run_id,
        run.strategy,
        driver.tables,
        driver.proof_of,
        tables,
    )
    with log.timed("refresh", layer, cpu=driver.cpu) as event:
        results: list[Written] = []
        release = releases.latest(driver.lake)

        def work(table: Table) -> None:
            with log.timed("refresh", layer, table.name) as step:
                went_back = _set_aside_if_it_went_back(refresh_run, table, release)
                written = strategy(refresh_run, table)
                if went_back:
                    written = replace(written, warning=went_back)
                step.rows_in, step.rows_out, step.bytes_out = (
                    written.rows_in,
                    written.rows_out,
                    written.bytes_out,
                )
                step.strategy = written.strategy
                step.details = {"version": written.version, "inputs": dict(written.inputs), "method": written.method}
                if written.changed is not None:
                    step.details["changed"] = written.changed
                if written.state_work:
                    step.details["state"] = written.state_work
                if written.full_failed:
                    step.details["full_failed"] = True
                if written.note:
                    step.details["note"] = written.note
                if written.method is RefreshMethod.UNCHANGED:
                    step.status = "skipped"
                if written.warning:
                    step.status, step.details["note"] = "warned", written.warning
                    driver.report(f"{table.name}: {written.warning}")
            results.append(written)
            rows = counted(written.rows_out, "row")
            driver.report(f"{layer}  {table.name}  {rows}  {step.seconds:.1f} s  {_how(written)}")

        try:
            failures = run_in_order(tables, work)
            _require_success(log, layer, failures, len(results))
        finally:
            refresh_run.passed.close()
            event.rows_in = sum(written.rows_in for written in results)
            event.rows_out = sum(written.rows_out for written in results)
            event.bytes_out = sum(written.bytes_out for written in results)
    counts = Counter(written.state_work for written in results if written.state_work)
    state = "".join(f", {_STATE_WORDS[work]}, for {count} of them" for work, count in counts.items())
    count = f"{len(tables)} of {len(every)}" if run.select else len(tables)
    return Outcome("succeeded", f"refreshed {count} {layer} tables{state}", run.hour)


def _how(written: Written) -> str:
    """Return how a table was refreshed, with the reason for a full recompute that an incremental refresh chose."""
    state = f", {_STATE_WORDS[written.state_work]}" if written.state_work else ""
    reason = ""
    if written.method is RefreshMethod.FULL_RECOMPUTE and written.note and not written.warning:
        reason = f": {written.note.removeprefix(f'{written.method}: ')}"
    return f"{written.method}{state}{reason}"


def _set_aside_if_it_went_back(run: RefreshRun, table: Table, release: releases.Release | None) -> str | None:
    """Set aside a table that is older than in ``release`` because its folder was restored, and return a note.

    Otherwise its next commits would reuse version numbers, and readers would mistake new rows for known ones.
    """
    published = release.version_of(table.name) if release else None
    how = how_it_went_back(run.lake, published) if published else None
    if published is None or how is None:
        return None
    moved_to = run.lake.move_damaged_table(table.name)
    run.sessions.forget_logs()
    return (
        f"rebuilt, as it {how}, and the newest release names version {published.version}: somebody"
        f" restored its folder; what was there is in {moved_to}"
    )


def _require_success(log: EventLog, layer: str, failures: Failures, refreshed: int) -> None:
    """Raise an error that names the failed tables and what to do; tables that wait for them become skipped events."""
    for name, cause in failures.waiting.items():
        log.add("refresh", layer, name, status="skipped", details={"note": f"waits: {cause}, which it reads, failed"})
    if not failures.errors:
        return
    (_, error), *others = failures.errors.items()
    if not isinstance(error, MedallionError):
        raise error
    also = f"; {', '.join(name for name, _ in others)} failed too" if others else ""
    waiting = f", {len(failures.waiting)} that follow from it wait" if failures.waiting else ""
    kind = type(error) if isinstance(error, ChangedByOthers) else MedallionError  # the caller may refresh again
    raise kind(
        f"{error}{also}; {refreshed} other {layer} tables are refreshed{waiting}: once it is mended,"
        f" {advice.refresh_from_table([*failures.errors])}"
    ) from error


def find_overtaken(driver: Driver, hour: str | None) -> str | None:
    """Say that another run has published ``hour`` and gone on, so that no step of it can succeed; None if it has not.

    Raises MedallionError if Bronze is at another hour otherwise.
    """
    lake, applied = driver.lake, ledger.applied_hour(driver.lake, driver.tables)
    if applied == hour:
        return None
    is_later = hour is not None and applied is not None and applied > hour
    if hour is not None and is_later and read_restatement(lake) is None and releases.was_published(lake, hour):
        return f"another run has published hour {hour} and gone on to {applied}: nothing is left to do"
    raise MedallionError(
        f"Bronze is at {hour_or_snapshot(applied)}, not at {hour_or_snapshot(hour)}: another run has applied a"
        f" later hour, or this hour was not applied; {advice.refresh()} to continue from there"
    )
