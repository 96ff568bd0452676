"""The answer as a page: what an hour costs by strategy, by history and by change. Self-contained, plots as SVG."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import log
from pathlib import Path
from typing import Any

from bench.measures import Key, totals_by_strategy
from bench.parts import Cells, Heading, Paragraph, Part, Price, draw
from bench.report_plots import DAG_COLOURS, colour_of, draw_hours, draw_phases, draw_stacks
from bench.report_tables import (
    bill_table,
    bytes_table,
    choices_table,
    conditions_table,
    first_hours_table,
    hours_table,
    phases_table,
)
from bench.results import read_results
from medallion.html.templating import render as render_template
from medallion.storage.files import read_json, write_text
from medallion.ui.plots import add_legend, make_figure

# What others have published for one hour of these changes: their words, their machines, never like for like.
PUBLISHED = (
    ("Feldera", "0.13 to 0.37 s per input end to end; 0.205 s for a whole hour in its tutorial", "always on"),
    ("Databricks Lakeflow with Enzyme", "86 s end to end, of which 58 s running", "14 of 15 views incremental"),
)


def write(out: Path) -> None:
    """Write OUT/report.html from what has been measured there: the results of a comparison, OUT/dag.json, or both."""
    page = render(read_results(out), read_json(out / "dag.json"))
    write_text(out / "report.html", page)


def render(result: Mapping[str, Any] | None, dag: Mapping[str, Any] | None = None) -> str:
    """Render the page of one benchmark.

    Args:
        result: Measures of strategies side by side.
        dag: Measures of runs of the DAG.
    """
    parts = [*(_strategies(result) if result else ()), *(_dag_runs(dag) if dag else ()), *_others()]
    return render_template("benchmark_report.html", title="Batch against incremental", parts=parts)


def _strategies(result: Mapping[str, Any]) -> list[Part]:
    plan = result["plan"]
    totals = totals_by_strategy(result)
    return [
        Paragraph(_answer(plan, totals), "answer"),
        Heading("Seconds of an hour, by phase"),
        Paragraph(f"Medians of the hours after {plan['warm_up']} that warm each driver up.", "soft"),
        draw_phases(result, totals),
        Heading("Every hour"),
        draw_hours(result),
        *_by_sizes(totals),
        Heading("What an hour takes"),
        hours_table(totals),
        *([read] if (read := bytes_table(result)).rows else ()),
        *([judged] if (judged := choices_table(result)).rows else ()),
        phases_table(result, totals),
        Heading("What a month costs"),
        Price(),
        bill_table(totals),
        Heading("The first hours"),
        Paragraph(
            "A cold driver, and for incremental the state that it keeps, built once. Start: of the session; of Feldera,"
            " its program compiled and the snapshot pushed.",
            "soft",
        ),
        first_hours_table(result),
        Heading("Conditions"),
        conditions_table(result),
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
        draw_stacks(bars, DAG_COLOURS),
        Cells("Runs of the DAG", ("strategy", "Spark", "runs", "whole, median s", "its steps", "whole / steps"), rows),
    ]


def _others() -> list[Part]:
    return [
        Heading("Published by others"),
        Paragraph("As published, on other machines and with other phases: not like for like.", "soft"),
        Cells("Published by others", ("engine", "one hour of changes", "note"), PUBLISHED),
    ]


DAYS, CHANGES = "days of history", "times the usual change"


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
    figure, axes = make_figure(3.2, above=0.4)
    curves: dict[str, list[float]] = {}
    for size, name in sorted(rows_by_size, key=lambda key: key[0]):
        curves.setdefault(name, []).append(statistics.median(m["refresh"] for m in rows_by_size[size, name]))
    for name, seconds in curves.items():
        axes.plot(sizes, seconds, "o-", color=colour_of(name), label=name)
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
    """Say in words where full overtakes incremental; nothing where either was not measured."""
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
