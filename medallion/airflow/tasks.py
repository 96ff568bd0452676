"""The tasks of the DAGs: steps of the pipeline, with and without Spark.

Every parse of a DAG file imports this module, so it imports neither pyspark nor great_expectations; steps import them
when they run.
"""

import logging
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG, BaseHook, task
from airflow.sdk.exceptions import AirflowException, AirflowNotFoundException

from medallion.airflow.alerts import Webhook
from medallion.airflow.failures import as_airflow_errors, with_reason
from medallion.airflow.lineage import lineage_parent
from medallion.airflow.metrics import STEPS, send_metrics
from medallion.airflow.naming import at, name_in_airflow
from medallion.airflow.notes import TAG, leave_note, noting_failures
from medallion.airflow.runs import RequestRefused, describe_redo, requested_hour, require_known_keys, text_of
from medallion.errors import CheckFailed, UsageError, advice
from medallion.inspect.openlineage import PARENT
from medallion.loopback import go_past_proxies
from medallion.ops.event_schema import EventType
from medallion.ops.lake_tables import tables_of
from medallion.project import Project, find_project
from medallion.settings import Settings
from medallion.storage.lake import Lake

if TYPE_CHECKING:
    from medallion.pipeline.run import Outcome, Run

LAND = "land_changes"
HOUR = f"{{{{ ti.xcom_pull(task_ids='{LAND}') }}}}"  # the land task determines the hour; the others read its XCom
SELECT = "select"  # XCom key of the land task: the tables that a selection without an hour recomputes
SPARK = ("as set", "submit")  # choices of a run: the warm Spark if one is set, or a JVM for each task

EVERY_DAG: dict[str, Any] = {
    "start_date": datetime(2020, 1, 1, tzinfo=UTC),
    "catchup": False,
    "max_active_runs": 1,
    "default_args": {
        "owner": "data-platform",
        # Later tasks get the slot first, so that a run that has begun continues before another begins.
        "weight_rule": "upstream",
        "retries": 2,
        "retry_delay": timedelta(minutes=1),
        "execution_timeout": timedelta(minutes=30),
    },
}


def dag_of(project: Project, name: str, *, pool: str | None = None, **values: Any) -> DAG:
    """Return the DAG ``name`` of a project. ``values`` are arguments of DAG; ``default_args`` replace those above.

    pool: the pool of its tasks. It has one slot because a lake has one writer: max_active_runs alone does not limit
    the runs of a backfill.
    """
    defaults = values.pop("default_args", EVERY_DAG["default_args"]) | ({"pool": pool} if pool else {})
    return DAG(
        name_in_airflow(project, name), tags=[TAG, project.name], **EVERY_DAG | {"default_args": defaults}, **values
    )


@task
def run_here(step: str, layer: str | None, hour: str, root: str, **context: Any) -> str:
    """Run ``step`` in this process, without a JVM, and return the hour.

    Applying changes to a table that is too large for this process starts a JVM. root: the root of the project. The
    reason of a failure becomes the run's note; after the last step, the note says what the run did.
    """
    ti = context["ti"]
    with at(root) as project, noting_failures(ti, f"hour {hour}: {layer or ''} {step}".replace("  ", " ")):
        try:
            outcome = run_in_process(step, layer, hour, context)
        finally:
            if step in STEPS:
                send_metrics(context["dag_run"].run_id)
        if step == "validate":
            from medallion.checks.docs_queue import build_data_docs
            from medallion.inspect.run_summary import run_summary

            lake = Lake.of(project.settings())
            redone = describe_redo(context["params"], ti.xcom_pull(task_ids=LAND, key=SELECT))
            leave_note(ti, redone + run_summary(lake, context["dag_run"].run_id))
            if error := build_data_docs(lake.reports):
                logging.getLogger(__name__).warning("Data Docs not built: %s; %s", error, advice.build_data_docs())
    return str(outcome.hour)


