"""Metrics of a run for monitoring, from the event log, the releases and a listing of the source."""

from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime

from medallion.errors import MedallionError
from medallion.hours import ONE_HOUR, parse_hour
from medallion.ingest.arrivals import pending_at_source
from medallion.ops import event_log, releases
from medallion.ops.event_schema import EventRow
from medallion.settings import Settings
from medallion.spark.jvm_usage import fullest, of_details
from medallion.storage.lake import Lake

# The meaning of each metric. {phase} is session, land, apply, silver, gold, platinum, check or publish; {figure} is one
# of the figures of Spark's JVM (jvm_usage.FIGURES).
METRICS = {
    "medallion.freshness_seconds": "Seconds since the newest published hour ended",
    "medallion.lag_hours": "Hours that the source has and that are not published",
    "medallion.seconds.total": "Seconds that the steps of the run took",
    "medallion.seconds.{phase}": "The same by phase",
    "medallion.rows_in": "Change lines that were applied to Bronze",
    "medallion.rows_out.{layer}": "Rows written, by layer",
    "medallion.jvm.{figure}": "Share of its limit that Spark's JVM used, after the step where it was highest",
    "medallion.expectations.failed": "Critical expectations that failed in the checks of the run",
    "medallion.expectations.warned": "Expectations that only warn and failed",
}


def run_metrics(settings: Settings, run_id: str) -> dict[str, float]:
    """Return the METRICS of one run and of the current state of the lake."""
    lake = Lake.of(settings)
    rows = event_log.read(lake, run_id=run_id)
    # Of a step that was retried, only the last attempt counts.
    steps = {(row.event_type, row.layer, row.table_name): row for row in rows}.values()
    return {
        **_state(lake, settings),
        **_seconds(row for row in rows if row.table_name is None),
        **_jvm(rows),
        **_rows([row for row in steps if row.table_name is None]),
        **_expectations(row for row in steps if row.event_type == "check" and row.table_name),
    }


def _state(lake: Lake, settings: Settings) -> dict[str, float]:
    metrics: dict[str, float] = {}
    release = releases.latest(lake)
    if release is not None and release.hour is not None:
        ended = parse_hour(release.hour) + ONE_HOUR
        metrics["medallion.freshness_seconds"] = (datetime.now(UTC) - ended).total_seconds()
    with suppress(MedallionError):  # another monitor reports a source that cannot be reached
        pending = {*pending_at_source(settings)}
        metrics["medallion.lag_hours"] = len(pending)
    return metrics


def _seconds(steps: Iterable[EventRow]) -> dict[str, float]:
    metrics = {"medallion.seconds.total": 0.0}
    for row in steps:
        name = f"medallion.seconds.{event_log.phase_of(row)}"
        metrics[name] = metrics.get(name, 0.0) + row.seconds
        metrics["medallion.seconds.total"] += row.seconds
    return metrics


def _jvm(rows: Iterable[EventRow]) -> dict[str, float]:
    """Return the used share of each JVM limit; figures without a limit have no metric."""
    usage = fullest(of_details(row.details["jvm"]) for row in rows if "jvm" in row.details)
    return {f"medallion.jvm.{name}": value.share for name, value in usage.items() if value.limit}


def _rows(steps: Iterable[EventRow]) -> dict[str, float]:
    metrics: dict[str, float] = {}
    for row in steps:
        if row.event_type == "apply":
            metrics["medallion.rows_in"] = row.rows_in or 0
        if row.event_type in {"apply", "refresh"} and row.layer:
            metrics[f"medallion.rows_out.{row.layer}"] = row.rows_out or 0
    return metrics


def _expectations(checks: Iterable[EventRow]) -> dict[str, float]:
    metrics = {"medallion.expectations.failed": 0.0, "medallion.expectations.warned": 0.0}
    for row in checks:
        for result in row.details.get("expectations", {}).values():
            if (name := f"medallion.expectations.{result['status']}") in metrics:
                metrics[name] += 1
    return metrics
