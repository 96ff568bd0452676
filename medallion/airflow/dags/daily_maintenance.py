"""Daily upkeep of the lake: merge small files; remove old versions, releases, events and reports.

Nothing that a kept release names is removed. The upkeep shares the one slot of the pool with the hourly runs: it starts
when none of their tasks is running, and an hour waits for it only while it runs, which takes seconds.
"""

from airflow.sdk import DAG, CronDataIntervalTimetable, Param

from medallion.airflow.naming import POOL, project_of_caller
from medallion.airflow.tasks import dag_of, upkeep
from medallion.project import Project
from medallion.settings import KEEP_DAYS, KEEP_HOURS, MAX_KEEP_DAYS, MAX_KEEP_HOURS


def daily_maintenance(project: Project | None = None, *, pool: str = POOL) -> DAG:
    """Return the DAG of ``project``, by default the project of the calling DAG file."""
    project = project or project_of_caller()
    every_day = CronDataIntervalTimetable("30 3 * * *", timezone="UTC")
    params = {
        "keep_hours": Param(
            KEEP_HOURS,
            type="integer",
            minimum=0,
            maximum=MAX_KEEP_HOURS,
            title="Keep hours",
            description=(
                "Hours of history: releases, and the versions of tables that they name. The newest two releases always"
                " stay."
            ),
        ),
        "keep_days": Param(
            KEEP_DAYS,
            type="integer",
            minimum=1,
            maximum=MAX_KEEP_DAYS,
            title="Keep days",
            description="Days of records: events, validation reports and landed change files.",
        ),
    }
    with dag_of(project, "daily_maintenance", pool=pool, doc_md=__doc__, schedule=every_day, params=params) as dag:
        upkeep(str(project.root))
    return dag
