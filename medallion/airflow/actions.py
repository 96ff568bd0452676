"""The actions of pages: each requires a DAG permission and a confirmation, and is recorded in Airflow's audit log."""

import json
from datetime import UTC, datetime
from typing import Annotated
from urllib.parse import quote, urlsplit
from uuid import uuid4

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_dag
from fastapi import APIRouter, Depends, Form, HTTPException, Request
from fastapi.responses import HTMLResponse

from medallion.airflow.headers import OURS
from medallion.airflow.naming import REFRESH, REPLAY, name_in_airflow
from medallion.errors import UsageError
from medallion.hours import parse_hour
from medallion.html.templating import render_notice
from medallion.ingest.quarantine import feed_of, parse_corrected_lines, require_fitting_corrections
from medallion.ops import releases
from medallion.ops.lake_tables import tables_of
from medallion.project import find_project
from medallion.storage.lake import Lake

NOT_CONFIRMED = "nothing was changed: tick the confirmation"
Number = Annotated[int, Form()]
Text = Annotated[str, Form()]


def may_edit(request: Request, user: GetUserDep) -> None:
    """Require the permission to edit the DAG that refreshes the project."""
    requires_access_dag("PUT", param_dag_id=_dag(REFRESH))(request, user)


def may_replay(request: Request, user: GetUserDep) -> None:
    """Require the permission to trigger the DAG that replays the project's quarantined lines."""
    requires_access_dag("POST", DagAccessEntity.RUN, _dag(REPLAY))(request, user)


def _dag(name: str) -> str:
    return name_in_airflow(find_project(), name)


def require_same_origin(request: Request) -> None:
    """Refuse a form that another site submits with the cookie of a logged-in user.

    Browsers send Sec-Fetch-Site only over HTTPS and to localhost; over plain HTTP they send only Origin.
    """
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is None and origin is not None:
        site = "same-origin" if urlsplit(origin).netloc == request.headers.get("host") else "cross-site"
    if site not in (None, "same-origin"):
        raise HTTPException(403, "this form was sent by another site: nothing was changed")


router = APIRouter(dependencies=[Depends(require_same_origin)])


@router.post("/rollback", response_class=HTMLResponse, dependencies=[Depends(may_edit)])
def roll_back(user: GetUserDep, number: Number, confirmed: Text = "", project: Text = "") -> HTMLResponse:
    """Publish an earlier release again, under the same lock as ``medallion release rollback``."""
    from medallion.pipeline.driver import open_driver
    from medallion.pipeline.rollback import rollback
    from medallion.pipeline.run import Run

    _require_meant(project, confirmed)
    settings = find_project().settings()
    run_id = _run_id("rollback")
    _record(user, REFRESH, "medallion_rollback", {"release": number, "run_id": run_id})
    with open_driver(settings) as driver:
        newest = releases.require_release(driver.lake, None)
        outcome = rollback(Run(settings, None, run_id), driver, number)
    text = f"{outcome.message}. To undo it, roll back to release {newest.origin}."
    return HTMLResponse(render_notice("Rolled back", text, "releases"), headers=OURS)


@router.post("/replay", response_class=HTMLResponse, dependencies=[Depends(may_replay)])
def replay(
    user: GetUserDep, feed: Text, hour: Text, lines: Text, confirmed: Text = "", project: Text = ""
) -> HTMLResponse:
    """Trigger the DAG that replays a feed's quarantined lines of an hour, as ``medallion quarantine replay`` does."""
    from airflow.api.common.trigger_dag import trigger_dag
    from airflow.utils.types import DagRunTriggeredByType

    _require_meant(project, confirmed)
    parse_hour(hour)
    lake = Lake.of(find_project().settings())
    chosen = feed_of(tables_of(lake).feeds, feed)
    require_fitting_corrections(lake, chosen, hour, parse_corrected_lines(lines, "the text"))
    run_id = _run_id("replay")
    _record(user, REPLAY, "medallion_replay", {"feed": feed, "hour": hour, "run_id": run_id})
    conf = {"feed": feed, "hour": hour, "lines": lines}
    dag = _dag(REPLAY)
    trigger_dag(dag, run_id=run_id, conf=conf, triggered_by=DagRunTriggeredByType.UI)
    text = f"Run {run_id} of {dag} replays the lines of {feed} in {hour}, once that DAG is unpaused."
    run = f"../dags/{dag}/runs/{quote(run_id)}"
    return HTMLResponse(render_notice("Replay started", text, "quarantine", run=run), headers=OURS)


def _require_meant(project: str, confirmed: str) -> None:
    """Raise UsageError if a form is not confirmed, or if its page belongs to a project that is no longer shown."""
    if confirmed != "yes":
        raise UsageError(NOT_CONFIRMED)
    if project not in {"", (shown := find_project().name)}:
        raise UsageError(f"nothing was changed: this form is of project {project[:40]}, and {shown} is shown by now")


def _run_id(action: str) -> str:
    return f"{action}__{datetime.now(UTC):%Y-%m-%dT%H:%M:%S}_{uuid4().hex[:6]}"


def running_runs() -> frozenset[str]:
    """Return the ids of the running runs of the refresh and replay DAGs, including those that wait for their turn."""
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from airflow.utils.state import DagRunState
    from sqlalchemy import select

    with create_session() as session:
        running = DagRun.state == DagRunState.RUNNING
        wanted = select(DagRun.run_id).where(DagRun.dag_id.in_((_dag(REFRESH), _dag(REPLAY))), running)
        return frozenset(session.scalars(wanted))


def _record(user: GetUserDep, dag: str, event: str, details: dict[str, str | int]) -> None:
    """Write an action to Airflow's audit log before it is done, so that a failed attempt is recorded too."""
    from airflow.models.log import Log
    from airflow.utils.session import create_session

    name = user.get_name()
    with create_session() as session:
        session.add(Log(event, owner=name, owner_display_name=name, extra=json.dumps(details), dag_id=_dag(dag)))
