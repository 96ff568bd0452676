"""The projects whose pages an Airflow shows: those that its DAGs are of."""

from pathlib import Path

from fastapi import Request

from medallion.airflow.naming import REFRESH, REPLAY, name_in_airflow
from medallion.airflow.notes import TAG
from medallion.project import Project, find_project, project_above
from medallion.templating import Site, site

CHOSEN = "medallion_project"  # the cookie with the name of the project that a reader chose


def projects_in_airflow() -> list[Project]:
    """Return the projects of the DAG files that Airflow has read, by name; else the one that commands would find."""
    from airflow.models.dag import DagModel, DagTag
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        ours = select(DagModel.fileloc).join(DagTag, DagTag.dag_id == DagModel.dag_id)
        files = {*session.scalars(ours.where(DagTag.name == TAG, DagModel.is_stale.is_(False)))}
    found = {project.root: project for file in files if file and (project := project_above(Path(file).parent))}
    return sorted(found.values(), key=lambda project: project.name) or [find_project()]


async def enter_project(request: Request) -> None:
    """Make a page of the project that its reader chose, of the first one where none was chosen.

    A request is an asynchronous task of its own, which ends with it: nothing is to be left again.
    """
    projects = projects_in_airflow()
    wanted = request.cookies.get(CHOSEN)
    project = next((project for project in projects if project.name == wanted), projects[0])
    project.enter()
    names = tuple(project.name for project in projects)
    site.set(Site(project.name, names, name_in_airflow(project, REFRESH), name_in_airflow(project, REPLAY)))
