"""The product of the pipeline as a page: what a declared chart draws, and what shows without one."""

from collections.abc import Sequence
from datetime import date, timedelta
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from medallion import Chart, Table
from medallion.errors import MedallionError, UsageError
from medallion.inspect import results
from medallion.inspect.results import Series, TableResult, published_tables, read_result, read_sample, write_csv
from medallion.model.chart import output_columns
from medallion.model.parsed_query import Schemas
from medallion.model.registry import Registry
from medallion.ops import releases
from medallion.storage.duckdb_views import open_sealed_views
from medallion.storage.lake import Lake
from medallion.ui import results as results_of_ui
from medallion.ui.results import PARTIAL, results_page
from medallion.ui.table import table_page
from medallion.ui.values import cell_text
from tests.shop import build, registry

SALES = pa.table(
    {"week": ["w2", "w1", "w2"], "shop": ["a", "a", "<b>"], "revenue": pa.array([20.0, 10.0, 5.0], pa.float64())}
)


def sales(chart: Chart | None) -> Registry:
    """A Gold table that no page has been told of."""
    query = "SELECT week, shop, SUM(price) AS revenue FROM {silver_lines} GROUP BY week, shop"
    lines = Table(
        ("id",), "SELECT 1 AS id, 2 AS week, 3 AS shop, 4 AS price", name="silver_lines", layer="silver", doc="Lines."
    )
    gold = Table(("week", "shop"), query, chart=chart, name="gold_sales", layer="gold", doc="Sales.\n\nMore.")
    return build([lines, gold])


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(str(tmp_path / "lake"))
    write_deltalake(lake.path("gold_sales"), SALES)
    releases.publish(
        lake,
        after=None,
        hour="2025-11-30T00",
        run_id="r",
        strategy="full",
        contents=releases.Contents({"gold_sales": 0}),
    )
    return lake


def read(lake: Lake, tables: Registry) -> TableResult:
    """The one table of the newest release."""
    release = releases.require_release(lake, None)
    (table,) = published_tables(release, tables)
    return read_result(lake, release, table)


def publish_weeks(lake: Lake, hour: str, revenue: list[float]) -> None:
    """Publish Sundays from 2025-11-09 on with their revenue, of shop a."""
    weeks = [date(2025, 11, 9) + timedelta(weeks=number) for number in range(len(revenue))]
    rows = pa.table({"week": weeks, "shop": ["a"] * len(weeks), "revenue": revenue})
    write_deltalake(lake.path("gold_sales"), rows, mode="overwrite")
    after, version = releases.latest(lake), lake.version("gold_sales") or 0
    contents = releases.Contents({"gold_sales": version}, row_counts={"gold_sales": len(weeks)})
    releases.publish(lake, after=after, hour=hour, run_id=f"r{hour}", strategy="full", contents=contents)


@pytest.mark.parametrize(
    ("hour", "value", "change"),
    [
        ("2025-12-02T00", "300", "+50.0 % since 2025-11-16"),
        ("2025-12-06T23", "80", "-73.3 % since 2025-11-23"),
    ],
    ids=["a week that is not over", "the last hour of a week"],
)
def test_a_period_that_is_not_over_is_neither_a_number_nor_growth(
    tmp_path: Path, hour: str, value: str, change: str
) -> None:
    lake = Lake(str(tmp_path / "lake"))
    publish_weeks(lake, hour, [90.0, 200.0, 300.0, 80.0])
    tables = sales(Chart("line", "week", ("revenue",)))
    page = results_page(lake, tables)
    assert f'<b class="card-value">{value}</b>' in page
    assert change in page
    series = read(lake, tables).series
    assert series is not None and 0 in series.partial, "the history may begin within the first"


def test_a_total_is_compared_with_the_release_of_a_day_before(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path / "lake"))
    for hour, revenue in (("2025-12-01T00", 50.0), ("2025-12-01T05", 100.0), ("2025-12-02T06", 110.0)):
        publish_weeks(lake, hour, [revenue])
    page = results_page(lake, sales(Chart("bars", "shop", ("revenue",))))
    assert '<b class="card-value">110</b>' in page
    assert "+10.0 % since hour 2025-12-01T05" in page


@pytest.mark.parametrize(
    ("former", "now", "change"),
    [
        (4731.0, 4732.0, "+1 since"),
        (4732.0, 4731.0, "-1 since"),
        (4732.0, 4732.0, "no change since"),
        (0.1 + 0.2, 0.3, "no change since"),
    ],
)
def test_a_change_that_would_be_rounded_to_zero_percent_is_shown_as_it_is(
    tmp_path: Path, former: float, now: float, change: str
) -> None:
    lake = Lake(str(tmp_path / "lake"))
    for hour, revenue in (("2025-12-01T05", former), ("2025-12-02T06", now)):
        publish_weeks(lake, hour, [revenue])
    assert f"<span>{change} hour 2025-12-01T05" in results_page(lake, sales(Chart("bars", "shop", ("revenue",))))


