"""Every page in the real browser: what an accessibility engine finds, in both themes, narrow and wide."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from axe_playwright_python.sync_playwright import Axe
from deltalake import write_deltalake
from fastapi.testclient import TestClient
from playwright.sync_api import Browser, sync_playwright

from medallion.airflow.pages import app
from medallion.ops import releases
from medallion.ops.event_log import append
from medallion.ops.events import Event
from medallion.storage.lake import Lake
from scripts.screenshots import CHROMIUM, QUIET

pytestmark = pytest.mark.skipif(not Path(CHROMIUM).exists(), reason=f"there is no {CHROMIUM}: apt-get install chromium")
STATUS = "gold_order_status_summary"
PAGES = [
    *(
        "results",
        "status",
        "runs",
        "reports",
        "expectations",
        "timings",
        "benchmark",
        "quarantine",
        "releases",
        "nowhere",
    ),
    *("run?run_id=scheduled__1", f"table?name={STATUS}&column=total_revenue", f"status?table={STATUS}"),
]


def hour_of(number: int, status: str) -> Iterator[Event]:
    """The events of one hour's run; status: of its Gold check."""

    def step(kind: str, layer: str | None = None, table: str | None = None, **values: object) -> Event:
        return Event(f"scheduled__{number}", f"2025-11-30T{number:02}", kind, "full", 1, layer, table, **values)  # type: ignore[arg-type]

    verdicts = {
        "order_count: never null": {"status": "succeeded", "severity": "critical", "passed": 6, "failed": 0},
        "total_revenue: at least 0": {"status": status, "severity": "warning", "passed": 5, "failed": 1},
    }
    yield step("apply", "bronze", rows_in=20, rows_out=12, seconds=1.0)
    yield step(
        "refresh",
        "gold",
        STATUS,
        seconds=2.0,
        bytes_out=9_000,
        details={"method": "incremental aggregate", "note": "12 rows"},
    )
    yield step("refresh", "gold", seconds=2.5, cpu_seconds=3.0)
    yield step("check", "gold", STATUS, status=status, rows_in=6, details={"expectations": verdicts})
    yield step("check", "gold", status=status, details={"report": f"x/2025-11-30T{number:02}/gold.html"})
    if status != "failed":
        yield step("publish", seconds=0.2, details={"release_id": 1 + number})


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """Somebody who is logged in, and a lake with a table, runs, a warning and a red hour."""
    from airflow.api_fastapi.core_api.security import get_user

    lake = Lake(str(tmp_path_factory.mktemp("pages") / "lake"))
    words = ("delivered", "shipped", "pending", "cancelled", "returned", "confirmed")
    rows = {"order_status": words, "order_count": range(6), "total_revenue": [1.5] * 6}
    write_deltalake(lake.path(STATUS), pa.table(rows))
    contents = releases.Contents({STATUS: 0})
    releases.publish(lake, after=None, hour="2025-11-30T02", run_id="r", strategy="full", contents=contents)
    statuses = ("succeeded", "warned", "succeeded", "failed")
    append(lake, [event for n, status in enumerate(statuses) for event in hour_of(n, status)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MEDALLION_LAKE", lake.root)
        app.dependency_overrides[get_user] = lambda: None
        yield TestClient(app)
        app.dependency_overrides.clear()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield browser
        browser.close()


@pytest.mark.slow
@pytest.mark.parametrize(("width", "theme"), [(480, "dark"), (1280, "light")])
def test_pages_are_accessible_and_fit_their_window(
    client: TestClient, chromium: Browser, theme: str, width: int
) -> None:
    scheme = {"light": "light", "dark": "dark"}[theme]
    context = chromium.new_context(color_scheme=scheme, viewport={"width": width, "height": 900})  # type: ignore[arg-type]
    page, found = context.new_page(), []
    for path in PAGES:
        page.set_content(client.get(f"/{path}").text)
        results = Axe().run(page)
        found += [
            f"{path}: {violation['id']}: {node['html'][:150]}: {node['failureSummary'][:200]}"
            for violation in results.response["violations"]
            for node in violation["nodes"][:3]
        ]
        if (used := page.evaluate("document.documentElement.scrollWidth")) > width:
            found.append(f"{path}: {used} pixels wide")
    context.close()
    assert not found, "\n".join(found)


def test_a_table_can_be_sorted_and_searched_by_keyboard(client: TestClient, chromium: Browser) -> None:
    page = chromium.new_page()
    page.set_content(client.get("/status").text)
    page.get_by_role("button", name="rows", exact=True).focus()
    page.keyboard.press("Enter")
    assert page.locator("#tables th[aria-sort=ascending]").inner_text().startswith("rows")
    page.get_by_role("searchbox").fill(STATUS)
    assert page.locator("#tables tbody tr:visible").count() == 1


def test_a_focused_table_lights_what_it_is_made_from(client: TestClient, chromium: Browser) -> None:
    page = chromium.new_page()
    page.set_content(client.get("/status").text)
    page.locator(f"[data-node={STATUS}]").focus()
    dim = page.locator("a.dim")
    assert page.locator("[data-node=silver_orders_enriched].dim").count() == 0
    assert dim.count() > 0 and page.locator("path.lit").count() > 0
