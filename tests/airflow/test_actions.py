"""What a page may change: who may, what must be confirmed, what is recorded, and what it does."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from deltalake import write_deltalake
from fastapi import HTTPException
from fastapi.testclient import TestClient

from medallion.airflow.actions import may_edit, may_replay, running_runs
from medallion.airflow.pages import app
from medallion.ingest.decode import Decoded
from medallion.ingest.quarantine import write_rejected
from medallion.ops import releases
from medallion.storage.lake import Lake
from tests.shop import registry

PERMISSIONS = {"/rollback": may_edit, "/replay": may_replay}
STATUS = "gold_order_status_summary"


class Somebody:
    """Who is logged in."""

    def get_name(self) -> str:
        return "ada"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A lake with two releases of one table."""
    lake = Lake(str(tmp_path / "lake"))
    before = None
    for version, count in enumerate((1, 2)):
        rows = pa.table({"order_status": ["shipped"], "order_count": [count]})
        write_deltalake(lake.path(STATUS), rows, mode="overwrite")
        hour, contents = f"2025-11-30T0{version}", releases.Contents({STATUS: version})
        before = releases.publish(lake, after=before, hour=hour, run_id="r", strategy="full", contents=contents)
    return lake


@pytest.fixture
def client(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    """Somebody who may edit the DAG."""
    from airflow.api_fastapi.core_api.security import get_user

    monkeypatch.setenv("MEDALLION_LAKE", lake.root)
    app.dependency_overrides |= {get_user: Somebody, may_edit: lambda: None, may_replay: lambda: None}
    yield TestClient(app)
    app.dependency_overrides.clear()


def audit() -> list[Any]:
    from airflow.models.log import Log
    from airflow.utils.session import create_session

    with create_session() as session:
        return [(log.event, log.owner, log.dag_id, json.loads(log.extra)) for log in session.query(Log).all()]


def test_a_roll_back_gives_readers_the_earlier_release_and_is_in_the_audit_log(client: TestClient, lake: Lake) -> None:
    form = {"number": 1, "confirmed": "yes"}
    answer = client.post("/rollback", data=form, headers={"Origin": "http://testserver"})
    assert answer.status_code == 200 and "release 3 is release 1 again" in answer.text
    assert releases.require_release(lake, None).versions == {STATUS: 0}
    event, owner, dag, details = audit()[-1]
    assert (event, owner, dag, details["release"]) == ("medallion_rollback", "ada", "hourly_refresh", 1)


def test_nothing_changes_without_confirmation(client: TestClient, lake: Lake) -> None:
    answer = client.post("/rollback", data={"number": 1})
    assert answer.status_code == 400 and "tick the confirmation" in answer.text
    assert client.post("/replay", data={"feed": "orders", "hour": "2025-11-30T00", "lines": "[]"}).status_code == 400
    assert releases.require_release(lake, None).release_id == 2


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "http://elsewhere.example"},
        {"Origin": "null"},
    ],
)
def test_a_form_of_another_site_is_refused(client: TestClient, lake: Lake, headers: dict[str, str]) -> None:
    form = {"number": 1, "confirmed": "yes"}
    assert client.post("/rollback", data=form, headers=headers).status_code == 403
    assert releases.require_release(lake, None).release_id == 2


def test_nobody_changes_anything_without_the_permission_for_the_dag(client: TestClient, lake: Lake) -> None:
    def refused() -> None:
        raise HTTPException(403, "Forbidden")

    form = {"number": 1, "confirmed": "yes", "feed": "orders", "hour": "x", "lines": "[]"}
    for path, permission in PERMISSIONS.items():
        app.dependency_overrides[permission] = refused
        answer = client.post(path, data=form)
        assert answer.status_code == 403 and "<h1>403 " in answer.text
        app.dependency_overrides[permission] = lambda: None
    assert releases.require_release(lake, None).release_id == 2


