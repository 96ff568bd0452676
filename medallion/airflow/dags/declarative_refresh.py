"""The same tables once more, as materialized views of a Spark Declarative Pipeline, beside the lake: to compare.

It is generated from our tables and run by spark-pipelines on the cores of one machine, over Bronze as the newest
release has it. Its views must have that release's rows, or the last task fails. Nothing that readers see is written.
"""

from typing import Any

from airflow.sdk import DAG

from medallion.airflow.naming import POOL, project_of_caller
from medallion.airflow.pipelines import PipelineOnSpark, compare_views, write_pipeline
from medallion.airflow.tasks import dag_of
from medallion.project import Project


def declarative_refresh(project: Project | None = None, *, pool: str = POOL) -> DAG:
    """Return the DAG of ``project``, that of the file which calls this if not given."""
    project = project or project_of_caller()
    root, work = str(project.root), f"{project.settings().lake}/ops/pipeline"
    with dag_of(project, "declarative_refresh", pool=pool, doc_md=__doc__, schedule=None) as dag:
        release: Any = write_pipeline(work, root)
        run = PipelineOnSpark(task_id="run_pipeline", work=work, number=release, project=project)
        run >> compare_views(work, release, root)
    return dag
