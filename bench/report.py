"""The answer as a page: what an hour costs by strategy, by history and by change. Self-contained, plots as SVG."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import log
from pathlib import Path
from typing import Any

from bench.parts import Cells, Drawing, Heading, Paragraph, Part, Price, draw
from bench.plan import PHASES, VIEWS
from medallion.ops.event_schema import PHASE_COLOURS, RUN_PHASES, STRATEGY_COLOURS
from medallion.storage.files import read_json, write_text
from medallion.templating import render as render_template
from medallion.ui.plots import add_legend, make_figure

COLOURS = {
    "naive": "#9aa0a6",
    **STRATEGY_COLOURS,
    "duckdb": "#c98a00",
    "declarative": "#b5446e",
    "feldera": "#8a3fbf",
}
OTHER_COLOUR = "#e6e8eb"
DAG_COLOURS: dict[str, str] = {
    "queue": OTHER_COLOUR,
    "start": "#f1c9a5",
    **{phase: PHASE_COLOURS[phase] for phase in RUN_PHASES},
}
STACK_COLOURS: dict[str, str] = {
    **{phase: colour for phase, colour in PHASE_COLOURS.items() if phase in PHASES},
    "other": OTHER_COLOUR,
}

# What others have published for one hour of these changes: their words, their machines, never like for like.
PUBLISHED = (
    ("Feldera", "0.13 to 0.37 s per input end to end; 0.205 s for a whole hour in its tutorial", "always on"),
    ("Databricks Lakeflow with Enzyme", "86 s end to end, of which 58 s running", "14 of 15 views incremental"),
)


def write(out: Path) -> None:
    """Make OUT/report.html from what has been measured there: OUT/measures.json, OUT/dag.json, or both."""
    page = render(read_json(out / "measures.json"), read_json(out / "dag.json"))
    write_text(out / "report.html", page)


def render(result: Mapping[str, Any] | None, dag: Mapping[str, Any] | None = None) -> str:
    """The page of one benchmark, from what strategies side by side, and runs of the DAG, have given."""
    parts = [*(_strategies(result) if result else ()), *(_dag_runs(dag) if dag else ()), *_others()]
    return render_template("benchmark_report.html", title="Batch against incremental", parts=parts)


def _strategies(result: Mapping[str, Any]) -> list[Part]:
    plan = result["plan"]
    totals = _totals(result)
    return [
        Paragraph(_answer(plan, totals), "answer"),
        Heading("Seconds of an hour, by phase"),
        Paragraph(f"Medians of the hours after {plan['warm_up']} that warm each driver up.", "soft"),
        _stacked(result, totals),
        Heading("Every hour"),
        _lines(result),
        *_by_sizes(totals),
        Heading("What an hour takes"),
        _hours(totals),
        _phases(result, totals),
        Heading("What a month costs"),
        Price(),
        _bill(totals),
        Heading("The first hours"),
        Paragraph(
            "A cold driver, and for incremental the state that it keeps, built once. Start: of the session; of Feldera,"
            " its program compiled and the snapshot pushed.",
            "soft",
        ),
        _cold(result),
        Heading("Conditions"),
        _conditions(result),
    ]


def _dag_runs(dag: Mapping[str, Any]) -> list[Part]:
    """An hour as a run of the DAG: where its seconds go, and how much of it is not refreshing."""
    runs: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for run in dag["runs"]:
        runs.setdefault((run["strategy"], run["spark"]), []).append(run)
    bars, rows = [], []
    for (strategy, spark), group in runs.items():
        middle = {phase: statistics.median(run["phases"].get(phase, 0.0) for run in group) for phase in DAG_COLOURS}
        whole = statistics.median(run["seconds"] for run in group)
        steps = sum(seconds for phase, seconds in middle.items() if phase not in {"queue", "start", "session"})
        bars.append((f"{strategy}, {spark}", middle))
        rows.append((strategy, spark, len(group), *(f"{n:.1f}" for n in (whole, steps, whole / steps))))
    return [
        Heading("As a run of the DAG"),
        Paragraph(
            f"From trigger to release with {dag['days']} days of history, at {dag['commit']}, on"
            f" {dag['machine']['processor']} and {dag['machine']['memory']}; medians of the runs after"
            f" {dag['warm_up']} that warm up. Queue: between tasks, by the scheduler's clock. Start: of a task's"
            " process, and all that no step counts as its own.",
            "soft",
        ),
        _stacks(bars, DAG_COLOURS),
        Cells("Runs of the DAG", ("strategy", "Spark", "runs", "whole, median s", "its steps", "whole / steps"), rows),
    ]


def _others() -> list[Part]:
    return [
        Heading("Published by others"),
        Paragraph("As published, on other machines and with other phases: not like for like.", "soft"),
        Cells("Published by others", ("engine", "one hour of changes", "note"), PUBLISHED),
    ]


Key = tuple[int, float, str]
DAYS, CHANGES = "days of history", "times the usual change"


def _totals(result: Mapping[str, Any]) -> dict[Key, list[dict[str, Any]]]:
    """By history, change and strategy: the warm hours, whole. Refreshing alone is their ``refresh`` seconds.

    For an engine that is pushed to, refreshing is all of it.
    """
    totals: dict[Key, list[dict[str, Any]]] = {}
    refresh: dict[tuple[Any, ...], float] = {}
    for m in result["measures"]:
        where = (m["days"], m["change"], m["repeat"], m["strategy"], m["hour"])
        if m["phase"] in {"silver", "gold", "push", "compute"}:
            refresh[where] = refresh.get(where, 0.0) + m["seconds"]
        if m["phase"] == "total" and m["warm"]:
            totals.setdefault((m["days"], m["change"], m["strategy"]), []).append({**m, "refresh": refresh[where]})
    order = result["plan"]["strategies"]
    return {key: totals[key] for key in sorted(totals, key=lambda key: (key[0], key[1], order.index(key[2])))}


def _answer(plan: Mapping[str, Any], totals: Mapping[Key, Sequence[Mapping[str, Any]]]) -> str:
    days = max(days for days, change, _ in totals if change == 1)
    own = {name: totals[days, 1, name] for name in plan["strategies"]}
    if "incremental" not in own:
        return f"{days} days of history."
    mine = statistics.median(m["refresh"] for m in own["incremental"])
    others = ", ".join(
        f"{statistics.median(m['refresh'] for m in rows) / mine:.1f} times as long with {name}"
        for name, rows in own.items()
        if name != "incremental"
    )
    return f"With {days} days of history, refreshing Silver and Gold takes {mine:.1f} s incrementally, and {others}."


def _medians(result: Mapping[str, Any]) -> dict[tuple[int, float, str], dict[str, float]]:
    """By history, change and strategy: median seconds of the warm hours of each phase, and of the total."""
    seconds: dict[tuple[int, float, str], dict[str, list[float]]] = {}
    for m in result["measures"]:
        if m["warm"]:
            phases = seconds.setdefault((m["days"], m["change"], m["strategy"]), {})
            phases.setdefault(m["phase"], []).append(m["seconds"])
    return {key: {phase: statistics.median(s) for phase, s in phases.items()} for key, phases in seconds.items()}


def _label(days: int, change: float, name: str) -> str:
    return f"{name}, {_size(days, change)}"


def _size(days: int, change: float) -> str:
    return f"{days} d" + (f", x{change:g}" if change != 1 else "")


def _stacked(result: Mapping[str, Any], totals: Mapping[Key, Any]) -> Drawing:
    medians = _medians(result)
    return _stacks([(_label(*key), medians[key]) for key in totals], STACK_COLOURS)


def _stacks(bars: Sequence[tuple[str, Mapping[str, float]]], colours: Mapping[str, str]) -> Drawing:
    """A bar each, of seconds by phase."""
    figure, axes = make_figure(0.9 + 0.42 * len(bars))
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
    add_legend(axes, len(colours))
    return draw(figure, f"Seconds by phase, {len(bars)} bars")


def _lines(result: Mapping[str, Any]) -> Drawing:
    from matplotlib.ticker import MaxNLocator

    figure, axes = make_figure(4.0)
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
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylabel("seconds")
    axes.set_yscale("log")
    add_legend(axes, len(sizes) * 2)
    return draw(figure, "Seconds of every hour, by strategy and history")


def _series(result: Mapping[str, Any]) -> dict[Key, list[Mapping[str, Any]]]:
    series: dict[Key, list[Mapping[str, Any]]] = {}
    for m in result["measures"]:
        if m["phase"] == "total" and m["repeat"] == 1:
            series.setdefault((m["days"], m["change"], m["strategy"]), []).append(m)
    return series


def _by_sizes(totals: Mapping[Key, Sequence[Mapping[str, Any]]]) -> Iterator[Part]:
    """How the seconds of refreshing grow: with the history, for the usual change; with the change, for each history
    that has had others."""
    yield from _by_size({(days, name): rows for (days, change, name), rows in totals.items() if change == 1}, DAYS)
    for history in sorted({days for days, change, _ in totals if change != 1}):
        rows_by_change = {(change, name): rows for (days, change, name), rows in totals.items() if days == history}
        yield from _by_size(rows_by_change, CHANGES, f", with {history} days of history")


def _by_size(
    rows_by_size: Mapping[tuple[float, str], Sequence[Mapping[str, Any]]], words: str, where: str = ""
) -> list[Part]:
    """By size and strategy, and where one overtakes another; nothing where one size was tried."""
    sizes = sorted({size for size, _ in rows_by_size})
    if len(sizes) < 2:
        return []
    figure, axes = make_figure(3.2)
    curves: dict[str, list[float]] = {}
    for size, name in sorted(rows_by_size, key=lambda key: key[0]):
        curves.setdefault(name, []).append(statistics.median(m["refresh"] for m in rows_by_size[size, name]))
    for name, seconds in curves.items():
        axes.plot(sizes, seconds, "o-", color=_colour(name), label=name)
    axes.set_xlabel(words)
    axes.set_ylabel("seconds for Silver and Gold")
    if words == CHANGES:
        axes.set_xscale("log")
    axes.set_yscale("log")
    add_legend(axes, len(curves))
    rows = [
        (name, *(f"{median:.1f}" for median in seconds), f"{seconds[-1] / seconds[0]:.2f}")
        for name, seconds in curves.items()
    ]
    cells = Cells(
        f"Median seconds against {words}{where}", ("seconds", *(f"{size:g}" for size in sizes), "last / first"), rows
    )
    turns = crossover(sizes, curves, words)
    drawing = draw(figure, f"Seconds for Silver and Gold against {words}")
    return [Heading(f"Against {words}{where}"), drawing, cells, *([Paragraph(turns)] if turns else [])]


_SAME = log(1.05)  # rounds of one size differ by as much


def crossover(sizes: Sequence[float], curves: Mapping[str, Sequence[float]], words: str) -> str:
    """Where full overtakes incremental, in words; nothing where either was not measured."""
    if not {"full", "incremental"} <= set(curves):
        return ""
    gains = [log(a / b) for a, b in zip(curves["full"], curves["incremental"], strict=True)]
    cheaper = [f"{size:g}" for size, gain in zip(sizes, gains, strict=True) if gain < -_SAME]
    same = [f"{size:g}" for size, gain in zip(sizes, gains, strict=True) if abs(gain) <= _SAME]
    sentences = []
    if cheaper:
        meet = [
            f"{float(f'{a * (b / a) ** (gain / (gain - then)):.2g}'):g}"
            for (a, gain), (b, then) in pairwise(zip(sizes, gains, strict=True))
            if (gain < 0) != (then < 0)
        ]
        where = f"; they meet at about {', '.join(meet)}, on a line between the sizes next to it" if meet else ""
        sentences.append(f"Full is faster than incremental at {', '.join(cheaper)} {words}{where}.")
    if same:
        sentences.append(f"Full and incremental are as fast as each other, within 5 %, at {', '.join(same)} {words}.")
    if not sentences:
        sentences.append(
            f"Incremental is faster than full at every size measured ({sizes[0]:g} to {sizes[-1]:g} {words})."
        )
    return " ".join(sentences)


def _hours(totals: Mapping[Key, Sequence[Mapping[str, Any]]]) -> Cells:
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
    return Cells("What an hour takes", (*names, *more), rows)


def _phases(result: Mapping[str, Any], totals: Mapping[Key, Any]) -> Cells:
    """The same by phase, folded away."""
    measures: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for m in result["measures"]:
        if m["warm"] and m["phase"] != "total":
            measures.setdefault((m["days"], m["change"], m["strategy"], m["phase"]), []).append(m)
    rows = []
    for days, change, name in totals:
        for phase in (*PHASES, VIEWS):
            group = measures.get((days, change, name, phase), [])
            if any(m["seconds"] for m in group):
                rows.append((f"{days} d", f"x{change:g}", name, phase, *(_middle(group, *field) for field in _FIELDS)))
    names = ("history", "change", "strategy", "phase", "median s", "CPU s", "MB written", "files", "commits", "jobs")
    return Cells("By phase", names, rows, folded=True)


_FIELDS = (("seconds", 2), ("cpu_seconds", 2), ("bytes_out", 2, 1e6), ("files", 0), ("commits", 0), ("jobs", 0))


def _middle(measures: Sequence[Mapping[str, Any]], field: str, digits: int, unit: float = 1.0) -> str:
    """The median of a field, nothing where it is not known."""
    known = [m[field] / unit for m in measures if m.get(field) is not None]
    return f"{statistics.median(known):.{digits}f}" if known else ""


def _bill(totals: Mapping[Key, Sequence[Mapping[str, Any]]]) -> Cells:
    rows, prices = [], []
    for (days, change, name), hours in totals.items():
        if hours[0]["cpu_seconds"] is None:
            continue  # another's machine
        core_hours = 730 * statistics.median(m["cpu_seconds"] for m in hours) / 3600
        rows.append((f"{days} d", f"x{change:g}", name, f"{core_hours:.1f}"))
        prices.append(f"{core_hours:.4f}")
    return Cells("What a month costs", ("history", "change", "strategy", "core-hours", "price"), rows, prices)


def _cold(result: Mapping[str, Any]) -> Cells:
    rows = []
    for (days, change, name), hours in _series(result).items():
        start = result["session_seconds"][f"{days} {change:g} {name}"]
        first = [f"{m['seconds']:.1f}" for m in hours if not m["warm"]]
        rows.append((f"{days} d", f"x{change:g}", name, f"{start:.1f}", *first))
    numbers = (f"hour {n}" for n in range(1, result["plan"]["warm_up"] + 1))
    return Cells("The first hours", ("history", "change", "strategy", "start", *numbers), rows)


def _conditions(result: Mapping[str, Any]) -> Cells:
    plan = result["plan"]
    state_sizes = ", ".join(
        f"{size / 1e6:.1f} MB at {days} days" for days, size in result["kept_bytes"].items() if size
    )
    facts = {
        **result["machine"],
        "rounds": "; ".join(
            f"{_size(entry['days'], entry['change'])} (code {entry['commit']}, load after it {entry['load']})"
            for entry in result["rounds"]
        ),
        "scale": f"{plan['scale']:g} times the demo shop",
        "hours counted": f"{plan['hours']} after {plan['warm_up']} in each round, which has fresh drivers and lakes",
        "changes": "of all tables" if plan["catalogue"] else "of orders, items, clicks and stock alone",
        "rows": "equal in all strategies after every hour, or there would be no report",
        "state of incremental": state_sizes or "none",
        "queue": "none: no scheduler stands between the hours here",
        **service_rows(result),
    }
    return Cells("Conditions", ("what", "value"), [(name, str(value)) for name, value in facts.items()])


def service_rows(result: Mapping[str, Any]) -> dict[str, str]:
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
