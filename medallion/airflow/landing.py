"""The first task of a refresh: it finds out which hour the run is for, waits for its turn, and lands the hour's files.

Waiting is done in the triggerer, without a worker's slot and without the lake's, and for a bounded time.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import asdict
from typing import Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException
from airflow.triggers.base import BaseTrigger, TriggerEvent
from asgiref.sync import sync_to_async

from medallion.airflow.failures import as_airflow_errors
from medallion.airflow.naming import at
from medallion.airflow.notes import leave_note, noting_failures
from medallion.airflow.redo import redo_hour, redo_selection
from medallion.airflow.runs import RequestRefused, SchedulerRuns, request_of, require_known_keys, start_run, text_of
from medallion.airflow.tasks import run_in_process
from medallion.errors import MedallionError, UsageError
from medallion.ingest.never_applied import warn_of_never_applied
from medallion.model.selection import select_tables
from medallion.ops.lake_tables import tables_at_parse_time
from medallion.pipeline.turns import CatchUp, End, Line, Request, Take, Verdict, Wait, decide, read_line
from medallion.project import Project, find_project
from medallion.settings import Settings
from medallion.storage.lake import Lake

POLL_SECONDS = 10.0
TURN_SECONDS = 3600.0  # in which the lake makes no progress
PLACE_SECONDS = 120.0


def _request(params: Mapping[str, Any], dag_run: Any) -> Request:
    """Return what a run asks for. Raises RequestRefused for an hour that is not on the calendar."""
    try:
        return request_of(params, dag_run)
    except UsageError as error:
        raise RequestRefused(str(error)) from None


def require_selection(params: Mapping[str, Any], settings: Settings) -> None:
    """Raise RequestRefused for a selection that names no table, before anything is changed."""
    try:
        if text := text_of(params, "select"):
            select_tables(tables_at_parse_time(settings), text)
    except UsageError as error:
        raise RequestRefused(str(error)) from None


def _ending(end: End, settings: Settings, run_id: str) -> AirflowException:
    """Return how a run ends that does nothing: failed, with an alert the first time that hours are left to a person."""
    if end.left and warn_of_never_applied(Lake.of(settings), run_id, end.left):
        return AirflowFailException(end.reason)
    return RequestRefused(end.reason) if end.failed else AirflowSkipException(end.reason)


class LandChanges(BaseOperator):
    """Land the hour of the run and give it to the tasks that follow; skip or fail, with the reason as the run's note.

    A scheduled run that finds earlier hours pending starts a run for the first of them, which starts the next.
    """

    def __init__(self, *, project: Project, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._project = str(project.root)

    def execute(self, context: Any) -> str:
        """Decide, then land, wait or end."""
        with at(self._project):
            return self._go_on(context, {})

    def resume(self, context: Any, event: Mapping[str, Any]) -> str:
        """Decide again after waiting; ``event`` says how that ended."""
        with at(self._project):
            return self._go_on(context, event)

    def _go_on(self, context: Any, event: Mapping[str, Any]) -> str:
        dag_run, settings = context["dag_run"], find_project().settings()
        with noting_failures(context["ti"]), as_airflow_errors():
            require_known_keys(dag_run.conf, self.dag.params if self.has_dag() else ())
            require_selection(context["params"], settings)
            if (action := context["params"].get("action", "refresh")) != "refresh":
                return redo_hour(action, context)
            request = _request(context["params"], dag_run)
            runs = SchedulerRuns(dag_run.dag_id, dag_run.run_id)
            line = read_line(settings, request.until or request.hour)
            is_open = request.kind == "person" and request.hour is None and line.unpublished is None
            if is_open and text_of(context["params"], "select"):
                return redo_selection(context)
            verdict = decide(request, line, runs, settings.catch_up_hours)
            if isinstance(verdict, Wait):
                verdict = self._wait(context, request, verdict, event)
            if isinstance(verdict, CatchUp):
                run_id = start_run(context, verdict.hour, str(request.hour))
                raise AirflowSkipException(f"{verdict.reason}, beginning with {run_id}")
            if isinstance(verdict, End):
                raise _ending(verdict, settings, dag_run.run_id)
            outcome = run_in_process("land", None, verdict.hour, context)
            if verdict.then is not None:
                start_run(context, verdict.then, str(request.until))
            if outcome.status == "skipped":
                raise AirflowSkipException(outcome.message)
        return str(outcome.hour)

    def _wait(self, context: Any, request: Request, wait: Wait, event: Mapping[str, Any]) -> Take | End:
        """Defer to the triggerer; after the longest wait, fail with what to do instead."""
        patience = _patience(wait, find_project().settings().source_wait)
        if event.get("gave_way"):
            return End(f"{wait.reason}; other runs are queued: a later run takes it", failed=False)
        if event.get("over") == wait.what or not patience:
            if wait.what == "source":
                return Take(request.hour)  # the ledger says what the source has instead
            return End(f"waited {patience / 60:g} minutes: {wait.reason}", failed=request.by_person)
        self.log.info("waiting, at most %g minutes: %s", patience / 60, wait.reason)
        leave_note(context["ti"], f"waiting: {wait.reason}")
        dag_run = context["dag_run"]
        turn = Turn(asdict(request), dag_run.dag_id, dag_run.run_id, self._project)
        self.defer(trigger=turn, method_name="resume")
        raise AssertionError("a deferred task goes on in resume")


class Turn(BaseTrigger):
    """Fires when a request has its turn, has waited for too long, or is to give way to runs that are queued."""

    def __init__(
        self, request: dict[str, Any], dag_id: str, run_id: str, project: str = "", poll: float = POLL_SECONDS
    ) -> None:
        """request: a ``Request`` as a dictionary. project: its root. poll: seconds between two looks at the lake."""
        super().__init__()
        self.values = {"request": request, "dag_id": dag_id, "run_id": run_id, "project": project, "poll": poll}
        self._request, self._project, self._poll = Request(**request), project, poll
        self._runs = SchedulerRuns(dag_id, run_id)

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Serialize the trigger for the triggerer."""
        return f"{__name__}.Turn", self.values

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Poll source and lake; the time limit restarts when the lake makes progress."""
        with at(self._project) as project:
            source_wait = project.settings().source_wait
        began: tuple[Any, float] = (None, time.monotonic())
        while True:
            try:
                line, verdict = await sync_to_async(self._look, thread_sensitive=False)()
            except MedallionError:  # the task meets it again, and says so
                yield TriggerEvent({})
                return
            if not isinstance(verdict, Wait):
                yield TriggerEvent({})
                return
            progress = (verdict.what, line.applied, line.unpublished)
            if began[0] != progress:
                self.log.info("waiting: %s", verdict.reason)
                began = (progress, time.monotonic())
            if time.monotonic() - began[1] >= _patience(verdict, source_wait):
                yield TriggerEvent({"over": verdict.what})
                return
            if (
                self._request.kind == "schedule"
                and await sync_to_async(self._runs.any_queued, thread_sensitive=False)()
            ):
                yield TriggerEvent({"gave_way": True})
                return
            await asyncio.sleep(self._poll)

    def _look(self) -> tuple[Line, Verdict]:
        with at(self._project) as project:
            settings, request = project.settings(), self._request
            line = read_line(settings, request.until or request.hour)
            return line, decide(request, line, self._runs, settings.catch_up_hours)


def _patience(wait: Wait, source_wait: float) -> float:
    """Seconds to wait at most. source_wait: for the source, as the settings have it."""
    if wait.what == "source":
        return source_wait
    return TURN_SECONDS if wait.what == "turn" else PLACE_SECONDS
