"""The steps `publish` and `validate`: one commit that names every table's version, then what readers have."""

from medallion.errors import CheckFailed, MedallionError
from medallion.hours import hour_or_snapshot
from medallion.ingest import ledger
from medallion.ingest.restatement import end_restatement, read_restatement
from medallion.inspect.validate import problems, validate
from medallion.model.table import Layer, Table
from medallion.ops import releases
from medallion.ops.event_log import EventLog
from medallion.ops.lake_tables import missing_tables
from medallion.pipeline.driver import Driver
from medallion.pipeline.refresh import require_bronze_at
from medallion.pipeline.run import Outcome, Run
from medallion.storage.lake import origin_of


def publish_release(driver: Driver, run: Run, log: EventLog, _: Layer | None) -> Outcome:
    with log.timed("publish", cpu=driver.cpu) as event:
        last = releases.latest(driver.lake)
        restated = read_restatement(driver.lake)
        if restated and (left := restated.remaining(ledger.applied_hour(driver.lake, driver.tables))):
            event.status = "skipped"
            event.details["note"] = note = (
                f"hours are being restated: nothing is published before {ledger.named_hours(left)} are applied"
            )
            return driver.report_outcome(Outcome("skipped", note, run.hour))
        require_bronze_at(driver, run.hour)
        versions = _audited_versions(driver)
        if missing := missing_tables(driver.lake, versions):
            raise MedallionError(
                f"{', '.join(missing)} would drop out of the release: nothing is published; declare them again, or run"
                f" medallion tables --drop {missing[0]}"
            )
        if last is not None and last.hour == run.hour and dict(last.versions) == versions:
            end_restatement(driver.lake)
            event.status, event.details["note"] = "skipped", f"release {last.release_id} names these versions already"
            return driver.report_outcome(Outcome("skipped", event.details["note"], run.hour))
        release = releases.publish(
            driver.lake, after=last, hour=run.hour, run_id=run.run_id, strategy=run.strategy, versions=versions
        )
        event.details = {"release_id": release.release_id, "versions": versions}
        end_restatement(driver.lake)
    message = f"published {hour_or_snapshot(run.hour)} as release {release.release_id}"
    return driver.report_outcome(Outcome("succeeded", message, run.hour))


def validate_release(driver: Driver, run: Run, log: EventLog, _: Layer | None) -> Outcome:
    lake = driver.lake
    with log.timed("validate", cpu=driver.cpu) as event:
        if restated := read_restatement(lake):
            event.status = "skipped"
            event.details["note"] = note = (
                f"hours are restated up to {restated.until}: there is nothing to validate yet"
            )
            return driver.report_outcome(Outcome("skipped", note, run.hour))
        release = releases.find(lake, None)
        found = validate(lake, driver.tables, release, run.hour)
        event.details = {"release_id": release.release_id, "tables": found}
        event.rows_in = sum(told["rows"] or 0 for told in found.values())
        if wrong := problems(found):
            raise CheckFailed(f"release {release.release_id} of {hour_or_snapshot(release.hour)}: {'; '.join(wrong)}")
    message = f"all {len(found)} tables are there, as of {hour_or_snapshot(run.hour)}"
    return driver.report_outcome(Outcome("succeeded", message, run.hour))


def _audited_versions(driver: Driver) -> dict[str, int]:
    """The current version of every table, each known to have been computed from those of its inputs."""
    versions: dict[str, int] = {}
    for table in driver.tables:  # in dependency order
        delta = driver.lake.open(driver.lake.path(table.name))
        if delta is None:
            raise MedallionError(f"{table.name} has not been written: nothing is published; refresh its layer")
        versions[table.name] = delta.version()
        if isinstance(table, Table):
            consumed = origin_of(delta).get("inputs", {})
            for name in table.inputs:
                if not driver.lake.same_rows(name, consumed.get(name), versions[name]):
                    raise MedallionError(
                        f"{table.name} was computed from version {consumed.get(name)} of {name}, which is at"
                        f" {versions[name]} now: nothing is published; refresh the {table.layer} layer"
                    )
    return versions
