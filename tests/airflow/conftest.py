"""The DAG and what its tasks are made of, with an Airflow home of their own and without a scheduler."""

import importlib
import os
import tempfile
from pathlib import Path

import pytest

# Airflow reads these once, when it is first imported.
os.environ["AIRFLOW_HOME"] = tempfile.mkdtemp(prefix="airflow-test-")
os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
os.environ["AIRFLOW__CORE__PLUGINS_FOLDER"] = str(Path(__file__).parents[2] / "plugins")  # the timetable is one
os.environ["AIRFLOW__CORE__DAGS_FOLDER"] = str(Path(__file__).parents[2] / "dags")  # of one project alone

with pytest.MonkeyPatch.context() as patch:  # the DAG has the tables of its lake: not those of a demo in this clone
    patch.setenv("MEDALLION_LAKE", str(Path(os.environ["AIRFLOW_HOME"], "no-lake")))
    importlib.import_module("dags.hourly_refresh")


@pytest.fixture(scope="session", autouse=True)
def metadata_tables() -> None:
    """Airflow's tables, which the pages read and write."""
    from airflow.models import import_all_models
    from airflow.models.base import Base
    from airflow.settings import engine

    import_all_models()
    Base.metadata.create_all(engine)
