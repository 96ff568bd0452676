"""An hour in which nothing changes reads a bounded part of each log, however many such hours there were."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, write_deltalake

from medallion.model.refresh_method import RefreshMethod
from medallion.model.table import Table
from medallion.pipeline import maintain
from medallion.pipeline.maintain import Retention
from medallion.refresh.commits import commit_metadata
from medallion.refresh.incremental import refresh_incremental
from medallion.refresh.inputs import input_states
from medallion.refresh.refresh_run import Written
from medallion.storage import change_feed, foreign_commits
from medallion.storage.delta_writes import append_rows, properties
from medallion.storage.foreign_commits import UPON
from medallion.storage.lake import Lake
from tests.commits import origin_of
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

    def count(module: Any, name: str) -> None:
        work = getattr(module, name)
        monkeypatch.setattr(
            module, name, lambda path, version: entries.append(f"{path} {version}") or work(path, version)
        )

    count(change_feed, "actions_of")
    count(foreign_commits, "read_entry")
    return entries


def refresh(lake: Lake) -> Written:
    return refresh_incremental(refresh_run(lake, hour=HOUR), TABLE)


@pytest.mark.slow
def test_idle_hours_read_as_little_of_logs_after_100_commits_as_after_10(lake: Lake, read: list[str]) -> None:
    most = dict.fromkeys((10, 100), 0)
    delta = lake.opened(lake.path("bronze_a"))
    for number in range(1, 101):
        append_rows(delta, None, properties("{}", upon=delta))  # as of an hour without a line, or of upkeep
        read.clear()
        assert refresh(lake).method is RefreshMethod.UNCHANGED
        for until in most:
            most[until] = max(most[until], len(read)) if number <= until else most[until]
    assert most[10] == 12, "its own last commit, the newest of the input, and the ten since the last change"
    assert most[100] <= 20
    assert (lake.version("silver_x") or 0) <= 100 / 16, "and few commits are made for it"


def test_a_change_is_followed_from_where_idle_hours_left_off(lake: Lake) -> None:
    delta = lake.opened(lake.path("bronze_a"))
    for _ in range(20):
        append_rows(delta, None, properties("{}", upon=delta))
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
            commit_properties=properties(json.dumps(known), upon=delta),
        )
        maintain.maintain_table(lake, path, (), Retention(hours=0))
    delta = lake.opened(path)
    assert delta.version() > 2 * days
    read.clear()
    assert {**origin_of(delta), UPON: None} == {**known, UPON: None}
    assert len(read) == 1


def test_a_log_is_read_back_to_the_last_commit_of_ours(lake: Lake, read: list[str]) -> None:
    delta = lake.opened(lake.path("silver_x"))
    for _ in range(100):
        append_rows(delta, None, properties(json.dumps({"hour": HOUR}), upon=delta))
    for _ in range(3):  # of somebody else
        append_rows(delta, None, CommitProperties())
    read.clear()
    assert origin_of(delta)["hour"] == HOUR
    assert len(read) == 4
