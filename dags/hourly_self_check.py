"""Look at the lakehouse every hour: fails, and sends the alert, when a table is stale or has failed too often.

It reads logs alone and waits for nobody. Unpause it where hours arrive by the clock: the demo's are of 2025, and stale.
"""

from airflow.sdk import DAG, CronDataIntervalTimetable, Param

from medallion.airflow.alerts import Webhook
from medallion.airflow.tasks import EVERY_DAG, self_check
from medallion.settings import STALE_HOURS

with DAG(
    "hourly_self_check",
    doc_md=__doc__,
    schedule=CronDataIntervalTimetable("45 * * * *", timezone="UTC"),
    **EVERY_DAG,
    params={
        "stale_hours": Param(
            STALE_HOURS,
            type="number",
            minimum=0,
            title="Stale hours",
            description="Hours since the end of the last hour that a table has.",
        ),
        "max_failures": Param(
            0,
            type="integer",
            minimum=0,
            title="Max failures",
            description="Failures in a row that a table may have before this task fails.",
        ),
    },
) as dag:
    self_check.override(pool="default_pool", retries=0, on_failure_callback=Webhook(step="self check"))()