@pytest.mark.parametrize(
    ("chart", "xs", "ys"),
    [
        (Chart("line", "day", ("y",)), [date(2025, 10, 31) + timedelta(days=n) for n in range(31)], range(31)),
        (Chart("line", "day", ("y",)), [date(2025, 10, 31) + timedelta(days=n) for n in range(8)], range(8)),
        (Chart("line", "hour", ("y",)), [f"2025-11-30T{n:02}" for n in range(15)], range(15)),
        (
            Chart("extremes", "supplier", ("y",)),
            [f"A company of a long name, no. {n}" for n in range(12)],
            [161_234] * 12,
        ),
        (Chart("bars", "status", ("y",)), ["a", "b"], [0, 0]),
    ],
)
def test_labels_of_an_axis_leave_room_between_each_other(
    monkeypatch: pytest.MonkeyPatch, chart: Chart, xs: list[object], ys: Sequence[int]
) -> None:
    drawn: list[Figure] = []
    monkeypatch.setattr(results_of_ui, "to_svg", lambda figure, _: drawn.append(figure))
    results_of_ui.draw(chart, Series(("y",), list(zip(xs, map(float, ys), strict=True))), "gold_x")
    canvas = FigureCanvasAgg(drawn[0])
    canvas.draw()
    (axes,) = drawn[0].axes
    low, high = sorted(axes.get_xlim())
    shown = [tick.label1 for tick in axes.xaxis.get_major_ticks() if low <= tick.get_loc() <= high]
    boxes = [label.get_window_extent(canvas.get_renderer()) for label in shown if label.get_text()]
    assert len(boxes) >= 2
    assert all(right.x0 - left.x1 >= 3 for left, right in pairwise(boxes)), "in pixels"


@pytest.mark.parametrize("chart", [None, Chart("line", "day", ("orders",))])
def test_days_come_newest_first_with_a_chart_and_without_and_the_caption_says_of_how_many(
    tmp_path: Path, chart: Chart | None
) -> None:
    lake = Lake(str(tmp_path / "lake"))
    days = [date(2025, 11, 1) + timedelta(days=number) for number in range(12)]
    write_deltalake(lake.path("gold_sales"), pa.table({"day": days, "orders": [1] * 12}))
    contents = releases.Contents({"gold_sales": 0}, row_counts={"gold_sales": 12})
    releases.publish(lake, after=None, hour=None, run_id="r", strategy="full", contents=contents)
    query = "SELECT day, COUNT(*) AS orders FROM {silver_lines} GROUP BY day"
    lines = Table(("day",), "SELECT 1 AS day", name="silver_lines", layer="silver", doc="Lines.")
    tables = build([lines, Table(("day",), query, chart=chart, name="gold_sales", layer="gold", doc="Sales.")])
    sample = read(lake, tables).sample
    assert sample is not None and [row[0] for row in sample.rows] == days[:1:-1]
    assert "10 of 12 rows of gold_sales" in results_page(lake, tables, "gold_sales")
    page = table_page(lake, tables, "gold_sales")
    assert "12 rows of gold_sales" in page and page.index("2025-11-12") < page.index("2025-11-01")


def test_ids_are_shown_as_they_are_pasted_into_sql() -> None:
    assert cell_text("order_id", "BIGINT", 1234567) == "1234567"
    assert cell_text("year", "INTEGER", 2025, keys=("year",)) == "2025"
    assert cell_text("orders", "BIGINT", 1234567) == "1,234,567"


@pytest.mark.parametrize(
    ("column", "value", "text"),
    [
        ("unit_price", Decimal("1234.5"), "1,234.50"),
        ("days_of_stock", 1234.5678, "1,235"),
        ("days_of_stock", 12.3456, "12.3"),
        ("days_of_stock", 1.23456, "1.23"),
        ("cancel_rate", 0.0123456, "0.0123"),
        ("days_of_stock", 12.0, "12"),
        ("days_of_stock", float("nan"), "nan"),
    ],
)
def test_decimals_are_cut_to_what_matters(column: str, value: float, text: str) -> None:
    assert cell_text(column, "DOUBLE", value) == text


def test_a_new_gold_table_appears_by_itself_as_rows(lake: Lake) -> None:
    page = results_page(lake, sales(None))
    assert 'href="results?table=gold_sales"' in page and "Sales." in page
    assert "w1" not in page and "<svg" not in page, "a table's rows are shown on demand"
    page = results_page(lake, sales(None), "gold_sales", "EUR")
    assert "Sales." in page and "<figure>" not in page
    assert all(text in page for text in ("w1", "20.00", "Release 1 of hour 2025-11-30T00", "table.csv?name=gold_sales"))
    assert "revenue (EUR)" in page, "an amount has its currency"
    assert "&lt;b&gt;" in page and "<b>" not in page


