"""The answer as a page: what an hour costs by strategy, by history and by change. Self-contained, plots as SVG."""

import io
import statistics
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import pairwise
from math import log
from pathlib import Path
from typing import Any

from bench.plan import PHASES, VIEWS
from medallion.storage.files import read_json, write_text

COLOURS = {
    "naive": "#9aa0a6",
    "full": "#2f6fde",
    "incremental": "#1a7f4b",
    "duckdb": "#c98a00",
    "declarative": "#b5446e",
    "feldera": "#8a3fbf",
}
PHASE_COLOURS = dict(
    zip(
        PHASES,
        ("#c9cdd3", "#8fb8f5", "#8a3fbf", "#c07ee8", "#2f6fde", "#1a3f85", "#e2a336", "#1a7f4b", "#e6e8eb"),
        strict=True,
    )
)
DAG_COLOURS = {"queue": "#e6e8eb", "start": "#f1c9a5", "session": "#8aa4b8"} | {
    phase: colour for phase, colour in PHASE_COLOURS.items() if phase not in {"push", "compute", "other"}
}

# What others have published for one hour of these changes: their words, their machines, never like for like.
PUBLISHED = (
    ("Feldera", "0.13 to 0.37 s per input end to end; 0.205 s for a whole hour in its tutorial", "always on"),
    ("Databricks Lakeflow with Enzyme", "86 s end to end, of which 58 s running", "14 of 15 views incremental"),
)

_STYLE = """
body { margin: 0 auto; max-width: 64rem; padding: 2rem 1.25rem 4rem; color: #1c2024;
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0 0 .25rem; } h2 { font-size: 1.15rem; margin: 2.25rem 0 .5rem; }
.soft { color: #60646c; } .answer { font-size: 1.1rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; } svg { height: auto; max-width: 100%; }
th { color: #60646c; font-weight: 500; text-align: left; }
th, td { border-bottom: 1px solid #e0e1e6; padding: .3rem .9rem .3rem 0; }
td.n, th.n { text-align: right; } input { font: inherit; width: 6rem; }
"""

_SCRIPT = """
const price = document.getElementById('price');
function bill() {
  for (const cell of document.querySelectorAll('[data-core-hours]'))
    cell.textContent = (cell.dataset.coreHours * price.value).toFixed(2);
}
price.addEventListener('input', bill); bill();
"""


def write(out: Path) -> None:
    """Make OUT/report.html from what has been measured there: OUT/measures.json, OUT/dag.json, or both."""
    page = render(read_json(out / "measures.json"), read_json(out / "dag.json"))
    write_text(out / "report.html", page)


def render(result: Mapping[str, Any] | None, dag: Mapping[str, Any] | None = None) -> str:
    """The page of one benchmark, from what strategies side by side, and runs of the DAG, have given."""
    sections = [*(_strategies(result) if result else ()), *(_dag_runs(dag) if dag else ()), *_others()]
    body = "\n".join(section for section in sections if section)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Batch against incremental</title>'
        f"<style>{_STYLE}</style></head><body><h1>Batch against incremental</h1>\n{body}\n<script>{_SCRIPT}</script>"
        "</body></html>\n"
    )


def _strategies(result: Mapping[str, Any]) -> list[str]:
    plan = result["plan"]
    totals = _totals(result)
    return [
        f'<p class="answer">{_answer(plan, totals)}</p>',
        "<h2>Seconds of an hour, by phase</h2>",
        f'<p class="soft">Medians of the hours after {plan["warm_up"]} that warm each driver up.</p>',
        _stacked(result, totals),
        "<h2>Every hour</h2>",
        _lines(result),
        *_by_sizes(totals),
        "<h2>What an hour takes</h2>",
        _hours(totals),
        _phases(result, totals),
        "<h2>What a month costs</h2>",
        '<p><label>Price of a core-hour: <input id="price" type="number" value="0.05" step="0.01" min="0"></label>'
        " (any currency), for 730 hours a month, by CPU seconds used: what waits is not paid for.</p>",
        _bill(totals),
        "<h2>The first hours</h2>",
        '<p class="soft">A cold driver, and for incremental the sums that it keeps, made once. Start: of the session;'
        " of Feldera, its program compiled and the snapshot pushed.</p>",
        _cold(result),
        "<h2>Conditions</h2>",
        _conditions(result),
    ]


