"""The same tables once more, as materialized views of a Spark Declarative Pipeline, beside the lake: to compare.

It is generated from our tables and run by spark-pipelines on the connection spark_default, over Bronze as it is. Its
views must have the rows of the newest release, or the last task is red. Nothing that readers see is written.
"""

from airflow.sdk import DAG, chain

from spark_jobs.airflow_tasks import EVERY_DAG, PipelineOnSpark, compare_views, write_pipeline
from spark_jobs.core.settings import Settings

WORK = f"{Settings.from_environment().lake}/ops/pipeline"

with DAG("declarative_refresh", doc_md=__doc__, schedule=None, **EVERY_DAG) as dag:
    chain(write_pipeline(WORK), PipelineOnSpark(task_id="run_pipeline", work=WORK), compare_views(WORK))
