"""The steps `publish` and `validate`: commit a release with the version of every table, then read what readers have."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from medallion.errors import CheckFailed, MedallionError, advice
from medallion.hours import hour_or_snapshot
from medallion.ingest import ledger
from medallion.ingest.restatement import end_restatement, read_restatement
from medallion.ingest.unpublished import require_bronze_of_readers
from medallion.inspect.validate import problems, validate
from medallion.model.table import Feed
from medallion.ops import releases
from medallion.ops.check_records import CheckedTable, CheckRecord, Failure, read_check_records, write_check_record
from medallion.ops.event_log import EventLog
from medallion.ops.lake_tables import require_no_missing_table
from medallion.ops.red_hours import VALIDATION, RedHour
from medallion.pipeline.driver import Driver
from medallion.pipeline.outdated import defer_step, find_outdated_input
from medallion.pipeline.refresh import find_overtaken
from medallion.pipeline.run import Outcome, Run
from medallion.storage.files import side_by_side
from medallion.storage.foreign_commits import require_ours
from medallion.storage.lake import table_id
from medallion.storage.log_entries import identity_at

if TYPE_CHECKING:
    from deltalake import DeltaTable


def publish_release(driver: Driver, run: Run, log: EventLog, _: str | None) -> Outcome:
    if deferred := defer_step(driver, run, log, "publish", None):
        return deferred
    with log.timed("publish", cpu=driver.cpu) as event:
        last = releases.latest(driver.lake)
        restated = read_restatement(driver.lake)
        if restated and (left := restated.remaining(ledger.applied_hour(driver.lake, driver.tables))):
            note = f"hours are being restated: nothing is published before {ledger.named_hours(left)} are applied"
            return driver.skip(run, event, note)
        if overtaken := find_overtaken(driver, run.hour):
            return driver.skip(run, event, overtaken)
        ledger.require_no_hour_cut_short(driver.lake, driver.tables, "nothing is published")
        if not restated:
            require_bronze_of_readers(driver.lake, driver.tables)
        require_no_missing_table(driver.lake, driver.tables.tables, "nothing is published")
        _require_no_failed_check(driver)
        audited = _audited_tables(driver)
        checked = _checked_tables(driver, audited, run.hour)
        versions = {name: table.version for name, table in checked.items()}
        ids = {name: table_id(delta) for name, delta in audited.items()}
        commits = {
            name: table.commit or identity_at(driver.lake.folder(name), table.version)
            for name, table in checked.items()
        }
        if last is not None and last.hour == run.hour and (last.versions, last.table_ids) == (versions, ids):
            end_restatement(driver.lake)
            return driver.skip(run, event, f"release {last.release_id} names these versions already")
        release = releases.publish(
            driver.lake,
            after=last,
            hour=run.hour,
            run_id=run.run_id,
            strategy=run.strategy,
            contents=releases.Contents(
                versions,
                ids,
                {name: table.rows for name, table in checked.items()},
                {name: commit for name, commit in commits.items() if commit is not None},
            ),
        )
        event.details = {"release_id": release.release_id, "versions": versions}
        if restated:
            event.details |= restated.details()
        end_restatement(driver.lake)
    message = f"published {hour_or_snapshot(run.hour)} as release {release.release_id}"
    return driver.report_outcome(Outcome("succeeded", message, run.hour))


def validate_release(driver: Driver, run: Run, log: EventLog, _: str | None) -> Outcome:
    lake = driver.lake
    if deferred := defer_step(driver, run, log, "validate", None):
        return deferred
    with log.timed("validate", cpu=driver.cpu) as event:
        if restated := read_restatement(lake):
            return driver.skip(run, event, f"{restated.headline}: there is nothing to validate yet")
        release = releases.require_release(lake, None)
        if release.hour != run.hour:  # another run has published or rolled back since
            readers_have = f"readers have release {release.release_id} of {hour_or_snapshot(release.hour)} by now"
            return driver.skip(run, event, f"{readers_have}: {hour_or_snapshot(run.hour)} is not validated any more")
        entries = validate(lake, driver.tables, release, run.hour)
        event.details = {"release_id": release.release_id, "tables": entries}
        event.rows_in = sum(entry["rows"] or 0 for entry in entries.values())
        wrong = problems(entries)
        _record_validation(driver, run, entries)
        if wrong:
            raise CheckFailed(f"release {release.release_id} of {hour_or_snapshot(release.hour)}: {'; '.join(wrong)}")
    message = f"all {len(entries)} tables can be read, as of {hour_or_snapshot(run.hour)}"
    return driver.report_outcome(Outcome("succeeded", message, run.hour))


def _record_validation(driver: Driver, run: Run, entries: Mapping[str, Mapping[str, Any]]) -> None:
    """Record the validation as a check: if it failed, the hour is red until a validation passes."""
    failures = tuple(Failure(name, "", entry["problem"]) for name, entry in entries.items() if entry["problem"])
    record = CheckRecord(
        layer=VALIDATION,
        hour=run.hour,
        run_id=run.run_id,
        attempt=run.attempt,
        checked_at=datetime.now(UTC),
        status="failed" if failures else "succeeded",
        report="",
        tables={},
        failures=failures,
    )
    write_check_record(driver.lake, record)


def _require_no_failed_check(driver: Driver) -> None:
    """Raise CheckFailed if the newest check of a layer did not pass, whatever else keeps the hour from publishing."""
    for record in read_check_records(driver.lake, driver.tables.layers).values():
        if record is not None and record.status == "failed":
            red, rest = RedHour.of(record), f": nothing is published; see {record.report}"
            raise CheckFailed(f"the last {red.cause}{rest}", f"the last {red.verdict}{rest}")


def _checked_tables(driver: Driver, audited: "Mapping[str, DeltaTable]", hour: str | None) -> dict[str, CheckedTable]:
    """Return every table as the newest check of its layer read it, because only checked rows are published.

    audited: the opened tables. Later commits that only moved rows, such as those of upkeep, are not published. Raises
    CheckFailed if a layer was not checked, or was checked with other rows.
    """
    checked: dict[str, CheckedTable] = {}
    for layer, record in read_check_records(driver.lake, driver.tables.layers).items():
        again = f"nothing is published; check the {layer} layer again: {advice.check_again(layer, hour)}"
        if record is None:
            raise CheckFailed(f"the {layer} layer has not been checked: {again}")
        for name, table in record.tables.items():
            if name in audited and not _is_as_checked(driver, name, table, audited[name]):
                raise CheckFailed(
                    f"the {layer} layer was checked with version {table.version} of {name}, which is at"
                    f" {audited[name].version()} now: {again}"
                )
        names = [table.name for table in driver.tables if table.layer == layer]
        if unread := [name for name in names if name not in record.tables]:
            raise CheckFailed(f"the last check of the {layer} layer did not read {', '.join(unread)}: {again}")
        checked |= {name: record.tables[name] for name in names}
    return checked


def _is_as_checked(driver: Driver, name: str, checked: CheckedTable, delta: "DeltaTable") -> bool:
    """Check whether a table is still the one that a check read, with the same rows."""
    if checked.table_id != table_id(delta):
        return False
    if checked.version == delta.version():
        return checked.commit in {None, identity_at(driver.lake.folder(name), checked.version)}
    # Upkeep may have merged its files since, and removed those that the check read.
    is_same = driver.lake.same_rows(name, checked.version, delta.version(), checked.commit)
    return is_same and driver.lake.is_whole(name, checked.version)


def _audited_tables(driver: Driver) -> "dict[str, DeltaTable]":
    """Open every table at its current version, and check that each was computed from its inputs' current rows.

    Raises ChangedByOthers if another program has changed a table, MedallionError if a table is missing or outdated.
    """
    tables: dict[str, DeltaTable] = {}
    opened = side_by_side(lambda table: driver.lake.open(driver.lake.path(table.name)), driver.tables)
    for table, delta in zip(driver.tables, opened, strict=True):  # in dependency order
        if delta is None:
            raise MedallionError(f"{table.name} has not been written: nothing is published; refresh its layer")
        tables[table.name] = delta
        if table.layer == driver.tables.fed_layer:
            require_ours(driver.lake, table.name, delta.version(), has_hours=isinstance(table, Feed))
        if reason := find_outdated_input(driver, table, tables):
            raise MedallionError(f"{reason}: nothing is published; refresh the {table.layer} layer")
    return tables
