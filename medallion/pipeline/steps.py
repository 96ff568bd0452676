"""The steps of an hourly refresh: each is idempotent and has its own rows in the event log.

A DAG task runs one step in its own process; ``medallion refresh`` runs all of them in one process.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from medallion.errors import UsageError
from medallion.ingest import ledger
from medallion.ingest.restatement import read_restatement
from medallion.ingest.unpublished import find_unfinished
from medallion.ops.event_log import EventLog
from medallion.pipeline.analysis import require_known_columns, require_sound_queries
from medallion.pipeline.apply import apply_hour
from medallion.pipeline.check import check_layer
from medallion.pipeline.driver import Driver
from medallion.pipeline.land import land_step, require_publishable
from medallion.pipeline.publish import publish_release, validate_release
from medallion.pipeline.refresh import refresh_layer
from medallion.pipeline.run import Outcome, Run
from medallion.storage import fence
from medallion.storage.foreign_commits import ComputedTableChanged


def run_step(name: str, run: Run, driver: Driver, layer: str | None = None) -> Outcome:
    """Run one step. Its events are appended to the event log, even if it fails.

    A layer without tables is skipped, without an event.

    Args:
        name: land, apply, refresh, check, publish or validate.
        run: The run, with hour and strategy.
        driver: The state that the steps of this process share.
        layer: A computed layer for refresh, any layer for check.

    Raises:
        UsageError: The step or layer is unknown.
        HourNotAvailable: The source does not have the hour.
        CheckFailed: A critical expectation failed.
        MedallionError: Anything else failed.
    """
    step = STEPS.get(name)
    if step is None:
        raise UsageError(f"step {name[:40]!r} is unknown: choose {', '.join(STEPS)}")
    layers = driver.tables.declared_layers[1:] if name == "refresh" else driver.tables.declared_layers
    if step.of_layer and layer not in layers:
        raise UsageError(f"step {name} needs --layer, one of {', '.join(layers)}")
    if step.of_layer and layer not in driver.tables.layers:
        return driver.report_outcome(Outcome("skipped", f"the lake has no {layer} tables", run.hour))
    with driver.recording(run, f"{name} {layer or ''}".strip()) as log:
        fence.require()  # nothing is written by a process that has lost the writer lease
        if name == "land":  # its check needs no Spark: a scheduler's worker may land the files
            require_known_columns(driver, run, log)
        elif name in ("apply", "refresh"):
            require_sound_queries(driver, run, log)
        return step.work(driver, run, log, layer)


def refresh_onward(run: Run, driver: Driver) -> Outcome:
    """Refresh, check, publish and validate what follows from Bronze at ``run.hour``.

    If somebody else changes a computed table in the meantime, all of it is done once more: that recomputes the table.
    """
    try:
        return _refresh_onward(run, driver)
    except ComputedTableChanged as change:
        driver.report(f"once more: {change}")
        return _refresh_onward(run, driver)


def finish_before(run: Run, driver: Driver) -> None:
    """Finish the hour that Bronze is at, as refresh_onward does, if it is unpublished and ``run`` is of a later hour.

    Raises as run_step does: if a check fails, the later hour is not begun.
    """
    lake, tables = driver.lake, driver.tables
    applied = ledger.applied_hour(lake, tables)
    is_selection = bool(run.select)
    before = find_unfinished(
        lake, tables, run.required_hour, applied, read_restatement(lake), is_selection=is_selection
    )
    if before is not None:
        require_publishable(driver)
        driver.report(f"hour {before} is in Bronze and was not published: it is finished first")
        refresh_onward(replace(run, hour=before), driver)


def _refresh_onward(run: Run, driver: Driver) -> Outcome:
    warned = False
    for layer in driver.tables.layers:
        if driver.tables.is_computed(layer):
            run_step("refresh", run, driver, layer)
        warned |= run_step("check", run, driver, layer).status == "warned"
    outcome = run_step("publish", run, driver)
    run_step("validate", run, driver)
    return replace(outcome, status="warned") if warned else outcome


@dataclass(frozen=True)
class Step:
    """One step. of_layer: whether it runs for one layer at a time, rather than for the whole lake."""

    work: Callable[[Driver, Run, EventLog, str | None], Outcome]
    of_layer: bool = False


STEPS = {
    "land": Step(land_step),
    "apply": Step(apply_hour),
    "refresh": Step(refresh_layer, of_layer=True),
    "check": Step(check_layer, of_layer=True),
    "publish": Step(publish_release),
    "validate": Step(validate_release),
}
