"""Replay quarantined change lines in their original place, after the lines or the schema were corrected.

The page *Quarantine* starts it. It restates the hour of the lines: this hour and every later one are applied again, and
published once every check has passed.
"""

from airflow.sdk import DAG, Param

from medallion.airflow.naming import POOL, REPLAY, project_of_caller
from medallion.airflow.tasks import dag_of, replay_lines
from medallion.ops.lake_tables import tables_at_parse_time
from medallion.project import Project


def replay_quarantine(project: Project | None = None, *, pool: str = POOL) -> DAG:
    """Return the DAG of ``project``, by default the project of the calling DAG file."""
    project = project or project_of_caller()
    with project.entered():
        feeds = [feed.topic for feed in tables_at_parse_time(project.settings()).feeds]
    params = {
        "feed": Param(
            next(iter(feeds), ""),
            type="string",
            title="Feed",
            description=f"One of {', '.join(feeds)}: medallion quarantine list.",
        ),
        "hour": Param(
            "2025-11-30T00",
            type="string",
            title="Hour",
            description="The hour that the lines are of, in UTC, as YYYY-MM-DDTHH.",
        ),
        "lines": Param(
            None,
            type=["null", "string"],
            title="Lines",
            description=(
                "Corrected lines as JSON, a list of line_number and raw, as medallion quarantine show --format json"
                " prints them. Empty where the schema was corrected, and the lines fit as they came."
            ),
        ),
    }
    with dag_of(
        project, REPLAY, pool=pool, doc_md=__doc__, schedule=None, is_paused_upon_creation=False, params=params
    ) as dag:
        replay_lines(str(project.root))
    return dag
