"""What the DAGs of a project are called: by what they do, and by its name where Airflow has others beside it."""

import json
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from airflow.sdk.configuration import conf

from medallion.project import Project, find_project, project_above, project_at

REFRESH, REPLAY = "hourly_refresh", "replay_quarantine"
POOL = "lake_writer"  # of one slot; two projects that share it wait for each other


def project_of_caller() -> Project:
    """Return the project of the DAG file that calls a factory: that of its own folder, else as commands find it.

    Raises UsageError where there is none.
    """
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").startswith("medallion."):
        frame = frame.f_back
    file = frame.f_globals.get("__file__") if frame is not None else None
    return (project_above(Path(file).resolve().parent) if file else None) or find_project()


def at(root: str) -> AbstractContextManager[Project]:
    """Enter the project in ``root``: tasks, callbacks and triggers are told it, as they run in processes of Airflow."""
    return project_at(Path(root)).entered()


def name_in_airflow(project: Project, name: str) -> str:
    """Return the id of the DAG or the asset ``name`` of a project: that alone where no other project can be beside it.

    One can where Airflow's folder of DAGs lies above the project, or it has several bundles of them.
    """
    bundles = json.loads(conf.get("dag_processor", "dag_bundle_config_list", fallback="[]") or "[]")
    folder = Path(conf.get("core", "dags_folder", fallback="")).resolve()
    has_neighbours = len(bundles) > 1 or folder in project.root.parents
    return f"{project.name}_{name}" if has_neighbours else name
