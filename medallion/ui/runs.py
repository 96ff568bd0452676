"""The page of runs: figures and cost of each run, and full beside incremental for each hour."""

from collections.abc import Collection, Sequence
from urllib.parse import quote

from medallion.html.templating import Grid, Link, Plot, Status, render
from medallion.inspect.run_history import COLUMNS, HourCost, RunFigures, compare_costs, run_history
from medallion.ops import event_log
from medallion.ops.event_schema import phases_of
from medallion.project import find_project
from medallion.storage.lake import Lake
from medallion.ui.plots import add_legend, hour_places, make_figure, to_svg
from medallion.ui.timings import COLOURS, first_moment

SHOWN = 100  # runs
PLOTTED = 48  # newest hours
ESTIMATED = 0.5  # opacity of a bar that was not measured; visible on a dark page too
PRICE = 0.05  # of a core-hour


def runs_page(
    lake: Lake,
    since: str = "",
    until: str = "",
    price: float = PRICE,
    running: Collection[str] = (),
    currency: str = "USD",
) -> str:
    """Render the runs of the hours from ``since`` to ``until``; without ``since``, of the log's newest 7 days.

    price: the price of a core-hour, in ``currency``. running: the ids of the runs that are running now.
    """
    rows = event_log.read(lake, first_moment(since), COLUMNS)
    runs = run_history(row for row in rows if row.hour and since <= row.hour <= (until or "9"))
    costs = compare_costs(runs)[-PLOTTED:]
    return render(
        "runs.html",
        title="Runs",
        page="runs",
        since=since,
        until=until,
        price=price,
        currency=currency,
        runs=_grid(runs[:SHOWN], len(runs), (price, currency), running),
        costs=_plot(costs) if costs else None,
    )


def _grid(runs: Sequence[RunFigures], whole: int, priced: tuple[float, str], running: Collection[str]) -> Grid:
    price, currency = priced
    phases = phases_of(find_project().layers)
    rows = [
        (
            Link(run.hour, f"run?run_id={quote(run.run_id)}"),
            f"{run.strategy}, {run.state_work}" if run.state_work else run.strategy,
            Status("running" if run.run_id in running and run.release_id is None else run.status),
            *(run.release_id, f"{sum(run.seconds.values()):.1f}", f"{sum(run.cpu_seconds.values()):.1f}"),
            f"{run.cpu_hours * price:.4f}",
            *(run.rows_in, run.rows_changed, f"{run.tables[0]} of {run.tables[1]}", run.warnings),
            *(f"{run.seconds[phase]:.1f}" if phase in run.seconds else "" for phase in phases),
        )
        for run in runs
    ]
    figures = (
        "release",
        "seconds of steps",
        "CPU s",
        f"cost ({currency})",
        "rows in",
        "rows changed",
        "tables written",
        "warnings",
    )
    names = ("hour", "strategy", "status", *figures, *phases)
    caption = f"{len(rows)} of {whole} runs, newest hour first; seconds by phase"
    return Grid(caption, names, rows, range(3, len(names)), searchable=True)


def _plot(costs: Sequence[HourCost]) -> Plot:
    figure, axes = make_figure(3.2, above=0.35, below=0.75)
    places = hour_places([cost.hour for cost in costs])
    for place, cost in zip(places, costs, strict=True):
        if cost.full is not None or cost.estimate is not None:
            measured = cost.full is not None
            height = cost.full if cost.full is not None else cost.estimate or 0.0
            axes.bar(place - 0.2, height, 0.38, color=COLOURS["full"], alpha=1.0 if measured else ESTIMATED)
        if cost.incremental is not None:
            hatch = "///" if cost.state_work else None
            axes.bar(place + 0.2, cost.incremental, 0.38, color=COLOURS["incremental"], hatch=hatch)
    axes.bar(0, 0, color=COLOURS["full"], label="full")
    axes.bar(0, 0, color=COLOURS["full"], alpha=ESTIMATED, label="full, estimated")
    axes.bar(0, 0, color=COLOURS["incremental"], label="incremental")
    axes.bar(0, 0, color=COLOURS["incremental"], hatch="///", label="incremental, set-up or state rebuilt")
    every = max(1, len(costs) // 12)
    axes.set_xticks(places[::every], [cost.hour[5:] for cost in costs[::every]], rotation=30, ha="right")
    axes.set_xlim(-0.7, max(places[-1] + 1, 12) - 0.3)
    axes.set_ylabel("seconds above Bronze")
    add_legend(axes, 4)
    alt = f"Full against incremental: seconds above Bronze of each of {len(costs)} hours"
    rows = [
        (cost.hour, *map(_seconds, (cost.full, cost.estimate, cost.incremental)), cost.state_work or "")
        for cost in costs
    ]
    names = ("hour", "full", "full, estimated", "incremental", "note")
    return Plot(to_svg(figure, alt), alt, Grid("Seconds above Bronze by hour", names, rows, {1, 2, 3}))


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"
