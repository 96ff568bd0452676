"""The event log: one row per step, failed ones too, without a JVM."""

import json
import tracemalloc
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from medallion.inspect.check_history import trends
from medallion.ops import event_log, event_schema
from medallion.ops.event_log import EventLog
from medallion.ops.events import Event
from medallion.storage.lake import Lake
from medallion.ui.reports import reports_page


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(str(tmp_path))


def log(lake: Lake, run_id: str = "run", hour: str = "2025-11-30T00", attempt: int = 1) -> EventLog:
    return EventLog(lake, run_id=run_id, hour=hour, strategy="full", attempt=attempt)


def test_a_step_is_one_row_with_its_seconds_and_metrics(lake: Lake) -> None:
    one = log(lake)
    with one.timed("refresh", "silver", "silver_customers", cpu=iter([1.0, 3.5]).__next__) as event:
        event.rows_in, event.rows_out, event.bytes_out = 10, 9, 800
        event.details["version"] = 4
    one.flush()
    (row,) = event_log.read(lake)
    assert list(vars(row)) == list(event_schema.COLUMNS)
    assert (row.event_type, row.layer, row.table_name) == ("refresh", "silver", "silver_customers")
    assert (row.run_id, row.hour, row.strategy, row.status) == (
        "run",
        "2025-11-30T00",
        "full",
        "succeeded",
    )
    assert (row.rows_in, row.rows_out, row.bytes_out, row.cpu_seconds) == (10, 9, 800, 2.5)
    assert row.seconds > 0 and row.started_at <= row.event_timestamp
    assert row.details == {"version": 4}


def test_a_failed_step_is_a_row_too_and_still_fails(lake: Lake) -> None:
    one = log(lake)
    with pytest.raises(ValueError, match="no such"), one.timed("apply", "bronze"):
        raise ValueError("no such\n  table")
    one.flush()
    (row,) = event_log.read(lake)
    assert (row.status, row.details["error"]) == ("failed", "no such table")


def test_a_flush_is_one_commit_and_an_empty_one_none(lake: Lake) -> None:
    one = log(lake)
    for table in ("a", "b", "c"):
        with one.timed("refresh", "gold", table):
            pass
    one.flush()
    one.flush()
    delta = lake.open(lake.event_log)
    assert delta is not None and (delta.version(), len(event_log.read(lake))) == (0, 3)


def test_kept_rows_can_be_read_at_once_and_are_one_commit_of_the_next_flush(lake: Lake) -> None:
    for step in ("land", "apply", "refresh"):
        one = log(lake)
        with one.timed(step, "silver") as event:
            event.details["version"] = 4
        one.write_waiting()
    before = event_log.read(lake)
    assert [row.event_type for row in before] == ["land", "apply", "refresh"]
    assert lake.open(lake.event_log) is None
    assert [row.event_type for row in event_log.read(lake, before[1].event_timestamp)] == ["apply", "refresh"]
    (land,) = event_log.read(lake, columns=("seconds",), event_type="land")
    assert (land.event_id, land.event_timestamp, land.seconds) == (
        *(before[0].event_id, before[0].event_timestamp),
        before[0].seconds,
    )
    with pytest.raises(AttributeError, match="status"):  # not an empty value: a page would show it
        _ = land.status
    log(lake, "another").flush()
    assert (lake.version("ops_event_log"), event_log.read(lake)) == (0, before)
    assert not list(Path(lake.root, "ops").glob("*.waiting"))


def test_rows_that_cannot_be_written_wait_for_the_next_flush(lake: Lake) -> None:
    damaged = Path(lake.event_log)
    damaged.parent.mkdir(parents=True)
    damaged.write_text("no folder")
    for number in range(2):
        one = log(lake, str(number))
        with one.timed("land"):
            pass
        one.flush()
    damaged.unlink()
    assert [row.run_id for row in event_log.read(lake)] == ["0", "1"]
    log(lake).flush()
    assert [row.run_id for row in event_log.read(lake)] == ["0", "1"]
    assert not list(damaged.parent.glob("*.waiting"))


def test_rows_are_filtered_by_what_is_asked_for(lake: Lake) -> None:
    for hour, run in (("2025-11-30T00", "a"), ("2025-11-30T01", "b")):
        one = log(lake, run, hour)
        with one.timed("land"):
            pass
        one.flush()
    assert [row.run_id for row in event_log.read(lake, hour="2025-11-30T01", run_id=None)] == ["b"]


def test_only_files_that_may_have_the_wanted_rows_are_opened(lake: Lake) -> None:
    hours = [f"2025-11-30T{hour:02}" for hour in range(4)]
    for hour in hours:
        one = log(lake, hour, hour)
        with one.timed("land"):
            pass
        one.flush()
    delta = lake.opened(lake.event_log)
    since = event_log.read(lake)[2].event_timestamp
    held = pa.table(delta.get_add_actions(flatten=True))
    assert len(event_log.files_holding(held, {}, {})) == 4
    assert len(event_log.files_holding(held, {"hour": hours[1]}, {"hour": hours[1]})) == 1
    assert 2 <= len(event_log.files_holding(held, {"event_timestamp": since - timedelta(milliseconds=1)}, {})) <= 3
    assert [row.hour for row in event_log.read(lake, hour=hours[1])] == [hours[1]]
    assert [row.hour for row in event_log.read(lake, since)] == hours[2:]
    assert event_log.read(lake, hour="2026-01-01T00") == []
    for name in event_log.files_holding(held, {"hour": hours[3]}, {}):
        Path(lake.event_log, name).unlink()
    assert [row.hour for row in event_log.read(lake, hour=hours[1])] == [hours[1]]


def test_before_anything_ran_there_are_no_rows(lake: Lake) -> None:
    assert event_log.read(lake) == []


