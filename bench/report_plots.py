"""The plots of the benchmark report, as SVG."""

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

from bench.measures import Key, medians_by_phase, series_of_first_repeat, strategy_label
from bench.parts import Drawing, draw
from bench.plan import PHASES
from medallion.ops.event_schema import STRATEGY_COLOURS, phases_of
from medallion.project import find_project
from medallion.ui.plots import add_legend, make_figure

COLOURS = {
    "naive": "#9aa0a6",
    **STRATEGY_COLOURS,
    "duckdb": "#c98a00",
    "declarative": "#b5446e",
    "feldera": "#8a3fbf",
}
OTHER_COLOUR = "#e6e8eb"
_EVERY_PHASE = phases_of(find_project().layers, external=True)
DAG_COLOURS: dict[str, str] = {
    "queue": OTHER_COLOUR,
    "start": "#f1c9a5",
    **phases_of(find_project().layers),
}
STACK_COLOURS: dict[str, str] = {
    **{phase: colour for phase, colour in _EVERY_PHASE.items() if phase in PHASES},
    "other": OTHER_COLOUR,
}


def draw_phases(result: Mapping[str, Any], totals: Mapping[Key, Any]) -> Drawing:
    """Draw the median seconds of an hour by phase, a bar for each history, change and strategy."""
    medians = medians_by_phase(result)
    return draw_stacks([(strategy_label(*key), medians[key]) for key in totals], STACK_COLOURS)


def draw_stacks(bars: Sequence[tuple[str, Mapping[str, float]]], colours: Mapping[str, str]) -> Drawing:
    """Draw a stacked bar of seconds by phase for each of ``bars``, label and seconds."""
    figure, axes = make_figure(1.0 + 0.36 * len(bars), [label for label, _ in bars], above=0.4)
    left = [0.0] * len(bars)
    for phase, colour in colours.items():
        widths = [values.get(phase, 0.0) for _, values in bars]
        if not any(widths):
            continue
        axes.barh(range(len(bars)), widths, left=left, color=colour, label=phase)
        left = [a + b for a, b in zip(left, widths, strict=True)]
    axes.set_yticks(range(len(bars)), [label for label, _ in bars])
    axes.invert_yaxis()
    axes.margins(y=0.01)
    axes.set_xlabel("seconds")
    add_legend(axes, len(colours))
    return draw(figure, f"Seconds by phase, {len(bars)} bars")


def draw_hours(result: Mapping[str, Any]) -> Drawing:
    """Draw the seconds of every hour since its driver started, a line for each strategy and history."""
    from matplotlib.ticker import MaxNLocator

    usual = {key: rows for key, rows in series_of_first_repeat(result).items() if key[1] == 1}
    sizes = sorted({days for days, *_ in usual})
    legend_rows = ceil(len(usual) / (2 * len(sizes)))
    figure, axes = make_figure(4.2, above=0.15 + 0.25 * legend_rows)
    for (days, change, name), rows in usual.items():
        shade = 0.35 + 0.65 * (sizes.index(days) + 1) / len(sizes)
        axes.plot(
            [m["number"] for m in rows],
            [m["seconds"] for m in rows],
            ".-",
            color=colour_of(name),
            alpha=shade,
            label=strategy_label(days, change, name),
        )
    axes.axvline(result["plan"]["warm_up"] + 0.5, color="#c9cdd3", linestyle=":")
    axes.set_xlabel("hour since the driver started")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylabel("seconds")
    axes.set_yscale("log")
    add_legend(axes, len(sizes) * 2)
    return draw(figure, "Seconds of every hour, by strategy and history")


def colour_of(name: str) -> str:
    """Return the colour of a strategy or engine."""
    return COLOURS.get(name, "#6b4fbb")