def _dag_runs(dag: Mapping[str, Any]) -> list[str]:
    """An hour as a run of the DAG: where its seconds go, and how much of it is not refreshing."""
    runs: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for run in dag["runs"]:
        runs.setdefault((run["strategy"], run["spark"]), []).append(run)
    bars, rows = [], []
    for (strategy, spark), its in runs.items():
        middle = {phase: statistics.median(run["phases"].get(phase, 0.0) for run in its) for phase in DAG_COLOURS}
        whole = statistics.median(run["seconds"] for run in its)
        steps = sum(seconds for phase, seconds in middle.items() if phase not in {"queue", "start", "session"})
        bars.append((f"{strategy}, {spark}", middle))
        rows.append((strategy, spark, len(its), *(f"{n:.1f}" for n in (whole, steps, whole / steps))))
    return [
        "<h2>As a run of the DAG</h2>",
        f'<p class="soft">From trigger to release with {dag["days"]} days of history, at {dag["commit"]}, on'
        f" {escape(dag['machine']['processor'])} and {escape(dag['machine']['memory'])}; medians of"
        f" the runs after {dag['warm_up']} that warm up. Queue: between tasks, by the scheduler's clock. Start: of a"
        " task's process, and all that no step counts as its own.</p>",
        _stacks(bars, DAG_COLOURS),
        _table(("strategy", "Spark", "runs", "whole, median s", "its steps", "whole / steps"), rows),
    ]


def _others() -> list[str]:
    return [
        "<h2>Published by others</h2>",
        '<p class="soft">As published, on other machines and with other phases: not like for like.</p>',
        _table(("engine", "one hour of changes", "note"), PUBLISHED),
    ]


Key = tuple[int, float, str]
DAYS, CHANGES = "days of history", "times the usual change"


def _totals(result: Mapping[str, Any]) -> dict[Key, list[dict[str, Any]]]:
    """By history, change and strategy: the warm hours, whole. Refreshing alone is their ``refresh`` seconds.

    For an engine that is pushed to, refreshing is all of it.
    """
    found: dict[Key, list[dict[str, Any]]] = {}
    refresh: dict[tuple[Any, ...], float] = {}
    for m in result["measures"]:
        where = (m["days"], m["change"], m["repeat"], m["strategy"], m["hour"])
        if m["phase"] in {"silver", "gold", "push", "compute"}:
            refresh[where] = refresh.get(where, 0.0) + m["seconds"]
        if m["phase"] == "total" and m["warm"]:
            found.setdefault((m["days"], m["change"], m["strategy"]), []).append({**m, "refresh": refresh[where]})
    order = result["plan"]["strategies"]
    return {key: found[key] for key in sorted(found, key=lambda key: (key[0], key[1], order.index(key[2])))}


def _answer(plan: Mapping[str, Any], totals: Mapping[Key, Sequence[Mapping[str, Any]]]) -> str:
    days = max(days for days, change, _ in totals if change == 1)
    own = {name: totals[days, 1, name] for name in plan["strategies"]}
    if "incremental" not in own:
        return f"{days} days of history."
    mine = statistics.median(m["refresh"] for m in own["incremental"])
    others = ", ".join(
        f"<b>{statistics.median(m['refresh'] for m in rows) / mine:.1f} times</b> as long with {name}"
        for name, rows in own.items()
        if name != "incremental"
    )
    return f"With {days} days of history, refreshing Silver and Gold takes {mine:.1f} s incrementally, and {others}."


def _medians(result: Mapping[str, Any]) -> dict[tuple[int, float, str], dict[str, float]]:
    """By history, change and strategy: median seconds of the warm hours of each phase, and of the total."""
    found: dict[tuple[int, float, str], dict[str, list[float]]] = {}
    for m in result["measures"]:
        if m["warm"]:
            phases = found.setdefault((m["days"], m["change"], m["strategy"]), {})
            phases.setdefault(m["phase"], []).append(m["seconds"])
    return {key: {phase: statistics.median(s) for phase, s in phases.items()} for key, phases in found.items()}


