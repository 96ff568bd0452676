"""The validation reports of every run, layer by layer: what is red first, then the newest."""

from collections.abc import Sequence
from functools import partial
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

from medallion.ops import event_log
from medallion.ops.event_schema import EventRow
from medallion.ops.lake_tables import tables_of
from medallion.storage.files import Place
from medallion.storage.lake import Lake
from medallion.storage.s3 import S3Path
from medallion.templating import Grid, RunLink, Status, render, render_notice

SHOWN = 200  # runs on the page
COLUMNS = ("run_id", "hour", "event_type", "layer", "table_name", "status", "started_at", "details")


def reports_page(lake: Lake, files: str = "reports/file") -> str:
    """One row per run, one column per layer. files: where the page finds the report folder, relative to itself."""
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
    """The newest report of the check task ``task_id`` (``silver.check``) of a run, if there is one."""
    layer, _, step = task_id.partition(".")
    if step != "check":
        return None
    report = last_check(event_log.read(lake, run_id=run_id, event_type="check", layer=layer), layer)[1]
    return None if report is None else report_file(lake, _inside(report))


def runs_of(rows: Sequence[EventRow]) -> dict[str, list[EventRow]]:
    """The steps of each run that checks were part of, in order of time."""
    runs: dict[str, list[EventRow]] = {}
    for row in rows:
        if row.table_name is None and row.event_type in {"land", "apply", "refresh", "check", "publish"}:
            runs.setdefault(row.run_id, []).append(row)
    return {name: run for name, run in runs.items() if any(r.event_type in {"apply", "refresh", "check"} for r in run)}


def last_check(run: Sequence[EventRow], layer: str) -> tuple[str, str | None]:
    """How the last check of a layer ended, and its report; ``not checked`` where there was none."""
    for row in reversed(run):
        if row.event_type == "check" and row.layer == layer and row.table_name is None:
            return row.status, row.details.get("report")
    return "not checked", None


def _red_and_new(layers: Sequence[str], run: Sequence[EventRow]) -> tuple[bool, Any]:
    return any(last_check(run, layer)[0] == "failed" for layer in layers), run[0].started_at


def _inside(report: str) -> str:
    """The name of a report in the report folder: its hour's folder, and its own name."""
    return "/".join(PurePosixPath(report).parts[-2:])


def report_file(lake: Lake, name: str) -> Place | None:
    """A file of the report folder; None for whatever is not one, or lies outside of it."""
    folder = lake.reports
    if isinstance(folder, S3Path):
        plain = name and not {"", ".", ".."} & set(name.split("/"))
        return file if plain and (file := folder / name).is_file() else None
    folder = folder.resolve()
    path = (folder / name).resolve()
    return path if path.is_relative_to(folder) and path.is_file() else None