def run_in_process(step: str, layer: str | None, hour: str | None, context: Mapping[str, Any]) -> "Outcome":
    """Run a step of the run that ``context`` belongs to. Its errors are raised as Airflow's."""
    from medallion.pipeline.driver import open_driver
    from medallion.pipeline.steps import run_step

    # On import it logs about two hundred of its own methods.
    logging.getLogger("great_expectations").setLevel(logging.WARNING)
    with as_airflow_errors():
        settings = find_project().settings()
        if step == "apply":
            settings = settings.replace(spark_master=spark_master(RunOnSpark.connection))
        if step == "check" and settings.spark_checks_bytes is not None:
            with suppress(UsageError):  # most checks need no Spark, and so no connection
                settings = settings.replace(spark_master=spark_master(RunOnSpark.connection))
        with open_driver(settings) as driver:
            return run_step(step, run_of(context, settings, hour), driver, layer)


def run_of(context: Mapping[str, Any], settings: Settings, hour: str | None) -> "Run":
    """Return the ``Run`` of the pipeline for a run of the scheduler."""
    from medallion.pipeline.run import Run

    ti, params = context["ti"], context["params"]
    return Run(
        settings,
        hour,
        context["dag_run"].run_id,
        attempt=ti.try_number,
        strategy=params["strategy"],
        lineage_parent=lineage_parent(ti),
        select=ti.xcom_pull(task_ids=LAND, key=SELECT) or text_of(params, "select") or "",
    )


@task(task_id="maintain")
def upkeep(root: str, *, params: Any = None, dag_run: Any = None, ti: Any = None, dag: Any = None) -> None:
    """Do the lake's upkeep in this process; a lake that has not been loaded needs none."""
    from medallion.pipeline.driver import open_driver
    from medallion.pipeline.maintain import Retention, maintain
    from medallion.pipeline.run import Run

    with at(root) as project, noting_failures(ti), as_airflow_errors():
        require_known_keys(dag_run.conf, dag.params)
        settings = project.settings()
        run = Run(settings, None, dag_run.run_id, ti.try_number)
        with open_driver(settings) as driver:
            maintain(run, driver, Retention(params["keep_hours"], params["keep_days"]))


@task(task_id="replay")
def replay_lines(root: str, *, params: Any = None, dag_run: Any = None, ti: Any = None, dag: Any = None) -> None:
    """Replay a feed's quarantined lines of an hour, in a Spark session of this process, and leave a note."""
    from medallion.ingest.quarantine import parse_corrected_lines
    from medallion.inspect.run_summary import run_summary
    from medallion.pipeline import operations
    from medallion.pipeline.driver import open_driver
    from medallion.pipeline.run import Run

    what = " of ".join(str(params[key])[:40] for key in ("feed", "hour"))
    with at(root) as project, noting_failures(ti, f"replay {what}"), as_airflow_errors():
        require_known_keys(dag_run.conf, dag.params)
        feed, hour, text = (text_of(params, key) or "" for key in ("feed", "hour", "lines"))
        lines = parse_corrected_lines(text, "the parameter lines") if text else None
        settings = project.settings().replace(spark_master=spark_master(RunOnSpark.connection))
        with open_driver(settings) as driver:
            run = Run(settings, hour, dag_run.run_id, ti.try_number)
            operations.replay(run, driver, feed, lines)
        leave_note(ti, f"replayed {feed} of {hour}; {run_summary(driver.lake, dag_run.run_id)}")


@task(task_id="self_check")
def self_check(root: str, *, params: Any = None, dag_run: Any = None, ti: Any = None, dag: Any = None) -> None:
    """Fail with every problem of the lakehouse: each table that is stale, red or failing."""
    from medallion.inspect.status import lake_status

    with at(root) as project, noting_failures(ti), as_airflow_errors():
        require_known_keys(dag_run.conf, dag.params)
        status = lake_status(project.settings(), params["stale_hours"], params["max_failures"])
        if status.problems:
            raise CheckFailed("; ".join(status.problems))


