"""Pictures of the hourly refresh in Airflow's UI, for the guide: taken from the Airflow that runs, after make demo.

Drives the system's own Chromium; set CHROMIUM when it is not /usr/bin/chromium.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

from medallion.airflow.local import USER, LocalAirflow
from medallion.airflow.naming import REFRESH
from medallion.errors import MedallionError
from medallion.hours import ONE_HOUR, format_hour, parse_hour
from medallion.ops import releases
from medallion.project import find_project
from medallion.storage.lake import Lake

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
WIDTH = 1440
DAG = f"dags/{REFRESH}"
GRAPH = ("Show Graph (Press g)", "Collapse Details Panel", "Fit View")
QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
]


Picture = tuple[str, str, int, Sequence[str]]  # name, page, height, what is pressed there


def main() -> None:
    airflow = LocalAirflow.of_project(find_project())
    lake = Lake(find_project().settings(airflow.environment).lake)
    green, red = newest(airflow, "success", "publish"), newest(airflow, "failed", None)
    last = releases.require_release(lake, None).hour
    if not (green and last):
        raise MedallionError("no run has been through yet: make demo first")
    with browser(airflow) as page:
        for picture in pictures(green[0], red):
            take(page, airflow, *picture)
        page.set_viewport_size({"width": WIDTH, "height": 1250})
        following = [format_hour(parse_hour(last) + number * ONE_HOUR) for number in (1, 3)]
        fill_in_backfill(page, airflow, *following)
        keep(page, "backfill")
    if not red:
        print("screenshots: no run has failed, so the pictures of a red one stay as they are")


def newest(airflow: LocalAirflow, state: str, task: str | None) -> tuple[str, str] | None:
    """The newest run in ``state`` and its task in the same state: ``task``, or the check at which it ended."""
    dag = f"dags/{REFRESH}/dagRuns"
    for run in airflow.api.call("GET", f"{dag}?state={state}&order_by=-start_date")["dag_runs"]:
        tasks = airflow.api.call("GET", f"{dag}/{run['dag_run_id']}/taskInstances?state={state}")["task_instances"]
        for name in (instance["task_id"] for instance in tasks):
            if name == task or (task is None and name.endswith(".check")):
                return run["dag_run_id"], name
    return None


def pictures(green: str, red: tuple[str, str] | None) -> Iterator[Picture]:
    """What is taken, of a run that was published and of one that ended at a check, in this order: Airflow remembers
    what was pressed, and the grid leaves more room beside it than the graph."""
    run = f"{DAG}/runs/{green}"
    yield "runs", f"{DAG}/runs", 560, ("Show Grid (Press g)", "Expand all task groups")
    yield "log", f"{run}/tasks/gold.refresh", 700, ()
    yield "timeline", f"{run}/plugin/medallion-run", 1100, ()
    yield "report", f"{run}/tasks/silver.check/plugin/medallion-report", 900, ()
    if red:
        yield "red-report", f"{DAG}/runs/{red[0]}/tasks/{red[1]}/plugin/medallion-report", 900, ()
    yield "trigger", DAG, 900, ("Trigger Dag",)
    yield "results", "plugin/medallion-results", 1500, ()
    yield "lakehouse", "plugin/medallion-status", 1650, ()
    yield "run-figures", "plugin/medallion-runs", 1000, ()
    yield "reports", "plugin/medallion-reports", 560, ()
    yield "expectations", "plugin/medallion-expectations", 700, ()
    yield "timings", "plugin/medallion-timings", 1900, ()
    yield "releases", "plugin/medallion-releases", 700, ()
    yield "quarantine", "plugin/medallion-quarantine", 500, ()
    yield "table", "medallion/table?name=gold_inventory_risk", 1400, ()
    yield "run", run, 640, GRAPH
    if red:
        yield "red-run", f"{DAG}/runs/{red[0]}", 640, GRAPH


def take(page: Page, airflow: LocalAirflow, name: str, path: str, height: int, buttons: Sequence[str]) -> None:
    """Keep a picture of a page of Airflow's, once all of it is there."""
    page.set_viewport_size({"width": WIDTH, "height": height})
    page.goto(f"{airflow.url}/{path}")
    for label in buttons:
        page.get_by_label(label).first.click()
    if "plugin/" in path:
        page.frame_locator("iframe").locator("h1").wait_for(timeout=60_000)
    keep(page, name)


def keep(page: Page, name: str) -> None:
    """Write what ``page`` shows, in 256 colours: a third of the bytes."""
    page.wait_for_timeout(3000)  # what is drawn is still moving
    with Image.open(BytesIO(page.screenshot())) as picture:
        picture.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(IMAGES / f"{name}.png", optimize=True)
    print(f"screenshots: docs/images/{name}.png")


def fill_in_backfill(page: Page, airflow: LocalAirflow, first: str, last: str) -> None:
    """Open the DAG's backfill dialog and fill it in for the hours from ``first`` to ``last``; nothing starts yet."""
    page.goto(f"{airflow.url}/dags/{REFRESH}")
    page.get_by_label("Trigger Dag").first.click()
    page.get_by_text("Backfill", exact=True).first.click()
    for place, hour in enumerate((first, last)):
        page.get_by_test_id("datetime-input").nth(place).click()
        page.get_by_placeholder("YYYY/MM/DD").locator("visible=true").fill(hour[:10].replace("-", "/"))
        page.get_by_placeholder("HH:mm").locator("visible=true").fill(f"{hour[11:]}:00")
        page.get_by_text("Reprocess Behavior", exact=True).click()  # beside the calendar, which closes it
        page.get_by_placeholder("HH:mm").locator("visible=true").wait_for(state="hidden")


@contextmanager
def browser(airflow: LocalAirflow) -> Iterator[Page]:
    """A page in a Chromium without a window, of its admin who has logged in."""
    if not Path(CHROMIUM).exists():
        raise MedallionError(f"there is no {CHROMIUM}: apt-get install chromium, or set CHROMIUM")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        page = chromium.new_page()
        page.goto(airflow.url)
        page.fill("input[name=username]", USER)
        page.fill("input[name=password]", airflow.password)
        page.click("button[type=submit]")
        page.wait_for_url(f"{airflow.url}/")
        yield page
        chromium.close()


if __name__ == "__main__":
    try:
        main()
    except MedallionError as error:
        sys.exit(f"screenshots: {error}")
