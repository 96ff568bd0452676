"""Actions of the form besides a refresh: restate from an hour, or reprocess the published hour."""

from collections.abc import Mapping
from typing import Any, Literal, get_args

from medallion.airflow.runs import RequestRefused, SchedulerRuns, text_of
from medallion.airflow.tasks import SELECT, RunOnSpark, run_of, spark_master
from medallion.errors import UsageError
from medallion.hours import parse_hour
from medallion.ops.lake_tables import require_no_missing_table
from medallion.pipeline.turns import read_line
from medallion.project import find_project
from medallion.settings import Settings
from medallion.storage.lake import Lake

Redo = Literal["restate", "reprocess"]
ACTIONS = ("refresh", *get_args(Redo))


def redo_hour(action: Redo, context: Mapping[str, Any]) -> str:
    """Do the Bronze part of the form's action, with the operations and locks of the command; return the hour.

    The tasks that follow refresh, check and publish that hour. A restatement continues to the last applied hour.

    Raises:
        RequestRefused: The action was not confirmed, the hour is wrong or cannot be restated, or another run is active;
            nothing was changed. Or a restatement that has begun cannot go on.
    """
    from medallion.pipeline import operations
    from medallion.pipeline.driver import open_driver
    from medallion.pipeline.reprocess import require_published

    settings = find_project().settings().replace(spark_master=spark_master(RunOnSpark.connection))
    try:
        hour = confirmed_hour(action, context["params"], context["dag_run"])
        _require_turn(action, settings, context["dag_run"])
        run = run_of(context, settings, hour)
        with open_driver(settings) as driver:
            if action == "restate":
                return operations.restate_bronze(run, driver)
            require_published(run, driver)
            require_no_missing_table(driver.lake, driver.tables.tables, "nothing is reprocessed")
            return hour
    except UsageError as error:
        raise _refusal(error, settings) from None


def redo_selection(context: Mapping[str, Any]) -> str:
    """Have the tasks that follow recompute the form's tables at the published hour; return the hour.

    They read the tables to recompute from the XCom of this task under the key SELECT.

    Raises:
        RequestRefused: Bronze is not at the published hour, or another run is active; nothing was changed.
    """
    from medallion.pipeline.driver import open_driver
    from medallion.pipeline.reprocess import at_published_hour

    settings = find_project().settings()
    try:
        _require_turn("reprocess", settings, context["dag_run"])
        with open_driver(settings) as driver:
            run = at_published_hour(run_of(context, settings, None), driver)
            require_no_missing_table(driver.lake, driver.tables.tables, "nothing is reprocessed")
    except UsageError as error:
        raise _refusal(error, settings) from None
    context["ti"].xcom_push(key=SELECT, value=run.select)
    return run.required_hour


def confirmed_hour(action: Redo, params: Mapping[str, Any], dag_run: Any) -> str:
    """Return the hour of the form, which the confirmation must repeat. Raises UsageError if it does not."""
    hour, confirmation = text_of(params, "hour"), text_of(params, "confirmation")
    if dag_run.run_type != "manual":
        raise UsageError(f"a backfill or schedule cannot {action}: press Trigger and choose Single Run")
    if not hour:
        raise UsageError(f"{action} needs an hour: write it in Hour, and again in Confirmation")
    parse_hour(hour)
    if confirmation != hour:
        raise UsageError(f"{action} {hour} was not confirmed: write {hour} in Confirmation too")
    if action == "restate" and text_of(params, "select"):
        raise UsageError("restate refreshes every table: leave Select empty")
    return hour


def _refusal(error: UsageError, settings: Settings) -> RequestRefused:
    """Return the refusal of a request; it says that nothing was changed unless a restatement has begun."""
    from medallion.ingest.restatement import read_restatement

    silent = "nothing was changed" in str(error) or read_restatement(Lake.of(settings)) is not None
    return RequestRefused(str(error) if silent else f"{error}; nothing was changed")


def _require_turn(action: Redo, settings: Settings, dag_run: Any) -> None:
    unpublished = read_line(settings).unpublished
    if unpublished and SchedulerRuns(dag_run.dag_id, dag_run.run_id).active(unpublished.run_id):
        raise UsageError(f"{action} must wait: hour {unpublished.hour} is being refreshed by run {unpublished.run_id}")
