"""Draw the plot of the documentation from the benchmark's committed figures: `python -m bench.docs_plot`."""

from pathlib import Path
from statistics import median
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure

from bench.results import read_results

ROOT = Path(__file__).resolve().parents[1]
BENCHMARK = ROOT / "docs" / "benchmark"
PLOT = ROOT / "docs" / "images" / "seconds-by-history.svg"
COLOURS = {"naive": "#b35900", "full": "#3b6fb6", "incremental": "#1d8348", "duckdb": "#7d5ba6"}
LABELS = {"duckdb": "DuckDB, one process"}


def median_seconds(result: dict[str, Any]) -> dict[str, dict[int, float]]:
    """Return by strategy and days of history: the median seconds of Silver and Gold in a warm hour."""
    hours: dict[tuple[str, int, int, str], float] = {}
    for measure in result["measures"]:
        if measure["warm"] and measure["change"] == 1 and measure["phase"] in {"silver", "gold"}:
            hour = (measure["strategy"], measure["days"], measure["repeat"], measure["hour"])
            hours[hour] = hours.get(hour, 0.0) + measure["seconds"]
    medians: dict[str, dict[int, float]] = {name: {} for name in result["plan"]["strategies"]}
    for days in sorted(result["plan"]["days"]):
        for strategy, of in medians.items():
            of[days] = median(seconds for (name, d, *_), seconds in hours.items() if (name, d) == (strategy, days))
    return medians


def draw(medians: dict[str, dict[int, float]]) -> Figure:
    """Draw one line per strategy, its name at its end."""
    figure = Figure(figsize=(7.2, 3.4), layout="constrained")
    axes = figure.subplots()
    for strategy, of in medians.items():
        colour = COLOURS[strategy]
        axes.plot(list(of), list(of.values()), "o-", color=colour)
        days, seconds = list(of.items())[-1]
        text = f"{LABELS.get(strategy, strategy)}  {seconds:.0f} s"
        axes.annotate(text, (days, seconds), (6, 0), textcoords="offset points", va="center", color=colour)
    axes.set_xlabel("days of history")
    axes.set_ylabel("seconds, Silver and Gold")
    axes.set_yscale("log")
    ticks = {seconds: f"{seconds}" for seconds in (2, 5, 10, 20, 50, 100)}
    axes.set_yticks(list(ticks), list(ticks.values()))
    axes.minorticks_off()
    axes.set_xticks(list(next(iter(medians.values()))))
    axes.set_xlim(0, 500)
    axes.grid(axis="y", alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def main() -> None:
    """Write the plot; the same figures give the same bytes."""
    result = read_results(BENCHMARK)
    assert result is not None, f"{BENCHMARK} has results"
    figure = draw(median_seconds(result))
    with rc_context({"svg.hashsalt": "medallion", "svg.fonttype": "path"}):
        figure.savefig(PLOT, metadata={"Date": None}, facecolor="white")


if __name__ == "__main__":
    main()
