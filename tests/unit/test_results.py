"""The product of the pipeline as a page: what a declared chart draws, and what shows without one."""

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from medallion import Chart, Table
from medallion.errors import MedallionError, UsageError
from medallion.inspect.results import read_results, read_sample, write_csv
from medallion.model.chart import output_columns
from medallion.model.parsed_query import Schemas
from medallion.model.registry import Registry, build, registry
from medallion.ops import releases
from medallion.storage.lake import Lake
from medallion.ui.results import PARTIAL, results_page

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


def test_a_new_gold_table_appears_by_itself_as_rows(lake: Lake) -> None:
    page = results_page(lake, sales(None))
    assert "Sales." in page and "<figure>" not in page
    assert all(text in page for text in ("w1", "20.00", "Release 1 of hour 2025-11-30T00", "table.csv?name=gold_sales"))
    assert "&lt;b&gt;" in page and "<b>" not in page


def test_line_sums_values_of_one_x_and_has_a_summary_and_a_table(lake: Lake) -> None:
    tables = sales(Chart("line", "week", ("revenue",)))
    (result,) = read_results(lake, releases.require_release(lake, None), tables)
    assert result.series is not None
    assert result.series.points == [("w1", 10.0), ("w2", 25.0)]
    page = results_page(lake, tables)
    assert PARTIAL in page
    assert 'role="img" aria-label="revenue of gold_sales by week, 2 points"' in page
    assert "25.00" in page


def test_bars_without_a_column_count_rows_and_the_most_urgent_rows_come_first(lake: Lake) -> None:
    (result,) = read_results(lake, releases.require_release(lake, None), sales(Chart("bars", "shop", first="-revenue")))
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
    (result,) = read_results(lake, releases.require_release(lake, None), sales(Chart("extremes", "shop", ("revenue",))))
    assert result.series is not None
    assert [point[1] for point in result.series.points] == [29, 28, 27, 26, 25, 24, 5, 4, 3, 2, 1, 0]


def test_a_table_that_cannot_be_read_says_so_in_its_place(lake: Lake) -> None:
    for file in Path(lake.path("gold_sales")).glob("_delta_log/*"):
        file.unlink()
    page = results_page(lake, sales(None))
    assert 'class="empty"' in page and "gold_sales" in page


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
