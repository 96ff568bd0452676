"""Compute the same tables as materialized views of a Spark Declarative Pipeline, and compare them with the lake's.

The pipeline is generated from the project's tables and run by spark-pipelines on the cores of one machine, over Bronze
of the newest release. Its views must have the rows of that release, or the last task fails. Nothing that readers see is
written.
"""

from typing import Any

from airflow.sdk import DAG

from medallion.airflow.naming import POOL, project_of_caller
from medallion.airflow.pipelines import PipelineOnSpark, compare_views, write_pipeline
from medallion.airflow.tasks import dag_of
from medallion.project import Project


def declarative_refresh(project: Project | None = None, *, pool: str = POOL) -> DAG:
    """Return the DAG of ``project``, by default the project of the calling DAG file."""
    project = project or project_of_caller()
    root, work = str(project.root), f"{project.settings().lake}/ops/pipeline"
    with dag_of(project, "declarative_refresh", pool=pool, doc_md=__doc__, schedule=None) as dag:
        release: Any = write_pipeline(work, root)
        run = PipelineOnSpark(task_id="run_pipeline", work=work, number=release, project=project)
        run >> compare_views(work, release, root)
    return dag
