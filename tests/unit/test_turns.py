"""Whose turn it is: what a request for an hour gets, from where the lake stands and which runs are under way."""

from collections.abc import Collection

import pytest

from medallion.ops.check_records import Failure
from medallion.ops.red_hours import RedHour, UnpublishedHour
from medallion.pipeline.turns import CatchUp, End, Line, Request, Take, Wait, decide

H1, H2, H3, H4 = (f"2025-11-30T0{number}" for number in (1, 2, 3, 4))
WINDOW = 72


class Runs:
    """The scheduler's runs, as the test says."""

    def __init__(
        self, active: Collection[str] = (), running: Collection[str] = (), queued: Collection[str] = ()
    ) -> None:
        self._active, self._running, self._queued = active, running, queued

    def active(self, run_id: str) -> bool:
        return run_id in self._active

    def running(self, hours: Collection[str]) -> bool:
        return bool(set(hours) & set(self._running))

    def queued(self, hours: Collection[str]) -> bool:
        return bool(set(hours) & set(self._queued))


NONE = Runs()


def line(*pending: str, applied: str | None = H1, unpublished: UnpublishedHour | None = None) -> Line:
    return Line(applied, pending, unpublished)


def red(hour: str = H1) -> UnpublishedHour:
    failures = (Failure("bronze_orders", "is not empty", "0 rows", "orders/2025-11-30T01.json: line 1 delete"),)
    return UnpublishedHour(hour, "first", RedHour(hour, hour, "bronze", "first", "reports/bronze.html", failures))


def scheduled(hour: str) -> Request:
    return Request("schedule", hour)


@pytest.mark.parametrize("kind", ["schedule", "backfill", "person"])
def test_the_next_hour_is_taken_at_once(kind: str) -> None:
    assert decide(Request(kind, H2), line(H2), NONE, WINDOW) == Take(H2)


@pytest.mark.parametrize("kind", ["schedule", "backfill", "person"])
def test_a_done_hour_is_left_to_the_ledger_which_skips_it(kind: str) -> None:
    assert decide(Request(kind, H1), line(H2), NONE, WINDOW) == Take(H1)


def test_a_scheduled_run_waits_for_its_hour_while_the_source_is_late() -> None:
    verdict = decide(scheduled(H2), line(), NONE, WINDOW)
    assert isinstance(verdict, Wait) and verdict.what == "source" and H2 in verdict.reason


def test_a_scheduled_run_does_not_wait_for_a_source_that_ended_long_ago() -> None:
    assert decide(scheduled("2026-11-23T09"), line(), NONE, WINDOW) == Take("2026-11-23T09")


def test_a_scheduled_run_starts_a_run_for_the_earliest_hour_when_several_are_pending() -> None:
    verdict = decide(scheduled(H4), line(H2, H3, H4), NONE, WINDOW)
    assert isinstance(verdict, CatchUp) and verdict.hour == H2
    assert H2 in verdict.reason and H4 in verdict.reason


def test_a_scheduled_run_starts_a_run_for_an_earlier_hour_that_came_late() -> None:
    verdict = decide(scheduled(H3), line(H2), NONE, WINDOW)
    assert isinstance(verdict, CatchUp) and verdict.hour == H2


def test_a_scheduled_run_leaves_hours_of_long_ago_to_a_person() -> None:
    verdict = decide(scheduled("2026-11-23T09"), line(H2, H3), NONE, WINDOW)
    assert isinstance(verdict, End) and not verdict.failed, "the source has nothing that is due"
    assert verdict.left == (H2, H3)
    due = decide(scheduled("2026-11-23T09"), line(H2, H3, "2026-11-23T09"), NONE, WINDOW)
    assert isinstance(due, End) and due.failed, "an hour that is due and not refreshed is no success"
    assert "MEDALLION_CATCH_UP_HOURS" in verdict.reason
    assert verdict.reason.endswith("backfill them, then later hours follow by themselves"), "the source lacks the hour"
    assert due.reason.endswith("backfill them, then 2026-11-23T09 follows by itself")
    single = decide(scheduled("2026-11-23T09"), line(H2), NONE, WINDOW)
    assert isinstance(single, End) and f"hour {H2} is pending" in single.reason and "backfill it, then" in single.reason


def test_a_scheduled_run_leaves_the_earlier_hours_to_a_backfill_under_way() -> None:
    verdict = decide(scheduled(H4), line(H2, H3, H4), Runs(queued=[H3], running=[H2]), WINDOW)
    assert isinstance(verdict, End) and not verdict.failed


def test_a_caught_up_hour_is_followed_by_the_next_until_the_last() -> None:
    assert decide(Request("catch_up", H2, until=H4), line(H2, H3, H4), NONE, WINDOW) == Take(H2, then=H3)
    assert decide(Request("catch_up", H4, until=H4), line(H4), NONE, WINDOW) == Take(H4)


