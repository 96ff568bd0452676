"""Pages of two projects in one Airflow: one is shown at a time, and a form changes the one that it was made for."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from fastapi.testclient import TestClient

from medallion.airflow.actions import may_edit
from medallion.airflow.naming import name_in_airflow
from medallion.airflow.pages import app
from medallion.airflow.projects import projects_in_airflow
from medallion.cli.main import cli
from medallion.ops import releases
from medallion.project import project_at
from medallion.storage.lake import Lake


class Somebody:
    """Who is logged in."""

    def get_name(self) -> str:
        return "ada"


@pytest.fixture
def projects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Path]]:
    """Two projects below Airflow's folder of DAGs, which has read their DAGs; each lake has two releases."""
    from airflow.models.dag import DagModel, DagTag
    from airflow.models.dagbundle import DagBundleModel
    from airflow.utils.session import create_session

    for name in ("MEDALLION_LAKE", "MEDALLION_SOURCE", "MEDALLION_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AIRFLOW__CORE__DAGS_FOLDER", str(tmp_path))
    roots = {}
    for name in ("bikes", "clinic"):
        assert CliRunner().invoke(cli, ["init", str(tmp_path / name)]).exit_code == 0
        roots[name] = tmp_path / name
        before = None
        for hour in ("2025-11-30T00", "2025-11-30T01"):
            lake, contents = Lake(str(tmp_path / name / "lake")), releases.Contents({})
            before = releases.publish(lake, after=before, hour=hour, run_id=name, strategy="full", contents=contents)
    with create_session() as session:
        session.merge(DagBundleModel(name="dags-folder"))
        session.flush()
        for name, root in roots.items():
            fileloc, dag = str(root / "dags/hourly_refresh.py"), f"{name}_hourly_refresh"
            session.add(DagModel(dag_id=dag, fileloc=fileloc, is_stale=False, bundle_name="dags-folder"))
            session.flush()
            session.add(DagTag(name="medallion", dag_id=dag))
    yield roots
    with create_session() as session:
        session.query(DagTag).delete()
        session.query(DagModel).delete()


@pytest.fixture
def client(projects: dict[str, Path]) -> Iterator[TestClient]:
    from airflow.api_fastapi.core_api.security import get_user

    app.dependency_overrides |= {get_user: Somebody, may_edit: lambda: None}
    yield TestClient(app, follow_redirects=False)
    app.dependency_overrides.clear()


def lake_of(root: Path) -> Lake:
    return Lake(str(root / "lake"))


def test_the_first_is_shown_until_another_is_chosen(client: TestClient) -> None:
    page = client.get("/releases").text
    assert "<option selected>bikes</option>" in page and "../dags/bikes_hourly_refresh" in page
    chosen = client.get("/project?name=clinic")
    assert (chosen.status_code, chosen.headers["location"]) == (307, "results")
    assert "HttpOnly" in chosen.headers["set-cookie"]
    page = client.get("/releases").text
    assert "<option selected>clinic</option>" in page and "../dags/clinic_hourly_refresh" in page
    assert client.get("/project?name=shop").status_code == 404


def test_a_page_that_is_asked_for_by_its_dag_is_of_that_project(client: TestClient) -> None:
    client.get("/project?name=bikes")
    page = client.get("/run?dag_id=clinic_hourly_refresh&run_id=x").text
    assert "<option selected>clinic</option>" in page
    assert "<option selected>bikes</option>" in client.get("/releases").text


def test_a_form_of_one_project_changes_nothing_in_another(client: TestClient, projects: dict[str, Path]) -> None:
    client.get("/project?name=bikes")
    assert '<input type="hidden" name="project" value="bikes">' in client.get("/releases").text
    client.get("/project?name=clinic")  # in another tab
    answer = client.post("/rollback", data={"number": 1, "confirmed": "yes", "project": "bikes"})
    assert answer.status_code == 400 and "this form is of project bikes" in answer.text
    assert {releases.require_release(lake_of(root), None).release_id for root in projects.values()} == {2}
    answer = client.post("/rollback", data={"number": 1, "confirmed": "yes", "project": "clinic"})
    assert answer.status_code == 200, answer.text
    found = {name: releases.require_release(lake_of(root), None).release_id for name, root in projects.items()}
    assert found == {"bikes": 2, "clinic": 3}


def test_a_project_that_cannot_be_read_hides_no_other(client: TestClient, projects: dict[str, Path]) -> None:
    (projects["bikes"] / "medallion.toml").write_text("[project")
    project_at.cache_clear()
    assert [project.name for project in projects_in_airflow()] == ["clinic"]
    assert client.get("/releases").status_code == 200


def test_a_link_to_a_project_leads_to_the_same_names(projects: dict[str, Path], tmp_path: Path) -> None:
    linked = tmp_path.with_name(f"{tmp_path.name}-link")
    linked.symlink_to(tmp_path)
    assert name_in_airflow(project_at(linked / "bikes"), "hourly_refresh") == "bikes_hourly_refresh"


def test_one_project_alone_keeps_the_plain_names(
    projects: dict[str, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bikes = project_at(projects["bikes"])
    monkeypatch.setenv("AIRFLOW__CORE__DAGS_FOLDER", str(projects["bikes"] / "dags"))
    assert name_in_airflow(bikes, "hourly_refresh") == "hourly_refresh"
    monkeypatch.setenv("AIRFLOW__CORE__DAGS_FOLDER", str(tmp_path / "elsewhere"))
    assert name_in_airflow(bikes, "hourly_refresh") == "bikes_hourly_refresh"
    monkeypatch.setenv("MEDALLION_PROJECT", str(projects["bikes"]))
    assert name_in_airflow(bikes, "hourly_refresh") == "hourly_refresh"
    bundle = [{"name": "both", "classpath": "x", "kwargs": {"path": str(tmp_path)}}]
    monkeypatch.delenv("MEDALLION_PROJECT")
    monkeypatch.setenv("AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST", json.dumps(bundle))
    assert name_in_airflow(bikes, "hourly_refresh") == "bikes_hourly_refresh"
