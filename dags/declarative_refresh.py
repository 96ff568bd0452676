"""The same tables once more, as materialized views of a Spark Declarative Pipeline, beside the lake: to compare.

It is generated from our tables and run by spark-pipelines on the cores of one machine, over Bronze as the newest
release has it. Its views must have that release's rows, or the last task fails. Nothing that readers see is written.
"""

from airflow.sdk import DAG

from medallion.airflow.pipelines import PipelineOnSpark, compare_views, write_pipeline
from medallion.airflow.tasks import EVERY_DAG
from medallion.project import find_project

WORK = f"{find_project().settings().lake}/ops/pipeline"

with DAG("declarative_refresh", doc_md=__doc__, schedule=None, **EVERY_DAG) as dag:
    release = write_pipeline(WORK)
    run = PipelineOnSpark(task_id="run_pipeline", work=WORK, number=release)
    run >> compare_views(WORK, release)