def _label(days: int, change: float, name: str) -> str:
    return f"{name}, {_size(days, change)}"


def _size(days: int, change: float) -> str:
    return f"{days} d" + (f", x{change:g}" if change != 1 else "")


def _stacked(result: Mapping[str, Any], totals: Mapping[Key, Any]) -> str:
    found = _medians(result)
    return _stacks([(_label(*key), found[key]) for key in totals], PHASE_COLOURS)


def _stacks(bars: Sequence[tuple[str, Mapping[str, float]]], colours: Mapping[str, str]) -> str:
    """A bar each, of seconds by phase."""
    figure, axes = _figure(0.9 + 0.42 * len(bars))
    left = [0.0] * len(bars)
    for phase, colour in colours.items():
        widths = [values.get(phase, 0.0) for _, values in bars]
        if not any(widths):
            continue
        axes.barh(range(len(bars)), widths, left=left, color=colour, label=phase)
        left = [a + b for a, b in zip(left, widths, strict=True)]
    axes.set_yticks(range(len(bars)), [label for label, _ in bars])
    axes.invert_yaxis()
    axes.set_xlabel("seconds")
    _legend(axes, len(colours))
    return _svg(figure)


def _lines(result: Mapping[str, Any]) -> str:
    figure, axes = _figure(4.0)
    usual = {key: rows for key, rows in _series(result).items() if key[1] == 1}
    sizes = sorted({days for days, *_ in usual})
    for (days, change, name), rows in usual.items():
        shade = 0.35 + 0.65 * (sizes.index(days) + 1) / len(sizes)
        axes.plot(
            [m["number"] for m in rows],
            [m["seconds"] for m in rows],
            ".-",
            color=_colour(name),
            alpha=shade,
            label=_label(days, change, name),
        )
    axes.axvline(result["plan"]["warm_up"] + 0.5, color="#c9cdd3", linestyle=":")
    axes.set_xlabel("hour since the driver started")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_ylabel("seconds")
    axes.set_yscale("log")
    _legend(axes, len(sizes) * 2)
    return _svg(figure)


def _series(result: Mapping[str, Any]) -> dict[Key, list[Mapping[str, Any]]]:
    found: dict[Key, list[Mapping[str, Any]]] = {}
    for m in result["measures"]:
        if m["phase"] == "total" and m["repeat"] == 1:
            found.setdefault((m["days"], m["change"], m["strategy"]), []).append(m)
    return found


def _by_sizes(totals: Mapping[Key, Sequence[Mapping[str, Any]]]) -> Iterator[str]:
    """How the seconds of refreshing grow: with the history, for the usual change; with the change, for each history
    that has had others."""
    yield _by_size({(days, name): rows for (days, change, name), rows in totals.items() if change == 1}, DAYS)
    for history in sorted({days for days, change, _ in totals if change != 1}):
        found = {(change, name): rows for (days, change, name), rows in totals.items() if days == history}
        yield _by_size(found, CHANGES, f", with {history} days of history")


def _by_size(found: Mapping[tuple[float, str], Sequence[Mapping[str, Any]]], words: str, where: str = "") -> str:
    """By size and strategy, and where one overtakes another; nothing where one size was tried."""
    sizes = sorted({size for size, _ in found})
    if len(sizes) < 2:
        return ""
    figure, axes = _figure(3.2)
    curves: dict[str, list[float]] = {}
    for size, name in sorted(found, key=lambda key: key[0]):
        curves.setdefault(name, []).append(statistics.median(m["refresh"] for m in found[size, name]))
    for name, seconds in curves.items():
        axes.plot(sizes, seconds, "o-", color=_colour(name), label=name)
    axes.set_xlabel(words)
    axes.set_ylabel("seconds for Silver and Gold")
    if words == CHANGES:
        axes.set_xscale("log")
    axes.set_yscale("log")
    _legend(axes, len(curves))
    rows = [
        (name, *(f"{one:.1f}" for one in seconds), f"{seconds[-1] / seconds[0]:.2f}")
        for name, seconds in curves.items()
    ]
    told = _table(("seconds", *(f"{size:g}" for size in sizes), "last / first"), rows)
    return f"<h2>Against {words}{where}</h2>{_svg(figure)}{told}{_crossover(sizes, curves, words)}"


