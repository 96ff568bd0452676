"""Tables on a terminal: whatever the width, no value is cut."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import click
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from medallion.cli.sheet import Column, Sheet, render, text_of, wrap_line
from medallion.cli.sheets import events_sheet
from medallion.model.refresh_method import RefreshMethod
from medallion.ops import event_schema
from medallion.ops.event_schema import EventRow

COLUMNS = [Column("table"), Column("rows"), Column("MB", rank=2), Column("hour", rank=1), Column("note", note=True)]
ROW = ("gold_realtime_inventory_alerts", 1_234_567, Decimal("12.5"), "2025-11-30T00", "a note of several words")
WIDTHS = (60, 80, 200)
CELLS = st.one_of(st.none(), st.integers(), st.decimals(allow_nan=False, places=3), st.text(max_size=90))


def lines(sheet: Sheet, width: int | None) -> list[str]:
    return [click.unstyle(line) for line in render(sheet, width)]


def test_columns_go_by_rank_when_the_terminal_is_narrow_and_are_named() -> None:
    assert lines(Sheet(COLUMNS, [ROW]), 60) == [
        "table                                rows  hour",
        "──────────────────────────────  ─────────  ─────────────",
        "gold_realtime_inventory_alerts  1,234,567  2025-11-30T00",
        "    note: a note of several words",
        "not shown for want of width: MB (--wide shows them)",
    ]
    assert "MB" in lines(Sheet(COLUMNS, [ROW]), 80)[0]
    assert not any("not shown" in line for line in lines(Sheet(COLUMNS, [ROW]), None))


def test_row_becomes_a_block_when_not_even_the_first_columns_fit() -> None:
    assert lines(Sheet(COLUMNS, [ROW]), 40) == [
        "── row 1 ──",
        "table  gold_realtime_inventory_alerts",
        "rows   1,234,567",
        "MB     12.5",
        "hour   2025-11-30T00",
        "note   a note of several words",
    ]


def test_note_is_broken_between_words_when_it_is_longer_than_a_line() -> None:
    shown = lines(Sheet([Column("step"), Column("note", note=True)], [("check", "word " * 30)]), 60)
    assert " ".join(" ".join(shown[2:]).split()) == "check note: " + " ".join(["word"] * 30)


@pytest.mark.parametrize("width", WIDTHS)
@settings(suppress_health_check=[HealthCheck.too_slow])  # a machine at work is no fault of the values
@given(rows=st.lists(st.tuples(*[CELLS] * 6), min_size=1, max_size=4))
def test_no_value_is_cut_and_no_line_too_long_at_any_width(width: int, rows: list[tuple[Any, ...]]) -> None:
    shown = lines(Sheet([Column(f"column_{n}") for n in range(6)], rows), width)
    assert all(cell_len(line) <= width for line in shown)
    letters = "".join("".join(shown).split())
    for value in (value for row in rows for value in row if value is not None):
        if isinstance(value, str):
            assert "".join(text_of(value).split()) in letters or len(text_of(value)) > 20, "it is broken over lines"
        else:
            assert text_of(value) in letters


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (1234567, "1,234,567"),
        (True, "True"),
        ("a\nb\x1b[31m", "a\\nb\\x1b[31m"),
        (Decimal("1.50"), "1.50"),
    ],
)
def test_value_is_written_whole_and_without_control_characters(value: Any, text: str) -> None:
    assert text_of(value) == text


@given(st.lists(st.text("ab", min_size=1, max_size=12), min_size=1), st.integers(24, 60))
def test_broken_line_keeps_its_words_and_goes_on_further_in(words: list[str], width: int) -> None:
    parts = wrap_line("  " + " ".join(words), width)
    assert " ".join(parts).split() == words
    assert all(cell_len(part) <= width for part in parts)
    assert parts[0].startswith("  a") or parts[0].startswith("  b")
    assert all(part.startswith("      ") for part in parts[1:])


def test_events_name_the_method_of_each_table_and_the_reason_under_it() -> None:
    empty: dict[str, Any] = dict.fromkeys(event_schema.COLUMNS)
    details = {"method": RefreshMethod.FULL_RECOMPUTE, "note": "more than a fifth of silver_orders changed"}
    row = EventRow.of(
        empty | {"event_timestamp": datetime(2025, 11, 30, tzinfo=UTC), "table_name": "gold_stock", "details": details}
    )
    shown = lines(events_sheet([row]), None)
    assert "method" in shown[0] and RefreshMethod.FULL_RECOMPUTE in shown[2]
    assert shown[3].strip() == "note: more than a fifth of silver_orders changed"
