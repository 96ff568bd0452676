"""The pages of timings, from the event log: by hour and step, by table, by changed rows, and one run in detail."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from statistics import median

from medallion.errors import UsageError
from medallion.hours import parse_hour
from medallion.html.templating import Grid, Long, Plot, Status, TaskLink, render, render_notice
from medallion.inspect.run_history import erasing_runs, is_of_airflow
from medallion.model.refresh_method import StateWork, read_state_work
from medallion.model.table import STRATEGIES
from medallion.ops import event_log
from medallion.ops.event_schema import DID_WORK, STATUS_COLOURS, STRATEGY_COLOURS, EventRow, phases_of
from medallion.project import find_project
from medallion.storage.lake import Lake
from medallion.ui.plots import add_legend, hour_places, make_figure, to_svg

SHOWN = 72  # newest hours on a plot
COLUMNS = (
    "run_id",
    "hour",
    "event_type",
    "layer",
    "table_name",
    "strategy",
    "status",
    "seconds",
    "rows_out",
    "details",
)
# Runs that built or rebuilt incremental state stand out, because their seconds do not predict those of later runs.
COLOURS = {**STRATEGY_COLOURS, StateWork.SET_UP: "#9aa4b2", StateWork.REBUILT: "#6b7789"}


def timings_page(lake: Lake, since: str = "", until: str = "", strategy: str = "") -> str:
    """Render all plots, for the hours from ``since`` to ``until`` and runs with ``strategy``; empty means all.

    Without ``since``, only the newest 7 days of the event log are read. Runs that erased persons are left out.
    """
    rows = event_log.read(lake, first_moment(since), COLUMNS)
    erasing = erasing_runs(rows)
    rows = [
        row
        for row in rows
        if row.hour and row.run_id not in erasing and row.status != "failed" and since <= row.hour <= (until or "9")
    ]
    strategies = {row.run_id: row.strategy for row in rows if row.event_type == "publish"}
    rows = [row for row in rows if not strategy or strategies.get(row.run_id) == strategy]
    plots = None
    if any(row.event_type == "publish" for row in rows):
        methods = methods_of(rows)
        by_change = _by_change(rows, methods)
        plots = {"by_hour": _by_hour(rows, methods), "by_table": _by_table(rows), "by_change": by_change}
    return render(
        "timings.html",
        title="Timings",
        page="timings",
        since=since,
        until=until,
        strategy=strategy,
        strategies=("", *STRATEGIES),
        plots=plots,
    )


def first_moment(since: str) -> datetime | timedelta:
    """Return from when to read the event log for hours from ``since`` on: no hour is refreshed before it begins."""
    try:
        return parse_hour(since)
    except UsageError:  # empty, or not an hour
        return event_log.RECENT


def run_page(lake: Lake, run_id: str) -> str:
    """Render one run: when each step and each table ran."""
    rows = sorted(event_log.read(lake, run_id=run_id), key=lambda row: row.started_at)
    title = f"Run {run_id}"
    if not rows:
        return render_notice(title, "The event log has nothing of this run: its first step has not ended yet.")
    lead = f"{rows[-1].hour or 'snapshot'}, from {rows[0].started_at:%Y-%m-%d %H:%M:%S} UTC."
    return render(
        "run.html",
        title=title,
        page="",
        run_id=run_id,
        by_airflow=is_of_airflow(run_id),
        lead=lead,
        timeline=_timeline(rows),
        steps=_steps(rows),
    )


def _timeline(rows: Sequence[EventRow]) -> Plot:
    begin = rows[0].started_at
    names = [_name(row) for row in rows]
    figure, axes = make_figure(0.8 + 0.24 * len(rows), names)
    starts = []
    for place, row in enumerate(rows):
        whole = row.table_name is None
        start = (row.started_at - begin).total_seconds()
        colour = STATUS_COLOURS.get(row.status, "#8b8d98")
        axes.barh(place, row.seconds, left=start, color=colour, alpha=1.0 if whole else 0.5, height=0.7)
        axes.text(start + row.seconds, place, f" {row.seconds:.1f} s", va="center", fontsize="small")
        starts.append((_name(row), f"{start:.1f}", f"{start + row.seconds:.1f}"))
    axes.set_yticks(range(len(rows)), names, fontsize="small")
    axes.invert_yaxis()
    axes.set_xlabel("seconds since the run began")
    axes.margins(x=0.08, y=0.01)
    alt = f"Timeline of the run: {len(rows)} steps, each from its start to its end"
    data = Grid("Seconds since the run began", ("step", "start", "end"), starts, {1, 2})
    return Plot(to_svg(figure, alt), alt, data)


def _steps(rows: Sequence[EventRow]) -> Grid:
    facts = [
        (
            _task_link(row),
            Status(row.status),
            f"{row.seconds:.2f}",
            row.rows_out,
            Long(str(row.details.get("error") or row.details.get("note") or "")),
        )
        for row in rows
    ]
    return Grid("Steps of the run", ("step", "status", "seconds", "rows out", "note"), facts, {2, 3})


def _task_link(row: EventRow) -> TaskLink | str:
    """Return the name of a step, with a link to its task if it is a whole step of an Airflow run."""
    task = {
        "land": "land_changes",
        "apply": f"{row.layer}.apply_changes",
        "refresh": f"{row.layer}.refresh",
        "check": f"{row.layer}.check",
        "publish": "publish",
        "validate": "validate",
    }.get(row.event_type)
    by_airflow = is_of_airflow(row.run_id) and row.table_name is None
    return TaskLink(_name(row), row.run_id, task) if task and by_airflow else _name(row)


def _name(row: EventRow) -> str:
    return f"{row.event_type} {row.table_name or row.layer or ''}".strip()


def methods_of(rows: Sequence[EventRow]) -> dict[str, str]:
    """Return the method of each run: the last of full, incremental, set-up and state rebuilt that any table had."""
    methods: dict[str, str] = {}
    for row in rows:
        if row.table_name and row.event_type == "refresh" and row.status != "skipped":
            method = read_state_work(row.details) or row.strategy
            former = methods.get(row.run_id, method)
            methods[row.run_id] = max(former, method, key=list(COLOURS).index)
    return methods


def _by_hour(rows: Sequence[EventRow], methods: Mapping[str, str]) -> Plot:
    # The last run that published each hour. A run of selected tables skips publishing.
    published = {row.hour: row.run_id for row in rows if row.event_type == "publish" and row.status in DID_WORK}
    hours: dict[str, dict[str, float]] = {}
    phases = phases_of(find_project().layers)
    for row in rows:
        step = event_log.phase_of(row)
        if row.hour and row.table_name is None and published.get(row.hour) == row.run_id and step in phases:
            taken = hours.setdefault(row.hour, {})
            taken[step] = taken.get(step, 0.0) + row.seconds
    names = sorted(hours)[-SHOWN:]
    places = hour_places(names)
    width = max(places, default=-1) + 1
    figure, axes = make_figure(3.6, above=0.6, below=0.75)
    floor = [0.0] * width
    for step, colour in phases.items():
        heights = {place: hours[name].get(step, 0.0) for place, name in zip(places, names, strict=True)}
        if not any(heights.values()):
            continue
        top = [below + heights.get(place, 0.0) for place, below in enumerate(floor)]
        edges = [place - 0.5 for place in range(width + 1)]
        axes.stairs(top, edges, baseline=floor, fill=True, color=colour, label=step)  # one shape, as bars are slow
        floor = top
    for place, name in zip(places, names, strict=True):
        if (method := methods.get(published[name], "")) in [*StateWork]:
            axes.text(place, floor[place], method, rotation=90, ha="center", va="bottom", fontsize="small")
    axes.margins(y=0.15)
    every = max(1, len(names) // 12)
    axes.set_xlim(-0.7, max(width, 12) - 0.3)  # so that a few hours do not fill the page
    axes.set_xticks(places[::every], [name[5:] for name in names[::every]], rotation=30, ha="right")
    axes.set_ylabel("seconds")
    add_legend(axes, 5)
    alt = f"Seconds of each of {len(names)} hours, stacked by step"
    data = [
        (name, methods.get(published[name], ""), *(f"{hours[name].get(step, 0.0):.1f}" for step in phases))
        for name in names
    ]
    grid = Grid("Seconds by hour and step", ("hour", "refreshed", *phases), data, range(2, 2 + len(phases)))
    return Plot(to_svg(figure, alt), alt, grid)


def _by_table(rows: Sequence[EventRow]) -> Plot:
    taken: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        is_refresh = row.event_type == "refresh" and row.status != "skipped"
        if row.table_name and is_refresh and not read_state_work(row.details):
            taken.setdefault(row.table_name, {}).setdefault(row.strategy, []).append(row.seconds)
    names = sorted(taken, key=lambda name: -max(median(s) for s in taken[name].values()))
    used = [name for name in COLOURS if any(name in by for by in taken.values())]
    figure, axes = make_figure(0.9 + 0.2 * len(names) * max(1, len(used)), names)
    for number, strategy in enumerate(used):
        places = [place + 0.8 * number / len(used) for place in range(len(names))]
        widths = [median(taken[name].get(strategy, [0.0])) for name in names]
        axes.barh(places, widths, height=0.8 / len(used), align="edge", color=COLOURS[strategy], label=strategy)
    axes.set_yticks([place + 0.4 for place in range(len(names))], names, fontsize="small")
    axes.set_ylim(len(names), -0.2)
    axes.set_xlabel("seconds")
    axes.legend(frameon=False, loc="lower right")
    alt = f"Median seconds of each of {len(names)} tables, by how it was refreshed"
    data = [(name, *(f"{median(taken[name].get(s, [0.0])):.2f}" for s in used)) for name in names]
    grid = Grid("Median seconds by table", ("table", *used), data, range(1, 1 + len(used)))
    return Plot(to_svg(figure, alt), alt, grid)


def _by_change(rows: Sequence[EventRow], methods: Mapping[str, str]) -> Plot:
    """Plot runs that took an hour from its changes to a release; others refreshed only some tables, or applied none."""
    published = {row.run_id for row in rows if row.event_type == "publish" and row.status in DID_WORK}
    changed: dict[str, int] = {}
    seconds: dict[str, float] = {}
    for row in rows:
        if row.run_id not in published or row.status not in DID_WORK:
            continue
        if row.table_name is None and row.event_type == "apply":
            changed[row.run_id] = changed.get(row.run_id, 0) + (row.rows_out or 0)
        if row.table_name is None and row.event_type == "refresh":
            seconds[row.run_id] = seconds.get(row.run_id, 0.0) + row.seconds
    figure, axes = make_figure(3.4, above=0.4)
    for method, colour in COLOURS.items():
        runs = [run for run in seconds if methods.get(run) == method and run in changed]
        if runs:
            axes.scatter([changed[run] for run in runs], [seconds[run] for run in runs], color=colour, label=method)
    axes.set_xlabel("rows changed")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_ylabel("seconds")
    axes.set_xlim(0, 1.08 * max([1, *changed.values()]))
    axes.set_ylim(0, 1.08 * max([1.0, *seconds.values()]))
    add_legend(axes, len(COLOURS))
    alt = "Seconds of each run's refresh against the rows that its hour changed"
    runs = sorted(set(seconds) & set(changed), key=lambda run: changed[run])
    data = [(methods.get(run, ""), changed[run], f"{seconds[run]:.1f}") for run in runs]
    grid = Grid("Rows changed and seconds of each run", ("refreshed", "rows changed", "seconds"), data, {1, 2})
    return Plot(to_svg(figure, alt), alt, grid)
