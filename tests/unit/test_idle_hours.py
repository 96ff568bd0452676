"""An hour in which nothing changes reads a bounded part of each log, however many such hours there were."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from medallion.model.refresh_method import RefreshMethod
from medallion.model.table import Table
from medallion.pipeline import maintain
from medallion.pipeline.maintain import Retention
from medallion.refresh.commits import commit_metadata
from medallion.refresh.incremental import refresh_incremental
from medallion.refresh.inputs import input_states
from medallion.refresh.run import Written
from medallion.storage import change_feed
from medallion.storage.delta_writes import append_rows, properties
from medallion.storage.lake import Lake, origin_of
from tests.refresh_run import refresh_run

TABLE = Table(keys=("k",), query="SELECT k FROM {bronze_a}", name="silver_x", layer="silver")
HOUR = "2025-11-30T00"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A lake of two tables, the second computed from the first; no session is asked for where nothing changed."""
    lake = Lake(str(tmp_path))
    rows = pa.table({"k": pa.array([1, 2], pa.int64())})
    write_deltalake(lake.path("bronze_a"), rows)
    run, inputs = refresh_run(lake, hour=HOUR), input_states(lake, TABLE)
    told = commit_metadata(TABLE, run, inputs, RefreshMethod.FULL_RECOMPUTE, None, clustered=True)
    write_deltalake(lake.path("silver_x"), rows, commit_properties=properties(told))
    return lake


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is read of logs: an entry for each commit."""
    entries = list[str]()
    actions_of, history = change_feed.actions_of, DeltaTable.history

    def counted(delta: DeltaTable, limit: int | None = None) -> list[dict[str, Any]]:
        found = history(delta, limit)
        entries.extend(f"{delta.table_uri} {commit['version']}" for commit in found)
        return found

    monkeypatch.setattr(
        change_feed,
        "actions_of",
        lambda path, version: entries.append(f"{path} {version}") or actions_of(path, version),
    )
    monkeypatch.setattr(DeltaTable, "history", counted)
    return entries


def refresh(lake: Lake) -> Written:
    return refresh_incremental(refresh_run(lake, hour=HOUR), TABLE)


@pytest.mark.slow
def test_idle_hours_read_as_little_of_logs_after_200_commits_as_after_10(lake: Lake, read: list[str]) -> None:
    most = dict.fromkeys((10, 200), 0)
    delta = lake.opened(lake.path("bronze_a"))
    for number in range(1, 201):
        append_rows(delta, None, properties())  # as of an hour without a line, or of upkeep
        read.clear()
        assert refresh(lake).method is RefreshMethod.UNCHANGED
        for until in most:
            most[until] = max(most[until], len(read)) if number <= until else most[until]
    assert most[10] == 11, "its own last commit, and the ten of the input"
    assert most[200] <= 19
    assert (lake.version("silver_x") or 0) <= 200 / 16, "and few commits are made for it"


def test_a_change_is_followed_from_where_idle_hours_left_off(lake: Lake) -> None:
    delta = lake.opened(lake.path("bronze_a"))
    for _ in range(20):
        append_rows(delta, None, properties())
    written = refresh(lake)
    origin = origin_of(lake.open(lake.path("silver_x")))
    assert (written.version, origin["inputs"], origin["clustered"]) == (1, {"bronze_a": 20}, True)
    assert lake.same_rows("silver_x", 0, 1)


@pytest.mark.parametrize("days", [2, 12])
def test_upkeep_repeats_what_is_known_of_the_rows(
    lake: Lake, read: list[str], monkeypatch: pytest.MonkeyPatch, days: int
) -> None:
    monkeypatch.setattr(maintain, "SPARE_FILES", -10)  # each upkeep has something to merge
    path = lake.path("silver_x")
    known = origin_of(lake.open(path))
    for _ in range(days):
        delta = lake.opened(path)
        write_deltalake(
            delta,
            pa.table({"k": pa.array([3], pa.int64())}),
            mode="append",
            commit_properties=properties(json.dumps(known)),
        )
        maintain.maintain_table(lake, path, (), Retention(hours=0))
    delta = lake.opened(path)
    assert delta.version() > 2 * days
    read.clear()
    assert origin_of(delta) == known
    assert len(read) == 1


def test_a_log_that_says_nothing_of_its_rows_is_not_read_as_a_whole(lake: Lake, read: list[str]) -> None:
    delta = lake.opened(lake.path("silver_x"))
    for _ in range(100):
        append_rows(delta, None, properties())
    read.clear()
    assert origin_of(delta) == {}, "so the table is recomputed"
    assert len(read) <= 40
