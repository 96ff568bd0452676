"""Plots of a page as SVG, in the colours of its theme. They load nothing from other hosts."""

import io
from collections.abc import Sequence
from math import nan
from typing import TYPE_CHECKING

from markupsafe import Markup, escape

from medallion.hours import hour_number
from medallion.html.templating import Grid, Plot

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CHARACTER = 0.085  # inches of a character of a label, on average
WIDTH = 7.0  # inches; text stays readable when a plot is shown narrower
MAX_GAP = 24  # hours; longer gaps are drawn this wide, so that they do not squeeze the rest
SERIES_COLOURS = ("#3f7fe8", "#c98a00", "#2a9d64", "#b5446e", "#8a63d2")  # readable on light and dark pages


def make_figure(
    height: float, names: Sequence[str] = (), above: float = 0.15, below: float = 0.55
) -> "tuple[Figure, Axes]":
    """Return an empty plot as wide as a page. height, above, below: its height and its margins, in inches.

    names: the labels of the vertical axis. Their space is calculated here, because matplotlib's own layouts draw
    everything twice to measure it.
    """
    from matplotlib.figure import Figure

    beside = 0.25 + CHARACTER * max(map(len, names), default=len("10,000,000"))
    figure = Figure(figsize=(WIDTH, height), facecolor="none")
    place = (beside / WIDTH, below / height, 1 - (beside + 0.45) / WIDTH, 1 - (above + below) / height)
    axes = figure.add_axes(place, facecolor="none")
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def add_legend(axes: "Axes", columns: int) -> None:
    """Add a legend above the plot, where it hides nothing."""
    axes.legend(ncols=columns, loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False, fontsize="small")


def room_for_labels(axes: "Axes", labels: Sequence[str]) -> int:
    """Return how many of these labels fit beside each other below the plot."""
    inches = axes.get_position().width * WIDTH
    return max(1, int(inches / (CHARACTER * (2 + max(map(len, labels), default=0)))))


def to_svg(figure: "Figure", alt: str) -> Markup:
    """Return the plot as part of a page, with black replaced by the page's text colour."""
    from matplotlib import rc_context

    text = io.StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "medallion"}):
        figure.savefig(text, format="svg", metadata={"Date": None})
    whole = text.getvalue().replace("#000000", "currentColor")
    drawing = whole[whole.index("<svg") :].replace("<svg", f'<svg role="img" aria-label="{escape(alt)}"', 1)
    return Markup(drawing)  # noqa: S704 (matplotlib escapes its texts)


def hour_places(hours: Sequence[str]) -> list[int]:
    """Return the place of each hour on an axis: next to the hour before it, or after a gap if hours are missing."""
    places: list[int] = []
    for number, hour in enumerate(hours):
        missing = hour_number(hour) - hour_number(hours[number - 1]) - 1 if number else 0
        places.append(places[-1] + 1 + min(max(missing, 0), MAX_GAP) if number else 0)
    return places


def plot_over_hours(what: str, hours: Sequence[str], values: Sequence[float | None]) -> Plot:
    """Plot a line of one value by hour, oldest first, broken where hours are missing or have no value."""
    known = [(hour, value) for hour, value in zip(hours, values, strict=True) if value is not None]
    figure, axes = make_figure(2.0, below=0.6)
    places = hour_places([hour for hour, _ in known])
    line = dict.fromkeys(range(max(places, default=-1) + 1), nan) | dict(
        zip(places, (v for _, v in known), strict=True)
    )
    axes.plot([*line], [*line.values()], ".-", color=SERIES_COLOURS[0])
    every = max(1, len(known) // 8)
    axes.set_xticks(places[::every], [hour[5:] for hour, _ in known[::every]])
    axes.tick_params(labelsize="small")
    axes.locator_params(axis="y", nbins=4, integer=all(isinstance(value, int) for _, value in known))
    axes.yaxis.set_major_formatter("{x:,.4g}" if max((v for _, v in known), default=0) < 100 else "{x:,.0f}")
    axes.margins(y=0.2)
    alt = f"{what} by hour, {len(known)} hours"
    return Plot(to_svg(figure, alt), alt, Grid(f"{what} by hour", ("hour", what), known, {1}))
