"""The plugins that Airflow loads: the timetable, listeners in the scheduler, and the pages in its navigation."""

from typing import Any

from airflow.plugins_manager import AirflowPlugin

from medallion.airflow.forkserver import EarlyForkserver
from medallion.airflow.notes import NotesOfRuns
from medallion.airflow.timetable import Hourly


class MedallionRuns(AirflowPlugin):
    """Run ids that contain the hour, a note on each run, and workers forked early."""

    name = "medallion_runs"
    timetables = [Hourly]  # noqa: RUF012 (Airflow's way)
    listeners = [NotesOfRuns(), EarlyForkserver()]  # noqa: RUF012


async def pages(scope: Any, receive: Any, send: Any) -> None:
    """Serve the pages. They are imported with the first request, because every task loads the plugins too."""
    from medallion.airflow.pages import app

    await app(scope, receive, send)


def _view(name: str, href: str, destination: str = "nav") -> dict[str, str]:
    route = f"medallion-{href.partition('?')[0]}"
    view = {"name": name, "href": f"medallion/{href}", "destination": destination, "url_route": route}
    return view | ({"category": "browse"} if destination == "nav" else {})


class MedallionPages(AirflowPlugin):
    """The pages, and the places that link to them: the navigation, a run and a task."""

    name = "medallion_pages"
    fastapi_apps = [{"app": pages, "url_prefix": "/medallion", "name": "medallion"}]  # noqa: RUF012 (Airflow's way)
    external_views = [  # noqa: RUF012
        _view("Results", "results"),
        _view("Lakehouse", "status"),
        _view("Runs", "runs"),
        _view("Validation reports", "reports"),
        _view("Expectations", "expectations"),
        _view("Timings", "timings"),
        _view("Releases", "releases"),
        _view("Quarantine", "quarantine"),
        _view("Benchmark", "benchmark"),
        _view("Timeline", "run?dag_id={DAG_ID}&run_id={RUN_ID}", "dag_run"),
        # Airflow shows it on every task, though only checks have one; two words would break in a narrow window.
        _view("Report", "report?dag_id={DAG_ID}&run_id={RUN_ID}&task_id={TASK_ID}", "task_instance"),
    ]
