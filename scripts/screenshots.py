"""Pictures of the hourly refresh in Airflow's UI, for the guide: taken from the Airflow that runs, after make demo.

Drives the system's own Chromium; set CHROMIUM when it is not /usr/bin/chromium.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from scripts.local_airflow import DAG_ID, USER, LocalAirflow
from spark_jobs.core.errors import MedallionError
from spark_jobs.core.settings import PROJECT

IMAGES = PROJECT / "docs" / "images"
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
]


def main() -> None:
    airflow = LocalAirflow.of_this_project()
    runs = airflow.api.call("GET", f"dags/{DAG_ID}/dagRuns?state=success&order_by=-start_date")["dag_runs"]
    done = [run["dag_run_id"] for run in runs if run["run_type"] == "manual"]
    if not done:
        raise MedallionError("no run has been through yet: make demo first")
    dag, run = f"dags/{DAG_ID}", f"dags/{DAG_ID}/runs/{done[0]}"
    with browser() as page:
        log_in(page, airflow)
        # Each picture: its name, its page, its height, and what is pressed there. Airflow remembers what was pressed.
        for name, path, height, buttons in (
            ("runs", f"{dag}/runs", 560, ("Show Grid (Press g)", "Expand all task groups")),
            ("log", f"{run}/tasks/gold.refresh", 700, ()),
            ("trigger", dag, 900, ("Trigger Dag",)),
            ("lineage", dag, 900, ("Dag Docs",)),
            ("run", run, 640, ("Show Graph (Press g)", "Collapse Details Panel", "Fit View")),
            ("lakehouse", "plugin/medallion-status", 1150, ()),
            ("reports", "plugin/medallion-reports", 420, ()),
            ("timings", "plugin/medallion-timings", 1000, ()),
            ("timeline", f"{run}/plugin/medallion-run", 900, ()),
            ("report", f"{run}/tasks/silver.check/plugin/medallion-report", 800, ()),
        ):
            page.set_viewport_size({"width": 1440, "height": height})
            page.goto(f"{airflow.url}/{path}")
            for label in buttons:
                page.get_by_label(label).first.click()
            page.wait_for_timeout(3000)  # what is drawn is still moving
            page.screenshot(path=IMAGES / f"{name}.png")
            print(f"screenshots: docs/images/{name}.png")


def log_in(page: Page, airflow: LocalAirflow) -> None:
    """Be the admin in ``page``."""
    page.goto(airflow.url)
    page.fill("input[name=username]", USER)
    page.fill("input[name=password]", airflow.password)
    page.click("button[type=submit]")
    page.wait_for_url(f"{airflow.url}/")


def fill_in_backfill(page: Page, airflow: LocalAirflow, first: str, last: str) -> None:
    """Open the DAG's backfill dialog and fill it in for the hours from ``first`` to ``last``; nothing starts yet."""
    page.goto(f"{airflow.url}/dags/{DAG_ID}")
    page.get_by_label("Trigger Dag").first.click()
    page.get_by_text("Backfill", exact=True).first.click()
    for place, hour in enumerate((first, last)):
        page.get_by_test_id("datetime-input").nth(place).click()
        page.get_by_placeholder("YYYY/MM/DD").locator("visible=true").fill(hour[:10].replace("-", "/"))
        page.get_by_placeholder("HH:mm").locator("visible=true").fill(f"{hour[11:]}:00")
        page.get_by_text("Reprocess Behavior").click()  # beside the calendar, which closes it
        page.get_by_placeholder("HH:mm").locator("visible=true").wait_for(state="hidden")
    page.get_by_text("Missing and Errored Runs").click()


@contextmanager
def browser() -> Iterator[Page]:
    """A page in a Chromium without a window."""
    if not Path(CHROMIUM).exists():
        raise MedallionError(f"there is no {CHROMIUM}: apt-get install chromium, or set CHROMIUM")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield chromium.new_page()
        chromium.close()


if __name__ == "__main__":
    try:
        main()
    except MedallionError as error:
        sys.exit(f"screenshots: {error}")
