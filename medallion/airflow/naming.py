"""The names of a project's DAGs in Airflow, prefixed with its own where other projects may share that Airflow."""

import json
import os
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

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
    return (project_above(Path(os.path.abspath(file)).parent) if file else None) or find_project()


def at(root: str) -> AbstractContextManager[Project]:
    """Enter the project in ``root``: tasks, callbacks and triggers are told it, as they run in processes of Airflow.

    On a machine that has no such folder, as a triggerer may be, the one that commands would find there.
    """
    folder = Path(root)
    return (project_at(folder) if root and (folder / "medallion.toml").is_file() else find_project()).entered()


def name_in_airflow(project: Project, name: str) -> str:
    """Return the id of the DAG, or of the asset, ``name``: prefixed with the project's name if others may be beside it.

    None can if Airflow reads DAGs from the project's own folder alone, or MEDALLION_PROJECT names it for all of them.
    """
    from airflow.sdk.configuration import conf

    bundles = json.loads(conf.get("dag_processor", "dag_bundle_config_list", fallback="[]") or "[]")
    paths = [bundle.get("kwargs", {}).get("path") for bundle in bundles]
    folder = paths[0] if len(paths) == 1 and paths[0] else conf.get("core", "dags_folder", fallback="")
    root, folder = project.root.resolve(), Path(folder).resolve()
    named = os.environ.get("MEDALLION_PROJECT", "").strip()
    is_named = bool(named) and Path(named).expanduser().resolve() == root
    is_alone = len(bundles) <= 1 and (root in (folder, *folder.parents) or is_named)
    return name if is_alone else f"{project.name}_{name}"
