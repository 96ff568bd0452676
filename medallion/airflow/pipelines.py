"""The tasks of declarative_refresh: write the pipeline, run it with the provider's operator, compare its views."""

from functools import cached_property
from pathlib import Path
from typing import Any

from airflow.providers.apache.spark.hooks.spark_pipelines import SparkPipelinesHook
from airflow.providers.apache.spark.operators.spark_pipelines import SparkPipelinesOperator
from airflow.sdk import task

from medallion.airflow.failures import as_airflow_errors
from medallion.airflow.naming import at
from medallion.airflow.tasks import RunOnSpark, spark_master
from medallion.errors import CheckFailed
from medallion.ops.lake_tables import tables_of
from medallion.project import Project
from medallion.spark.configuration import is_local


@task
def write_pipeline(work: str, root: str) -> int:
    """Write the pipeline of the project's tables to the folder ``work``. Return the release whose Bronze it reads."""
    from medallion.declarative.specification import write_specification
    from medallion.ops import releases
    from medallion.spark.session import require_master
    from medallion.storage.lake import Lake

    with at(root) as project, as_airflow_errors():
        require_master(spark_master(RunOnSpark.connection))
        write_specification(work, project.settings())
        return releases.require_release(Lake.of(project.settings()), None).release_id


@task
def compare_views(work: str, number: int, root: str) -> str:
    """Compare the views that the pipeline wrote to ``work`` with release ``number``; fail if rows differ."""
    from medallion.declarative.specification import differing_views
    from medallion.ops import releases
    from medallion.storage.lake import Lake

    with at(root) as project, as_airflow_errors():
        lake = Lake.of(project.settings())
        release = releases.require_release(lake, int(number))
        if wrong := differing_views(lake, release, tables_of(lake), Path(work)):
            raise CheckFailed(f"the pipeline has other rows than release {release.release_id} in {', '.join(wrong)}")
        return f"all views have the rows of release {release.release_id}"


class PipelineHook(SparkPipelinesHook):
    """The provider's hook with the arguments of Spark 4.2, whose spark-pipelines takes a local master, as --remote.

    A cluster master is replaced by the cores of this machine: no setting would reach a pipeline's driver there.
    """

    def _build_spark_common_args(self) -> list[str]:
        arguments = super()._build_spark_common_args()
        place = arguments.index("--master")
        master = arguments[place + 1]
        if not is_local(master):
            self.log.info("spark-pipelines runs on this machine, not on %s", master)
            master = "local[*]"
        return [*arguments[:place], "--remote", master, *arguments[place + 2 :]]


class PipelineOnSpark(SparkPipelinesOperator):
    """Run the pipeline in ``work`` over Bronze of the release ``number``, on this machine's cores."""

    def __init__(self, *, work: str, number: Any, project: Project, **kwargs: Any) -> None:
        from medallion.declarative.specification import SPECIFICATION, environment

        lake = {"MEDALLION_PROJECT": str(project.root), **project.variables(lake=project.settings().lake)}
        variables = {**lake, "MEDALLION_RELEASE": number, **environment(work)}
        super().__init__(pipeline_spec=f"{work}/{SPECIFICATION}", env_vars=variables, **kwargs)

    @cached_property
    def hook(self) -> SparkPipelinesHook:
        """The hook that submits the pipeline."""
        return PipelineHook(
            pipeline_spec=self.pipeline_spec,
            conn_id=RunOnSpark.connection,
            name="",  # spark-pipelines takes no name
            env_vars={name: str(value) for name, value in (self.env_vars or {}).items()},
        )
