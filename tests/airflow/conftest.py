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

with pytest.MonkeyPatch.context() as patch:  # the DAG has the tables of its lake: not those of a demo in this clone
    patch.setenv("MEDALLION_LAKE", str(Path(os.environ["AIRFLOW_HOME"], "no-lake")))
    importlib.import_module("dags.hourly_refresh")
