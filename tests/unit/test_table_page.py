"""The page of a table: where its columns come from, how it was refreshed, and what it holds."""

import json
import re
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from markupsafe import Markup

from medallion.errors import UsageError
from medallion.inspect.column_lineage import ColumnOf, column_lineage
from medallion.inspect.table_history import table_history
from medallion.model.refresh_method import RefreshMethod, read_method
from medallion.model.table import ChangeLog, Table
from medallion.ops import releases
from medallion.ops.event_log import append
from medallion.ops.events import Event
from medallion.refresh.definitions import CHANGED
from medallion.storage.delta_writes import append_rows, properties
from medallion.storage.lake import Lake
from medallion.ui.table import table_page
from tests.shop import registry

STATUS = "gold_order_status_summary"


def test_a_column_comes_from_the_columns_that_its_sql_reads() -> None:
    lineage = column_lineage(registry())
    level = ColumnOf("gold_inventory_risk", "stock_risk_level")
    assert {f"{source.table}.{source.column}" for source in lineage.sources[level]} == {
        *("silver_confirmed_order_items.quantity", "silver_inventory_current.current_stock"),
        "silver_inventory_current.lead_time_days",
    }
    assert ColumnOf("bronze_suppliers", "lead_time_days") in lineage.upstream(level)
    assert level in lineage.downstream(ColumnOf("bronze_suppliers", "lead_time_days"))


def test_a_count_of_rows_is_made_from_no_column() -> None:
    assert not column_lineage(registry()).sources[ColumnOf("gold_cancellation_impact", "weekly_total_orders")]


def test_every_computed_column_of_every_table_has_its_lineage() -> None:
    tables = registry(extras=True)
    lineage = column_lineage(tables)
    for table in tables:
        if isinstance(table, Table):
            known = [column for column in lineage.sources if column.table == table.name]
            assert known and all(s.table in table.inputs for column in known for s in lineage.sources[column])
        elif isinstance(table, ChangeLog):
            assert {s.table for c in lineage.sources if c.table == table.name for s in lineage.sources[c]} == {table.of}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(str(tmp_path / "lake"))
    rows = pa.table({"order_status": ["shipped", "<i>"], "order_count": [7, 3]})
    write_deltalake(lake.path(STATUS), rows)
    releases.publish(
        lake, after=None, hour="2025-11-30T01", run_id="r", strategy="full", contents=releases.Contents({STATUS: 0})
    )
    events = []
    for hour, how in (("2025-11-29T23", "additive"), ("2025-11-30T00", "upsert"), ("2025-11-30T01", "recomputed")):
        told = {"method": how, "note": f"note of {hour}"}
        events += [
            Event("r", hour, "refresh", "full", 1, "gold", STATUS, seconds=1.5, bytes_out=2_000_000, details=told),
            Event("r", hour, "check", "full", 1, "gold", STATUS, rows_in=2),
        ]
    append(lake, events)
    return lake


def test_page_says_what_was_done_lately_and_why_and_that_the_definition_changed(lake: Lake) -> None:
    page = words(table_page(lake, registry(), STATUS))
    assert "Refreshed lately by full recompute: note of 2025-11-30T01" in page
    again = {"method": "full recompute"}
    events = [
        Event("r", f"2025-11-30T{hour:02}", "refresh", "full", 1, "gold", STATUS, details=again) for hour in (2, 3)
    ]
    append(lake, events)
    page = words(table_page(lake, registry(), STATUS))
    assert "Refreshed lately by full recompute, the last 2 times: the run asked for a full refresh" in page
    assert CHANGED not in page, "which query its rows are of is not known"
    commit = properties(json.dumps({"query": "another"}))
    append_rows(lake.opened(lake.path(STATUS)), None, commit)
    assert CHANGED in words(table_page(lake, registry(), STATUS))


def words(page: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<(style|script)>.*?</\1>|<[^>]+>", " ", page, flags=re.DOTALL))


def test_the_page_says_what_a_table_is_and_how_it_was_refreshed(lake: Lake) -> None:
    page = table_page(lake, registry(), STATUS)
    text = words(page)
    assert "Orders, revenue and customers by order status." in text
    assert "2025-11-30T01: succeeded , full recompute, note of 2025-11-30T01" in text
    (query,) = re.findall(r"<h2>SQL</h2><pre[^>]*>(.*?)</pre>", page, re.DOTALL)
    assert "FROM {silver_orders_enriched}" in Markup(query).striptags()
    assert 'href="table?name=silver_orders_enriched"' in page
    assert "strategy used" in text and "strategy of the run" in text, "the run's strategy is not always that of a table"
    assert "Read by no table" in text
    assert page.count("<figure>") == 3  # rows, bytes and seconds
    assert "shipped" in text and "&lt;i&gt;" in page


def test_a_chosen_column_leads_to_what_it_is_made_from(lake: Lake) -> None:
    page = table_page(lake, registry(), STATUS, "total_revenue")
    assert 'href="table?name=bronze_orders&amp;column=order_total#column"' in page
    with pytest.raises(UsageError, match="has no column 'nothing'"):
        table_page(lake, registry(), STATUS, "nothing")


def test_page_says_what_columns_mean_whom_to_ask_and_the_tags(lake: Lake) -> None:
    page = table_page(lake, registry(), "gold_realtime_inventory_alerts", "lead_time_days")
    meaning = "Days from a reorder to its arrival"  # as bronze_suppliers says
    assert page.count(meaning) == 2, "in the list of columns and above the origin of the chosen one"
    assert "data team of the shop" in words(page) and "stock" in words(page)


def test_refreshes_of_this_and_an_older_version_have_the_same_words(lake: Lake) -> None:
    methods = [refresh.method for refresh in table_history(lake, STATUS)]
    assert methods == ["incremental aggregate", "upsert", "full recompute"]
    assert [read_method(method) for method in RefreshMethod] == [*RefreshMethod]


def test_a_table_that_no_release_has_still_has_a_page(lake: Lake) -> None:
    text = words(table_page(lake, registry(), "gold_inventory_risk"))
    assert "No release has this table yet." in text and "stock_risk_level" in text
