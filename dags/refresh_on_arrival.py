"""Refreshes each hour when its files have arrived and settled, instead of by the clock: a run of hourly_refresh each.

It waits in the triggerer and holds no worker's slot. An hour is taken 15 seconds after its last file has changed, at
most once a minute, one at a time; where none arrives in an hour, the run ends as skipped and the next one waits on.
Unpause it together with hourly_refresh, whose own schedule skips hours that are published already.

After a red check it waits until that hour was mended; an hour whose refresh failed is tried again a quarter of an hour
later, not at once.
"""

from datetime import timedelta

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import DAG, Param

from medallion.airflow.arrivals import WaitForHour
from medallion.airflow.tasks import EVERY_DAG
from medallion.model.table import STRATEGIES

ONE_HOUR = timedelta(hours=1)

with DAG(
    "refresh_on_arrival",
    doc_md=__doc__,
    schedule="@continuous",
    **EVERY_DAG | {"default_args": {"owner": "data-platform", "execution_timeout": ONE_HOUR}},
    params={
        "strategy": Param(
            "incremental",
            enum=list(STRATEGIES),
            title="Strategy",
            description="How Silver and Gold are refreshed; the rows are the same.",
        ),
    },
) as dag:
    arrived = WaitForHour(task_id="wait_for_hour", patience=ONE_HOUR.total_seconds())
    refresh = TriggerDagRunOperator(
        task_id="refresh",
        trigger_dag_id="hourly_refresh",
        trigger_run_id="arrival__{{ ti.xcom_pull(task_ids='wait_for_hour') }}__{{ run_id }}",
        conf={"hour": "{{ ti.xcom_pull(task_ids='wait_for_hour') }}", "strategy": "{{ params.strategy }}"},
        wait_for_completion=True,
        deferrable=True,
        poke_interval=5,
        logical_date=None,
    )
    arrived >> refresh
