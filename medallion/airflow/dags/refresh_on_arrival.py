"""Refresh each hour by a run of hourly_refresh once its files have arrived and settled, instead of on schedule.

It waits in the triggerer and takes no worker slot. An hour is refreshed {settle} seconds after its last file changed,
one hour at a time, with at least {every} seconds between two starts; if none arrives within an hour, the run ends as
skipped and the next run waits. Unpause it together with hourly_refresh, whose own schedule skips published hours.

After a failed check it waits until that hour is fixed; an hour whose refresh failed is retried after {pause} minutes.
"""

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import DAG, Param

from medallion.airflow.arrivals import EVERY_SECONDS, PAUSE_SECONDS, SETTLE_SECONDS, WaitForHour
from medallion.airflow.naming import REFRESH, name_in_airflow, project_of_caller
from medallion.airflow.tasks import dag_of
from medallion.hours import ONE_HOUR
from medallion.model.table import STRATEGIES
from medallion.project import Project


def refresh_on_arrival(project: Project | None = None) -> DAG:
    """Return the DAG of ``project``, by default the project of the calling DAG file."""
    project = project or project_of_caller()
    text = __doc__.format(settle=SETTLE_SECONDS, every=EVERY_SECONDS, pause=PAUSE_SECONDS // 60)
    params = {
        "strategy": Param(
            "incremental",
            enum=list(STRATEGIES),
            title="Strategy",
            description="How tables are refreshed; the rows are the same.",
        ),
    }
    defaults = {"owner": "data-platform", "execution_timeout": ONE_HOUR}
    with dag_of(
        project, "refresh_on_arrival", doc_md=text, schedule="@continuous", params=params, default_args=defaults
    ) as dag:
        wait = WaitForHour(task_id="wait_for_hour", project=project, timeout=ONE_HOUR.total_seconds())
        refresh = TriggerDagRunOperator(
            task_id="refresh",
            trigger_dag_id=name_in_airflow(project, REFRESH),
            trigger_run_id="arrival__{{ ti.xcom_pull(task_ids='wait_for_hour') }}__{{ run_id }}",
            conf={"hour": "{{ ti.xcom_pull(task_ids='wait_for_hour') }}", "strategy": "{{ params.strategy }}"},
            wait_for_completion=True,
            deferrable=True,
            poke_interval=5,
            logical_date=None,
        )
        wait >> refresh
    return dag
