"""The command that runs the declarative pipeline."""

from pathlib import Path

import pytest

from medallion.airflow.pipelines import PipelineOnSpark
from tests.shop import SHOP


@pytest.mark.parametrize(
    ("connection", "remote"),
    [
        ('{"conn_type": "spark", "host": "local[2]"}', "local[2]"),
        ('{"conn_type": "spark", "host": "spark://spark-master", "port": 7077}', "local[*]"),
    ],
)
def test_pipeline_runs_on_the_cores_of_one_machine_whatever_the_connection_names(
    connection: str, remote: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """spark-pipelines of Spark 4.2 refuses the master of a cluster."""
    command = tmp_path / "spark-pipelines"
    command.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/arguments\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", connection)
    PipelineOnSpark(task_id="run_pipeline", work=str(tmp_path), number=1, project=SHOP).hook.submit_pipeline()
    arguments = (tmp_path / "arguments").read_text().split()
    assert arguments[arguments.index("--remote") + 1] == remote
    assert "--master" not in arguments
