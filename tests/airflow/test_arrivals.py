"""An hour is taken when it has arrived: its files have settled, and the last refresh began long enough ago."""

import asyncio
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from airflow.sdk.exceptions import AirflowSkipException, TaskDeferred
from deltalake import write_deltalake

from medallion.airflow import arrivals
from medallion.airflow.arrivals import HourArrived, WaitForHour
from medallion.ingest.arrivals import Arrivals, pending_at_source
from medallion.ingest.restatement import Restatement, write_restatement
from medallion.ops.event_log import EventLog
from medallion.ops.red_hours import RedHour, UnpublishedHour
from medallion.pipeline.turns import Line
from medallion.settings import Settings
from medallion.storage.lake import Lake
from tests.shop import SHOP, registry

H0, H1 = "2025-11-30T00", "2025-11-30T01"


@dataclass
class Place:
    """A source without a file, and a lake that was loaded from it."""

    lake: Lake
    put: Callable[[str, str], None]  # an hour, and what its file of orders holds


@pytest.fixture(params=["folder", "bucket"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    lake = Lake(str(tmp_path / "lake"))
    for feed in registry().feeds:
        write_deltalake(lake.path(feed.name), pa.table({feed.keys[0]: [1]}))
    monkeypatch.setenv("MEDALLION_LAKE", lake.root)
    if request.param == "bucket":
        bucket = request.getfixturevalue("lake_bucket")
        monkeypatch.setenv("MEDALLION_SOURCE", "s3://lakes/source")
        bucket.put_object(Key="source/snapshot/something", Body=b"")

        def put(hour: str, lines: str) -> None:
            bucket.put_object(Key=f"source/cdc/orders/{hour}.json", Body=lines.encode())

        return Place(lake, put)
    folder = tmp_path / "source" / "cdc" / "orders"
    folder.mkdir(parents=True)
    monkeypatch.setenv("MEDALLION_SOURCE", str(tmp_path / "source"))
    return Place(lake, lambda hour, lines: (folder / f"{hour}.json").write_text(lines) and None)


def arrival(settle: float = 0, every: float = 0, timeout: float = 30, pause: float = 0) -> HourArrived:
    return HourArrived(project=str(SHOP.root), settle=settle, every=every, poll=0.1, timeout=timeout, pause=pause)


async def fired(trigger: HourArrived) -> dict[str, Any]:
    """What it fires with."""
    async for event in trigger.run():
        return dict(event.payload)
    raise AssertionError("it ended without a word")


@pytest.mark.slow
def test_an_hour_whose_file_still_grows_has_not_arrived(place: Place) -> None:
    seen = Arrivals(Settings.from_environment(), settle=3)
    assert seen.look() is None
    for lines in ("{", "{}", "{}\n"):
        place.put(H0, lines)
        last = time.monotonic()
        assert seen.look() is None
        assert seen.look() is None
    while (found := seen.look()) is None:
        assert time.monotonic() - last < 30
    assert found[0] == H0
    assert time.monotonic() - last >= 1.9, "counted from the time of the file, which a bucket gives in whole seconds"


@pytest.mark.parametrize("place", ["folder"], indirect=True)
def test_an_hour_that_arrived_before_the_first_look_is_timed_from_its_files(place: Place) -> None:
    place.put(H0, "{}\n")
    arrived = time.time() - 60
    (file,) = Path(Settings.from_environment().source).rglob(f"{H0}.json")
    os.utime(file, (arrived, arrived))
    assert Arrivals(Settings.from_environment(), settle=30).look() == (H0, pytest.approx(arrived, abs=0.01))


@pytest.mark.parametrize("place", ["folder"], indirect=True)
def test_a_file_from_the_future_settles_after_it_was_first_seen(place: Place) -> None:
    place.put(H0, "{}\n")
    (file,) = Path(Settings.from_environment().source).rglob(f"{H0}.json")
    os.utime(file, (time.time() + 3600, time.time() + 3600))
    seen = Arrivals(Settings.from_environment(), settle=0.2)
    before = time.time()
    while (found := seen.look()) is None:
        assert time.time() - before < 30
    assert found[0] == H0
    assert before <= found[1] <= time.time()


def test_source_is_asked_again_only_when_its_files_may_have_settled(place: Place) -> None:
    seen = Arrivals(Settings.from_environment(), settle=30)
    seen.look()
    assert seen.seconds_to_settle() is None
    before = time.time()
    place.put(H0, "{}\n")
    seen.look()
    wait = seen.seconds_to_settle()
    # A bucket tells whole seconds.
    assert wait is not None and 29 - (time.time() - before) <= wait <= 30


def test_pending_hours_are_read_from_the_source_up_to_a_given_hour(place: Place) -> None:
    settings = Settings.from_environment()
    assert pending_at_source(settings) == []
    for hour in (H1, H0, "2025-11-30T03", "2099-01-01T00"):
        place.put(hour, "{}\n")
    assert pending_at_source(settings) == [H0, H1, "2025-11-30T03"]
    assert pending_at_source(settings, "2025-11-30T02") == [H0, H1]
    write_restatement(place.lake, Restatement(H1, H1, rewound=False, hours=(H1,)))
    assert pending_at_source(settings, H1) == [H1], "the next refresh begins with what is restated"


def test_hour_of_a_file_that_is_not_understood_arrives_and_bars_later_ones(place: Place) -> None:
    place.put(f"{H0}.gz", "{}\n")
    place.put(H1, "{}\n")
    settings = Settings.from_environment()
    assert pending_at_source(settings) == [H0, H1]
    seen = Arrivals(settings, settle=30)
    assert seen.look() is None, "it may be unpacked and removed in a moment"
    assert seen.seconds_to_settle() is not None
    found = Arrivals(settings, settle=0).look()
    assert found is not None and found[0] == H0, "the run says why it is refused"


def test_it_fires_with_the_earliest_hour_that_is_not_applied(place: Place) -> None:
    place.put(H1, "{}\n")
    place.put(H0, "{}\n")
    told = asyncio.run(fired(arrival(settle=0.2, every=60)))
    assert told == {"hour": H0}


@pytest.mark.slow
def test_no_refresh_begins_sooner_after_another_than_is_said(place: Place) -> None:
    place.put(H0, "{}\n")
    log = EventLog(place.lake, run_id="before", hour=H0, strategy="full", attempt=1)
    log.add("land", "bronze", None)
    log.flush()
    began = time.monotonic()
    told = asyncio.run(fired(arrival(every=3)))
    assert told == {"hour": H0}
    assert time.monotonic() - began > 2


def test_where_none_arrives_it_says_so_in_the_end(place: Place) -> None:
    told = asyncio.run(fired(arrival(timeout=0.3)))
    assert "no hour to refresh in 0.3 seconds" in told["none"]
    shutil.rmtree(place.lake.root)
    told = asyncio.run(fired(arrival(timeout=0.3)))
    assert "run medallion load first" in told["none"]


def test_the_task_holds_no_slot_while_it_waits_and_skips_where_there_is_nothing() -> None:
    task = WaitForHour(task_id="wait", project=SHOP, settle=1, every=2, timeout=4, pause=5)
    with pytest.raises(TaskDeferred) as deferred:
        task.execute({"ti": None, "dag_run": SimpleNamespace(conf=None)})
    name, pace = deferred.value.trigger.serialize()
    assert (name, pace) == (
        "medallion.airflow.arrivals.HourArrived",
        {"project": str(SHOP.root), "settle": 1, "every": 2, "poll": 5, "timeout": 4, "pause": 5},
    )
    notes: list[str] = []
    context = {"ti": SimpleNamespace(xcom_push=lambda key, value: notes.append(value))}
    assert task.arrived(context, {"hour": H0}) == H0
    with pytest.raises(AirflowSkipException, match="nothing"):
        task.arrived(context, {"none": "nothing"})
    assert H0 in notes[0] and notes[1] == "nothing"


def test_an_hour_whose_refresh_failed_is_not_tried_again_at_once(place: Place) -> None:
    place.put(H0, "{}\n")
    log = EventLog(place.lake, run_id="before", hour=H0, strategy="full", attempt=1)
    log.add("land", "bronze", None, status="failed", details={"error": "cut off"})
    log.flush()
    told = asyncio.run(fired(arrival(timeout=0.5, pause=900)))
    assert f"hour {H0} failed less than 15 minutes ago" in told["none"]
    assert asyncio.run(fired(arrival(pause=0))) == {"hour": H0}, "but later it is"


def test_no_hour_is_taken_after_a_red_one(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.put(H1, "{}\n")
    red = Line(H0, (H1,), UnpublishedHour(H0, "", RedHour(H0, H0, "gold", "", "its report")))
    monkeypatch.setattr(arrivals, "read_line", lambda *_: red)
    told = asyncio.run(fired(arrival(timeout=0.5)))
    assert f"hour {H0} is red: gold check failed; see its report" in told["none"]


def test_an_hour_that_a_crash_left_unpublished_is_finished_before_the_next(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.put(H1, "{}\n")
    monkeypatch.setattr(arrivals, "read_line", lambda *_: Line(H0, (H1,), UnpublishedHour(H0, "", None)))
    assert asyncio.run(fired(arrival())) == {"hour": H0}
