"""What the first task of a run does about its request: lands the hour, waits, catches up, or ends and says why."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.api.datamodels._generated import DagRunType
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, TaskDeferred

from medallion.airflow import landing
from medallion.airflow.landing import LandChanges, Turn
from medallion.airflow.runs import RequestRefused, SchedulerRuns, request_of
from medallion.errors import HourBeforeFirst, HourNotAvailable, HourOutOfOrder, UsageError
from medallion.hours import parse_hour
from medallion.pipeline.run import Outcome, Run
from medallion.pipeline.turns import CatchUp, End, Line, Request, Take, Verdict, Wait
from tests.shop import SHOP

HOUR, NEXT = "2025-11-30T04", "2025-11-30T05"
LATE = Wait("the source does not list hour 2025-11-30T04 yet", "source")
QUEUE = Wait("hour 2025-11-30T03 is being refreshed by run x", "turn")


class Landing:
    """A run whose verdict and whose step the test decides; what it left and did."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.notes: list[str] = []
        self.steps: list[Run] = []
        self.started: list[tuple[str, str]] = []
        self.verdict: Verdict = Take(HOUR)
        self.outcome: Outcome | Exception = Outcome("succeeded", "landed", HOUR)
        self.queued = False
        self.params = {"hour": None, "strategy": "full"}
        self.run = SimpleNamespace(
            dag_id="hourly_refresh",
            run_id="a_run",
            run_type="scheduled",
            data_interval_start=parse_hour(HOUR),
            conf=None,
        )
        monkeypatch.setattr(landing, "read_line", lambda *_: Line(None, ()))
        monkeypatch.setattr(landing, "decide", lambda *_: self.verdict)
        monkeypatch.setattr(landing, "start_run", self._start)
        monkeypatch.setattr(SchedulerRuns, "any_queued", lambda _: self.queued)
        monkeypatch.setattr("medallion.pipeline.steps.run_step", self._step)

    def _start(self, _: Any, hour: str, until: str) -> str:
        self.started.append((hour, until))
        return f"catch_up__{hour}"

    def _step(self, _: str, run: Run, *__: object) -> Outcome:
        self.steps.append(run)
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome

    def xcom_push(self, key: str, value: str) -> None:
        self.notes.append(value)

    def execute(self, event: dict[str, Any] | None = None) -> str:
        ti = SimpleNamespace(try_number=1, xcom_push=self.xcom_push, xcom_pull=lambda **_: None)
        task, context = (
            LandChanges(task_id="land", project=SHOP),
            {"ti": ti, "dag_run": self.run, "params": self.params},
        )
        return task.execute(context) if event is None else task.resume(context, event)


@pytest.fixture
def land(monkeypatch: pytest.MonkeyPatch) -> Landing:
    return Landing(monkeypatch)


def test_an_hour_that_has_its_turn_is_landed_and_given_to_the_tasks_that_follow(land: Landing) -> None:
    assert land.execute() == HOUR
    assert (land.steps[0].hour, land.steps[0].run_id, land.started) == (HOUR, "a_run", [])


@pytest.mark.parametrize(
    "outcome",
    [HourNotAvailable("the source has no change file for it"), Outcome("skipped", "the source has no change", HOUR)],
)
def test_a_run_with_nothing_to_do_is_skipped_and_its_note_says_why(land: Landing, outcome: Outcome | Exception) -> None:
    land.outcome = outcome
    with pytest.raises(AirflowSkipException, match="the source has no change"):
        land.execute()
    assert "the source has no change" in land.notes[-1]


@pytest.mark.parametrize(("failed", "ends"), [(True, RequestRefused), (False, AirflowSkipException)])
def test_a_run_that_cannot_be_right_ends_at_once_and_its_note_says_why(
    land: Landing, failed: bool, ends: type[Exception]
) -> None:
    land.verdict = End("hour 2025-11-30T03 must come before", failed)
    with pytest.raises(ends, match="must come before"):
        land.execute()
    assert (land.notes, land.steps) == (["hour 2025-11-30T03 must come before"], [])


@pytest.mark.parametrize(("due", "later"), [(False, AirflowSkipException), (True, RequestRefused)])
def test_hours_that_are_left_to_a_person_alert_once_and_a_due_hour_fails_until_they_are_applied(
    land: Landing, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, due: bool, later: type[Exception]
) -> None:
    monkeypatch.setenv("MEDALLION_LAKE", str(tmp_path / "lake"))
    monkeypatch.setattr(landing, "read_line", lambda *_: Line(None, ("2025-11-30T03",)))
    land.verdict = End("21 hours are pending", failed=due, left=("2025-11-30T03",))
    with pytest.raises(AirflowFailException, match="21 hours are pending") as first:
        land.execute()
    assert not isinstance(first.value, RequestRefused), "a refused request sends no alert"
    with pytest.raises(later, match="21 hours are pending"):
        land.execute()


def test_a_gap_that_the_ledger_finds_refuses_the_request(land: Landing) -> None:
    land.outcome = HourOutOfOrder("earlier hours are missing")
    with pytest.raises(RequestRefused, match="earlier hours are missing"):
        land.execute()
    assert land.notes == ["earlier hours are missing"]


