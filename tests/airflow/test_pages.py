"""Our pages inside Airflow: behind its login, in its navigation, and safe to show."""

import subprocess
import sys
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from medallion.airflow.pages import app
from medallion.ops.event_log import append
from medallion.ops.events import Event
from medallion.settings import Settings
from medallion.storage import files
from medallion.storage.lake import Lake
from medallion.storage.s3 import S3Access
from tests.shop import PROJECT

PAGES = [
    "/results",
    "/status",
    "/reports",
    "/expectations",
    "/timings",
    "/run?run_id=r",
    "/report?run_id=r&task_id=silver.check",
]


@pytest.fixture(scope="module")
def plugin() -> Any:
    spec = spec_from_file_location("medallion_plugins", PROJECT / "plugins" / "medallion_plugins.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    """Somebody who is logged in."""
    from airflow.api_fastapi.core_api.security import get_user

    monkeypatch.setenv("MEDALLION_LAKE", str(tmp_path / "lake"))
    app.dependency_overrides[get_user] = lambda: None
    yield TestClient(app)
    app.dependency_overrides.clear()


def test_nobody_sees_a_page_without_a_login(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.api_fastapi.core_api.security import get_user
    from fastapi import HTTPException

    def nobody() -> None:
        raise HTTPException(401)

    routes = {route.path: route for route in app.routes if hasattr(route, "dependant")}
    assert set(routes) >= {"/status", "/reports", "/reports/file/{name:path}", "/report", "/timings", "/run"}
    for route in routes.values():
        assert get_user in {dependency.call for dependency in route.dependant.dependencies}, route.path
    monkeypatch.setitem(app.dependency_overrides, get_user, nobody)
    for page in [*PAGES, "/reports/file/index.html"]:
        assert TestClient(app).get(page).status_code == 401


@pytest.mark.parametrize("page", PAGES)
def test_each_page_of_an_empty_lake_says_what_to_do_and_runs_nothing(client: TestClient, page: str) -> None:
    answer = client.get(page)
    assert answer.status_code == 200
    assert 'class="empty"' in answer.text
    assert "default-src 'none'" in answer.headers["content-security-policy"]


def test_only_reports_are_served(client: TestClient, tmp_path: Path) -> None:
    folder = tmp_path / "lake" / "reports" / "validation"
    (folder / "gx" / "site").mkdir(parents=True)
    (folder / "index.html").write_text("index")
    (folder / "gx" / "site" / "index.html").write_text("docs")
    (tmp_path / "lake" / "secret").write_text("secret")
    assert client.get("/reports/file/index.html").text == "index"
    assert "sandbox" in client.get("/reports/file/gx/site/index.html").headers["content-security-policy"]
    (folder / "link.html").symlink_to(tmp_path / "lake" / "secret")
    (folder / "elsewhere").symlink_to("/etc")
    beside = folder.with_name("validation-evil")
    beside.mkdir()
    (beside / "x.html").write_text("secret")
    climbing = (
        "%2e%2e/%2e%2e/secret",
        "..%2f..%2fsecret",
        "%252e%252e/%252e%252e/secret",
        "%2e%2e/validation-evil/x.html",
    )
    for name in (*climbing, "/etc/passwd", "link.html", "elsewhere/passwd", "nothing", "gx", "%00", "a" * 300):
        assert client.get(f"/reports/file/{name}").status_code == 404, name


def test_the_report_of_a_check_task_is_shown_where_its_links_lead_on(client: TestClient, tmp_path: Path) -> None:
    lake = Lake(str(tmp_path / "lake"))
    page = lake.reports / "2025-11-30T00" / "silver.html"
    page.parent.mkdir(parents=True)
    page.write_text("all hold")
    append(lake, [Event("r", "h", "check", "full", 1, "silver", details={"report": str(page)})])
    answer = client.get("/report?run_id=r&task_id=silver.check")
    assert (answer.text, answer.url.path) == ("all hold", "/reports/file/2025-11-30T00/silver.html")


def test_the_report_of_a_benchmark_is_ones_own_or_the_one_that_ships(client: TestClient, tmp_path: Path) -> None:
    folder = tmp_path / "lake" / "reports" / "benchmark"
    page = client.get("/benchmark").text
    assert "The report that ships with the project, measured on" in page
    assert f"medallion bench run --out {folder}" in page
    assert "Batch against incremental" in client.get("/benchmark/report").text
    folder.mkdir(parents=True)
    (folder / "report.html").write_text("the answer")
    assert "The report made for this lake" in client.get("/benchmark").text
    answer = client.get("/benchmark/report")
    assert answer.text == "the answer"
    assert "sandbox allow-scripts" in answer.headers["content-security-policy"]


@pytest.mark.usefixtures("lake_bucket")
def test_the_pages_of_a_lake_in_a_bucket_are_those_of_one_on_a_disk(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEDALLION_LAKE", "s3a://lakes/shop")
    lake = Lake("s3a://lakes/shop", S3Access.of(Settings.from_environment()))
    for page in PAGES:
        assert 'class="empty"' in client.get(page).text
    report = lake.reports / "2025-11-30T00" / "silver.html"
    files.write_text(report, "all hold")
    files.write_text(lake.reports / "gx" / "site" / "style.css", "p {}")
    files.write_text(lake.benchmark, "the answer")
    append(lake, [Event("r", "h", "check", "full", 1, "silver", details={"report": str(report)})])
    answer = client.get("/report?run_id=r&task_id=silver.check")
    assert (answer.text, answer.url.path) == ("all hold", "/reports/file/2025-11-30T00/silver.html")
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    docs = client.get("/reports/file/gx/site/style.css").headers
    assert docs["content-type"].startswith("text/css") and "sandbox" in docs["content-security-policy"]
    assert client.get("/benchmark/report").text == "the answer"
    assert client.get("/reports/file/..%2f..%2fops/event_log/_delta_log/00000000000000000000.json").status_code == 404


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/timings?since=yesterday", 400, "YYYY-MM-DDTHH"),
        ("/timings?strategy=magic", 422, "strategy is one of"),
        ("/runs?price=much", 422, "price"),
        ("/run", 422, "run_id: Field required"),
        ("/table?name=gold_nothing", 400, "no table is called"),
        ("/table.csv?name=gold_inventory_risk", 400, "has no release yet"),
        ("/reports/file/nothing.html", 404, "no such report"),
        ("/nowhere", 404, "Not Found"),
    ],
)
def test_an_error_is_a_page_with_its_status(client: TestClient, path: str, status: int, words: str) -> None:
    answer = client.get(path)
    assert answer.status_code == status
    assert answer.headers["content-type"].startswith("text/html")
    assert f"<h1>{status} " in answer.text and words in answer.text
    assert "default-src 'none'" in answer.headers["content-security-policy"]


def test_a_page_that_cannot_be_made_says_what_went_wrong(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEDALLION_DRIVER_MEMORY", "<none>")
    answer = TestClient(app, raise_server_exceptions=False).get("/status")
    assert answer.status_code in (400, 500)
    assert 'class="empty"' in answer.text and "<none>" not in answer.text


def test_the_plugin_costs_a_task_nothing_and_serves_the_pages(plugin: Any, client: TestClient) -> None:
    code = "import sys, plugins.medallion_plugins; print('fastapi.applications' in sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=True)
    assert loaded.stdout.strip().endswith("False")
    (mounted,) = plugin.MedallionPages.fastapi_apps
    assert TestClient(mounted["app"]).get("/status").status_code == 200


def test_the_pages_are_where_people_look_for_them(plugin: Any) -> None:
    views = plugin.MedallionPages.external_views
    assert [view["name"] for view in views if view["destination"] == "nav"] == [
        *("Results", "Lakehouse", "Runs", "Validation reports", "Expectations", "Timings"),
        *("Releases", "Quarantine", "Benchmark"),
    ]
    assert {view["destination"] for view in views} == {"nav", "dag_run", "task_instance"}
    assert len({view["url_route"] for view in views}) == len(views)
    assert not any(view["href"].startswith("/") for view in views)