def test_replay_asks_for_the_permission_to_start_its_own_dag(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    class Manager:
        def is_authorized_dag(self, **request: Any) -> bool:
            asked.append((request["method"], request["access_entity"], request["details"].id))
            return False

    monkeypatch.setattr("airflow.api_fastapi.core_api.security.get_auth_manager", Manager)
    monkeypatch.setattr("airflow.models.dag.DagModel.get_team_name", lambda _: None)
    del app.dependency_overrides[may_replay]
    form = {"feed": "orders", "hour": "2025-11-30T00", "lines": "[]", "confirmed": "yes"}
    assert client.post("/replay", data=form).status_code == 403
    assert asked == [("POST", DagAccessEntity.RUN, "replay_quarantine")]


def test_a_replay_is_in_the_audit_log_of_its_own_dag(
    client: TestClient, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    triggered: list[str] = []
    monkeypatch.setattr("medallion.airflow.actions.require_fitting_corrections", lambda *_: None)
    monkeypatch.setattr("airflow.api.common.trigger_dag.trigger_dag", lambda dag, **_: triggered.append(dag))
    form = {"feed": "orders", "hour": "2025-11-30T00", "lines": '[{"line_number": 1, "raw": "{}"}]', "confirmed": "yes"}
    answer = client.post("/replay", data=form)
    assert answer.status_code == 200, answer.text
    event, owner, dag, details = audit()[-1]
    assert (event, owner, [dag], details["feed"]) == ("medallion_replay", "ada", triggered, "orders")


def test_every_way_to_change_something_takes_the_permission() -> None:
    changing = [
        route for route in app.routes if {"POST", "PUT", "PATCH", "DELETE"} & (getattr(route, "methods", None) or set())
    ]
    assert {route.path for route in changing} == PERMISSIONS.keys()
    for route in changing:
        calls = {dependency.call for dependency in route.dependant.dependencies}
        assert PERMISSIONS[route.path] in calls, route.path


def test_replay_refuses_what_are_no_lines(client: TestClient) -> None:
    form = {"feed": "orders", "hour": "2025-11-30T00", "lines": "{", "confirmed": "yes"}
    assert "a list of line_number and raw" in client.post("/replay", data=form).text
    assert "no feed is called" in client.post("/replay", data=form | {"feed": "nothing"}).text
    assert "is not an hour" in client.post("/replay", data=form | {"hour": "noon"}).text


def test_replay_of_a_line_that_still_does_not_fit_starts_no_run(client: TestClient, lake: Lake) -> None:
    raw = '{"insert": {"order_id": 1, "order_total": "a lot"}}'
    (feed,) = (feed for feed in registry().feeds if feed.topic == "orders")
    hour = "2025-11-30T00"
    write_rejected(lake, feed, hour, "r", Decoded(rejected=[(1, "order_total is no number", raw)]))
    form = {"feed": "orders", "hour": hour, "lines": json.dumps([{"line_number": 1, "raw": raw}]), "confirmed": "yes"}
    answer = client.post("/replay", data=form)
    assert answer.status_code == 400 and "line 1 of orders/2025-11-30T00.json still does not fit" in answer.text


def test_releases_are_compared_row_by_row(client: TestClient) -> None:
    page = client.get(f"/releases?old=1&new=2&table={STATUS}").text
    assert f'href="releases?old=1&amp;new=2&amp;table={STATUS}#rows"' in page
    assert "- as in release 1, + as in release 2; 2 rows at most" in page
    assert client.get("/releases?old=1&new=9").status_code == 400


def test_releases_say_which_of_them_an_hour_was_published_in_again(client: TestClient, lake: Lake) -> None:
    for restores in (None, 1):
        newest = releases.require_release(lake, None)
        contents = releases.Contents(newest.versions, restores=restores)
        releases.publish(lake, after=newest, hour="2025-11-30T01", run_id="r", strategy="full", contents=contents)
    page = client.get("/releases").text
    assert page.count("restated or reprocessed") == 1 and page.count("release 1 again") == 1


def test_runs_of_the_refresh_that_airflow_calls_running_are_at_work(client: TestClient) -> None:
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from airflow.utils.types import DagRunType

    runs = [
        ("hourly_refresh", "a", "running"),
        ("hourly_refresh", "b", "success"),
        ("hourly_self_check", "c", "running"),
    ]
    with create_session() as session:
        session.add_all(
            DagRun(dag_id=dag, run_id=run_id, state=state, run_type=DagRunType.MANUAL) for dag, run_id, state in runs
        )
    assert running_runs() == {"a"}
