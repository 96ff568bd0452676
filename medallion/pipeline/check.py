"""The step `check`: Great Expectations on one layer; a failed critical expectation stops the run."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from medallion.errors import CheckFailed
from medallion.ingest import ledger
from medallion.ingest.change_origins import ChangeOrigins
from medallion.ingest.restatement import read_restatement
from medallion.model.table import QUARANTINE, Node, Table
from medallion.ops import releases
from medallion.ops.check_records import CheckedTable, CheckRecord, Failure, read_check_record, write_check_record
from medallion.ops.event_log import EventLog
from medallion.ops.red_hours import RedHour
from medallion.pipeline.driver import Driver
from medallion.pipeline.erase_plan import read_plan
from medallion.pipeline.outdated import defer_step, require_refreshed
from medallion.pipeline.refresh import find_overtaken
from medallion.pipeline.run import Outcome, Run
from medallion.refresh.definitions import edited_since
from medallion.storage.foreign_commits import require_ours
from medallion.storage.log_entries import identity_at

if TYPE_CHECKING:
    from medallion.checks.by_change import Basis
    from medallion.checks.result import CheckResult
    from medallion.checks.volumes import VolumeRules
    from medallion.ops.check_records import History

MAX_SUSPECTS = 24  # most hours before the failed one whose lines are searched
EXPLAINED = 5  # most failed expectations for which every suspected hour is searched
MAX_ORIGINS = 3  # most origins that are named per failure


def check_layer(driver: Driver, run: Run, log: EventLog, layer: str | None) -> Outcome:
    from medallion.checks.checkpoint import CheckedLayer, run_checkpoint
    from medallion.checks.context import CheckContext, SparkChecks
    from medallion.checks.suites import suites
    from medallion.checks.volumes import extend_history
    from medallion.storage.duckdb_views import TableAt

    assert layer is not None, "run_step asks for it"
    if deferred := defer_step(driver, run, log, "check", layer):
        return deferred
    if overtaken := find_overtaken(driver, run.hour):
        with log.timed("check", layer) as event:
            return driver.skip(run, event, overtaken)
    lake = driver.lake
    former = read_check_record(lake, layer)
    history = former.history if former else {}
    large = driver.settings.spark_checks_bytes
    with log.timed("check", layer, cpu=driver.cpu) as event:
        event.engine = "duckdb"
        result = run_checkpoint(
            CheckedLayer(layer, run.hour or "snapshot", run.run_id, run.attempt),
            {table.name: TableAt(lake.folder(table.name), columns=_declared(table)) for table in driver.tables},
            suites=suites(driver.project, layer, driver.tables),
            reports=lake.reports,
            context=CheckContext(
                volumes=_volume_rules(driver, run, layer, history),
                basis=_basis(driver, run, former),
                origins=partial(_origins, driver, run.hour) if run.hour else None,
                spark=None if large is None else SparkChecks(large, lambda: driver.spark(log)),
            ),
        )
        report = lake.reports / result.page
        for line in result.details():
            driver.report(line)
        for table in result.tables:
            log.add(
                "check",
                layer,
                table.table,
                engine="spark" if table.is_by_spark else "duckdb",
                status=table.status,
                seconds=table.seconds,
                started_at=result.started_at,
                rows_in=table.rows,
                details={"version": table.version, "expectations": table.counts()},
            )
        own = {table.name for table in driver.tables.layer(layer)}
        commits = {
            name: require_ours(lake, name, at).identity if name in own else identity_at(lake.folder(name), at)
            for name, at in result.versions.items()
        }
        record = _record(result, run.hour, str(report), commits)
        record = replace(record, history=extend_history(history, result, run.hour))
        if result.status == "failed":
            require_refreshed(driver, layer)
            ledger.require_no_hour_cut_short(lake, driver.tables, f"the {layer} layer is not judged")
            record = _with_failures(driver, record, result, former)
        write_check_record(lake, record)
        red = RedHour.of(record) if result.status == "failed" else None
        summary = result.summary()
        event.status = result.status
        event.rows_in = sum(table.rows or 0 for table in result.tables)
        event.details = {"note": summary, "report": str(report), "startup_seconds": result.startup_seconds}
        if not_by_spark := [f"{table}: {expectation.meaning}" for table, expectation in result.not_by_spark]:
            event.details["not_by_spark"] = not_by_spark
        if restated := read_restatement(lake):
            event.details |= restated.details()
        if red is not None:
            way_out = f". {red.sentence}. {red.recovery}" if run.hour else ""
            rest = f"; nothing after it was refreshed or published; see {report}{way_out}"
            has_error = any(failure.error for _, failure in result.failures)
            raise CheckFailed(f"{summary if has_error else red.cause}{rest}", f"{red.verdict}{rest}")
    return driver.report_outcome(Outcome(result.status, result.summary(), run.hour))


def _origins(
    driver: Driver, hour: str, tables: Sequence[str], records: Sequence[Mapping[str, str | None]]
) -> tuple[str, ...]:
    """Say what may have made a table of ``hour`` fail: edited queries, then change files. Arguments: FindOrigins."""
    return *_edits(driver, tables[0]), *ChangeOrigins(driver.lake, hour, driver.tables).describe(tables, records)


def _edits(driver: Driver, table: str) -> list[str]:
    """Say which queries of a table and its upstream tables differ from those that computed the published rows."""
    release = releases.latest(driver.lake)
    if release is None:
        return []
    edited = edited_since(driver.lake, driver.tables, release, table)
    return [f"the query of {name} changed since release {release.release_id}" for name in edited]


def _with_failures(
    driver: Driver, record: CheckRecord, result: "CheckResult", former: CheckRecord | None
) -> CheckRecord:
    """Return the record of a failed check with its failures, suspected queries and lines, and first suspected hour."""
    suspects = _suspects(driver, record, former)
    earlier = [ChangeOrigins(driver.lake, hour, driver.tables) for hour in suspects[:-1][-MAX_SUSPECTS:]]
    failures: list[Failure] = []
    for place, (table, failure) in enumerate(result.failures):
        if failure.status != "failed":  # the rest are warnings
            break
        looked_through = earlier if place < EXPLAINED else ()
        before = [text for origins in looked_through for text in origins.describe([table], failure.examples)]
        origins = [*dict.fromkeys((*_edits(driver, table), *before, *failure.origins))][:MAX_ORIGINS]
        # An engine's error may quote values, and the status and notes leave the lake.
        observed = "it could not be judged" if failure.error else failure.observed
        failures.append(Failure(table, failure.meaning, observed, "; ".join(origins)))
    return replace(record, failures=tuple(failures), suspect=suspects[0] if suspects else None)


def _suspects(driver: Driver, record: CheckRecord, former: CheckRecord | None) -> list[str]:
    """Return the hours that may have made a check fail, oldest first: those since the layer last passed.

    In a restatement these are at least all its hours, because the files of the source may have changed.
    """
    hour = record.hour
    if hour is None:
        return []
    if former is not None and former.status == "failed":
        first = former.suspect or former.hour or hour
    else:
        release = releases.latest(driver.lake)
        passed = (former.hour if former else release and release.hour) or ""
        first = min((h for h in ledger.landed_hours(driver.lake) if passed < h <= hour), default=hour)
    restated = read_restatement(driver.lake)
    first = min(first, hour, *((restated.hour,) if restated else ()))
    return sorted({hour, first, *(h for h in ledger.landed_hours(driver.lake) if first <= h <= hour)})


def _volume_rules(driver: Driver, run: Run, layer: str, history: "History") -> "dict[str, VolumeRules]":
    """Return the volume rules for the tables of a layer: for dropped rows always, for row counts after a release."""
    from medallion.checks.volumes import ROW_COUNT_IN_HISTORY, DropRule, RowCountRule, VolumeRules, earlier_measures

    release = releases.latest(driver.lake)
    restated = read_restatement(driver.lake)
    if restated is not None and restated.remaining(ledger.applied_hour(driver.lake, driver.tables)):
        release = None  # it is of a later hour, which the restatement has not reached yet
    tables = {table.name: table for table in driver.tables.layer(layer)}
    erasing = read_plan(driver.lake) is not None
    before = releases.row_counts_of(driver.lake, release, tables) if release else {}
    rules = {}
    for name, table in tables.items():
        row_count = None
        if release is not None and name in before:
            known = earlier_measures(history, name, ROW_COUNT_IN_HISTORY, run.hour)
            row_count = RowCountRule(
                before[name], release.release_id, table.max_row_change, table.may_be_empty, known, erasing
            )
        drops = tuple(
            DropRule(name.removeprefix(QUARANTINE), drop, earlier_measures(history, name, drop.meaning, run.hour))
            for drop in (table.drops if isinstance(table, Table) else ())
        )
        rules[name] = VolumeRules(row_count, drops)
    return rules


def _declared(table: Node) -> tuple[str, ...] | None:
    """Return the columns that checks see of a table: for Bronze the declared ones; None for all."""
    return None if isinstance(table, Table) else tuple(column.name for column in table.columns)


def _basis(driver: Driver, run: Run, former: CheckRecord | None) -> "Basis | None":
    """Return the former check from which changed rows are checked; None if whole tables must be checked.

    Only its tables that are the same in the newest release count: after a rollback, or a run that did not publish, the
    former check says nothing about the published rows. Whole tables are checked if the former check failed, in a full
    refresh, and in a restatement.
    """
    from medallion.checks.by_change import Basis

    hours = driver.settings.whole_check_hours
    if run.strategy != "incremental" or not hours or former is None or former.status == "failed":
        return None
    release = releases.latest(driver.lake)
    if release is None or read_restatement(driver.lake) is not None:
        return None
    tables = {
        name: table
        for name, table in former.tables.items()
        if (release.versions.get(name), release.table_ids.get(name)) == (table.version, table.table_id)
    }
    return Basis(tables, former.proofs, timedelta(hours=hours))


def _record(result: "CheckResult", hour: str | None, report: str, commits: Mapping[str, str | None]) -> CheckRecord:
    """Build the record of a check, which publishing needs. commits: the identity of each table's commit."""
    tables = {
        name: CheckedTable(version, result.table_ids[name], result.rows[name], commits[name])
        for name, version in result.versions.items()
    }
    return CheckRecord(
        layer=result.layer,
        hour=hour,
        run_id=result.run_id,
        attempt=result.attempt,
        checked_at=result.started_at,
        status=result.status,
        report=report,
        tables=tables,
        proofs=result.proofs,
    )
