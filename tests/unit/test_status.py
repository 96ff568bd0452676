"""What is stale: by the clock where hours are refreshed as they end, and not in a history that is replayed."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from medallion.cli.sheets import status_sheet, tables_sheet
from medallion.errors import MedallionError
from medallion.hours import format_hour
from medallion.ingest import arrivals
from medallion.ingest.arrivals import PendingInBackground
from medallion.inspect.status import lake_status
from medallion.settings import Settings
from tests.unit.small_lake import H0, H1, H2, Shop


def test_history_that_is_replayed_is_neither_stale_nor_old(shop: Shop) -> None:
    shop.put(H0, {1: "a"})
    shop.refresh(H0)
    status = lake_status(shop.settings)
    assert not status.goes_with_clock and not any(row.stale for row in status.tables)
    assert not [problem for problem in status.problems if "stale" in problem]
    for sheet in (status_sheet(status), tables_sheet(status)):
        assert "age" not in [column.name for column in sheet.columns]
        assert all(len(row) == len(sheet.columns) for row in sheet.rows)


def test_limit_that_is_given_counts_for_any_lake(shop: Shop) -> None:
    shop.put(H0, {1: "a"})
    shop.refresh(H0)
    assert any("stale" in problem for problem in lake_status(shop.settings, stale_hours=2).problems)


@pytest.mark.parametrize(("hours_ago", "stale"), [(2, False), (12, True)])
def test_table_is_stale_by_the_clock_where_hours_are_refreshed_as_they_end(
    tmp_path: Path, shop: Shop, hours_ago: int, stale: bool
) -> None:
    hour = format_hour(datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=hours_ago))
    shop.put(hour, {1: "a"})
    shop.refresh(hour)
    status = lake_status(shop.settings)
    assert status.goes_with_clock
    assert any(row.stale for row in status.tables) == stale
    assert "age" in [column.name for column in status_sheet(status).columns]


def test_status_says_why_an_hour_was_refused_until_it_is_applied(shop: Shop) -> None:
    shop.put(H0, "no record\n" * 3)
    with pytest.raises(MedallionError, match="nothing of the hour"):
        shop.refresh(H0)
    (refused,) = [
        line for line in status_sheet(lake_status(shop.settings)).title if "refused" in line or "failed" in line
    ]
    assert H0 in refused
    shop.put(H0, {1: "a"})
    shop.refresh(H0)
    assert not [line for line in status_sheet(lake_status(shop.settings)).title if "failed" in line]


def test_status_names_hours_of_the_source_that_the_lake_lacks(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrivals, "tables_of", lambda *_: shop.tables)
    for hour in (H0, H1, H2):
        shop.put(hour, {1: hour})
    shop.refresh(H0)
    status = lake_status(shop.settings)

    def lines(**changed: Any) -> list[str]:
        pending = PendingInBackground(shop.settings).wait(60)
        return [line for line in status_sheet(replace(status, pending=pending, **changed)).title if "pending" in line]

    assert lines() == [f"2 hours ({H1} to {H2}) are pending: medallion refresh --to-hour {H2} applies them"]
    assert lines(red="hour is red") == [f"2 hours ({H1} to {H2}) are pending"]
    assert lines(left="2 hours are pending, and too old") == ["2 hours are pending, and too old"]
    shop.drop(H2)
    assert lines() == [f"hour {H1} is pending: medallion refresh applies it"]
    shop.drop(H1)
    assert lines() == []


def test_a_source_that_cannot_be_listed_holds_up_no_status(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = Event()
    monkeypatch.setattr(arrivals, "open_source", lambda _: answer.wait(60))
    pending = PendingInBackground(shop.settings)
    assert pending.wait(0.01) is None
    answer.set()
    monkeypatch.setattr(arrivals, "open_source", lambda _: 1 / 0)
    assert PendingInBackground(shop.settings).wait(60) is None
    title = status_sheet(replace(lake_status(shop.settings), pending=None)).title
    assert "the source could not be listed: which hours are pending is not known" in title


def test_lake_without_a_release_has_no_age(tmp_path: Path) -> None:
    status = lake_status(Settings(lake=str(tmp_path / "lake"), source=str(tmp_path)))
    assert status.release is None and all(row.age_hours is None for row in status.tables)


def test_status_says_which_hour_readers_do_not_have_after_a_roll_back(shop: Shop) -> None:
    for hour in (H0, H1):
        shop.put(hour, {1: hour})
        shop.refresh(hour)
    assert not [line for line in status_sheet(lake_status(shop.settings)).title if "roll back" in line]
    shop.roll_back()
    said = " ".join(status_sheet(lake_status(shop.settings)).title)
    assert f"of hour {H0} (release 2 again, by a roll back)" in said
    assert f"hour {H1} is in Bronze, and readers do not have it" in said
