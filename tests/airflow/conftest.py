"""The DAG and what its tasks are made of, with an Airflow home of their own and without a scheduler."""

import os
import tempfile
from pathlib import Path

# Airflow reads these once, when it is first imported.
os.environ["AIRFLOW_HOME"] = tempfile.mkdtemp(prefix="airflow-test-")
os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
os.environ["AIRFLOW__CORE__PLUGINS_FOLDER"] = str(Path(__file__).parents[2] / "plugins")  # the timetable is one