def test_a_run_of_a_backfill_waits_while_the_runs_of_earlier_hours_are_under_way() -> None:
    verdict = decide(Request("backfill", H4), line(H2, H3, H4), Runs(running=[H2, H3, H4]), WINDOW)
    assert isinstance(verdict, Wait) and verdict.what == "turn"
    assert H2 in verdict.reason


def test_a_run_of_a_backfill_fails_at_once_when_nobody_brings_the_earlier_hours() -> None:
    verdict = decide(Request("backfill", H4), line(H2, H3, H4), Runs(running=[H4]), WINDOW)
    assert isinstance(verdict, End) and verdict.failed
    assert H2 in verdict.reason and H3 in verdict.reason


def test_a_backfill_that_runs_backwards_waits_a_moment_only() -> None:
    """Its later hours hold the places that its earlier hours need."""
    verdict = decide(Request("backfill", H4), line(H2, H3, H4), Runs(running=[H3, H4], queued=[H2]), WINDOW)
    assert isinstance(verdict, Wait) and verdict.what == "place" and "forwards" in verdict.reason


def test_a_gap_that_a_person_asks_for_fails_at_once_and_says_what_to_do() -> None:
    verdict = decide(Request("person", H4), line(H2, H3, H4), Runs(running=[H2, H3]), WINDOW)
    assert isinstance(verdict, End) and verdict.failed
    assert f"backfill {H2} to {H4}" in verdict.reason


def test_an_hour_that_the_source_does_not_have_is_left_to_the_ledger_which_says_so() -> None:
    assert decide(Request("person", H4), line(H2, H3), NONE, WINDOW) == Take(H4)


@pytest.mark.parametrize(
    ("kind", "failed"), [("schedule", False), ("catch_up", False), ("backfill", True), ("person", True)]
)
def test_after_a_red_gate_later_runs_end_and_say_which_hour_is_red_and_how_to_go_on(kind: str, failed: bool) -> None:
    verdict = decide(Request(kind, H2), line(H2, unpublished=red()), NONE, WINDOW)
    assert isinstance(verdict, End) and verdict.failed is failed
    for words in (
        f"hour {H1} is red: bronze check failed: bronze_orders: is not empty: 0 rows; orders/{H1}.json: line 1",
        "see reports/bronze.html",
        f"--restate {H1}",
        f"trigger hourly_refresh with Hour {H1}",
    ):
        assert words in verdict.reason


def test_of_several_hours_that_may_be_at_fault_the_first_is_the_one_to_restate() -> None:
    several = UnpublishedHour(H3, "first", RedHour(H1, H3, "gold", "first"))
    for hour in (H2, H4, None):
        verdict = decide(Request("person", hour), Line(H3, (H4,), several), NONE, WINDOW)
        assert isinstance(verdict, End) and verdict.failed
        assert f"hours {H1} to {H3} are red" in verdict.reason and f"--restate {H1}" in verdict.reason
    assert decide(Request("person", H3), Line(H3, (H4,), several), NONE, WINDOW) == Take(H3)


def test_a_person_who_leaves_the_hour_open_hears_of_a_red_hour_too() -> None:
    verdict = decide(Request("person", None), line(H2, unpublished=red()), NONE, WINDOW)
    assert isinstance(verdict, End) and f"hour {H1} is red" in verdict.reason


def test_a_red_hour_itself_may_be_tried_again() -> None:
    assert decide(Request("person", H1), line(H2, unpublished=red()), NONE, WINDOW) == Take(H1)


@pytest.mark.parametrize("kind", ["schedule", "backfill", "person", "catch_up"])
def test_nobody_takes_an_hour_while_another_run_is_between_apply_and_publish(kind: str) -> None:
    under_way = UnpublishedHour(H1, "first", None)
    verdict = decide(Request(kind, H2), line(H2, unpublished=under_way), Runs(active=["first"]), WINDOW)
    assert isinstance(verdict, Wait) and verdict.what == "turn" and "first" in verdict.reason


def test_nobody_takes_a_red_hour_while_its_cleared_run_is_under_way() -> None:
    verdict = decide(Request("schedule", H2), line(H2, unpublished=red()), Runs(active=["first"]), WINDOW)
    assert isinstance(verdict, Wait)


def test_an_hour_that_a_crash_left_unpublished_is_finished_first() -> None:
    left = line(H2, unpublished=UnpublishedHour(H1, "gone", None))
    caught_up = decide(scheduled(H2), left, NONE, WINDOW)
    assert isinstance(caught_up, CatchUp) and caught_up.hour == H1
    assert decide(Request("person", None), left, NONE, WINDOW) == Take(H1)
    refused = decide(Request("person", H2), left, NONE, WINDOW)
    assert isinstance(refused, End) and refused.failed and f"trigger hour {H1}" in refused.reason
