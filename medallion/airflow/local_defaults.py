"""The default environment of an Airflow on this machine; variables that are set replace it."""

import json
from pathlib import Path

PRELOADED = (
    "airflow.executors.local_executor",
    "airflow.sdk.execution_time.task_runner",
    "medallion.airflow.preload",
)


def default_variables(home: Path, project: Path, user: str) -> dict[str, str]:
    """Return the environment variables of an Airflow in ``home``, with a project's DAGs and one user, an admin."""
    return {
        "AIRFLOW__CORE__DAGS_FOLDER": str(project / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(project / "plugins"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        # Seconds that a writer waits for its turn: SQLite's default of 5 makes commands and tasks fail under load.
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home / 'airflow.db'}?timeout=120",
        "AIRFLOW__CORE__PARALLELISM": "4",  # the default starts 32 idle workers
        # Tasks are forked from a process that has loaded Great Expectations, DuckDB and delta-rs.
        "AIRFLOW__SCHEDULER__MP_START_METHOD": "forkserver",
        "AIRFLOW__SCHEDULER__MP_FORKSERVER_PRELOAD": ",".join(PRELOADED),
        # Each round parses every DAG file, a second each; the default is every 30 s. A changed file is parsed at once.
        "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "120",
        "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.25",  # the default of 1 s delays each task by half a second
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{user}:admin",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[*]"}),
        "MEDALLION_EXTRAS": "true",  # a local Airflow shows every table
    }
