"""The page of results: the numbers of the newest release at a glance, and each table from Gold on, on demand."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from medallion.counts import counted
from medallion.errors import MedallionError
from medallion.hours import hour_or_snapshot
from medallion.html.templating import Grid, Link, Long, Plot, in_words, render, render_notice
from medallion.inspect.headlines import Headline, compared_release, read_headline
from medallion.inspect.results import Sample, Series, TableResult, published_tables, read_result
from medallion.model.chart import Chart
from medallion.model.registry import Registry
from medallion.model.table import Node, Table
from medallion.ops import releases
from medallion.storage.files import side_by_side
from medallion.storage.lake import Lake
from medallion.ui.plots import SERIES_COLOURS, add_legend, make_figure, room_for_labels, to_svg
from medallion.ui.values import cell_text, is_money, number, period, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PARTIAL = "Hollow: a period that the data may cover in part only."
NOTHING = "Nothing is published yet: run medallion load, then trigger hourly_refresh."
SPARK_WIDTH, SPARK_HEIGHT = 220, 44  # pixels of a sparkline
FLAT = 0.0005  # a smaller relative change is shown as a difference: in percent it would be rounded to zero
ROUNDING = 1e-12  # a smaller relative change is only that of adding numbers in another order


@dataclass(frozen=True)
class Card:
    """A table at a glance. bars: x, y, width and height of the bars of its sparkline. line: the points of a line."""

    table: str
    title: str
    label: str
    value: str
    change: str
    line: str
    bars: Sequence[tuple[float, float, float, float]]


@dataclass(frozen=True)
class Section:
    """One table on the page. lead: the first sentence of its documentation. note: how to read the plot."""

    name: str
    title: str
    lead: str
    plot: Plot | None
    rows: Grid | None
    error: str | None
    note: str = ""


def results_page(lake: Lake, tables: Registry, table: str = "", currency: str = "USD") -> str:
    """Render the numbers of the newest release, or one of its tables from Gold on.

    Args:
        lake: The lake.
        tables: The tables of the lake.
        table: The table to show; empty for all at a glance.
        currency: The currency of amounts.

    Raises:
        UsageError: There is no such table.
    """
    release = releases.latest(lake)
    if release is None:
        return render_notice("Results", NOTHING, "results")
    published = published_tables(release, tables)
    chosen = next((node for node in published if node.name == table), None)
    if table and chosen is None:
        tables[table]  # raises UsageError, which names the known tables
        return render_notice("Results", f"{table} is no table of release {release.release_id} from Gold on.", "results")
    retained = releases.read_all(lake)
    earlier = compared_release(release, retained)
    cards, errors = ([], []) if chosen else _cards(lake, release, earlier, published, currency)
    return render(
        "results.html",
        title="Results",
        page="results",
        release=release,
        hour=hour_or_snapshot(release.hour),
        others=[(node.name, _title(node.name)) for node in published],
        section=_section(read_result(lake, release, chosen), release, currency) if chosen else None,
        cards=cards,
        errors=errors,
        spark=(SPARK_WIDTH, SPARK_HEIGHT),
        tables=None if chosen else _table_list(release, earlier, published),
    )


def _cards(
    lake: Lake, release: releases.Release, earlier: releases.Release | None, tables: Sequence[Table], currency: str
) -> tuple[list[Card], list[str]]:
    """Return the cards of the tables that have a chart, and the errors of those that cannot be read."""

    def read(table: Table) -> Headline | str | None:
        try:
            return read_headline(lake, release, earlier, table)
        except MedallionError as error:
            return str(error)

    outcomes = side_by_side(read, [table for table in tables if table.chart])
    cards = [_card(headline, currency) for headline in outcomes if isinstance(headline, Headline)]
    return cards, [error for error in outcomes if isinstance(error, str)]


def _card(headline: Headline, currency: str) -> Card:
    name = "" if headline.name == "rows" else headline.name.replace("_", " ")
    unit = f" ({currency})" if is_money(headline.name, "DECIMAL") else ""
    along = headline.kind == "line"
    of = f", {'period from' if along else 'as of'} {period(headline.of)}"
    change = ""
    if headline.change is not None:
        change = f"{_size_of_change(headline)} since {period(headline.former_of)}"
    most = max(headline.points, default=0.0) or 1.0
    count = max(1, len(headline.points))
    step = SPARK_WIDTH / count
    heights = [max(1.0, round((SPARK_HEIGHT - 4) * max(0.0, point) / most, 1)) for point in headline.points]
    spots = [f"{round((place + 0.5) * step, 1)},{round(SPARK_HEIGHT - h, 1)}" for place, h in enumerate(heights)]
    bars = [(round(place * step, 1), SPARK_HEIGHT - h, round(0.75 * step, 1), h) for place, h in enumerate(heights)]
    return Card(
        headline.table,
        _title(headline.table),
        f"{name or 'rows'}{unit}{of}",
        short(headline.value),
        change,
        " ".join(spots) if along else "",
        [] if along else bars,
    )


def _size_of_change(headline: Headline) -> str:
    """Return a change as a percentage, or as it is where the percentage would be rounded to zero."""
    share, difference = headline.change or 0.0, headline.value - (headline.former or 0.0)
    if abs(share) < ROUNDING:
        return "no change"
    return (
        f"{100 * share:+.1f} %" if abs(share) >= FLAT else f"{'+' if difference > 0 else '-'}{number(abs(difference))}"
    )


def _table_list(release: releases.Release, earlier: releases.Release | None, tables: Sequence[Table]) -> Grid:
    """List every table with its number of rows, and how much that changed."""
    rows = []
    for table in tables:
        now = release.row_counts.get(table.name)
        before = earlier.row_counts.get(table.name) if earlier else None
        difference = "" if now is None or before is None else f"{now - before:+,}" if now != before else "0"
        link = Link(table.name, f"results?table={table.name}")
        rows.append((link, now, difference, Long(table.doc.partition("\n")[0])))
    since = f"since {hour_or_snapshot(earlier.hour)}" if earlier else "change"
    return Grid(
        f"{counted(len(rows), 'table')} of Gold and above", ("table", "rows", since, "what it is"), rows, {1, 2}
    )


def _title(table: str) -> str:
    return table.partition("_")[2].replace("_", " ").capitalize()


def _section(result: TableResult, release: releases.Release, currency: str) -> Section:
    table, sample = result.table, result.sample
    plot = draw(table.chart, result.series, table.name, currency) if table.chart and result.series else None
    rows = None if sample is None else sample_grid(sample, release, table, currency)
    note = PARTIAL if plot and result.series and result.series.partial else ""
    return Section(table.name, _title(table.name), table.doc.partition("\n")[0], plot, rows, result.error, note)


def sample_grid(sample: Sample, release: releases.Release, node: Node, currency: str = "USD") -> Grid:
    """Return the rows of a sample of a table at ``release``, with a link to the whole table as CSV."""
    numbers = {place for place, kind in enumerate(sample.types) if kind.startswith(_NUMBERS)}
    shown, whole = len(sample.rows), release.row_counts.get(node.name)
    count = counted(shown, "row") if whole is None or whole == shown else f"{shown} of {counted(whole, 'row')}"
    columns = [
        f"{name} ({currency})" if is_money(name, kind) else name
        for name, kind in zip(sample.columns, sample.types, strict=True)
    ]
    rows = [
        [
            cell_text(name, kind, value, node.keys)
            for name, kind, value in zip(sample.columns, sample.types, row, strict=True)
        ]
        for row in sample.rows
    ]
    return Grid(f"{count} of {node.name}", columns, rows, numbers, f"table.csv?name={node.name}")


_HOLLOW: dict[str, Any] = {"marker": "o", "mfc": "none", "ls": "none"}
_NUMBERS = ("BIGINT", "INTEGER", "DOUBLE", "DECIMAL", "FLOAT", "HUGEINT", "SMALLINT", "TINYINT", "NUMBER")


def draw(chart: Chart, series: Series, table: str, currency: str = "USD") -> Plot:
    """Draw the chart of a table, with its description in words and its data as a table."""
    return _draw(chart, tuple(series.names), tuple(series.points), series.partial, (table, currency))


@lru_cache(64)
def _draw(
    chart: Chart,
    columns: tuple[str, ...],
    points: tuple[tuple[Any, ...], ...],
    partial: frozenset[int],
    table_and_currency: tuple[str, str],
) -> Plot:
    table, currency = table_and_currency
    units = [f" ({currency})" if is_money(column, "DECIMAL") else "" for column in columns]
    names = [f"{column.replace('_', ' ')}{unit}" for column, unit in zip(columns, units, strict=True)]
    x = chart.x.replace("_", " ")
    if chart.kind == "line":
        figure, axes = make_figure(3.2, above=0.35)
        _draw_lines(axes, names, points, partial)
    else:
        labels = [in_words(point[0]) or "none" for point in points]
        figure, axes = make_figure(0.75 + 0.3 * len(points), labels, above=0.1)
        _draw_bars(axes, labels, points)
        axes.set_xlabel(names[0])
    axes.spines[["left", "bottom"]].set_alpha(0.5)
    alt = f"{', '.join(names)} of {table} by {x}, {len(points)} {'points' if chart.kind == 'line' else 'bars'}"
    rows = [
        (
            period(point[0]) + (", in part" if place in partial else ""),
            *(cell_text(column, "DECIMAL", value) for column, value in zip(columns, point[1:], strict=True)),
        )
        for place, point in enumerate(points)
    ]
    grid = Grid(f"{', '.join(names)} by {x}", (x, *names), rows, range(1, 1 + len(names)))
    return Plot(to_svg(figure, alt), alt, grid)


def _draw_lines(axes: "Axes", names: Sequence[str], points: Sequence[tuple[Any, ...]], partial: frozenset[int]) -> None:
    """Draw a line through the points of whole periods; points of partial periods are drawn apart from it."""
    has_dates = all(isinstance(point[0], date) for point in points)
    places = [point[0] for point in points] if has_dates else [*range(len(points))]
    whole = [place for place in range(len(points)) if place not in partial]
    for column, (name, colour) in enumerate(zip(names, SERIES_COLOURS, strict=False), 1):
        for chosen, style in ((whole, {"marker": ".", "label": name, "lw": 2}), (sorted(partial), _HOLLOW)):
            values = [points[place][column] for place in chosen]
            axes.plot([places[place] for place in chosen], values, color=colour, **style)
    labels = [in_words(point[0]) for point in points]
    gap = (places[-1] - places[0]) / max(1, room_for_labels(axes, labels) - 1) if places else 0
    ticks: list[int] = []
    for place in range(len(places)):
        if not ticks or places[place] - places[ticks[-1]] >= gap:
            ticks.append(place)
    axes.set_xticks([places[tick] for tick in ticks], [labels[tick] for tick in ticks])
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
    axes.locator_params(axis="x", nbins=room_for_labels(axes, [f"{max(values, default=0.0):,.0f}"]))
