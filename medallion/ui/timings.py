"""Where the seconds went, from the event log: by hour and step, by table, by strategy, and one run in detail."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from html import escape
from statistics import median
from typing import TYPE_CHECKING, Any

from medallion.errors import UsageError
from medallion.hours import parse_hour
from medallion.model.table import STRATEGIES
from medallion.ops import event_log
from medallion.storage.lake import Lake
from medallion.ui.shell import STATUS_COLOURS, empty, figure, page, status, svg, table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN = 72  # hours on a plot, the newest
STEPS = {  # what is stacked, in the order of a run, and its colour
    "session": "#c9cdd3",
    "land": "#8fb8f5",
    "apply": "#2f6fde",
    "silver": "#1a3f85",
    "gold": "#e2a336",
    "check": "#1a7f4b",
    "platinum": "#8aa4b8",
    "publish": "#7c66c1",
}
COLUMNS = ("run_id", "hour", "event_type", "layer", "table_name", "strategy", "status", "seconds", "rows_out")
COLOURS = {"full": "#2f6fde", "incremental": "#1a7f4b"}
Row = Mapping[str, Any]


def timings_page(lake: Lake, since: str = "", until: str = "", strategy: str = "") -> str:
    """All plots, of the hours from ``since`` to ``until`` and the runs with ``strategy``; empty for all.

    Without ``since`` of the newest 7 days in the event log.
    """
    title, begin = "Timings", _begin(since)
    rows = [
        row
        for row in event_log.read(lake, begin, COLUMNS)
        if row["hour"] and row["status"] != "failed" and since <= row["hour"] <= (until or "9")
    ]
    own = _strategies(rows)
    rows = [row for row in rows if not strategy or own.get(row["run_id"]) == strategy]
    form = _form(since, until, strategy)
    if not any(row["event_type"] == "publish" for row in rows):
        return page(title, form, empty("No hour was published there: widen the range, or trigger hourly_refresh."))
    return page(
        title,
        form,
        "<h2>Seconds of an hour, by step</h2>",
        '<p class="soft">Of the run that published the hour, the last one if several did.'
        f"{'' if since else ' Hours refreshed in the newest 7 days: choose an earlier hour above for more.'}</p>",
        _by_hour(rows),
        "<h2>Seconds of a table, by strategy</h2>",
        '<p class="soft">Medians. Tables are refreshed side by side, so they add up to more than the hour.</p>',
        _by_table(rows),
        "<h2>Rows changed against seconds</h2>",
        '<p class="soft">An hour is a point: rows that its changes touched in Bronze, seconds for Silver and Gold.</p>',
        _by_change(rows, own),
    )


def _begin(since: str) -> datetime | timedelta:
    """What part of the event log is read for hours from ``since`` on: no hour is refreshed before it begins."""
    try:
        return parse_hour(since)
    except UsageError:  # none, or no hour
        return event_log.RECENT


def run_page(lake: Lake, run_id: str) -> str:
    """What ran when in one run, each step and each table."""
    rows = sorted(event_log.read(lake, run_id=run_id), key=lambda row: row["started_at"])
    title = f"Run {run_id}"
    if not rows:
        return page(title, empty("The event log has nothing of this run: its first step has not ended yet."))
    begin = rows[0]["started_at"]
    names = [_name(row) for row in rows]
    made, axes = figure(0.8 + 0.24 * len(rows), names)
    for place, row in enumerate(rows):
        whole = row["table_name"] is None
        start = (row["started_at"] - begin).total_seconds()
        colour = STATUS_COLOURS.get(row["status"], "#60646c")
        axes.barh(place, row["seconds"], left=start, color=colour, alpha=1.0 if whole else 0.5, height=0.7)
        axes.text(start + row["seconds"], place, f" {row['seconds']:.1f} s", va="center", fontsize="small")
    axes.set_yticks(range(len(rows)), names, fontsize="small")
    axes.invert_yaxis()
    axes.set_xlabel("seconds since the run began")
    axes.margins(x=0.08, y=0.01)
    facts = [
        (
            escape(_name(row)),
            status(row["status"]),
            f"{row['seconds']:.2f}",
            "" if row["rows_out"] is None else f"{row['rows_out']:,}",
            escape(str(row["details"].get("error") or row["details"].get("note") or "")[:200]),
        )
        for row in rows
    ]
    lead = f'<p class="soft">{escape(rows[-1]["hour"] or "snapshot")}, from {begin:%Y-%m-%d %H:%M:%S} UTC</p>'
    return page(title, lead, svg(made), table(("step", "status", "seconds", "rows out", "note"), facts, numbers=(2, 3)))


def _name(row: Row) -> str:
    return f"{row['event_type']} {row['table_name'] or row['layer'] or ''}".strip()


def _form(since: str, until: str, strategy: str) -> str:
    options = "".join(
        f'<option value="{name}"{" selected" if name == strategy else ""}>{name or "all"}</option>'
        for name in ("", *STRATEGIES)
    )
    hour = 'placeholder="YYYY-MM-DDTHH" pattern="\\d{4}-\\d\\d-\\d\\dT\\d\\d" size="14"'
    return (
        f'<form><label>from <input name="since" value="{escape(since)}" {hour}></label>'
        f'<label>to <input name="until" value="{escape(until)}" {hour}></label>'
        f'<label>strategy <select name="strategy">{options}</select></label><button>Show</button></form>'
    )


def _strategies(rows: Sequence[Row]) -> dict[str, str]:
    """By run, the strategy that it was asked for."""
    return {row["run_id"]: row["strategy"] for row in rows if row["event_type"] == "publish"}


def _by_hour(rows: Sequence[Row]) -> str:
    published = {row["hour"]: row["run_id"] for row in rows if row["event_type"] == "publish"}  # the last run of each
    hours: dict[str, dict[str, float]] = {}
    for row in rows:
        step = event_log.phase_of(row)
        if row["table_name"] is None and published.get(row["hour"]) == row["run_id"] and step in STEPS:
            taken = hours.setdefault(row["hour"], {})
            taken[step] = taken.get(step, 0.0) + row["seconds"]
    names = sorted(hours)[-SHOWN:]
    made, axes = figure(3.4, above=0.4, below=0.75)
    floor = [0.0] * len(names)
    for step, colour in STEPS.items():
        heights = [hours[name].get(step, 0.0) for name in names]
        if not any(heights):
            continue
        top = [a + b for a, b in zip(floor, heights, strict=True)]
        edges = [place - 0.5 for place in range(len(names) + 1)]
        axes.stairs(top, edges, baseline=floor, fill=True, color=colour, label=step)  # one shape: a bar each is slow
        floor = top
    every = max(1, len(names) // 12)
    axes.set_xlim(-0.7, max(len(names), 12) - 0.3)  # a few hours do not fill the page
    axes.set_xticks(range(0, len(names), every), [name[5:] for name in names[::every]], rotation=30, ha="right")
    axes.set_ylabel("seconds")
    _legend(axes)
    return svg(made)


def _legend(axes: "Axes") -> None:
    """Above the plot, where it hides nothing."""
    axes.legend(ncols=len(STEPS), loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False, fontsize="small")


def _by_table(rows: Sequence[Row]) -> str:
    taken: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        if row["table_name"] and row["event_type"] == "refresh" and row["status"] != "skipped":
            taken.setdefault(row["table_name"], {}).setdefault(row["strategy"], []).append(row["seconds"])
    names = sorted(taken, key=lambda name: -max(median(s) for s in taken[name].values()))
    used = [name for name in COLOURS if any(name in by for by in taken.values())]
    made, axes = figure(0.9 + 0.2 * len(names) * max(1, len(used)), names)
    for number, strategy in enumerate(used):
        places = [place + 0.8 * number / len(used) for place in range(len(names))]
        widths = [median(taken[name].get(strategy, [0.0])) for name in names]
        axes.barh(places, widths, height=0.8 / len(used), align="edge", color=COLOURS[strategy], label=strategy)
    axes.set_yticks([place + 0.4 for place in range(len(names))], names, fontsize="small")
    axes.invert_yaxis()
    axes.set_xlabel("seconds")
    axes.legend(frameon=False)
    return svg(made)


def _by_change(rows: Sequence[Row], own: Mapping[str, str]) -> str:
    changed: dict[str, int] = {}
    seconds: dict[str, float] = {}
    for row in rows:
        if row["table_name"] is None and row["event_type"] == "apply":
            changed[row["run_id"]] = changed.get(row["run_id"], 0) + (row["rows_out"] or 0)
        if row["table_name"] is None and row["event_type"] == "refresh":
            seconds[row["run_id"]] = seconds.get(row["run_id"], 0.0) + row["seconds"]
    made, axes = figure(3.4, above=0.4)
    for strategy, colour in COLOURS.items():
        runs = [run for run in seconds if own.get(run) == strategy and run in changed]
        if runs:
            axes.scatter([changed[run] for run in runs], [seconds[run] for run in runs], color=colour, label=strategy)
    axes.set_xlabel("rows changed")
    axes.set_ylabel("seconds")
    axes.set_xlim(0, 1.08 * max([1, *changed.values()]))
    axes.set_ylim(0, 1.08 * max([1.0, *seconds.values()]))
    _legend(axes)
    return svg(made)
