"""The projects whose pages an Airflow shows: those that its DAGs belong to."""

import logging
import os
from pathlib import Path

from fastapi import Request
from fastapi.concurrency import run_in_threadpool

from medallion.airflow.naming import REFRESH, REPLAY, name_in_airflow
from medallion.airflow.notes import TAG
from medallion.errors import MedallionError
from medallion.html.templating import Site, site
from medallion.project import Project, find_project, project_above

CHOSEN = "medallion_project"  # the cookie with the name of the project that a reader chose


def projects_in_airflow() -> list[Project]:
    """Return the projects of Airflow's DAG files, sorted by name; if there are none, the project that commands find."""
    from airflow.models.dag import DagModel, DagTag
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        ours = select(DagModel.fileloc).join(DagTag, DagTag.dag_id == DagModel.dag_id)
        files = {*session.scalars(ours.where(DagTag.name == TAG, DagModel.is_stale.is_(False)))}
    projects: dict[Path, Project] = {}
    for folder in sorted({Path(os.path.abspath(file)).parent for file in files if file}):
        try:
            if project := project_above(folder):
                projects[project.root] = project
        except MedallionError as error:  # the other projects are still shown
            logging.getLogger(__name__).warning("a project is not shown: %s", error)
    return sorted(projects.values(), key=lambda project: project.name) or [find_project()]


async def enter_project(request: Request) -> None:
    """Enter the project of a request: the project of its DAG, the one that the reader chose, or else the first.

    Each request runs in its own asyncio task, so the project need not be left again.
    """
    projects = await run_in_threadpool(projects_in_airflow)
    dag, name = request.query_params.get("dag_id", ""), request.cookies.get(CHOSEN)
    by_dag = (project for project in projects if dag and dag.startswith(name_in_airflow(project, "")))
    by_name = (project for project in projects if project.name == name)
    project = next(by_dag if dag and len(projects) > 1 else by_name, projects[0])
    project.enter()
    names = tuple(project.name for project in projects)
    site.set(Site(project.name, names, name_in_airflow(project, REFRESH), name_in_airflow(project, REPLAY)))
