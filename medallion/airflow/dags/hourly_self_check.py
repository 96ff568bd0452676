"""Check the lakehouse every hour: fail, and send an alert, when a table is stale or has failed too often.

It only reads logs and waits for no other run. Unpause it where hours arrive in real time: the hours of the demo are
from 2025, so its tables are always stale.
"""

from airflow.sdk import DAG, CronDataIntervalTimetable, Param

from medallion.airflow.alerts import Webhook
from medallion.airflow.naming import project_of_caller
from medallion.airflow.tasks import dag_of, self_check
from medallion.project import Project
from medallion.settings import STALE_HOURS


def hourly_self_check(project: Project | None = None) -> DAG:
    """Return the DAG of ``project``, by default the project of the calling DAG file."""
    project = project or project_of_caller()
    every_hour = CronDataIntervalTimetable("45 * * * *", timezone="UTC")
    params = {
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
    }
    with dag_of(project, "hourly_self_check", doc_md=__doc__, schedule=every_hour, params=params) as dag:
        self_check.override(retries=0, on_failure_callback=Webhook(step="self check"))(str(project.root))
    return dag