_SAME = log(1.05)  # rounds of one size differ by as much


def _crossover(sizes: Sequence[float], curves: Mapping[str, Sequence[float]], words: str) -> str:
    if not {"full", "incremental"} <= set(curves):
        return ""
    gains = [log(a / b) for a, b in zip(curves["full"], curves["incremental"], strict=True)]
    cheaper = [f"{size:g}" for size, gain in zip(sizes, gains, strict=True) if gain < -_SAME]
    same = [f"{size:g}" for size, gain in zip(sizes, gains, strict=True) if abs(gain) <= _SAME]
    told = []
    if cheaper:
        meet = [
            f"{float(f'{a * (b / a) ** (gain / (gain - then)):.2g}'):g}"
            for (a, gain), (b, then) in pairwise(zip(sizes, gains, strict=True))
            if (gain < 0) != (then < 0)
        ]
        where = f"; they meet at about {', '.join(meet)}, on a line between the sizes next to it" if meet else ""
        told.append(f"Full is faster than incremental at {', '.join(cheaper)} {words}{where}.")
    if same:
        told.append(f"Full and incremental are as fast as each other, within 5 %, at {', '.join(same)} {words}.")
    if not told:
        told.append(f"Incremental is faster than full at every size measured ({sizes[0]:g} to {sizes[-1]:g} {words}).")
    return f"<p>{' '.join(told)}</p>"


def _hours(totals: Mapping[Key, Sequence[Mapping[str, Any]]]) -> str:
    names = ("history", "change", "strategy", "hours", "refresh, median s", "whole, median s", "p95", "largest")
    more = ("CPU s", "MB written", "files", "commits")
    rows = []
    for (days, change, name), hours in totals.items():
        seconds = sorted(m["seconds"] for m in hours)
        middle = {
            field: statistics.median(m[field] or 0 for m in hours)
            for field in ("refresh", "cpu_seconds", "bytes_out", "files", "commits")
        }
        rows.append(
            (
                *(f"{days} d", f"x{change:g}", name, len(hours), f"{middle['refresh']:.1f}"),
                f"{statistics.median(seconds):.1f}",
                f"{seconds[min(len(seconds) - 1, int(0.95 * len(seconds)))]:.1f}",
                f"{seconds[-1]:.1f}",
                "" if hours[0]["cpu_seconds"] is None else f"{middle['cpu_seconds']:.1f}",
                f"{middle['bytes_out'] / 1e6:.1f}",
                f"{middle['files']:.0f}",
                f"{middle['commits']:.0f}",
            )
        )
    return _table((*names, *more), rows)


def _phases(result: Mapping[str, Any], totals: Mapping[Key, Any]) -> str:
    """The same by phase, folded away."""
    found: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for m in result["measures"]:
        if m["warm"] and m["phase"] != "total":
            found.setdefault((m["days"], m["change"], m["strategy"], m["phase"]), []).append(m)
    rows = []
    for days, change, name in totals:
        for phase in (*PHASES, VIEWS):
            its = found.get((days, change, name, phase), [])
            if any(m["seconds"] for m in its):
                rows.append((f"{days} d", f"x{change:g}", name, phase, *(_middle(its, *field) for field in _FIELDS)))
    names = ("history", "change", "strategy", "phase", "median s", "CPU s", "MB written", "files", "commits", "jobs")
    return f"<details><summary>By phase</summary>{_table(names, rows)}</details>"


_FIELDS = (("seconds", 2), ("cpu_seconds", 2), ("bytes_out", 2, 1e6), ("files", 0), ("commits", 0), ("jobs", 0))