@pytest.mark.parametrize(("run_type", "ends"), [("manual", RequestRefused), ("backfill", AirflowSkipException)])
def test_an_hour_before_the_first_fails_the_run_of_a_person_and_is_passed_over_by_a_backfill(
    land: Landing, run_type: str, ends: type[Exception]
) -> None:
    land.run.run_type, land.params["hour"] = run_type, "2024-01-01T00"
    land.outcome = HourBeforeFirst("hour 2024-01-01T00 is before 2025-11-30T00, the first hour of the lake")
    with pytest.raises(ends, match="the first hour of the lake"):
        land.execute()
    assert "the first hour of the lake" in land.notes[-1]


def test_a_day_that_no_calendar_has_ends_the_run_at_once(land: Landing) -> None:
    land.run.run_type, land.params["hour"] = "manual", "2025-04-31T00"
    with pytest.raises(RequestRefused, match="2025-04-31T00.*is not an hour"):
        land.execute()
    assert "2025-04-31T00" in land.notes[-1]


def test_earlier_hours_get_a_run_and_the_scheduled_one_ends(land: Landing) -> None:
    land.verdict = CatchUp("2025-11-30T02", "3 hours are pending")
    with pytest.raises(AirflowSkipException, match="3 hours are pending, beginning with catch_up__2025-11-30T02"):
        land.execute()
    assert land.started == [("2025-11-30T02", HOUR)]


def test_a_run_that_catches_up_starts_the_next_once_its_own_hour_has_landed(land: Landing) -> None:
    land.run.conf, land.verdict = {"until": "2025-11-30T07"}, Take(HOUR, then=NEXT)
    land.execute()
    assert land.started == [(NEXT, "2025-11-30T07")]
    land.outcome = UsageError("it cannot land")
    with pytest.raises(AirflowFailException):
        land.execute()
    assert len(land.started) == 1, "an hour that failed is followed by none"


@pytest.mark.parametrize("wait", [LATE, QUEUE])
def test_a_run_waits_without_a_slot_and_says_for_what(land: Landing, wait: Wait) -> None:
    land.verdict = wait
    with pytest.raises(TaskDeferred) as deferred:
        land.execute()
    assert deferred.value.method_name == "resume"
    assert land.notes == [f"waiting: {wait.reason}"]


def test_a_run_that_has_waited_long_enough_ends(land: Landing) -> None:
    land.verdict = QUEUE
    with pytest.raises(AirflowSkipException, match="waited 60 minutes: hour 2025-11-30T03 is being refreshed"):
        land.execute({"over": "turn"})
    land.verdict, land.outcome = LATE, HourNotAvailable("the source lists up to 2025-11-30T03")
    with pytest.raises(AirflowSkipException, match="lists up to 2025-11-30T03"):
        land.execute({"over": "source"})


def test_run_does_not_wait_for_the_source_when_waiting_is_off(land: Landing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEDALLION_SOURCE_WAIT", "0")
    land.verdict = LATE
    assert land.execute() == HOUR


def fired(land: Landing, *, kind: str = "schedule") -> dict[str, Any]:
    trigger = Turn({"kind": kind, "hour": HOUR, "until": None}, "hourly_refresh", "a_run", str(SHOP.root), poll=0.01)
    path, values = trigger.serialize()
    assert (path, Turn(**values).values) == ("medallion.airflow.landing.Turn", values)

    async def first() -> dict[str, Any]:
        async for event in trigger.run():
            return dict(event.payload)
        raise AssertionError("it ended without a word")

    return asyncio.run(asyncio.wait_for(first(), 10))


def test_waiting_ends_when_the_hour_has_its_turn(land: Landing) -> None:
    assert fired(land) == {}


def test_waiting_ends_after_its_time(land: Landing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEDALLION_SOURCE_WAIT", "0.1")
    land.verdict = LATE
    assert fired(land) == {"over": "source"}


def test_a_scheduled_run_gives_way_to_runs_that_are_queued_behind_it(land: Landing) -> None:
    land.verdict, land.queued = LATE, True
    assert fired(land) == {"gave_way": True}
    with pytest.raises(AirflowSkipException, match="a later run takes it"):
        land.execute({"gave_way": True})


@pytest.mark.parametrize(
    ("run_type", "conf", "in_form", "request_"),
    [
        ("scheduled", None, None, Request("schedule", HOUR)),
        ("backfill", {"hour": NEXT}, NEXT, Request("backfill", HOUR)),
        ("manual", None, None, Request("person", None)),
        ("manual", {"hour": NEXT}, NEXT, Request("person", NEXT)),
        ("operator_triggered", {"hour": NEXT}, NEXT, Request("person", NEXT)),
        ("operator_triggered", {"hour": NEXT, "until": NEXT}, NEXT, Request("catch_up", NEXT, NEXT)),
    ],
)
def test_a_run_asks_for_what_its_form_schedule_or_backfill_says(run_type, conf, in_form, request_) -> None:
    run = SimpleNamespace(run_type=DagRunType(run_type), conf=conf, data_interval_start=parse_hour(HOUR))
    assert request_of({"hour": in_form}, run) == request_
