"""Take one hour of change data from the source to a published release, and check each layer.

**Trigger** it for one hour, or without an hour for the next one. **Backfill** a range of hours: they are applied in
order, one at a time, and an hour that is published already is skipped. On **schedule**, each hour is refreshed when it
has ended; hours that arrived late, or that were missed while the DAG was paused, are caught up first.

A failed check stops the run before the next layer, and readers keep the release they had. Later runs name the failed
hour and end; clear its failed task once the cause is fixed. Each run's **note** says what it did or why it did
nothing.
"""

from typing import Any

from airflow.sdk import DAG, Param, TaskGroup, chain

from medallion.airflow.alerts import Webhook, deadline
from medallion.airflow.landing import LandChanges
from medallion.airflow.naming import POOL, REFRESH, project_of_caller
from medallion.airflow.redo import ACTIONS
from medallion.airflow.table_graph import assets, lineage
from medallion.airflow.tasks import HOUR, LAND, SPARK, RunOnSpark, dag_of, policy, run_here
from medallion.airflow.timetable import Hourly
from medallion.model.table import STRATEGIES
from medallion.ops.lake_tables import tables_at_parse_time
from medallion.project import Project

_FORM = {
    "hour": Param(
        None,
        type=["null", "string"],
        title="Hour",
        description_md=(
            "In UTC, as `YYYY-MM-DDTHH`, such as `2025-11-30T00`. Empty: the next hour of the source, which is"
            " nearly always right; the page *Browse, Lakehouse* shows which one that is. **Leave Logical Date as it"
            " is: it is not the hour.** In a backfill each run has an hour of its own, whatever is written here."
        ),
    ),
    "strategy": Param(
        "full",
        enum=list(STRATEGIES),
        title="Strategy",
        description=(
            "full recomputes every table above the first layer: each hour costs as much as the whole history."
            " incremental updates the rows that the hour changed: each hour costs as much as its changes; on a"
            " history of a few days it saves a third. Both give the same rows: switch between them at any hour."
        ),
    ),
    "select": Param(
        None,
        type=["null", "string"],
        maxLength=1000,
        title="Select",
        description=(
            "Tables. Empty: all. Else these, as in dbt: gold_x, +gold_x with what it reads, silver_x+"
            " with what reads it; several with commas. Without Hour they are computed again at the published hour,"
            " with what reads them. With Hour, nothing is published while others are left behind; a run with Hour"
            " and Select empty catches up."
        ),
    ),
    "action": Param(
        "refresh",
        enum=list(ACTIONS),
        title="Action",
        description=(
            "refresh applies a new hour. restate goes back to before the hour and applies it and every later hour"
            " again, with the files that the source has now: it costs all these hours. reprocess recomputes the"
            " tables of the published hour. The last two need Hour, and the same in Confirmation."
        ),
    ),
    "confirmation": Param(
        None,
        type=["null", "string"],
        title="Confirmation",
        description="To restate or reprocess: the hour once more. A refresh needs none.",
    ),
    "spark": Param(
        "as set",
        enum=list(SPARK),
        title="Spark",
        description=(
            "as set: the warm Spark, where MEDALLION_SPARK_CONNECT names one. submit: spark-submit starts a JVM for"
            " each Spark task of this run."
        ),
    ),
}


def hourly_refresh(project: Project | None = None, *, pool: str = POOL) -> DAG:
    """Return the DAG of ``project``, by default the project of the calling DAG file."""
    project = project or project_of_caller()
    root = str(project.root)
    with project.entered():
        tables = tables_at_parse_time(project.settings())
    with dag_of(
        project,
        REFRESH,
        pool=pool,
        doc_md=f"{__doc__}{lineage(tables)}",
        schedule=Hourly(),
        on_failure_callback=Webhook(runs_of=root),
        deadline=deadline(),
        params=_FORM,
    ) as dag:
        # LandChanges waits for the hour's turn or ends with the reason; the ledger keeps hours in order.
        land = LandChanges(task_id=LAND, project=project, **policy("land", tables.fed_layer, project))

        layers = []
        for layer in tables.layers:
            work: Any
            with TaskGroup(layer) as group:
                if tables.is_computed(layer):
                    settings = policy("refresh", layer, project)
                    work = RunOnSpark(task_id="refresh", step="refresh", layer=layer, project=project, **settings)
                else:
                    settings = policy("apply", layer, project)
                    work = run_here.override(task_id="apply_changes", **settings)("apply", layer, HOUR, root)
                # Checks update the assets of tables; publishing updates those of results, which readers see only then.
                outlets = [] if layer in tables.result_layers else assets(project, tables, layer)
                check = run_here.override(task_id="check", outlets=outlets, **policy("check", layer, project))
                work >> check("check", layer, HOUR, root)
            layers.append(group)

        outlets = assets(project, tables, *tables.result_layers)
        publish = run_here.override(task_id="publish", outlets=outlets, **policy("publish", None, project))
        # Validate the release that readers have; later hours wait if it fails.
        validate = run_here.override(task_id="validate", **policy("validate", None, project))
        chain(land, *layers, publish("publish", None, HOUR, root), validate("validate", None, HOUR, root))
    return dag
