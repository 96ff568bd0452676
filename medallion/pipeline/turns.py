"""Decide whether a run refreshes its hour now, waits, or ends with a reason, from the state of the lake and other runs.

Only the ledger, under the writer lock, decides which hour may be applied. These rules are for runs whose hour is not
next: a run never delays another run, and never waits for an hour that cannot come.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from medallion.hours import ONE_HOUR, parse_hour
from medallion.ops.red_hours import UnpublishedHour
from medallion.settings import Settings
from medallion.storage.lake import Lake

Kind = Literal["schedule", "catch_up", "backfill", "person"]


@dataclass(frozen=True)
class Request:
    """What a run requests. hour: None for the next one. until: the last hour of a catch-up."""

    kind: Kind
    hour: str | None
    until: str | None = None

    @property
    def by_person(self) -> bool:
        """Whether a person requested this hour, so that a refusal is a failure rather than just nothing to do."""
        return self.kind in ("backfill", "person")


@dataclass(frozen=True)
class Line:
    """The state of the lake. applied: the last hour that every Bronze table has. pending: hours to apply, oldest first.

    unpublished: the last applied hour, if it is not published or red.
    """

    applied: str | None
    pending: Sequence[str]
    unpublished: UnpublishedHour | None = None


class Runs(Protocol):
    """The runs of the scheduler."""

    def active(self, run_id: str) -> bool:
        """Whether another run with this id is queued or running."""

    def running(self, hours: Collection[str]) -> bool:
        """Whether a run for one of ``hours`` is running."""

    def queued(self, hours: Collection[str]) -> bool:
        """Whether a run for one of ``hours`` is queued."""


@dataclass(frozen=True)
class Take:
    """Refresh this hour, if the ledger agrees. then: the hour for which to start a run afterwards."""

    hour: str | None
    then: str | None = None


@dataclass(frozen=True)
class Wait:
    """Wait for the source, for other runs, or for a place among the active runs of a backfill."""

    reason: str
    what: Literal["source", "turn", "place"]


@dataclass(frozen=True)
class CatchUp:
    """End, and start a run for this earlier hour."""

    hour: str
    reason: str


@dataclass(frozen=True)
class End:
    """End without doing anything.

    failed: whether the hour was requested, or is due, and is not refreshed. left: hours that a person must start; there
    is one warning about them.
    """

    reason: str
    failed: bool
    left: tuple[str, ...] = ()


Verdict = Take | Wait | CatchUp | End


def read_line(settings: Settings, until: str | None = None) -> Line:
    """Read the state of the lake, with the pending hours up to ``until``, from its logs and one listing of the source.

    Raises UsageError if the lake has not been loaded or the source does not exist.
    """
    from medallion.ingest import ledger  # imported here so that parsing a DAG file does not load their engines
    from medallion.ingest.arrivals import pending_at_source
    from medallion.ingest.unpublished import read_unpublished
    from medallion.ops.lake_tables import tables_of

    lake = Lake.of(settings)
    tables = tables_of(lake, settings.extras)
    applied = ledger.applied_hour(lake, tables)
    return Line(applied, pending_at_source(settings, until), read_unpublished(lake, tables, applied))


def decide(request: Request, line: Line, runs: Runs, window: int) -> Verdict:
    """Decide what a run does about its request.

    Args:
        request: What the run requests.
        line: The state of the lake, with the pending hours up to the requested one.
        runs: The runs of the scheduler.
        window: A scheduled run starts runs for earlier hours only if they are at most so many hours before its own.
    """
    hour, unpublished = request.hour, line.unpublished
    if unpublished is not None and (hour is None or hour >= _first(unpublished)):
        if runs.active(unpublished.run_id):
            return Wait(f"hour {unpublished.hour} is being refreshed by run {unpublished.run_id}", "turn")
        if hour != unpublished.hour:
            return _decide_after_unpublished(request, unpublished, runs)
    if hour is None or (line.applied is not None and hour <= line.applied):
        return Take(hour)
    earlier = [pending for pending in line.pending if pending < hour]
    if request.kind == "schedule":
        return _decide_scheduled(hour, line, earlier, runs, window)
    if request.kind == "backfill" and earlier and hour in line.pending:
        return _decide_backfill(hour, earlier, runs)
    if request.kind == "catch_up":
        if earlier:
            return End(f"{_several(earlier)} must come before {hour}: the next scheduled run takes them", failed=False)
        return Take(hour, then=next((pending for pending in line.pending if pending > hour), None))
    if request.kind == "person" and earlier and hour in line.pending:
        return End(
            f"{_several(earlier)} must come before {hour}: backfill {earlier[0]} to {hour}, or leave the hour empty for"
            f" {earlier[0]}",
            failed=True,
        )
    return Take(hour)


def _decide_after_unpublished(request: Request, unpublished: UnpublishedHour, runs: Runs) -> Verdict:
    before = unpublished.hour
    if unpublished.red is not None:
        reason = f"{unpublished.red.refuse('waiting')}; then later hours go on from there"
        if request.by_person:
            reason += ": trigger or backfill them again"
        return End(reason, failed=request.by_person)
    if request.kind == "schedule":
        return CatchUp(before, f"hour {before} is in Bronze and was not published: it is finished first")
    if request.hour is None:
        return Take(before)
    if request.kind == "backfill" and (runs.running([before]) or runs.queued([before])):
        return Wait(f"hour {before} must be published first, and its run is to come", "turn")
    reason = f"hour {before} is in Bronze and was not published: trigger hour {before} first"
    return End(reason, failed=request.by_person)


def _first(unpublished: UnpublishedHour) -> str:
    """Return the first suspected hour if a check failed, else the unpublished hour."""
    return unpublished.red.hour if unpublished.red else unpublished.hour


def _decide_scheduled(hour: str, line: Line, earlier: Sequence[str], runs: Runs, window: int) -> Verdict:
    if not line.pending:
        late = line.applied is not None and _hours_between(line.applied, hour) <= window
        return Wait(f"the source does not list hour {hour} yet", "source") if late else Take(hour)
    if not earlier:
        return Take(hour)
    if runs.running(earlier[:1]) or runs.queued(earlier[:1]):
        return End(f"runs for {_several(earlier)} are under way: a later run takes hour {hour}", failed=False)
    if _hours_between(earlier[0], hour) > window:
        is_listed = hour in line.pending
        return End(
            f"{_several(earlier)} {'is' if len(earlier) == 1 else 'are'} pending, and the schedule catches up on"
            f" the last {window} hours only (MEDALLION_CATCH_UP_HOURS): trigger or backfill"
            f" {'it' if len(earlier) == 1 else 'them'}, then"
            f" {f'{hour} follows by itself' if is_listed else 'later hours follow by themselves'}",
            failed=is_listed,
            left=tuple(earlier),
        )
    return CatchUp(earlier[0], f"{_several(line.pending)} of the source are pending: each gets a run, in order")


def _decide_backfill(hour: str, earlier: Sequence[str], runs: Runs) -> Verdict:
    if runs.running(earlier[:1]):
        return Wait(f"{_several(earlier)} must come before {hour}, and their runs are under way", "turn")
    if runs.queued(earlier[:1]):
        return Wait(
            f"{_several(earlier)} must come before {hour}, and their runs are queued behind this one: run the backfill"
            " forwards",
            "place",
        )
    return End(
        f"{_several(earlier)} must come before {hour}, and no run is under way for them: backfill from {earlier[0]}",
        failed=True,
    )


def _several(hours: Sequence[str]) -> str:
    """Name hours in a message."""
    if len(hours) == 1:
        return f"hour {hours[0]}"
    return f"{len(hours)} hours ({hours[0]} to {hours[-1]})"


def _hours_between(first: str, last: str) -> float:
    return (parse_hour(last) - parse_hour(first)) / ONE_HOUR