class RunOnSpark(SparkSubmitOperator):
    """Runs ``step`` on the warm Spark if one is set, else in its own driver on the connection ``spark_default``."""

    connection = "spark_default"

    def __init__(self, *, step: str, layer: str, project: Project, **kwargs: Any) -> None:
        self._step, self._layer, self._root = step, layer, str(project.root)
        super().__init__(
            application=str(project.root / "spark_jobs" / "run.py"),
            application_args=[
                *("step", step, "--layer", layer, "--hour", HOUR),
                *(
                    "--run-id",
                    "{{ run_id }}",
                    "--attempt",
                    "{{ ti.try_number }}",
                    "--strategy",
                    "{{ params.strategy }}",
                    f"--select={{{{ ti.xcom_pull(task_ids='{LAND}', key='{SELECT}') or params.select or '' }}}}",
                ),
            ],
            name=f"{step} {layer} {HOUR}",
            conn_id=self.connection,
            # This driver starts a JVM on purpose, so it must not use a warm Spark that is set.
            env_vars={**project.variables(spark_connect=""), "MEDALLION_PROJECT": self._root},
            **kwargs,
        )

    def execute(self, context: Any) -> None:
        """Run the step. A missing connection is an error here; the provider's hook would fall back to YARN."""
        from medallion.spark.compiler import compiler_options
        from medallion.spark.configuration import is_local, submit_conf
        from medallion.spark.jars import spark_home
        from medallion.spark.session import require_master
        from medallion.spark.surroundings import CLUSTER_FOLDERS

        go_past_proxies()
        with at(self._root) as project, noting_failures(context["ti"], f"{self._layer} {self._step}"):
            with as_airflow_errors():
                settings = project.settings()
                if settings.spark_connect and context["params"].get("spark") != "submit":
                    hour = context["ti"].xcom_pull(task_ids=LAND)
                    run_in_process(self._step, self._layer, hour, context)
                    return
                master = spark_master(self._conn_id)
                require_master(master)
                tables = tables_of(Lake.of(settings), settings.extras).queries(self._layer)
                options = compiler_options(settings, master, tables, context["params"]["strategy"])
                self.conf = submit_conf(settings, master, options)
                if is_local(master):  # Spark treats an empty variable as unset
                    ours = {**dict.fromkeys(CLUSTER_FOLDERS, ""), "SPARK_HOME": str(spark_home())}
                    self.env_vars = {**(self.env_vars or {}), **ours}
                if parent := lineage_parent(context["ti"]):
                    self.env_vars = {**(self.env_vars or {}), PARENT: parent}
            try:
                super().execute(context)
            except AirflowException as error:
                # The error repeats the command and output, which are in the log; its last line says what went wrong.
                reason = f"{self._layer} {self._step} failed in a process of its own: its log says why"
                raise with_reason(AirflowException(str(error).splitlines()[-1]), reason) from None


def policy(step: EventType, layer: str | None, project: Project) -> dict[str, Any]:
    """Return the arguments of a task of ``step`` that define what happens when a try fails."""
    record = partial(record_failure, step=step, layer=layer, root=str(project.root))
    return {"on_failure_callback": [record, Webhook(step=step, layer=layer)], "on_retry_callback": record}


def record_failure(context: Mapping[str, Any], *, step: EventType, layer: str | None, root: str) -> None:
    """Ensure that a failed try has its row in the event log, which a killed process could not write.

    A refused request is not a failure of the step.
    """
    from medallion.ops.event_log import EventLog, close_lost_step

    if step == "land" and isinstance(context.get("exception"), RequestRefused):
        return
    ti, error = context["ti"], str(context.get("exception") or "the process was killed")
    try:
        with at(root) as project:
            lake = Lake.of(project.settings())
            hour = requested_hour(context["params"], context["dag_run"]) or ti.xcom_pull(task_ids=LAND)
            log = EventLog(lake, run_id=context["run_id"], hour=hour, strategy="", attempt=ti.try_number)
            close_lost_step(lake, log, step, layer, error=error)
    except Exception:
        logging.getLogger(__name__).exception("this failure is not in the event log")


def spark_master(conn_id: str) -> str:
    """Return the master that connection ``conn_id`` names. Raises UsageError if the connection does not exist."""
    try:
        connection = BaseHook.get_connection(conn_id)
    except AirflowNotFoundException:
        raise UsageError(
            f"no connection is called {conn_id}: add one of type spark whose host is local[*] or spark://host:7077"
        ) from None
    host, port = str(connection.host), connection.port
    if "://" not in host and (port or connection.conn_type != "spark"):  # from a URL: its scheme became the type
        host = f"{connection.conn_type}://{host}"
    return f"{host}:{port}" if port else host
