"""The app that serves the pages in Airflow's API server, behind its login: results, reports, timings, lakehouse."""

from collections.abc import Mapping
from http import HTTPStatus
from mimetypes import guess_type
from typing import Annotated
from urllib.parse import quote

from airflow.api_fastapi.core_api.security import get_user
from fastapi import Depends, FastAPI, HTTPException, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.exceptions import HTTPException as StarletteHTTPException

from medallion.airflow import actions
from medallion.airflow.headers import BENCHMARK, DATA_DOCS, FRAMING, OURS
from medallion.airflow.projects import CHOSEN, enter_project, projects_in_airflow
from medallion.errors import MedallionError, UsageError, one_line
from medallion.hours import parse_hour
from medallion.html.templating import render_notice
from medallion.inspect.results import write_csv
from medallion.model.table import STRATEGIES
from medallion.ops.lake_tables import tables_of
from medallion.ops.releases import require_release
from medallion.project import find_project
from medallion.storage.files import Place
from medallion.storage.lake import Lake
from medallion.storage.s3 import S3Path
from medallion.ui.benchmark import benchmark_page, find_report
from medallion.ui.expectations import expectations_page
from medallion.ui.quarantine import quarantine_page
from medallion.ui.releases import releases_page
from medallion.ui.reports import report_file, report_of_task, reports_page
from medallion.ui.results import results_page
from medallion.ui.runs import PRICE, runs_page
from medallion.ui.standing import read_standing
from medallion.ui.status import status_page
from medallion.ui.table import table_page
from medallion.ui.timings import run_page, timings_page

Price = Annotated[float, Query(ge=0, allow_inf_nan=False)]  # of a core-hour

app = FastAPI(dependencies=[Depends(get_user), Depends(enter_project)], openapi_url=None)


def _lake() -> Lake:
    return Lake.of(find_project().settings())


@app.exception_handler(MedallionError)
async def explain_error(request: Request, error: MedallionError) -> HTMLResponse:
    """Return a page that says what is wrong with the request or with the lake."""
    status = 400 if isinstance(error, UsageError) else 500
    return _error_page(request, status, str(error))


@app.exception_handler(HTTPException)
@app.exception_handler(StarletteHTTPException)
async def explain_refusal(request: Request, error: StarletteHTTPException) -> HTMLResponse:
    """Return a page that says why a request is refused."""
    return _error_page(request, error.status_code, str(error.detail), dict(error.headers or {}))


@app.exception_handler(RequestValidationError)
async def explain_parameters(request: Request, error: RequestValidationError) -> HTMLResponse:
    """Return a page that says which parameter of a request is wrong."""
    texts = (f"{'.'.join(map(str, problem['loc'][1:]))}: {problem['msg']}" for problem in error.errors())
    return _error_page(request, 422, "; ".join(texts))


@app.exception_handler(Exception)
async def explain_failure(request: Request, error: Exception) -> HTMLResponse:
    """Return a page that says why another cannot be rendered; the log of the API server has the details."""
    return _error_page(request, 500, f"This page cannot be made: {type(error).__name__}: {one_line(error)}")


def _error_page(request: Request, status: int, text: str, headers: Mapping[str, str] | None = None) -> HTMLResponse:
    title = f"{status} {HTTPStatus(status).phrase}"
    inside = request.url.path.removeprefix(request.scope.get("root_path", "")).strip("/")
    page = render_notice(title, text, up="../" * inside.count("/"))
    return HTMLResponse(page, status, {**(headers or {}), **OURS})


@app.get("/project")
def choose_project(request: Request, name: str) -> RedirectResponse:
    """Redirect to the results of project ``name``, whose pages this browser shows from now on."""
    if name not in (known := {project.name for project in projects_in_airflow()}):
        raise HTTPException(404, f"no project is called {name[:40]!r}: choose {', '.join(sorted(known))}")
    answer = RedirectResponse("results")
    answer.set_cookie(CHOSEN, name, httponly=True, samesite="lax", secure=request.url.scheme == "https")
    return answer


@app.get("/reports", response_class=HTMLResponse)
def reports() -> HTMLResponse:
    """Return the page that lists the validation reports of all runs."""
    return HTMLResponse(reports_page(_lake()), headers=OURS)


@app.get("/reports/file/{name:path}")
def file(name: str) -> Response:
    """Return a file of the report folder, never one from outside it."""
    try:
        path = report_file(_lake(), name)
    except (OSError, ValueError):  # no file can have such a name
        path = None
    if path is None:
        raise HTTPException(404, "no such report")
    return _sent(path, DATA_DOCS if name.startswith("gx/") else OURS)