def test_line_sums_values_of_one_x_and_has_a_summary_and_a_table(lake: Lake) -> None:
    tables = sales(Chart("line", "week", ("revenue",)))
    result = read(lake, tables)
    assert result.series is not None
    assert result.series.points == [("w1", 10.0), ("w2", 25.0)]
    page = results_page(lake, tables, "gold_sales")
    assert PARTIAL in page
    assert 'role="img" aria-label="revenue (USD) of gold_sales by week, 2 points"' in page
    assert "25.00" in page and "w2, in part" in page


def test_bars_without_a_column_count_rows_and_the_most_urgent_rows_come_first(lake: Lake) -> None:
    result = read(lake, sales(Chart("bars", "shop", first="-revenue")))
    assert result.series is not None and result.sample is not None
    assert result.series.points == [("a", 2.0), ("<b>", 1.0)]
    assert [row[2] for row in result.sample.rows] == [20.0, 10.0, 5.0]


def test_extremes_are_the_largest_and_the_smallest(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path / "lake"))
    shops = {"week": ["w"] * 30, "shop": [f"s{n:02}" for n in range(30)], "revenue": [float(n) for n in range(30)]}
    write_deltalake(lake.path("gold_sales"), pa.table(shops))
    releases.publish(
        lake, after=None, hour=None, run_id="r", strategy="full", contents=releases.Contents({"gold_sales": 0})
    )
    result = read(lake, sales(Chart("extremes", "shop", ("revenue",))))
    assert result.series is not None
    assert [point[1] for point in result.series.points] == [29, 28, 27, 26, 25, 24, 5, 4, 3, 2, 1, 0]


def test_a_table_that_cannot_be_read_says_so_in_its_place(lake: Lake) -> None:
    for file in Path(lake.path("gold_sales")).glob("_delta_log/*"):
        file.unlink()
    page = results_page(lake, sales(None), "gold_sales")
    assert 'class="empty"' in page and "gold_sales" in page
    glance = results_page(lake, sales(Chart("bars", "shop")))
    assert 'class="empty"' in glance and 'class="card-link"' not in glance


def test_a_whole_table_is_a_csv_and_one_that_is_not_published_is_refused(lake: Lake) -> None:
    release = releases.require_release(lake, None)
    lines = "".join(write_csv(lake, release, "gold_sales")).split()
    assert lines == ["week,shop,revenue", "w2,a,20.0", "w1,a,10.0", "w2,<b>,5.0"]
    with pytest.raises(UsageError, match="has no table gold_other"):
        read_sample(lake, release, "gold_other", 1)


def test_a_chart_of_an_unknown_column_is_refused_when_the_registry_is_built() -> None:
    with pytest.raises(MedallionError, match=r"spark_jobs/gold/sales\.py draws wek.*week, shop, revenue"):
        sales(Chart("line", "wek", ("revenue",)))


def test_output_columns_are_those_that_the_parser_finds() -> None:
    tables = registry(extras=True)
    schemas = Schemas(tables.tables)
    for table in tables:
        if isinstance(table, Table) and (columns := output_columns(table.query)) is not None:
            assert [column.lower() for column in columns] == [*schemas.of(table.name)], table.name


def test_every_result_that_the_shop_asks_for_is_drawn() -> None:
    drawn = {table.name for table in registry() if isinstance(table, Table) and table.chart}
    assert drawn >= {
        *("gold_weekly_revenue_trend", "gold_order_status_summary", "gold_cancellation_impact"),
        *("gold_inventory_risk", "gold_supplier_performance", "gold_product_demand_surge"),
    }


def test_a_version_is_read_once_for_however_many_looks_and_releases(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(str(tmp_path / "lake"))
    publish_weeks(lake, "2025-12-01T00", [50.0])
    opened: list[object] = []
    monkeypatch.setattr(results, "open_sealed_views", lambda *sides: opened.append(sides) or open_sealed_views(*sides))
    tables = sales(Chart("bars", "shop", ("revenue",)))
    for _ in range(2):
        assert '<b class="card-value">50</b>' in results_page(lake, tables)
    newest = releases.require_release(lake, None)
    contents = releases.Contents(newest.versions, row_counts=newest.row_counts)
    releases.publish(lake, after=newest, hour="2025-12-01T01", run_id="again", strategy="full", contents=contents)
    assert "Release 2 of hour 2025-12-01T01" in results_page(lake, tables)
    assert len(opened) == 1
