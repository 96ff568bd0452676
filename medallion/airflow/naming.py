"""The names of DAGs in Airflow, prefixed with the project's name where several projects may share that Airflow."""

import json
import os
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from medallion.project import Project, find_project, project_above, project_at

REFRESH, REPLAY = "hourly_refresh", "replay_quarantine"
POOL = "lake_writer"  # has one slot; projects that share the pool wait for each other


def project_of_caller() -> Project:
    """Return the project of the DAG file that calls a factory: the one of its folder, else the one that commands find.

    Raises UsageError if there is none.
    """
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").startswith("medallion."):
        frame = frame.f_back
    file = frame.f_globals.get("__file__") if frame is not None else None
    return (project_above(Path(os.path.abspath(file)).parent) if file else None) or find_project()


def at(root: str) -> AbstractContextManager[Project]:
    """Enter the project in ``root``, which tasks, callbacks and triggers carry along to processes of Airflow.

    On a machine without this folder, which may run a triggerer, enter the project that commands would find there.
    """
    folder = Path(root)
    return (project_at(folder) if root and (folder / "medallion.toml").is_file() else find_project()).entered()


def name_in_airflow(project: Project, name: str) -> str:
    """Return the id of the DAG or asset ``name``, prefixed with the project's name if other projects may share Airflow.

    No other project can if Airflow reads DAGs only from this project's folder, or if MEDALLION_PROJECT names this one.
    """
    from airflow.sdk.configuration import conf

    bundles = json.loads(conf.get("dag_processor", "dag_bundle_config_list", fallback="[]") or "[]")
    paths = [bundle.get("kwargs", {}).get("path") for bundle in bundles]
    folder = paths[0] if len(paths) == 1 and paths[0] else conf.get("core", "dags_folder", fallback="")
    root, folder = project.root.resolve(), Path(folder).resolve()
    project_path = os.environ.get("MEDALLION_PROJECT", "").strip()
    is_named = bool(project_path) and Path(project_path).expanduser().resolve() == root
    is_alone = len(bundles) <= 1 and (root in (folder, *folder.parents) or is_named)
    return name if is_alone else f"{project.name}_{name}"
