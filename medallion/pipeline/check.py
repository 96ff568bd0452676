"""The step `check`: Great Expectations on one layer; a critical one that fails stops the run."""

from medallion.errors import CheckFailed
from medallion.model.table import Layer
from medallion.ops.event_log import EventLog
from medallion.pipeline.driver import Driver
from medallion.pipeline.run import Outcome, Run


def check_layer(driver: Driver, run: Run, log: EventLog, layer: Layer | None) -> Outcome:
    from medallion.checks.checkpoint import run_checkpoint
    from medallion.checks.suites import suites
    from medallion.storage.duckdb_views import TableAt

    lake = driver.lake
    with log.timed("check", layer, cpu=driver.cpu) as event:
        event.engine = "duckdb"
        found = run_checkpoint(
            str(layer),
            {table.name: TableAt(lake.path(table.name)) for table in driver.tables},
            suites=suites(str(layer), driver.tables),
            hour=run.hour or "snapshot",
            run_id=run.run_id,
            attempt=run.attempt,
            reports=lake.reports,
        )
        report = lake.reports / found.page
        for line in found.details():
            driver.report(line)
        for table in found.tables:
            log.add(
                "check",
                layer,
                table.table,
                engine="duckdb",
                status=table.status,
                seconds=table.seconds,
                started_at=found.started_at,
                rows_in=table.rows,
                details={"version": table.version, "expectations": table.counts()},
            )
        event.status = found.status
        event.rows_in = sum(table.rows or 0 for table in found.tables)
        event.details = {"note": found.summary(), "report": str(report), "startup_seconds": found.startup_seconds}
        if found.status == "failed":
            raise CheckFailed(f"{found.summary()}; nothing after it was refreshed or published; see {report}")
    return driver.report_outcome(Outcome(found.status, found.summary(), run.hour))
