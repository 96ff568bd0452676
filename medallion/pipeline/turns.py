"""Decide whether a run takes its hour now, waits, or ends with a reason, from the state of the lake and other runs.

Only the ledger, under the writer lock, decides which hour may be applied. These rules are for runs whose hour is not
next: a run never delays another one, and never waits for an hour that cannot come.
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
    """What a run asks for. hour: None for the next. until: the last hour of a catch-up."""

    kind: Kind
    hour: str | None
    until: str | None = None

    @property
    def by_person(self) -> bool:
        """Whether somebody asked for this hour: then a refusal is a failure, else there is only nothing to do."""
        return self.kind in ("backfill", "person")


@dataclass(frozen=True)
class Line:
    """Where the lake stands. pending: the hours that are still to be applied, oldest first."""

    applied: str | None
    pending: Sequence[str]
    unpublished: UnpublishedHour | None = None


class Runs(Protocol):
    """The runs of the scheduler."""

    def active(self, run_id: str) -> bool:
        """Whether another run of that id is queued or running."""

    def running(self, hours: Collection[str]) -> bool:
        """Whether a run for one of ``hours`` is running."""

    def queued(self, hours: Collection[str]) -> bool:
        """Whether a run for one of ``hours`` is queued."""


@dataclass(frozen=True)
class Take:
    """Go on with this hour; the ledger has the last word. then: the hour that a run must be started for after it."""

    hour: str | None
    then: str | None = None


@dataclass(frozen=True)
class Wait:
    """Wait, for the source, for the turn, or for a place among the active runs of a backfill."""

    reason: str
    what: Literal["source", "turn", "place"]


@dataclass(frozen=True)
class CatchUp:
    """End, and have a run start for this earlier hour."""

    hour: str
    reason: str


@dataclass(frozen=True)
class End:
    """End without doing anything.

    failed: the hour was asked for, or is due, and is not refreshed. left: hours that are left to a person, who is
    warned of them once.
    """

    reason: str
    failed: bool
    left: tuple[str, ...] = ()


Verdict = Take | Wait | CatchUp | End


def read_line(settings: Settings, until: str | None = None) -> Line:
    """Read where the lake stands, with the pending hours up to ``until``: logs and one listing of the source.

    Raises UsageError when the lake has not been loaded or the source does not exist.
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
        request: What it asks for.
        line: Where the lake stands, with the pending hours up to the requested one.
        runs: The runs of the scheduler.
        window: How many hours before its own a scheduled run takes up by itself.
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
    """Return the first suspected hour if a check failed, else the unpublished one."""
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
        return End(
            f"{_several(earlier)} were never applied, and lie more than {window} hours (MEDALLION_CATCH_UP_HOURS) back:"
            f" trigger or backfill them, then {hour} follows by itself",
            failed=hour in line.pending,
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
    """The hours as a message names them."""
    if len(hours) == 1:
        return f"hour {hours[0]}"
    return f"{len(hours)} hours ({hours[0]} to {hours[-1]})"


def _hours_between(first: str, last: str) -> float:
    return (parse_hour(last) - parse_hour(first)) / ONE_HOUR