def _middle(measures: Sequence[Mapping[str, Any]], field: str, digits: int, unit: float = 1.0) -> str:
    """The median of a field, nothing where it is not known."""
    known = [m[field] / unit for m in measures if m.get(field) is not None]
    return f"{statistics.median(known):.{digits}f}" if known else ""


def _bill(totals: Mapping[Key, Sequence[Mapping[str, Any]]]) -> str:
    rows = []
    for (days, change, name), hours in totals.items():
        if hours[0]["cpu_seconds"] is None:
            continue  # another's machine
        core_hours = 730 * statistics.median(m["cpu_seconds"] for m in hours) / 3600
        rows.append(
            f"<tr><td>{days} d</td><td>x{change:g}</td><td>{name}</td><td class=n>{core_hours:.1f}</td>"
            f'<td class=n data-core-hours="{core_hours:.4f}"></td></tr>'
        )
    head = "<tr><th>history<th>change<th>strategy<th class=n>core-hours<th class=n>price</tr>"
    return f"<table>{head}{''.join(rows)}</table>"


def _cold(result: Mapping[str, Any]) -> str:
    rows = []
    for (days, change, name), hours in _series(result).items():
        start = result["session_seconds"][f"{days} {change:g} {name}"]
        first = [f"{m['seconds']:.1f}" for m in hours if not m["warm"]]
        rows.append((f"{days} d", f"x{change:g}", name, f"{start:.1f}", *first))
    numbers = (f"hour {n}" for n in range(1, result["plan"]["warm_up"] + 1))
    return _table(("history", "change", "strategy", "start", *numbers), rows)


def _conditions(result: Mapping[str, Any]) -> str:
    plan = result["plan"]
    kept = ", ".join(f"{size / 1e6:.1f} MB at {days} days" for days, size in result["kept_bytes"].items() if size)
    facts = {
        **result["machine"],
        "rounds": "; ".join(
            f"{_size(one['days'], one['change'])} (code {one['commit']}, load after it {one['load']})"
            for one in result["rounds"]
        ),
        "scale": f"{plan['scale']:g} times the demo shop",
        "hours counted": f"{plan['hours']} after {plan['warm_up']} in each round, which has fresh drivers and lakes",
        "changes": "of all tables" if plan["catalogue"] else "of orders, items, clicks and stock alone",
        "rows": "equal in all strategies after every hour, or there would be no report",
        "state of incremental": kept or "none",
        "queue": "none: no scheduler stands between the hours here",
        **_services(result),
    }
    return _table(("", ""), [(name, str(value)) for name, value in facts.items()])


def _services(result: Mapping[str, Any]) -> dict[str, str]:
    """What another engine had, what its cold start took, and what it held after the last hour."""
    return {
        f"{start.split()[-1]}, {_size(int(start.split()[0]), float(start.split()[1]))}": (
            f"{facts['workers']} workers; compiled in {facts['compile_seconds']:.1f} s, deployed in"
            f" {facts['deploy_seconds']:.1f} s, snapshot in {facts['snapshot_seconds']:.1f} s; afterwards"
            f" {_megabytes(facts['memory_bytes'])} of memory, {_megabytes(facts['storage_bytes'])} of storage, as it"
            " reports them; views are read apart, not in its seconds"
        )
        for start, facts in result.get("services", {}).items()
    }


def _megabytes(size: float | None) -> str:
    return "an unknown amount" if size is None else f"{size / 1e6:,.0f} MB"


def _colour(name: str) -> str:
    return COLOURS.get(name, "#6b4fbb")


def _table(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    def cell(value: Any) -> str:
        number = str(value).replace(".", "", 1).isdigit()
        return f"<td{' class=n' if number else ''}>{escape(str(value))}</td>"

    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join(f"<tr>{''.join(map(cell, row))}</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def _figure(height: float) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, height), layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _legend(axes: Any, columns: int) -> None:
    """Above the plot, where it covers nothing."""
    axes.legend(ncols=columns, fontsize="small", loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)


def _svg(figure: Any) -> str:
    from matplotlib import rc_context

    text = io.StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "medallion"}):
        figure.savefig(text, format="svg", metadata={"Date": None})
    svg = text.getvalue()
    return svg[svg.index("<svg") :]