def test_a_step_that_was_killed_is_closed_once_as_failed(lake: Lake) -> None:
    def close(attempt: int) -> bool:
        log = EventLog(lake, run_id="run", hour="2025-11-30T00", strategy="", attempt=attempt)
        return event_log.close_lost_step(lake, log, "refresh", "silver", error="killed")

    assert close(1)
    assert not close(1), "a failure that is known is not reported twice"
    assert close(2), "the next attempt's failure is another one"
    assert [row.attempt for row in event_log.read(lake, status="failed")] == [1, 2]


def wait(lake: Lake, text: str) -> Path:
    """Have a file wait that another version, or a crash, left."""
    file = Path(lake.root, "ops", "event_log.1.waiting")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def test_waiting_events_of_another_version_are_read_with_what_they_say(lake: Lake) -> None:
    wait(
        lake, '{"run_id": "r", "event_type": "land", "colour": "red"}\n{"hour": "2025-11-30T00", "details": "a text"}\n'
    )
    for _ in range(2):
        rows = {row.run_id: row for row in event_log.read(lake)}
        assert rows["r"].details == {"other_fields": {"colour": "red"}}
        assert (rows["unknown"].hour, rows["unknown"].details) == ("2025-11-30T00", {"details": "a text"})
        log(lake).flush()
    assert not list(Path(lake.root, "ops").glob("*.waiting"))


@pytest.mark.parametrize(
    "line",
    [
        '{"run_id": "r", "event_type": "la',
        "[1, 2]",
        "\0\0\0",
        '{"run_id": "r", "seconds": "soon"}',
        '{"run_id": "r", "event_timestamp": "today"}',
        '{"run_id": "r", "started_at": {"moment": 5}}',
        '{"run_id": "r", "rows_in": 1e400}',
    ],
)
def test_a_waiting_line_that_is_no_event_stops_nothing_and_is_set_aside(
    lake: Lake, line: str, caplog: pytest.LogCaptureFixture
) -> None:
    file = wait(lake, f'{line}\n{{"run_id": "good"}}\n')
    assert [row.run_id for row in event_log.read(lake)] == ["good"], "as medallion status reads it"
    assert not caplog.messages, "who reads says nothing: a page would say it each time"
    one = log(lake)
    one.add("land", "bronze", None)
    one.flush()
    (warning,) = caplog.messages
    assert f"1 line of {file} left out: no event that this version can read; stored in " in warning
    assert {row.run_id for row in event_log.read(lake)} == {"good", "run"}
    assert not file.exists()
    kept = file.with_suffix(".unreadable").read_text()
    assert kept.strip() == line or json.loads(kept)["run_id"] == "r", "nothing is lost"


DAY_ZERO = datetime(2025, 9, 1, tzinfo=UTC)


def history(lake: Lake, days: int) -> Lake:
    """An event log of so many days: a commit a day, 24 hours of a check and a publication each."""
    for day in range(days):
        events = []
        for hour in range(24):
            ended = DAY_ZERO + timedelta(days=day, hours=hour)
            same = {"attempt": 1, "started_at": ended, "event_timestamp": ended, "strategy": "full"}
            run, name = f"run {day} {hour}", f"{ended:%Y-%m-%dT%H}"
            counts = {"status": "succeeded", "severity": "critical", "passed": 1, "failed": 0}
            told = {"expectations": {f"promise {number}": counts for number in range(20)}}
            events += [
                *(
                    Event(run, name, "check", layer="gold", table_name=f"gold_{t}", details=told, **same)
                    for t in range(5)
                ),
                Event(run, name, "check", layer="gold", details={"report": "x/y.html"}, **same),
                Event(run, name, "publish", **same),
            ]
        event_log.append(lake, events)
    return lake


READERS: dict[str, Callable[[Lake], object]] = {
    "expectations": trends,
    "reports": reports_page,
    "alerts": lambda lake: event_log.read(lake, event_log.RECENT, ("run_id", "status")),
}


def peak_bytes(work: Callable[[], object]) -> int:
    """The most memory that Python and Arrow held for ``work``."""
    pool = pa.default_memory_pool()
    work()  # imports and caches
    tracemalloc.start()
    before = pool.bytes_allocated()
    work()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most + pool.bytes_allocated() - before


@pytest.fixture(scope="module")
def lakes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Lake, Lake]:
    """Event logs of 8 and of 32 days."""
    short, long = (history(Lake(str(tmp_path_factory.mktemp("lake"))), days) for days in (8, 32))
    return short, long


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS)
def test_what_reads_the_newest_events_needs_the_same_memory_however_long_the_log(
    lakes: tuple[Lake, Lake], reader: str
) -> None:
    short, long = (peak_bytes(lambda lake=lake: READERS[reader](lake)) for lake in lakes)
    assert long < 1.3 * short + 500_000, f"{short:,} bytes of 8 days, {long:,} bytes of 32"


def test_a_span_is_counted_back_from_the_newest_event(lakes: tuple[Lake, Lake]) -> None:
    rows = event_log.read(lakes[1], timedelta(days=1), event_type="publish")
    newest = DAY_ZERO + timedelta(days=31, hours=23)
    assert (len(rows), rows[-1].event_timestamp) == (25, newest), "both ends of a day"


def test_no_more_rows_are_read_than_the_newest_files_with_the_most_allowed(
    lakes: tuple[Lake, Lake], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_log, "MAX_RECENT_ROWS", 400)  # of 168 a day
    rows = event_log.read(lakes[1], timedelta(days=30))
    assert len(rows) == 2 * 168
    monkeypatch.setattr(event_log, "MAX_RECENT_ROWS", 1)
    assert len(event_log.read(lakes[1], timedelta(days=30))) == 168, "the newest file always"
