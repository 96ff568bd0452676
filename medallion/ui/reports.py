"""The page of the validation reports of every run, layer by layer: red runs first, then the newest."""

from collections.abc import Sequence
from functools import partial
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

from medallion.html.templating import Grid, RunLink, Status, render, render_notice
from medallion.ops import event_log
from medallion.ops.event_schema import EventRow
from medallion.ops.lake_tables import tables_of
from medallion.storage.files import Place
from medallion.storage.lake import Lake
from medallion.storage.s3 import S3Path

SHOWN = 200  # runs on the page
COLUMNS = ("run_id", "hour", "event_type", "layer", "table_name", "status", "started_at", "details")


def reports_page(lake: Lake, files: str = "reports/file") -> str:
    """Render one row per run and one column per layer. files: the report folder, relative to the page."""
    runs = runs_of(event_log.read(lake, event_log.RECENT, COLUMNS))
    title = "Validation reports"
    if not runs:
        text = "No run has been here yet: trigger hourly_refresh, or run medallion load."
        return render_notice(title, text, "reports")
    layers = tables_of(lake).layers
    rows = []
    for run in sorted(runs.values(), key=partial(_red_and_new, layers), reverse=True)[:SHOWN]:
        first = run[0]
        cells = [first.hour or "snapshot", RunLink(first.run_id), f"{first.started_at:%Y-%m-%d %H:%M}"]
        for layer in layers:
            word, report = last_check(run, layer)
            cells.append(Status(word, None if report is None else f"{files}/{quote(_inside(report))}"))
        rows.append(cells)
    more = f", the last {SHOWN} of {len(runs):,}" if len(runs) > SHOWN else ""
    has_docs = (lake.reports / "gx" / "site" / "index.html").exists()
    return render(
        "reports.html",
        title=title,
        page="reports",
        data_docs=f"{files}/gx/site/index.html" if has_docs else None,
        runs=Grid(f"Runs and their checks{more}", ("hour", "run", "started (UTC)", *layers), rows, searchable=True),
    )


def report_of_task(lake: Lake, run_id: str, task_id: str) -> Place | None:
    """Return a run's newest report of the check task ``task_id``, such as ``silver.check``; None if there is none."""
    layer, _, step = task_id.partition(".")
    if step != "check":
        return None
    report = last_check(event_log.read(lake, run_id=run_id, event_type="check", layer=layer), layer)[1]
    return None if report is None else report_file(lake, _inside(report))


def runs_of(rows: Sequence[EventRow]) -> dict[str, list[EventRow]]:
    """Return the steps, in order of time, of each run that applied changes, refreshed tables or checked them."""
    runs: dict[str, list[EventRow]] = {}
    for row in rows:
        if row.table_name is None and row.event_type in {"land", "apply", "refresh", "check", "publish"}:
            runs.setdefault(row.run_id, []).append(row)
    return {name: run for name, run in runs.items() if any(r.event_type in {"apply", "refresh", "check"} for r in run)}


def last_check(run: Sequence[EventRow], layer: str) -> tuple[str, str | None]:
    """Return the status and the report of a layer's last check; ``not checked`` and None if there was none."""
    for row in reversed(run):
        if row.event_type == "check" and row.layer == layer and row.table_name is None:
            return row.status, row.details.get("report")
    return "not checked", None


def _red_and_new(layers: Sequence[str], run: Sequence[EventRow]) -> tuple[bool, Any]:
    return any(last_check(run, layer)[0] == "failed" for layer in layers), run[0].started_at


def _inside(report: str) -> str:
    """Return the name of a report in the report folder: the folder of its hour, and the file's name."""
    return "/".join(PurePosixPath(report).parts[-2:])


def report_file(lake: Lake, name: str) -> Place | None:
    """Return a file of the report folder; None if it is not a file, or lies outside of the folder."""
    folder = lake.reports
    if isinstance(folder, S3Path):
        plain = name and not {"", ".", ".."} & set(name.split("/"))
        return file if plain and (file := folder / name).is_file() else None
    folder = folder.resolve()
    path = (folder / name).resolve()
    return path if path.is_relative_to(folder) and path.is_file() else None
