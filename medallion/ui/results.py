"""What the pipeline makes: each table of the newest release from Gold on, as a picture and as rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from medallion.hours import hour_or_snapshot
from medallion.inspect.results import Sample, Series, TableResult, read_results
from medallion.model.chart import Chart
from medallion.model.registry import Registry
from medallion.ops import releases
from medallion.storage.lake import Lake
from medallion.templating import Grid, Plot, in_words, render, render_notice
from medallion.ui.plots import SERIES_COLOURS, add_legend, make_figure, to_svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PARTIAL = "The first and the last point may cover a part of their period only."
NOTHING = "Nothing is published yet: run medallion load, then trigger hourly_refresh."


@dataclass(frozen=True)
class Section:
    """One table on the page. lead: the first sentence of its documentation. note: how to read the picture."""

    name: str
    title: str
    lead: str
    plot: Plot | None
    rows: Grid | None
    error: str | None
    note: str = ""


def results_page(lake: Lake, tables: Registry) -> str:
    """A section for each published table from Gold on, those that declare a chart first."""
    release = releases.latest(lake)
    if release is None:
        return render_notice("Results", NOTHING, "results")
    return render(
        "results.html",
        title="Results",
        page="results",
        release=release,
        hour=hour_or_snapshot(release.hour),
        sections=[_section(result) for result in read_results(lake, release, tables)],
    )


def _section(result: TableResult) -> Section:
    table, sample = result.table, result.sample
    plot = draw(table.chart, result.series, table.name) if table.chart and result.series else None
    rows = None if sample is None else sample_grid(sample, table.name)
    title = table.name.partition("_")[2].replace("_", " ").capitalize()
    note = PARTIAL if plot and table.chart and table.chart.kind == "line" else ""
    return Section(table.name, title, table.doc.partition("\n")[0], plot, rows, result.error, note)


def sample_grid(sample: Sample, table: str) -> Grid:
    """The rows of a sample, with the whole table as CSV."""
    numbers = {place for place, kind in enumerate(sample.types) if kind.startswith(_NUMBERS)}
    caption = f"{len(sample.rows)} rows of {table}"
    return Grid(caption, sample.columns, sample.rows, numbers, f"table.csv?name={table}")


MAX_MARKED_POINTS = 8  # of a line that each have a tick of their own
_NUMBERS = ("BIGINT", "INTEGER", "DOUBLE", "DECIMAL", "FLOAT", "HUGEINT", "SMALLINT", "TINYINT", "NUMBER")


def draw(chart: Chart, series: Series, table: str) -> Plot:
    """The picture of a table, in words and as a table as well."""
    names, points = [name.replace("_", " ") for name in series.names], series.points
    x = chart.x.replace("_", " ")
    if chart.kind == "line":
        figure, axes = make_figure(3.2, above=0.35)
        _draw_lines(axes, names, points)
    else:
        labels = [in_words(point[0]) or "none" for point in points]
        figure, axes = make_figure(0.75 + 0.3 * len(points), labels, above=0.1)
        _draw_bars(axes, labels, points)
        axes.set_xlabel(names[0])
    axes.spines[["left", "bottom"]].set_alpha(0.5)
    alt = f"{', '.join(names)} of {table} by {x}, {len(points)} {'points' if chart.kind == 'line' else 'bars'}"
    grid = Grid(f"{', '.join(names)} by {x}", (x, *names), points, range(1, 1 + len(names)))
    return Plot(to_svg(figure, alt), alt, grid)


def _draw_lines(axes: "Axes", names: Sequence[str], points: Sequence[tuple[Any, ...]]) -> None:
    for place, (name, colour) in enumerate(zip(names, SERIES_COLOURS, strict=False), 1):
        axes.plot([point[0] for point in points], [point[place] for point in points], color=colour, label=name, lw=2)
    if len(points) <= MAX_MARKED_POINTS:
        axes.set_xticks([point[0] for point in points], [in_words(point[0]) for point in points])
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter("{x:,.0f}")
    add_legend(axes, len(names))


def _draw_bars(axes: "Axes", labels: Sequence[str], points: Sequence[tuple[Any, ...]]) -> None:
    values = [point[1] or 0.0 for point in points]
    axes.barh(range(len(points)), values, color=SERIES_COLOURS[0], height=0.7)
    for place, value in enumerate(values):
        axes.text(max(value, 0.0), place, f" {value:,.0f}", va="center", fontsize="small")
    axes.set_yticks(range(len(points)), labels)
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.xaxis.set_major_formatter("{x:,.0f}")