def _sent(file: Place, headers: dict[str, str]) -> Response:
    if isinstance(file, S3Path):
        kind = guess_type(file.name)[0] or "application/octet-stream"
        return Response(file.read_bytes(), media_type=kind, headers=headers)
    return FileResponse(file, headers=headers)


@app.get("/report", response_model=None)
def report(run_id: str, task_id: str) -> RedirectResponse | HTMLResponse:
    """Redirect to the report of a check task, or say that it has none."""
    page = report_of_task(_lake(), run_id, task_id)
    if page is None:
        text = "There is no validation report here: only check tasks have one, once they have run."
        return HTMLResponse(render_notice("Validation report", text), headers=OURS)
    name = "/".join(page.parts[-2:])  # its links are relative to its folder
    return RedirectResponse(f"reports/file/{quote(name)}")


@app.get("/timings", response_class=HTMLResponse)
def timings(since: str = "", until: str = "", strategy: str = "") -> HTMLResponse:
    """Return the page of the timings, plotted from the event log."""
    for hour in filter(None, (since, until)):
        parse_hour(hour)
    if strategy and strategy not in STRATEGIES:
        raise HTTPException(422, f"strategy is one of {', '.join(STRATEGIES)}")
    return HTMLResponse(timings_page(_lake(), since, until, strategy), headers=OURS)


@app.get("/runs", response_class=HTMLResponse)
def runs(since: str = "", until: str = "", price: Price = PRICE) -> HTMLResponse:
    """Return the page of the figures of every run."""
    for hour in filter(None, (since, until)):
        parse_hour(hour)
    currency = find_project().settings().currency
    return HTMLResponse(runs_page(_lake(), since, until, price, actions.running_runs(), currency), headers=OURS)


@app.get("/run", response_class=HTMLResponse)
def run(run_id: str) -> HTMLResponse:
    """Return the page of one run, step by step."""
    return HTMLResponse(run_page(_lake(), run_id), headers=OURS)


@app.get("/benchmark", response_class=HTMLResponse)
def benchmark() -> HTMLResponse:
    """Return the page that frames the benchmark report of the lake, else the one that ships with the project."""
    return HTMLResponse(benchmark_page(_lake()), headers=FRAMING)


@app.get("/benchmark/report")
def benchmark_report() -> Response:
    """Return the benchmark report itself, which is served with a security policy of its own."""
    report = find_report(_lake())
    if report is None:
        raise HTTPException(404, "there is no benchmark report")
    return _sent(report.file, BENCHMARK)


@app.get("/releases", response_class=HTMLResponse)
def releases(old: int | None = None, new: int | None = None, table: str = "") -> HTMLResponse:
    """Return the page of the kept releases. old, new, table: compare the rows of a table in these two releases."""
    return HTMLResponse(releases_page(_lake(), tables_of(_lake()), old, new, table), headers=OURS)


@app.get("/quarantine", response_class=HTMLResponse)
def quarantine(feed: str = "", hour: str = "") -> HTMLResponse:
    """Return the page of quarantined lines and dropped rows, with reasons."""
    return HTMLResponse(quarantine_page(_lake(), tables_of(_lake()), feed, hour), headers=OURS)


@app.get("/expectations", response_class=HTMLResponse)
def expectations(status: str = "", table: str = "", layer: str = "") -> HTMLResponse:
    """Return the page of each expectation's results in the last checks."""
    return HTMLResponse(expectations_page(_lake(), status, table, layer), headers=OURS)


@app.get("/results", response_class=HTMLResponse)
def results(table: str = "") -> HTMLResponse:
    """Return the page of the newest release's results. table: show only this table."""
    lake, currency = _lake(), find_project().settings().currency
    return HTMLResponse(results_page(lake, tables_of(lake), table, currency), headers=OURS)


@app.get("/table", response_class=HTMLResponse)
def table(name: str, column: str = "") -> HTMLResponse:
    """Return the page of one table. column: show the lineage of this column."""
    lake, currency = _lake(), find_project().settings().currency
    return HTMLResponse(table_page(lake, tables_of(lake), name, column, currency), headers=OURS)


@app.get("/table.csv")
def table_csv(name: str) -> StreamingResponse:
    """Return all rows of a table of the newest release as CSV."""
    lake = _lake()
    known = tables_of(lake)[name].name
    headers = OURS | {"Content-Disposition": f'attachment; filename="{known}.csv"'}
    return StreamingResponse(
        write_csv(lake, require_release(lake, None), known), media_type="text/csv", headers=headers
    )


@app.get("/status", response_class=HTMLResponse)
def status(table: str = "") -> HTMLResponse:
    """Return the page of freshness, checks and lineage. table: highlight the neighbours of this table."""
    standing = read_standing(find_project().settings(), actions.running_runs())
    return HTMLResponse(status_page(standing, tables_of(_lake()), table), headers=OURS)


app.include_router(actions.router)
